"""
Work that goes on for a user after the request, and its fate when the user is disabled.

docs/security.md has the table.
"""

from collections.abc import Iterator, Mapping

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.identity import tokens
from app.models import (
    ENDED,
    UNENDED,
    ApiToken,
    Hold,
    Node,
    Operation,
    Rollout,
    RolloutState,
    User,
    Webhook,
)
from app.models.hold import in_effect

#: Kind of work -> its fate when its user is disabled.
EFFECTS: Mapping[str, str] = {
    "session": "ended",
    "token": "refused while the user is disabled",
    "rollout": "paused before its next node, until another user resumes it",
    "operation": "goes on: abort it by its node",
    "webhook": "goes on: it is the project's; delete it",
    "hold": "goes on: it is the project's; delete it",
}


def of_user(session: Session, user: User) -> Iterator[dict[str, object]]:
    """Yield the work of a user: its kind, its UUID, its subject, and its fate."""
    for kind, query in _queries(user):
        for uuid, subject in session.execute(query):
            yield {"kind": kind, "uuid": uuid, "about": subject, "then": EFFECTS[kind]}


def _queries(user: User) -> Iterator[tuple[str, Select[object, object]]]:
    of_user = ApiToken.user_id == user.id
    of_tokens = select(ApiToken.uuid, ApiToken.name).where(of_user, tokens.IS_VALID)
    of_tokens = of_tokens.order_by(ApiToken.id)
    yield "session", of_tokens.where(ApiToken.name == tokens.SESSION)
    yield "token", of_tokens.where(ApiToken.name.is_distinct_from(tokens.SESSION))
    rollouts = select(Rollout.uuid, Rollout.target).where(Rollout.user_id == user.uuid)
    going_on = Rollout.state.in_(UNENDED), Rollout.state != RolloutState.ABORTING
    yield "rollout", rollouts.where(*going_on).order_by(Rollout.id)
    operations = select(Operation.uuid, Node.uuid).join(Node, Node.id == Operation.node_id)
    unended = Operation.requested_by == user.uuid, Operation.state.not_in(ENDED)
    yield "operation", operations.where(*unended).order_by(Operation.id)
    webhooks = select(Webhook.uuid, Webhook.name).where(Webhook.user_id == user.uuid)
    yield "webhook", webhooks.where(Webhook.enabled).order_by(Webhook.id)
    holds = select(Hold.uuid, Node.uuid).join(Node, Node.id == Hold.node_id)
    yield "hold", holds.where(Hold.user_id == user.uuid, in_effect()).order_by(Hold.id)
