"""
Agents: how a ramdisk finds the node that it runs on, gets its token, and gives signs of life.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session, load_only

from app import log
from app.db import now, retrying
from app.errors import Invalid, NodeLocked, NotFound
from app.models import AgentRecord, Node, Port
from app.runtime import Runtime, of
from app.services import nodes, operations
from app.states import State

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

_MAC = re.compile(r"[0-9a-f]{2}([:-]?[0-9a-f]{2}){5}", re.IGNORECASE)


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
    if node is None or (settings.api.restrict_lookup and not _expected(session, node)):
        raise nowhere
    agent = session.get(AgentRecord, node.id)
    if agent is not None and agent.token:
        return node, "******"
    if not with_token:
        return node, None
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)
    if agent is None:
        agent = AgentRecord(node_id=node.id)
        session.add(agent)
    agent.token = secrets.token_urlsafe(32)
    return node, agent.token


def _expected(session: Session, node: Node) -> bool:
    state = State(node.provision_state)
    return state in EXPECTING or (state in FAST_TRACK and fast_track(session, node.driver_info))


def fast_track(session: Session, driver_info: Mapping[str, Any]) -> bool:
    """Agents of this node are kept running between operations."""
    chosen = driver_info.get("fast_track", of(session).settings.deploy.fast_track)
    return str(chosen).lower() in ("true", "1", "yes", "on", "t", "y")


def heartbeat(runtime: Runtime, ident: str, sign: Mapping[str, Any]) -> None:
    """
    Record a sign of life, then wake the operation that waits for it.

    sign: callback_url, agent_token, and perhaps agent_version, agent_verify_ca, agent_status,
    agent_status_message. Raises Invalid, NotFound, NodeLocked.

    Two transactions: the operation's lock must not be waited for with the agent's row in hand,
    and what is recorded in between is seen by whoever records that it waits.
    """

    def record() -> int | None:
        with runtime.transaction() as session:
            return _record(session, ident, sign)

    def wake() -> None:
        with runtime.transaction() as session:
            node = session.get(Node, node_id, options=[load_only(Node.id)])
            agent = session.get(AgentRecord, node_id, options=[load_only(AgentRecord.node_id)])
            if node is not None and agent is not None:
                operations.agent_called(session, node, agent)

    node_id = retrying(record)
    if node_id is not None:
        retrying(wake)


def _record(session: Session, ident: str, sign: Mapping[str, Any]) -> int | None:
    """The id of the node; None when nobody listens to its agent now."""
    row = session.execute(
        select(
            Node.id,
            Node.uuid,
            Node.provision_state,
            Node.reservation,
            Node.driver_info,
            AgentRecord.token,
            AgentRecord.url,
            AgentRecord.verify_ca,
        )
        .outerjoin(AgentRecord, AgentRecord.node_id == Node.id)
        .where(nodes.identified(ident))
    ).one_or_none()
    if row is None:
        raise NotFound("node", ident)
    token = sign.get("agent_token")
    if not token:
        raise Invalid("Agent token is required for heartbeat processing.")
    if not row.token or not secrets.compare_digest(row.token.encode(), token.encode()):
        raise Invalid("Invalid or missing agent token received.")
    _check(of(session).settings.agent.require_tls, sign, row.url, row.verify_ca)
    if row.url is None and row.reservation is not None:
        raise NodeLocked(row.uuid, row.reservation)
    state = State(row.provision_state)
    listening = state in LISTENING or (
        state in LISTENING_ON_FAST_TRACK and fast_track(session, row.driver_info)
    )
    if not listening:
        logger.info("heartbeat.ignored", node=row.uuid, state=row.provision_state)
        return None
    told = {
        "url": sign["callback_url"],
        "version": sign.get("agent_version"),
        "verify_ca": sign.get("agent_verify_ca"),
        "status": sign.get("agent_status"),
        "status_message": sign.get("agent_status_message"),
    }
    updated = session.execute(
        update(AgentRecord)
        .where(AgentRecord.node_id == row.id, AgentRecord.token == token)
        .values({key: value for key, value in told.items() if value is not None})
        .values(heartbeats=AgentRecord.heartbeats + 1, last_heartbeat_at=now())
        .execution_options(synchronize_session=False)
    )
    if not updated.rowcount:  # type: ignore[attr-defined]
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
