"""
Agent lookup: find the node of a machine by UUID or MAC addresses, and issue its agent's token.
"""

import re
import secrets
from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.config.settings import Settings
from app.db.clock import age, now
from app.errors import NodeLocked, NotFound
from app.lifecycle.flows import FLOWS
from app.lifecycle.provision_states import WITHOUT_INSTANCE
from app.models import AgentRecord, Node, Port
from app.runtime import runtime_of
from drivers.core.fast_track import is_enabled_by


class LookupRefused(NotFound):
    """
    A lookup that gets no node. Callers get one text for all reasons, as they are unauthenticated.
    """

    def __init__(self, ident: str, reason: str, node: str | None = None) -> None:
        super().__init__("node", ident)
        self.reason = reason  # for operators
        self.node = node  # UUID of the node that refused the lookup; None if no node was found


#: Provision states that allow a lookup by the node's agent.
LOOKUP_STATES = frozenset().union(*(flow.states(flow.looks_up) for flow in FLOWS))
#: Provision states that allow lookups with fast track, too.
FAST_TRACK_STATES = WITHOUT_INSTANCE.union(*(flow.states(flow.looks_up_if_kept) for flow in FLOWS))

MAC = r"[0-9A-Fa-f]{2}([:-]?[0-9A-Fa-f]{2}){5}"
_MAC = re.compile(MAC)


def normalize_mac(text: str) -> str | None:
    """Return a MAC address in the stored form (lower case, colons); None for any other text."""
    if not _MAC.fullmatch(text):
        return None
    digits = re.sub("[:-]", "", text).lower()
    return ":".join(digits[index : index + 2] for index in range(0, 12, 2))


def lookup(
    session: Session,
    addresses: Sequence[str],
    node_uuid: str | None,
    caller: str | None = None,
) -> tuple[Node, str]:
    """
    Return the node of a machine, found by UUID or else by MAC addresses, and its agent's token.

    caller: address of the sender that no other client can have, if it is known; see `token`.

    Raises LookupRefused.
    Raises NodeLocked: the agent has no token yet, and an operation holds the node.
    """
    ident = node_uuid or ",".join(addresses)
    if node_uuid:
        condition = Node.uuid == node_uuid
    else:
        owners = select(Port.node_id).where(Port.address.in_(addresses)).distinct()
        node_ids = session.scalars(owners.limit(2)).all()
        if len(node_ids) != 1:
            several = "the addresses belong to ports of several nodes"
            raise LookupRefused(
                ident, several if node_ids else "no port has any of these addresses"
            )
        condition = Node.id == node_ids[0]
    node = session.scalar(select(Node).where(condition).with_for_update())
    settings = runtime_of(session).settings
    if node is None:
        raise LookupRefused(ident, "there is no node with the UUID that it sent")
    if settings.api.restrict_lookup and not _expected(settings, node):
        reason = f"node {node.uuid} is {node.provision_state}, where no agent is expected"
        raise LookupRefused(ident, reason, node.uuid)
    return node, token(session, node, caller)


#: Stands for a token that an earlier lookup has got.
WITHHELD = "******"


def token(session: Session, node: Node, caller: str | None = None) -> str:
    """
    Return the token of a node's agent, and create it if it is missing. The node's row is locked.

    A repeated lookup from the same address returns the token again within
    `[api]lookup_repeat_time`, until the first heartbeat; all others return `WITHHELD`.

    Raises NodeLocked: the agent has no token yet, and an operation holds the node.
    """
    agent = session.get(AgentRecord, node.id)
    if agent is not None and agent.token:
        is_repeated = caller is not None and agent.given_to == caller and agent.url is None
        return agent.token if is_repeated and _issued_recently(session, agent) else WITHHELD
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)
    if agent is None:
        agent = AgentRecord(node_id=node.id)
        session.add(agent)
    agent.token, agent.given_to = secrets.token_urlsafe(32), caller
    agent.given_at = now()
    return agent.token


def _issued_recently(session: Session, agent: AgentRecord) -> bool:
    limit = runtime_of(session).settings.api.lookup_repeat_time
    query = select(AgentRecord.node_id).where(AgentRecord.node_id == agent.node_id)
    return session.scalar(query.where(age(AgentRecord.given_at) < limit)) is not None


def _expected(settings: Settings, node: Node) -> bool:
    state = node.provision_state
    return state in LOOKUP_STATES or (
        state in FAST_TRACK_STATES and fast_track(settings, node.driver_info)
    )


def fast_track(settings: Settings, driver_info: Mapping[str, object]) -> bool:
    """Whether the agent of a node is kept running between operations."""
    return is_enabled_by(driver_info, settings.deploy.fast_track)
