"""
Heartbeats: the signs of life of agents, recorded, and what waits for them woken.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Text, bindparam, func, literal, select, update

from app import killpoints, log
from app.agents.lookup import fast_track
from app.config.settings import Settings
from app.db.clock import now
from app.db.prepared import Prepared
from app.db.transactions import retrying
from app.engine import resume
from app.errors import Invalid, NodeLocked, NotFound
from app.flows import FLOWS
from app.kit.identifiers import key_of
from app.models import AgentRecord, Node, Operation, OperationState
from app.runtime import Runtime
from app.states import WITHOUT_INSTANCE

logger = log.get(__name__)

#: States in which a heartbeat is recorded.
LISTENING = frozenset().union(*(flow.states(flow.heard) for flow in FLOWS))
#: What an agent may say of a command of its own.
STATUSES = ("start", "end", "error")


class Sign(NamedTuple):
    """A sign of life of a node's agent. node: its UUID. told: as `heartbeat` takes it."""

    node: str
    told: Mapping[str, Any]


class Heard(NamedTuple):
    """A sign of life that is recorded. waited_for: an operation is to be woken by it."""

    node_id: int
    waited_for: bool


def heartbeat(runtime: Runtime, ident: str, sign: Mapping[str, Any]) -> None:
    """
    Record a sign of life, then wake the operation that waits for it, unless a conductor sees to
    that by polling the agent.

    sign: callback_url, agent_token, and perhaps agent_version, agent_verify_ca, agent_status,
    agent_status_message. Raises Invalid, NotFound, NodeLocked.
    """

    def record() -> Heard | None:
        with runtime.writing() as connection:
            node_id = _record(connection, runtime.settings, ident, sign)
            return None if node_id is None else _heard(runtime.settings, connection, node_id)

    if heard := retrying(record):
        wake(runtime, heard)


def again(runtime: Runtime, signs: Sequence[Sign]) -> Sequence[Heard | None]:
    """
    Record signs of life in one transaction; waking what waits for them is left to `wake`.

    None for each that is not from where its agent was heard before, or that anything is wrong with,
    or whose agent's row another transaction holds: `heartbeat` knows what to do about it.
    """
    settings = runtime.settings

    def one(connection: Connection, each: Sign) -> Heard | None:
        if not _is_whole(each.told, settings.agent.require_tls):
            return None
        row = _HEARD_AGAIN.first(connection, {**_told(each.told), "uuid": each.node})
        return _heard(settings, connection, row[0]) if row else None

    with runtime.writing() as connection:
        return [one(connection, each) for each in signs]


def wake(runtime: Runtime, heard: Heard) -> None:
    """
    Wake the operation that waits for a sign of life, in a transaction of its own: the operation's
    lock must not be waited for with the agent's row in hand.

    Whoever records that it waits asks for that row, and sees what was recorded before.
    """

    def work() -> None:
        with runtime.transaction() as session:
            resume.agent_called(session, heard.node_id)

    if heard.waited_for:
        killpoints.reach("called")
        retrying(work)


# Hundreds of machines may call at once, so these are made once and run without the ORM.
_NODES, _AGENTS = Node.__table__.c, AgentRecord.__table__.c
_KNOWN = select(
    _NODES.id,
    _NODES.uuid,
    _NODES.provision_state,
    _NODES.reservation,
    _NODES.driver_info,
    _AGENTS.token,
    _AGENTS.url,
    _AGENTS.verify_ca,
).select_from(Node.__table__.outerjoin(AgentRecord.__table__, _AGENTS.node_id == _NODES.id))
_KEPT = {
    "version": "agent_version",
    "verify_ca": "agent_verify_ca",
    "status": "agent_status",
    "status_message": "agent_status_message",
}
_HEARING = (
    update(AgentRecord)
    .where(_AGENTS.token == bindparam("agent_token"))
    .values(
        url=bindparam("callback_url"),
        heartbeats=_AGENTS.heartbeats + 1,
        last_heartbeat_at=now(),
        **{
            column: func.coalesce(bindparam(key, type_=Text), _AGENTS[column])
            for column, key in _KEPT.items()
        },
    )
)
_HEARD = Prepared(_HEARING.where(_AGENTS.node_id == bindparam("node")).returning(_AGENTS.node_id))
_CA, _TOLD_CA = _AGENTS.verify_ca, bindparam("agent_verify_ca", type_=Text)
_FREE = AgentRecord.__table__.alias("free")
#: The same when it is known where the agent is, as it nearly always is: no other question is asked,
#: and nobody is waited for.
_HEARD_AGAIN = Prepared(
    _HEARING.where(
        _AGENTS.node_id
        == select(_FREE.c.node_id)
        .join_from(_FREE, Node.__table__, _NODES.id == _FREE.c.node_id)
        .where(
            _NODES.uuid == bindparam("uuid"),
            _NODES.provision_state.in_([literal(each) for each in sorted(LISTENING)]),
        )
        .with_for_update(of=_FREE, skip_locked=True)
        .scalar_subquery(),
        _AGENTS.url == bindparam("callback_url"),
        func.coalesce(_CA, _TOLD_CA, "") == func.coalesce(_TOLD_CA, _CA, ""),
    ).returning(_AGENTS.node_id)
)
_WAITING = Prepared(
    select(Operation.__table__.c.id)
    .where(
        Operation.__table__.c.node_id == bindparam("node"),
        Operation.__table__.c.state == OperationState.WAITING,
        Operation.__table__.c.wake_at.is_(None),
        resume.unwatched(bindparam("timeout")),
    )
    .limit(1)
)


def _told(sign: Mapping[str, Any]) -> dict[str, Any]:
    return {name: sign.get(name) for name in ("callback_url", "agent_token", *_KEPT.values())}


def _heard(settings: Settings, connection: Connection, node_id: int) -> Heard:
    timeout = settings.conductor.heartbeat_timeout
    waiting = _WAITING.first(connection, {"node": node_id, "timeout": timeout})
    return Heard(node_id, waiting is not None)


def _record(
    connection: Connection, settings: Settings, ident: str, sign: Mapping[str, Any]
) -> int | None:
    """The id of the node; None when nobody listens to its agent now."""
    (column, value), token = key_of(ident), sign.get("agent_token")
    row = connection.execute(_KNOWN.where(_NODES[column] == value)).one_or_none()
    if row is None:
        raise NotFound("node", ident)
    if not token:
        raise Invalid("Agent token is required for heartbeat processing.")
    if not row.token or not secrets.compare_digest(row.token.encode(), token.encode()):
        raise Invalid("Invalid or missing agent token received.")
    _check(settings.agent.require_tls, sign, row.url, row.verify_ca)
    if row.url is None and row.reservation is not None:
        raise NodeLocked(row.uuid, row.reservation)
    state = row.provision_state
    kept = state in WITHOUT_INSTANCE and fast_track(settings, row.driver_info)
    if state not in LISTENING and not kept:
        logger.info("heartbeat.ignored", node=row.uuid, state=row.provision_state)
        return None
    if not _HEARD.first(connection, {**_told(sign), "node": row.id}):  # forgotten in between
        raise Invalid("Invalid or missing agent token received.")
    return int(row.id)


def _is_whole(sign: Mapping[str, Any], require_tls: bool) -> bool:
    """Whether nothing is wrong with a sign of life, if it comes from where the agent was before."""
    schemes = ("https://",) if require_tls else ("https://", "http://")
    told = sign.get("agent_token") and (sign.get("agent_version") or sign.get("agent_status"))
    return bool(told) and (sign["callback_url"] or "").startswith(schemes)


def _check(
    require_tls: bool, sign: Mapping[str, Any], known_url: str | None, known_ca: str | None
) -> None:
    """Raises Invalid."""
    url, ca = sign["callback_url"], sign.get("agent_verify_ca")
    if not sign.get("agent_version") and not sign.get("agent_status"):
        raise Invalid("Agent did not transmit a version, and a version is required.")
    if url and not url.startswith(("http://", "https://")):
        raise Invalid('An issue with the supplied "callback_url" has been detected.')
    if known_url is not None and url != known_url:
        raise Invalid('Detected change in ramdisk provided "callback_url"')
    if require_tls and url and not url.startswith("https://"):
        raise Invalid("TLS is required by configuration")
    if known_ca is not None and ca is not None and ca != known_ca:
        raise Invalid("Detected change in ramdisk provided certificate")
