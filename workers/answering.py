"""
Answering: what the API asks about machines (`app.services.asking`) is answered here.

Questions have threads of their own, and those about one node are answered one after the other: a
slow BMC keeps one thread busy, whatever its node is asked. Nothing is begun that nobody waits for
any more.
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

from app import errors, log, release
from app.db import reason
from app.errors import BadGateway, Conflict, GatewayTimeout, Invalid, NodeLocked, ServiceError
from app.models import Node, Operation, OperationState
from app.queue import ASK, Asks
from app.runtime import Runtime
from app.services import nodes, operations, reports, targets
from app.services.asking import QUESTIONS, Question
from drivers.core.errors import (
    AgentBusy,
    HardwareError,
    InvalidDriverInfo,
    LeaseLost,
    NotFound,
    NotSupported,
    Unreachable,
)
from workers.lease import Leases

logger = log.get(__name__)

#: What a driver's error means to the caller; any other is a bad gateway.
STATUS: Mapping[type[HardwareError], int] = {
    NotSupported: Invalid.status,
    InvalidDriverInfo: Invalid.status,
    NotFound: errors.NotFound.status,
    Unreachable: GatewayTimeout.status,
    AgentBusy: Conflict.status,
    LeaseLost: Conflict.status,
}


@dataclass(slots=True)
class Answerer:
    """Answers questions for one conductor; `name` is the conductor's."""

    runtime: Runtime
    name: str
    leases: Leases

    def answer(self, document: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """
        {"answer": JSON}, or {"status", "message", "retry_after"} of what went wrong, or
        {"understands": version} to a question of a later release.

        seconds: how long somebody waits for it; no order is given to a machine after that.
        """
        end = time.monotonic() + seconds
        what = QUESTIONS.get(document["what"])
        if what is None or document.get("version", 0) > release.UNDERSTOOD:
            return {"understands": release.UNDERSTOOD}  # another one is asked
        try:
            with log.bound(node=document["node"], question=document["what"]):
                return {"answer": self._answer(what, document, end)}
        except ServiceError as error:
            return _told(error.status, error, error.retry_after)
        except HardwareError as error:
            return _told(STATUS.get(type(error), BadGateway.status), error)
        except SQLAlchemyError as error:
            logger.warning("question.no_database", detail=reason(error))
            return _told(503, "The database is out of reach, please retry.", 5)
        except Exception as error:  # a driver's bug must not leave its caller waiting
            logger.exception("question.crashed")
            return _told(500, f"{document['what']} has a defect: {type(error).__name__}: {error}")

    def _answer(self, what: Question, document: Mapping[str, Any], end: float) -> Any:
        with self.runtime.reading() as session:
            node = nodes.find(session, document["node"])
            if what.locked and node.reservation is not None:
                raise NodeLocked(node.uuid, node.reservation)
            target = targets.of_node(session, node)
            session.expunge_all()
        method = getattr(target.driver.by_kind[what.interface], what.method)
        if not what.order:
            answer = method(target, **document["arguments"])
        else:
            with self._alone(node, end) as before_order:
                target = replace(target, before_order=before_order)
                before_order()
                answer = method(target, **document["arguments"])
        if target.reports:
            self._record(node, target.reports, free=what.locked)
        return answer

    @contextmanager
    def _alone(self, node: Node, end: float) -> Iterator[Callable[[], None]]:
        """Hold the node's lease; gives what must be called before each order. Raises NodeLocked."""

        def still_free() -> bool:
            with self.runtime.reading() as session:
                return session.scalar(select(Node.id).where(*_untouched(node))) is not None

        lease = self.leases.take(node.uuid, node.fence, still_free)
        if lease is None:
            raise NodeLocked(node.uuid, "another conductor")
        lease.keep(end - time.monotonic())

        def before_order() -> None:
            if time.monotonic() > end:
                raise LeaseLost("nobody waits for the answer any more")
            lease.check()

        try:
            if not still_free():
                raise NodeLocked(node.uuid, self.name)
            yield before_order
        finally:
            self.leases.give_back(lease)
            self._hand_on(node)

    def _hand_on(self, node: Node) -> None:
        """A step that came while its node was ours was dropped: send it again."""
        with self.runtime.reading() as session:
            due = session.scalar(
                select(Operation.id).where(
                    Operation.node_id == node.id,
                    Operation.state == OperationState.QUEUED,
                    Operation.claimed < Operation.cursor,
                    Operation.fence > node.fence,
                )
            )
        if due is None:
            return
        with self.runtime.transaction() as session:
            row, operation = operations.lock_operation(session, due)
            if operation.state == OperationState.QUEUED and operation.sent_at is not None:
                operations.send(session, row, operation)

    def _record(self, node: Node, found: Mapping[str, Any], *, free: bool) -> None:
        """Keep what the machine reported, unless somebody has begun to work on it meanwhile."""
        with self.runtime.transaction() as session:
            row = session.scalar(
                select(Node)
                .where(*(_untouched(node) if free else (Node.id == node.id,)))
                .with_for_update()
            )
            if row is None:
                logger.warning("question.refused", fence=node.fence)
                return
            reports.apply(session, row, found)


@dataclass(slots=True)
class Desk:
    """Takes questions from Redis, and lets threads answer them."""

    asks: Asks
    answerer: Answerer
    threads: ThreadPoolExecutor
    _waiting: dict[str, deque[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: str, node: str) -> None:
        """A question has come; it is answered after those about the same node."""
        with self._lock:
            busy = node in self._waiting
            self._waiting.setdefault(node, deque()).append(key)
        if not busy:
            self.threads.submit(self._work, node)

    def _work(self, node: str) -> None:
        """Answer all that is asked about one node."""
        while True:
            with self._lock:
                keys = self._waiting[node]
                if not keys:
                    del self._waiting[node]
                    return
                key = keys.popleft()
            try:
                question = self.asks.take(key)
                if question is not None:
                    document, seconds = question
                    self.asks.answer(key, self.answerer.answer(document, seconds), seconds)
            except redis.RedisError as error:  # whoever asked learns nothing, and gives up
                logger.warning("answer.lost", node=node, detail=str(error))


def declare(application: Celery, desk: Desk) -> None:
    """Register the task in the process that answers."""

    def take(key: str, node: str) -> None:
        desk.take(key, node)

    application.task(name=ASK, acks_late=False, ignore_result=True, shared=False)(take)


def _untouched(node: Node) -> tuple[Any, ...]:
    """Nobody has begun to work on the node since it was read."""
    return Node.id == node.id, Node.fence == node.fence, Node.reservation.is_(None)


def _told(status: int, error: object, retry_after: int | None = None) -> dict[str, Any]:
    return {"status": status, "message": str(error), "retry_after": retry_after}
