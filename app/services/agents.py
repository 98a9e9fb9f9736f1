"""
Agents: how a ramdisk finds the node that it runs on, gets its token, and gives signs of life.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Text, bindparam, func, select, update
from sqlalchemy.orm import Session

from app import log
from app.db import now, retrying
from app.errors import Invalid, NodeLocked, NotFound
from app.models import AgentRecord, Node, Operation, OperationState, Port
from app.runtime import Runtime, of
from app.services import nodes, waking
from app.settings import Settings
from app.states import State
from drivers.agent.fast_track import chosen

logger = log.get(__name__)

S = State
#: Where a machine may ask which node it is.
EXPECTING = {
    S.DEPLOYING, S.DEPLOY_WAIT, S.CLEANING, S.CLEAN_WAIT, S.INSPECTING, S.INSPECT_WAIT,
    S.RESCUING, S.RESCUE_WAIT, S.SERVICE_WAIT,
}  # fmt: skip
#: Where it may also do so when agents are kept running between operations.
FAST_TRACK = {S.ENROLL, S.MANAGEABLE, S.AVAILABLE, S.SERVICING, S.SERVICE_HOLD}
#: Where a sign of life is recorded.
LISTENING = {
    S.DEPLOYING, S.DEPLOY_WAIT, S.DEPLOY_HOLD, S.CLEANING, S.CLEAN_WAIT, S.CLEAN_HOLD,
    S.RESCUING, S.RESCUE_WAIT, S.SERVICING, S.SERVICE_WAIT, S.SERVICE_HOLD,
}  # fmt: skip
LISTENING_ON_FAST_TRACK = {S.ENROLL, S.MANAGEABLE, S.AVAILABLE}
STATUSES = ("start", "end", "error")

MAC = r"[0-9A-Fa-f]{2}([:-]?[0-9A-Fa-f]{2}){5}"
_MAC = re.compile(MAC)


def normal_mac(text: str) -> str | None:
    """A MAC address as we store it, or None for what is none."""
    if not _MAC.fullmatch(text):
        return None
    digits = re.sub("[:-]", "", text).lower()
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def lookup(
    session: Session, addresses: Sequence[str], node_uuid: str | None, *, with_token: bool
) -> tuple[Node, str | None]:
    """
    The node that a machine is, by its UUID or MAC addresses, and its agent's token.

    The token is given once: whoever asks again gets asterisks. None: there is none yet.
    Raises NotFound, with one text for all reasons, and NodeLocked when a token must be made.
    """
    nowhere = NotFound("node", node_uuid or ",".join(addresses))
    if node_uuid:
        condition = Node.uuid == node_uuid
    else:
        owners = select(Port.node_id).where(Port.address.in_(addresses)).distinct()
        found = session.scalars(owners.limit(2)).all()
        if len(found) != 1:
            raise nowhere
        condition = Node.id == found[0]
    node = session.scalar(select(Node).where(condition).with_for_update())
    settings = of(session).settings
    if node is None or (settings.api.restrict_lookup and not _expected(settings, node)):
        raise nowhere
    return node, token(session, node, make=with_token)


def token(session: Session, node: Node, *, make: bool = True) -> str | None:
    """The token of a node's agent, as above; the node's row is locked. Raises NodeLocked."""
    agent = session.get(AgentRecord, node.id)
    if agent is not None and agent.token:
        return "******"
    if not make:
        return None
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)
    if agent is None:
        agent = AgentRecord(node_id=node.id)
        session.add(agent)
    agent.token = secrets.token_urlsafe(32)
    return agent.token


def _expected(settings: Settings, node: Node) -> bool:
    state = State(node.provision_state)
    return state in EXPECTING or (state in FAST_TRACK and fast_track(settings, node.driver_info))


def fast_track(settings: Settings, driver_info: Mapping[str, Any]) -> bool:
    """Agents of this node are kept running between operations."""
    return chosen(driver_info, settings.deploy.fast_track)


def heartbeat(runtime: Runtime, ident: str, sign: Mapping[str, Any]) -> None:
    """
    Record a sign of life, then wake the operation that waits for it.

    sign: callback_url, agent_token, and perhaps agent_version, agent_verify_ca, agent_status,
    agent_status_message. Raises Invalid, NotFound, NodeLocked.

    Two transactions: the operation's lock must not be waited for with the agent's row in hand,
    and what is recorded in between is seen by whoever records that it waits.
    """

    def record() -> int | None:
        with runtime.engine.begin() as connection:
            return _record(connection, runtime.settings, ident, sign)

    def wake(node_id: int) -> None:
        with runtime.transaction() as session:
            waking.agent_called(session, node_id)

    node_id = retrying(record)
    if node_id is None:
        return
    with runtime.engine.connect().execution_options(writes=False) as connection:
        waiting = connection.scalar(_WAITING, {"node": node_id})
    if waiting:
        retrying(lambda: wake(node_id))


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
_BY_UUID = _KNOWN.where(_NODES.uuid == bindparam("ident"))
_BY_NAME = _KNOWN.where(_NODES.name == bindparam("ident"))
_TOLD = {
    "version": "agent_version",
    "verify_ca": "agent_verify_ca",
    "status": "agent_status",
    "status_message": "agent_status_message",
}
_HEARD = (
    update(AgentRecord)
    .where(_AGENTS.node_id == bindparam("node"), _AGENTS.token == bindparam("agent_token"))
    .values(
        url=bindparam("callback_url"),
        heartbeats=_AGENTS.heartbeats + 1,
        last_heartbeat_at=now(),
        **{
            column: func.coalesce(bindparam(key, type_=Text), _AGENTS[column])
            for column, key in _TOLD.items()
        },
    )
)
_WAITING = (
    select(Operation.__table__.c.id)
    .where(
        Operation.__table__.c.node_id == bindparam("node"),
        Operation.__table__.c.state == OperationState.WAITING,
        Operation.__table__.c.wake_at.is_(None),
    )
    .limit(1)
)


def _record(
    connection: Connection, settings: Settings, ident: str, sign: Mapping[str, Any]
) -> int | None:
    """The id of the node; None when nobody listens to its agent now."""
    by_uuid = nodes.is_uuid(ident)
    query = _BY_UUID if by_uuid else _BY_NAME
    row = connection.execute(query, {"ident": str(UUID(ident)) if by_uuid else ident}).one_or_none()
    if row is None:
        raise NotFound("node", ident)
    token = sign.get("agent_token")
    if not token:
        raise Invalid("Agent token is required for heartbeat processing.")
    if not row.token or not secrets.compare_digest(row.token.encode(), token.encode()):
        raise Invalid("Invalid or missing agent token received.")
    _check(settings.agent.require_tls, sign, row.url, row.verify_ca)
    if row.url is None and row.reservation is not None:
        raise NodeLocked(row.uuid, row.reservation)
    state = State(row.provision_state)
    if state not in LISTENING and not (
        state in LISTENING_ON_FAST_TRACK and fast_track(settings, row.driver_info)
    ):
        logger.info("heartbeat.ignored", node=row.uuid, state=row.provision_state)
        return None
    told = {key: sign.get(key) for key in ("callback_url", *_TOLD.values())}
    heard = connection.execute(_HEARD, {**told, "node": row.id, "agent_token": token})
    if not heard.rowcount:  # forgotten in between
        raise Invalid("Invalid or missing agent token received.")
    return int(row.id)


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
