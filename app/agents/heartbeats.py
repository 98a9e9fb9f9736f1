"""
Agent heartbeats: record them, and resume the operations that wait for them.

Hundreds of agents may send heartbeats at once. The statements here are raw SQL on purpose: prepared
once, and run without the ORM.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, Text, bindparam, func, literal, select, type_coerce, update

from app.agents.lookup import fast_track
from app.config.machine_settings import Agent as AgentSettings
from app.config.settings import Settings
from app.db.clock import now
from app.db.prepared import Prepared
from app.db.sealing import keyring_of
from app.db.transactions import retrying
from app.engine import wake
from app.errors import AgentRefused, NodeLocked, NotFound
from app.lifecycle.flows import HEARTBEAT_STATES
from app.lifecycle.provision_states import WITHOUT_INSTANCE
from app.models import AgentRecord, Node, Operation, OperationState
from app.observe import log
from app.process import kill_points
from app.rows.uuid_or_name import key_of
from app.runtime import Runtime
from drivers.core.errors import InvalidDriverInfo
from drivers.net import networks

logger = log.get(__name__)

#: Accepted values of `agent_status`: progress of a command, as the agent reports it.
STATUSES = ("start", "end", "error")
#: Characters by which parsers of URLs differ.
_UNUSUAL = re.compile(r"[\x00-\x20\x7f\\]")
_WRONG_TOKEN = "Invalid or missing agent token received."


class AgentHeartbeat(NamedTuple):
    """A heartbeat, as an agent sent it."""

    node: str  # UUID
    body: Mapping[str, Any]  # of the request; `heartbeat` lists its fields


class RecordedHeartbeat(NamedTuple):
    node_id: int
    waited_for: bool  # an operation waits for it, and must be resumed


def heartbeat(runtime: Runtime, ident: str, body: Mapping[str, Any]) -> None:
    """
    Record a heartbeat, then resume the operation that waits for it.

    An operation whose agent a conductor polls (the wait monitor) is left to that conductor.
    `body` has callback_url and agent_token; agent_version, agent_verify_ca, agent_status and
    agent_status_message are optional.

    Raises AgentRefused: the token or another field is wrong.
    Raises NotFound: there is no such node.
    Raises NodeLocked: an operation holds the node, and the agent's address is not known yet.
    """

    def record() -> RecordedHeartbeat | None:
        with runtime.write_connection() as connection:
            node_id = _record(connection, runtime.settings, ident, body)
            return None if node_id is None else _recorded(runtime.settings, connection, node_id)

    if heartbeat_record := retrying(record):
        resume_waiting(runtime, heartbeat_record)


def record_batch(
    runtime: Runtime, signs: Sequence[AgentHeartbeat]
) -> Sequence[RecordedHeartbeat | None]:
    """
    Record repeated heartbeats of known agents in one transaction; resume no operations.

    Returns None for a heartbeat that the caller must pass to `heartbeat`: its callback_url differs
    from the recorded one, a field is wrong, or another transaction holds the agent's row.
    """
    settings = runtime.settings

    def one(connection: Connection, sign: AgentHeartbeat) -> RecordedHeartbeat | None:
        try:
            check(settings.agent, sign.body)
        except AgentRefused:
            return None
        values = {**_fields(connection, sign.body), "uuid": sign.node}
        row = _RECORD_REPEATED.first(connection, values)
        return _recorded(settings, connection, row[0]) if row else None

    with runtime.write_connection() as connection:
        return [one(connection, sign) for sign in signs]


def resume_waiting(runtime: Runtime, record: RecordedHeartbeat) -> None:
    """
    Resume the operation that waits for a recorded heartbeat.

    This is a second transaction: waiting for the operation's lock while holding the agent's row
    could deadlock. No heartbeat is lost in between, because a conductor that records a wait locks
    the agent's row and reads its heartbeat counter.
    """

    def work() -> None:
        with runtime.transaction() as session:
            wake.resume_on_heartbeat(session, record.node_id)

    if record.waited_for:
        kill_points.reach("called")
        retrying(work)


_NODES, _AGENTS = Node.__table__.c, AgentRecord.__table__.c
_KNOWN = select(
    _NODES.id,
    _NODES.uuid,
    _NODES.provision_state,
    _NODES.reservation,
    _NODES.driver_info,
    _AGENTS.token,
    type_coerce(_AGENTS.token, Text).label("stored_token"),
    _AGENTS.url,
    _AGENTS.verify_ca,
).select_from(Node.__table__.outerjoin(AgentRecord.__table__, _AGENTS.node_id == _NODES.id))
#: Columns that keep their value if the heartbeat has none -> field of the heartbeat.
_OPTIONAL = {
    "version": "agent_version",
    "verify_ca": "agent_verify_ca",
    "status": "agent_status",
    "status_message": "agent_status_message",
}
_RECORD = update(AgentRecord).values(
    token_digest=bindparam("digest"),
    url=bindparam("callback_url"),
    heartbeats=_AGENTS.heartbeats + 1,
    last_heartbeat_at=now(),
    **{
        column: func.coalesce(bindparam(key, type_=Text), _AGENTS[column])
        for column, key in _OPTIONAL.items()
    },
)
_RECORD_BY_ID = Prepared(
    _RECORD.where(
        _AGENTS.node_id == bindparam("node"),
        type_coerce(_AGENTS.token, Text) == bindparam("stored_token", type_=Text),
    ).returning(_AGENTS.node_id)
)
_CA, _SENT_CA = _AGENTS.verify_ca, bindparam("agent_verify_ca", type_=Text)
_UNLOCKED = AgentRecord.__table__.alias("free")
#: Record the heartbeat of an agent whose address is known, the usual case, in one statement that
#: waits for no lock.
_RECORD_REPEATED = Prepared(
    _RECORD.where(
        _AGENTS.node_id
        == select(_UNLOCKED.c.node_id)
        .join_from(_UNLOCKED, Node.__table__, _NODES.id == _UNLOCKED.c.node_id)
        .where(
            _NODES.uuid == bindparam("uuid"),
            _NODES.provision_state.in_([literal(state) for state in sorted(HEARTBEAT_STATES)]),
        )
        .with_for_update(of=_UNLOCKED, skip_locked=True)
        .scalar_subquery(),
        _AGENTS.token_digest == bindparam("digest"),
        _AGENTS.url == bindparam("callback_url"),
        func.coalesce(_CA, _SENT_CA, "") == func.coalesce(_SENT_CA, _CA, ""),
    ).returning(_AGENTS.node_id)
)
_WAITING = Prepared(
    select(Operation.__table__.c.id)
    .where(
        Operation.__table__.c.node_id == bindparam("node"),
        Operation.__table__.c.state == OperationState.WAITING,
        Operation.__table__.c.wake_at.is_(None),
        wake.not_polled(bindparam("timeout")),
    )
    .limit(1)
)


def _fields(connection: Connection, body: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: body.get(name) for name in ("callback_url", *_OPTIONAL.values())}
    return values | {"digest": keyring_of(connection.dialect).digest(body["agent_token"])}


def _recorded(settings: Settings, connection: Connection, node_id: int) -> RecordedHeartbeat:
    timeout = settings.conductor.heartbeat_timeout
    waiting = _WAITING.first(connection, {"node": node_id, "timeout": timeout})
    return RecordedHeartbeat(node_id, waiting is not None)


def _record(
    connection: Connection, settings: Settings, ident: str, body: Mapping[str, Any]
) -> int | None:
    """Record a heartbeat and return the node's id; None in a state that ignores heartbeats."""
    (column, value), token = key_of(ident), body.get("agent_token")
    row = connection.execute(_KNOWN.where(_NODES[column] == value)).one_or_none()
    if row is None:
        raise NotFound("node", ident)
    token_matches = row.token and secrets.compare_digest(row.token.encode(), (token or "").encode())
    if token and not token_matches:
        raise AgentRefused("token", _WRONG_TOKEN)
    check(settings.agent, body, row.url, row.verify_ca)
    if row.url is None and row.reservation is not None:
        raise NodeLocked(row.uuid, row.reservation)
    state = row.provision_state
    is_kept = state in WITHOUT_INSTANCE and fast_track(settings, row.driver_info)
    if state not in HEARTBEAT_STATES and not is_kept:
        logger.info("heartbeat.ignored", node=row.uuid, state=row.provision_state)
        return None
    values = {**_fields(connection, body), "node": row.id, "stored_token": row.stored_token}
    if not _RECORD_BY_ID.first(connection, values):
        # the agent's token was changed since `_KNOWN` was read
        raise AgentRefused("token", _WRONG_TOKEN)
    return int(row.id)


def check(
    settings: AgentSettings,
    body: Mapping[str, Any],
    known_url: str | None = None,
    known_ca: str | None = None,
) -> None:
    """
    Check a heartbeat against the settings and the recorded address and certificate.

    The one rule for all heartbeats; only the token is compared elsewhere, with the node's.

    Raises AgentRefused.
    """
    url, ca = body["callback_url"] or "", body.get("agent_verify_ca")
    if not body.get("agent_token"):
        raise AgentRefused("token", "Agent token is required for heartbeat processing.")
    if not body.get("agent_version") and not body.get("agent_status"):
        raise AgentRefused(
            "version", "Agent did not transmit a version, and a version is required."
        )
    if url and not url.startswith(("http://", "https://")):
        raise AgentRefused(
            "address", 'An issue with the supplied "callback_url" has been detected.'
        )
    if url and (wrong_part := _not_of_an_agent(url)):
        raise AgentRefused("address", f"callback_url: must not have a {wrong_part}")
    if known_url is not None and url != known_url:
        raise AgentRefused("address", 'Detected change in ramdisk provided "callback_url"')
    if settings.require_tls and url and not url.startswith("https://"):
        raise AgentRefused("tls", "TLS is required by configuration")
    try:
        _reach(settings.allowed_networks, settings.denied_networks).check_url(url)
    except InvalidDriverInfo as error:
        raise AgentRefused("address", str(error)) from None
    if known_ca is not None and ca is not None and ca != known_ca:
        raise AgentRefused("certificate", "Detected change in ramdisk provided certificate")


@lru_cache(maxsize=4096)
def _not_of_an_agent(url: str) -> str | None:
    """
    Return the part of a URL that no agent's URL has, if there is one.

    The service appends the paths of the agent's API: after a query or a fragment, the machine would
    choose the path of requests that have its node's document and token.
    """
    try:
        parts = urlsplit(url)
        parts_present = {
            "query": "?" in url,
            "fragment": "#" in url,
            "user": "@" in parts.netloc,
            "wrong host": not parts.hostname,
            "wrong port": parts.port == 0,
            "backslash, space or control character": _UNUSUAL.search(url) is not None,
        }
    except ValueError:
        return "malformed host or port"
    return next((name for name, is_there in parts_present.items() if is_there), None)


@lru_cache(maxsize=4)
def _reach(allowed_networks: tuple[str, ...], denied_networks: tuple[str, ...]) -> networks.Reach:
    return networks.of_agents(
        {"agent": {"allowed_networks": allowed_networks, "denied_networks": denied_networks}}
    )
