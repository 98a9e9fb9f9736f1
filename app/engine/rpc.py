"""
RPC: synchronous calls of the API to the conductor that owns a node.

Only conductors reach BMCs. They answer calls in separate threads (`workers.conductor.rpc_server`),
so that a call never waits for steps. A call is executed at most once, unless it is repeatable: when
a conductor dies, the call is sent to the new owner of the node.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.cluster.hash_ring import Member, owner
from app.db.clock import now
from app.errors import GatewayTimeout, NodeLocked, ServiceError, Unavailable
from app.inventory import nodes
from app.models import Node
from app.observe import log
from app.process import release
from app.requests.locked_nodes import retry_while_locked
from app.requests.request_slots import yielding_slot
from app.runtime import Runtime

if TYPE_CHECKING:  # Celery is slow to import
    from app.broker.calls import RedisCalls

#: Seconds between checks that the called conductor is alive.
LIVENESS_INTERVAL = 0.5


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an interface, or of the conductor itself, that can be called."""

    interface: str | None  # None for the conductor's own
    method: str
    locked: bool = True  # refused while the node is reserved, as in Ironic
    order: bool = False  # it changes the machine: takes the node's lease
    repeatable: bool = True  # sent again if the conductor died while executing it
    answer_lifetime: float = 0  # seconds for which its answer is given again, if any
    needs: int = (
        release.NEEDED
    )  # version that the conductor must understand (`app.process.release`)


METHODS: Mapping[str, Method] = {
    "supported_boot_devices": Method("management", "supported_boot_devices", locked=False),
    "get_boot_device": Method("management", "get_boot_device"),
    "set_boot_device": Method("management", "set_boot_device", order=True),
    "inject_nmi": Method("management", "inject_nmi", order=True, repeatable=False),
    "indicators": Method("management", "indicators", locked=False),
    "get_indicator": Method("management", "get_indicator"),
    "set_indicator": Method("management", "set_indicator", order=True),
    "sensors": Method("management", "sensors", locked=False, answer_lifetime=10),
    "read_documents": Method("management", "read_documents", locked=False),
    "virtual_media": Method("management", "virtual_media", locked=False),
    "get_console": Method(None, "get_console", locked=False),
    "open_console": Method(None, "open_console", locked=False),
    "read_console_history": Method(None, "read_console_history", locked=False),
    "vif_networks": Method("network", "vif_networks", locked=False),
    "plug_vif": Method("network", "plug_vif", order=True),
    "unplug_vif": Method("network", "unplug_vif", order=True),
    "inspect_switch_ports": Method("network", "inspect_switch_ports", locked=False),
    "restore_switch_ports": Method("network", "restore_switch_ports", order=True),
    "read_agent_log": Method(None, "read_agent_log", locked=False),
    "call": Method("vendor", "call", order=True, repeatable=False),
    "call_shared": Method("vendor", "call", locked=False, repeatable=False),
}


class RemoteError(ServiceError):
    """Error that a conductor returned for a call."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        ServiceError.__init__(self, answer["message"])
        self.status = answer["status"]
        self.retry_after = answer["retry_after"]


class NoSuchConductor(Exception):
    """The conductor that a call is for is not alive."""


class RemoteLocked(RemoteError, NodeLocked):
    """A call that is repeated: the node was locked, its agent busy, or its lease lost."""


def call(runtime: Runtime, ident: str, method_name: str, /, **arguments: object) -> Any:
    """
    Call `method_name`, a key of `rpc.METHODS`, for the node `ident` and return the result (JSON).

    Waits up to `[api]call_timeout` seconds, including the wait for a locked node.

    Raises NotFound, NodeLocked.
    Raises RemoteError: the conductor returned an error.
    Raises GatewayTimeout: no conductor answered in time, or it died with the call.
    Raises Unavailable: no conductor serves the node, or too many requests of this process wait
    already.
    """
    end = time.monotonic() + runtime.settings.api.call_timeout

    def attempt() -> object:
        with yielding_slot():
            return _call(runtime, ident, method_name, arguments, end)

    return retry_while_locked(runtime.settings.conductor, attempt)


def ask(
    runtime: Runtime, member: Member, node: str, method_name: str, seconds: float
) -> Mapping[str, object]:
    """
    Call one conductor about a node, by its UUID, also if another conductor owns the node.

    Returns its answer as the conductor made it, with `answer` or `status`; empty: it gave none
    within the seconds.

    Raises Unavailable: the broker is out of reach.
    """
    calls = _calls_of(runtime)
    with runtime.reading() as session:
        document = _document(session, node, method_name, {}, seconds)
    key = _new_key(member)
    calls.post(member.name, key, document, seconds)
    return calls.receive(key, seconds) or {}


def ask_all(
    runtime: Runtime,
    members: Iterable[Member],
    node: str,
    method_name: str,
    seconds: float,
    **arguments: object,
) -> dict[str, Any]:
    """
    Call `method_name` for a node, by its UUID, at several conductors at once.

    Returns name of the conductor -> result, of those that have given one within the seconds.

    Raises Unavailable: the broker is out of reach, or too many requests of this process wait.
    """
    calls = _calls_of(runtime)
    with runtime.reading() as session:
        document = _document(session, node, method_name, arguments, seconds)
    end = time.monotonic() + seconds
    results = {}
    with yielding_slot():
        keys = {member.name: _new_key(member) for member in members}
        for conductor, key in keys.items():
            calls.post(conductor, key, document, seconds)
        for conductor, key in keys.items():
            answer = calls.receive(key, max(end - time.monotonic(), 0.01)) or {}
            if "answer" in answer:
                results[conductor] = answer["answer"]
    return results


def call_at(
    runtime: Runtime, conductor: str, ident: str, method_name: str, /, **arguments: object
) -> Any:
    """
    Call `method_name` at a conductor, given by its name, that need not own the node; else as
    `call`.

    Raises NoSuchConductor.
    """
    end = time.monotonic() + runtime.settings.api.call_timeout
    with yielding_slot():
        return _call(runtime, ident, method_name, arguments, end, conductor)


def _call(  # noqa: PLR0917 - as `call_at` and `call`
    runtime: Runtime,
    ident: str,
    method_name: str,
    arguments: Mapping[str, object],
    end: float,
    conductor: str | None = None,
) -> Any:
    method = METHODS[method_name]
    with runtime.reading() as session:
        node = nodes.find(session, ident)
        if method.locked and node.reservation is not None:
            raise NodeLocked(node.uuid, node.reservation)
        if conductor is None:
            member = conductors.owner_of(session, node, method.needs)
        else:
            member = _member(runtime, conductor)
        document = _document(session, node.uuid, method_name, arguments, end - time.monotonic())
    pending = _PendingCall(runtime, node, method, document, end, pinned=conductor is not None)
    answer = pending.result_from(member)
    if "status" in answer:
        # conductors of the previous release leave it out
        transient = answer.get("transient", answer["status"] == NodeLocked.status)
        raise RemoteLocked(answer) if transient else RemoteError(answer)
    return answer["answer"]


def _document(
    session: Session, node: str, call_name: str, arguments: Mapping[str, object], seconds: float
) -> dict[str, Any]:
    """
    Return the document of a call.

    node: UUID. call_name: key of `METHODS`. seconds: until it expires.

    Its request id is that of this thread's request or task; None: it has none.
    """
    until = session.scalars(select(now())).one() + timedelta(seconds=seconds)
    return {
        "node": node,
        "what": call_name,
        "arguments": dict(arguments),
        "version": METHODS[call_name].needs,
        "request_id": log.fact("request_id"),
        "until": until.isoformat(),  # by the database's clock
    }


def _calls_of(runtime: Runtime) -> "RedisCalls":
    """Return the transport of calls. Raises Unavailable: this process has none."""
    if runtime.calls is None:
        raise Unavailable("This process cannot call conductors.")
    return runtime.calls


def _new_key(member: Member) -> str:
    """Return the key of a new call, which no other incarnation of the conductor takes."""
    return f"{member.incarnation}:{uuid4()}"


def _member(runtime: Runtime, conductor: str) -> Member:
    """Return a live conductor. Raises NoSuchConductor."""
    for member in conductors.members(runtime):
        if member.name == conductor:
            return member
    raise NoSuchConductor(conductor)


@dataclass(slots=True)
class _PendingCall:
    runtime: Runtime
    node: Node
    method: Method
    document: Mapping[str, object]
    end: float  # by this process's monotonic clock
    pinned: bool = False  # to the first conductor: no successor can answer it
    refusing: set[str] = field(default_factory=set)  # incarnations of too old a release

    def result_from(self, member: Member) -> Mapping[str, object]:
        """Send the call to a conductor, and to its successors, until one has answered."""
        calls = _calls_of(self.runtime)
        callee, key = member, self._post(calls, member)
        while (remaining := self.end - time.monotonic()) > 0:
            answer = calls.receive(key, min(remaining, LIVENESS_INTERVAL))
            if answer is not None and "understands" not in answer:
                return answer
            if answer is not None:  # the release of this conductor is too old
                self.refusing.add(callee.incarnation)
            if self.pinned and answer is not None:
                raise Unavailable(f"Conductor {callee.name} is of an earlier release.")
            members = [
                candidate
                for candidate in conductors.members(self.runtime)
                if candidate.version >= self.method.needs
                and candidate.incarnation not in self.refusing
            ]
            successor = (
                None
                if self.pinned
                else owner(self.node.uuid, self.node.driver, self.node.conductor_group, members)
            )
            if successor is None or successor.incarnation == callee.incarnation:
                continue
            if answer is None and not calls.withdraw(key):  # the conductor has started it
                if any(candidate.incarnation == callee.incarnation for candidate in members):
                    continue
                if not self.method.repeatable:
                    raise GatewayTimeout(
                        f"Conductor {callee.name} died while executing"
                        f" {self.document['what']} {self._about}; the result is not known."
                    )
            callee, key = successor, self._post(calls, successor)
        started = not calls.withdraw(key)
        doubt = "; it may still be executed" if started and self.method.order else ""
        raise GatewayTimeout(
            f"Conductor {callee.name} did not answer within"
            f" {self.runtime.settings.api.call_timeout:g} s to {self.document['what']}"
            f" {self._about}{doubt}."
        )

    def _post(self, calls: "RedisCalls", member: Member) -> str:
        key = _new_key(member)
        calls.post(member.name, key, self.document, max(self.end - time.monotonic(), 0.001))
        return key

    @property
    def _about(self) -> str:
        """Name the node and the address of its BMC, for error messages."""
        info = self.node.driver_info
        bmc = next((info[key] for key in sorted(info) if key.endswith("_address")), "unknown")
        return f"of node {self.node.uuid} (BMC {bmc})"
