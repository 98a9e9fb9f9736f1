"""
RPC server: answers the API's synchronous calls to machines (`app.engine.rpc`).

Calls have their own threads, and calls for one node run one after the other, so a slow BMC occupies
one thread only. A call whose timeout has passed is not started.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import redis
from celery import Celery
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app import errors
from app.broker.calls import CALL_TASK, RedisCalls
from app.broker.seals import Forged
from app.db.diagnosis import reason
from app.engine.records import driver_reports
from app.engine.rpc import METHODS, Method
from app.errors import (
    BadGateway,
    Conflict,
    GatewayTimeout,
    Invalid,
    NodeLocked,
    ServiceError,
    Unavailable,
)
from app.hardware import targets
from app.inventory import holds, nodes
from app.lifecycle.hold_kinds import Effect
from app.models import Node, Operation, OperationState
from app.observe import log, request_ids
from app.process import release, tracing
from app.runtime import Runtime
from drivers.builtin import read_agent_log
from drivers.core.driver import interfaces_of
from drivers.core.errors import (
    AgentBusy,
    Busy,
    HardwareError,
    InvalidDriverInfo,
    LeaseLost,
    NotFound,
    NotSupported,
    SecretsUnavailable,
    Unreachable,
    VaultUnreachable,
)
from workers.conductor.fresh_calls import FreshCalls
from workers.conductor.lease import Leases
from workers.conductor.recent_answers import RecentAnswers
from workers.conductor.redispatch import send_again

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds between two tries of an order to a busy machine.
BUSY_PAUSE = 3.0
#: Driver error -> HTTP status; all others are 502 Bad Gateway.
STATUS: Mapping[type[HardwareError], int] = {
    NotSupported: Invalid.status,
    InvalidDriverInfo: Invalid.status,
    NotFound: errors.NotFound.status,
    Unreachable: GatewayTimeout.status,
    SecretsUnavailable: Unavailable.status,
    VaultUnreachable: Unavailable.status,
    AgentBusy: Conflict.status,
    LeaseLost: Conflict.status,
}


@dataclass(slots=True)
class CallHandler:
    """Executes calls in one conductor."""

    runtime: Runtime
    name: str  # of the conductor
    leases: Leases
    #: calls about consoles: name of the method -> function of the runtime and the node
    consoles: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    recent: RecentAnswers = field(default_factory=RecentAnswers)

    def answer(self, document: Mapping[str, Any], seconds: float) -> dict[str, object]:
        """
        Execute a call, and return the document that answers it.

        {"answer": JSON}; or {"status", "message", "retry_after", "transient"} of an error; or
        {"understands": version} for a call of a later release. transient: whether the API repeats
        the call.

        seconds: timeout of the caller; no order is sent to a machine after it.
        """
        end = time.monotonic() + seconds
        call = METHODS.get(document["what"])
        if call is None or document.get("version", 0) > release.UNDERSTOOD:
            return {"understands": release.UNDERSTOOD}  # the API calls another conductor
        facts = {"node": document["node"], "call": document["what"]}
        request_id = request_ids.received(document.get("request_id"))
        try:
            with (
                log.bound(**facts, request_id=request_id),
                tracing.continued(request_id, "call", **facts),
            ):
                return {"answer": self._answer(call, document, end)}
        except ServiceError as error:
            transient = isinstance(error, NodeLocked)
            return _error(error.status, error, error.retry_after, transient=transient)
        except HardwareError as error:
            # an earlier order of the call may have succeeded
            transient = call.repeatable and isinstance(error, AgentBusy | LeaseLost)
            status = STATUS.get(type(error), BadGateway.status)
            return _error(status, error, transient=transient)
        except SQLAlchemyError as error:
            return _without_database(error)
        except Exception:  # a driver's defect must not leave its caller waiting
            logger.exception("call.crashed")
            return _error(
                500,
                f"{document['what']} has a defect: the log of conductor {self.name} has details",
            )

    def _answer(self, call: Method, document: Mapping[str, Any], end: float) -> object:
        with self.runtime.reading() as session:
            node = nodes.find(session, document["node"])
            if call.locked and node.reservation is not None:
                raise NodeLocked(node.uuid, node.reservation)
            if call.order or call.interface == "vendor":  # vendor functions may do anything
                holds.check(session, node, Effect.MACHINE)
            target = targets.of_node(session, node) if call.interface else None
            session.expunge_all()
        if target is None or call.interface is None:
            functions = {**_OWN, **self.consoles}
            return functions[call.method](self.runtime, node, **document["arguments"])
        target = targets.with_secrets(self.runtime, target)
        method = getattr(interfaces_of(target).by_kind[call.interface], call.method)
        if call.answer_lifetime:
            key = (node.uuid, node.updated_at, document["what"])
            answer = self.recent.answer(key, call.answer_lifetime, lambda: method(target))
        elif not call.order:
            answer = method(target, **document["arguments"])
        else:
            with self._lease(node, end) as before_order:
                target = replace(target, before_order=before_order)
                before_order()
                answer = _patiently(lambda: method(target, **document["arguments"]), end)
        if target.reports:
            self._record(node, target.reports, locked=call.locked)
        return answer

    @contextmanager
    def _lease(self, node: Node, end: float) -> Iterator[Callable[[], None]]:
        """
        Hold the node's lease; yields the function that the driver calls before each order.

        Raises NodeLocked: the node is reserved, or another conductor holds the lease.
        """

        def unreserved() -> bool:
            with self.runtime.reading() as session:
                return session.scalar(select(Node.id).where(*_unchanged(node))) is not None

        lease = self.leases.take(node.uuid, node.fence, unreserved)
        if lease is None:
            raise NodeLocked(node.uuid, "another conductor")
        lease.keep(end - time.monotonic())

        def before_order() -> None:
            if time.monotonic() > end:
                raise LeaseLost("the call has timed out")
            lease.check()

        try:
            if not unreserved():
                raise NodeLocked(node.uuid, self.name)
            yield before_order
        finally:
            self.leases.give_back(lease)
            self._send_dropped(node)

    def _send_dropped(self, node: Node) -> None:
        """Send the node's queued step again: a conductor may have dropped it for this lease."""
        with self.runtime.reading() as session:
            waiting_operation = session.scalar(
                select(Operation.uuid).where(
                    Operation.node_id == node.id,
                    Operation.state == OperationState.QUEUED,
                    Operation.claimed < Operation.cursor,
                    Operation.fence > node.fence,
                )
            )
        if waiting_operation is not None:
            send_again(self.runtime, waiting_operation)

    def _record(self, node: Node, reports: Mapping[str, object], *, locked: bool) -> None:
        """Record the driver's reports; if `locked`, only if the node has not changed."""
        with self.runtime.transaction() as session:
            row = session.scalar(
                select(Node)
                .where(*(_unchanged(node) if locked else (Node.id == node.id,)))
                .with_for_update()
            )
            if row is None:
                logger.warning("call.refused", fence=node.fence)
                return
            driver_reports.apply(session, row, reports)


#: Calls that the conductor itself answers.
_OWN: Mapping[str, Callable[..., object]] = {
    "read_agent_log": lambda runtime, node, *, name, offset: read_agent_log(
        runtime.settings.options(), node.uuid, name, offset
    ),
}


def _patiently(order: Callable[[], object], end: float) -> object:
    """
    Send an order again while the machine or its BMC is busy for now; return its result.

    end: of the call, on the monotonic clock.

    Raises Busy: it was busy until the end of the call.
    """
    while True:
        try:
            return order()
        except Busy:
            if time.monotonic() + BUSY_PAUSE >= end:
                raise
        time.sleep(BUSY_PAUSE)


@dataclass(slots=True)
class CallReceiver:
    """Reads calls from Redis, and runs them in threads, one at a time per node."""

    calls: RedisCalls
    handler: CallHandler
    fresh: FreshCalls
    threads: ThreadPoolExecutor
    _waiting: dict[str, deque[str]] = field(default_factory=dict)  # node UUID -> keys of calls
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: str, node: str) -> None:
        """Accept a call, by its key in Redis; it runs after earlier calls for the same node."""
        with self._lock:
            busy = node in self._waiting
            self._waiting.setdefault(node, deque()).append(key)
        if not busy:
            self.threads.submit(self._work, node)

    def _work(self, node: str) -> None:
        """Run the waiting calls of one node."""
        while True:
            with self._lock:
                keys = self._waiting[node]
                if not keys:
                    del self._waiting[node]
                    return
                key = keys.popleft()
            try:
                self._run(key)
            except Forged as error:  # its caller, if there is one, is not the API
                seldom.warning("call.forged", node=node, detail=str(error))
            except redis.RedisError as error:  # the caller's request times out
                seldom.warning("answer.lost", node=node, detail=str(error))
            except Exception:  # later calls for the node must not wait for ever
                logger.exception("call.crashed", node=node)

    def _run(self, key: str) -> None:
        """
        Take a call from Redis, execute it, and answer it.

        A call to an earlier incarnation of this conductor stays there: its caller withdraws it.

        Raises Forged, RedisError.
        """
        call_entry = self.calls.take(key) if self.fresh.is_for_us(key) else None
        if call_entry is None:
            return
        call, seconds = call_entry
        try:
            seconds = self.fresh.accept(key, call, seconds)
            answer = self.handler.answer(call, seconds)
        except SQLAlchemyError as error:
            answer = _without_database(error)
        self.calls.answer(key, answer, seconds)


def register_task(application: Celery, receiver: CallReceiver) -> None:
    """Register the Celery task in the control process."""

    def take(key: object, node: object) -> None:
        if not (isinstance(key, str) and isinstance(node, str)):
            seldom.warning("call.forged", detail="its message has no key or no node")
            return
        receiver.take(key, node)

    application.task(name=CALL_TASK, acks_late=False, ignore_result=True, shared=False)(take)


def _unchanged(node: Node) -> tuple[Any, ...]:
    """Condition: no operation was dispatched on the node since it was read, and it is free."""
    return Node.id == node.id, Node.fence == node.fence, Node.reservation.is_(None)


def _without_database(error: SQLAlchemyError) -> dict[str, object]:
    seldom.warning("call.no_database", detail=reason(error))
    return _error(503, "The database is out of reach, please retry.", 5)


def _error(
    status: int, error: object, retry_after: int | None = None, *, transient: bool = False
) -> dict[str, object]:
    return {
        "status": status,
        "message": str(error),
        "retry_after": retry_after,
        "transient": transient,
    }
