"""
Task events for Flower and `celery events`.

Celery's workers send the events of the tasks that they run. A link that waits for its turn is
announced here as `task-sent`, which monitors show as PENDING, and withdrawn as `task-revoked` if
its chain ends before it. Each process collects its events for PAUSE seconds and publishes them in
one message: one for each event would add a sixth to the cost of a lifecycle. Events are hints for
people: those that cannot be sent are left out.
"""

import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import redis
from amqp.exceptions import AMQPError
from celery import Celery
from celery.events.dispatcher import EventDispatcher
from celery.events.event import get_exchange
from celery.utils.time import utcoffset
from kombu.exceptions import KombuError

from app.broker.messages import Link, Message
from app.observe import log

seldom = log.RateLimited(log.get(__name__))

#: Seconds for which events are collected.
PAUSE = 0.5
#: Most events that are collected while they cannot be published.
MOST = 10_000


class Outbox:
    """The events of a process that are not published yet, and the thread that publishes them."""

    def __init__(self, application: Celery) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._filled = threading.Event()
        #: Of each: sender, kind, wall clock time, fields.
        self._events: list[tuple[str, str, float, Mapping[str, object]]] = []
        self._thread: threading.Thread | None = None

    def add(self, sender: str, kind: str, fields: Sequence[Mapping[str, Any]]) -> None:
        """
        Collect events of one kind.

        sender: name of the worker or client. fields: of each event, without the common ones.
        """
        moment = time.time()
        with self._lock:
            self._events += [(sender, kind, moment, event) for event in fields]
            del self._events[MOST:]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()
        if not self._filled.is_set():
            self._filled.set()

    def _run(self) -> None:
        while True:
            self._filled.wait()
            time.sleep(PAUSE)
            self._filled.clear()
            self.publish()

    def publish(self) -> None:
        """Publish the collected events; those that the broker does not take are left out."""
        with self._lock:
            events, self._events = self._events, []
        if not events:
            return
        common = {
            "pid": os.getpid(), "utcoffset": utcoffset(),
            "clock": self._application.clock.forward(),
        }  # fmt: skip
        documents = [
            {"type": kind, "hostname": sender, "timestamp": moment, **common, **fields}
            for sender, kind, moment, fields in events
        ]
        try:
            with self._application.producer_pool.acquire(block=True) as producer:
                exchange = get_exchange(producer.connection, self._application.conf.event_exchange)
                producer.publish(
                    orjson.dumps(documents, default=str),
                    exchange=exchange.name,
                    routing_key="task.multi",
                    declare=[exchange],
                    content_type="application/json",
                    content_encoding="utf-8",
                    headers={"hostname": events[0][0]},
                    delivery_mode=1,
                    retry=False,
                )
        except (KombuError, redis.RedisError, AMQPError, OSError) as error:
            seldom.warning("events.not_sent", detail=str(error))


def outbox_of(application: Celery) -> Outbox:
    """Return the outbox of an application that `queue.celery` created."""
    outbox: Outbox = application.outbox
    return outbox


class Dispatcher(EventDispatcher):  # type: ignore[misc]
    """Sends the events of a worker; the outbox sends the events of its tasks."""

    def send(self, type: str, **fields: Any) -> Any:  # noqa: A002 - Celery's name
        if not type.startswith("task-"):
            return super().send(type, **fields)
        if self.enabled and not (self.groups and "task" not in self.groups):
            outbox_of(self.app).add(self.hostname, type, [fields])
        return None

    def close(self) -> None:
        outbox_of(self.app).publish()
        super().close()


def shown(message: Message, link: Link) -> str:
    """Arguments as monitors show them. Celery's repr of them costs more than the whole message."""
    prefix = f"{message.name}: " if message.name else ""
    return f"{prefix}node {message.node}, operation {message.operation}, step {link.position}"


def announce(application: Celery, message: Message, queue: str) -> None:
    """Send `task-sent` for each link of a new chain, if task events are on."""
    if not application.conf.worker_send_task_events:
        return
    root = message.root or message.links[0].task
    parents = (None, *(link.task for link in message.links))
    outbox_of(application).add(
        f"ingot@{socket.gethostname()}",
        "task-sent",
        [
            {
                "uuid": link.task, "name": link.label, "args": shown(message, link), "kwargs": "",
                "root_id": root, "parent_id": parent, "retries": 0, "eta": None, "expires": None,
                "queue": queue, "exchange": "", "routing_key": queue,
            }
            for link, parent in zip(message.links, parents, strict=False)
        ],
    )  # fmt: skip


def withdraw(application: Celery, conductor: str, links: Sequence[Link]) -> None:
    """Send `task-revoked` for links that a conductor does not run, if task events are on."""
    if links and application.conf.worker_send_task_events:
        outcome = {"terminated": False, "signum": None, "expired": False}
        events = [{"uuid": link.task, **outcome} for link in links]
        outbox_of(application).add(f"conductor@{conductor}", "task-revoked", events)
