"""
Agents: how a ramdisk finds the node that it runs on, gets its token, and gives signs of life.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Text, bindparam, func, literal, select, update
from sqlalchemy.orm import Session

from app import killpoints, log
from app.db import age, now, retrying
from app.errors import Invalid, NodeLocked, NotFound
from app.models import AgentRecord, Node, Operation, OperationState, Port
from app.prepared import Prepared
from app.runtime import Runtime, of
from app.services import waking
from app.services.idents import key_of
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
    S.INSPECT_WAIT, S.RESCUING, S.RESCUE_WAIT, S.SERVICING, S.SERVICE_WAIT, S.SERVICE_HOLD,
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
    session: Session,
    addresses: Sequence[str],
    node_uuid: str | None,
    caller: str | None = None,
) -> tuple[Node, str]:
    """
    The node that a machine is, by its UUID or MAC addresses, and its agent's token.

    caller: the address that asks. The token is given to one of them: whoever else asks gets
    asterisks. Raises NotFound, with one text for all reasons, and NodeLocked when a token must be
    made.
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
    return node, token(session, node, caller)


def token(session: Session, node: Node, caller: str | None = None) -> str:
    """
    The token of a node's agent, as above; the node's row is locked. Raises NodeLocked.

    Whoever was given it may have lost the answer, and gets it again: soon, and until it has called.
    """
    agent = session.get(AgentRecord, node.id)
    if agent is not None and agent.token:
        lost = caller is not None and agent.given_to == caller and agent.url is None
        return agent.token if lost and _just_given(session, agent) else "******"
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)
    if agent is None:
        agent = AgentRecord(node_id=node.id)
        session.add(agent)
    agent.token, agent.given_to = secrets.token_urlsafe(32), caller
    agent.given_at = now()
    return agent.token


def _just_given(session: Session, agent: AgentRecord) -> bool:
    limit = of(session).settings.api.lookup_repeat_time
    given = select(AgentRecord.node_id).where(AgentRecord.node_id == agent.node_id)
    return session.scalar(given.where(age(AgentRecord.given_at) < limit)) is not None


def _expected(settings: Settings, node: Node) -> bool:
    state = State(node.provision_state)
    return state in EXPECTING or (state in FAST_TRACK and fast_track(settings, node.driver_info))


def fast_track(settings: Settings, driver_info: Mapping[str, Any]) -> bool:
    """Agents of this node are kept running between operations."""
    return chosen(driver_info, settings.deploy.fast_track)


def heartbeat(runtime: Runtime, ident: str, sign: Mapping[str, Any]) -> None:
    """
    Record a sign of life, then wake the operation that waits for it, unless a conductor sees to
    that by polling the agent.

    sign: callback_url, agent_token, and perhaps agent_version, agent_verify_ca, agent_status,
    agent_status_message. Raises Invalid, NotFound, NodeLocked.

    Two transactions: the operation's lock must not be waited for with the agent's row in hand.
    Whoever records that it waits asks for that row, and sees what was recorded before.
    """
    timeout = runtime.settings.conductor.heartbeat_timeout

    def record() -> tuple[int, bool] | None:
        with runtime.writing() as connection:
            node_id = _record(connection, runtime.settings, ident, sign)
            if node_id is None:
                return None
            waiting = _WAITING.first(connection, {"node": node_id, "timeout": timeout})
            return node_id, waiting is not None

    def wake(node_id: int) -> None:
        with runtime.transaction() as session:
            waking.agent_called(session, node_id)

    recorded = retrying(record)
    if recorded is not None and recorded[1]:
        killpoints.reach("called")
        retrying(lambda: wake(recorded[0]))


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
_TOLD = {
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
            for column, key in _TOLD.items()
        },
    )
)
_HEARD = Prepared(_HEARING.where(_AGENTS.node_id == bindparam("node")).returning(_AGENTS.node_id))
_CA, _TOLD_CA = _AGENTS.verify_ca, bindparam("agent_verify_ca", type_=Text)
#: The same when it is known where the agent is, as it nearly always is: no other question is asked.
_HEARD_AGAIN = Prepared(
    _HEARING.where(
        _AGENTS.node_id
        == select(_NODES.id)
        .where(
            _NODES.uuid == bindparam("uuid"),
            _NODES.provision_state.in_([literal(each) for each in sorted(LISTENING)]),
        )
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
        waking.unwatched(),
    )
    .limit(1)
)


def _record(
    connection: Connection, settings: Settings, ident: str, sign: Mapping[str, Any]
) -> int | None:
    """The id of the node; None when nobody listens to its agent now."""
    (column, value), token = key_of(ident), sign.get("agent_token")
    told = {name: sign.get(name) for name in ("callback_url", "agent_token", *_TOLD.values())}
    if column == "uuid" and _is_whole(sign, settings.agent.require_tls):
        heard = _HEARD_AGAIN.first(connection, {**told, "uuid": value})
        if heard:
            return int(heard[0])
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
    state = State(row.provision_state)
    if state not in LISTENING and not (
        state in LISTENING_ON_FAST_TRACK and fast_track(settings, row.driver_info)
    ):
        logger.info("heartbeat.ignored", node=row.uuid, state=row.provision_state)
        return None
    if not _HEARD.first(connection, {**told, "node": row.id}):  # forgotten in between
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
