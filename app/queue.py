"""
The way to the workers: how Celery is set up, and the one function that sends to it.

A message is a hint. It may be lost, come twice or late: what it says is checked against the
operation's row before anything is done.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import orjson
import redis
from celery import Celery
from kombu.exceptions import OperationalError

from app import log
from app.broker import client
from app.errors import Unavailable
from app.runtime import Call, Message
from app.settings import Settings

logger = log.get(__name__)

#: Runs the steps of one operation, for as long as none of them has to wait.
RUN = "ingot.run"
#: Answers one question, in a process that never waits for steps.
ASK = "ingot.ask"
#: Periodic work that any conductor may do, and that of one conductor.
SHARED_QUEUE = "conductor.now"


def queue_of(conductor: str) -> str:
    """The queue of a conductor's steps."""
    return f"conductor.{conductor}"


def now_queue_of(conductor: str) -> str:
    """The queue of a conductor's periodic work and questions."""
    return f"conductor.{conductor}.now"


def celery(settings: Settings) -> Celery:
    """A Celery application for this process; call it after the last fork."""
    application = Celery("ingot", broker=settings.broker.url, set_as_current=True)
    seconds = settings.broker.connect_timeout
    application.conf.update(
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            # what a dead worker had taken is sent again by the reconciler: no need to note it in
            # Redis, which is half of what a message costs
            "ack_emulation": False,
            "socket_connect_timeout": seconds,
            "socket_timeout": max(seconds, 10.0),
            "socket_keepalive": not settings.broker.url.startswith("redis+socket"),
        },
        broker_heartbeat=0,
        enable_utc=True,
        task_acks_late=True,  # a worker takes no more messages than it has threads
        task_create_missing_queues=True,
        task_ignore_result=True,
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0.1},
        task_serializer="json",
        task_store_errors_even_if_ignored=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_disable_rate_limits=True,
        worker_enable_remote_control=True,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
        worker_send_task_events=settings.broker.events,
        task_send_sent_event=False,
    )
    return application


def sender(application: Celery) -> Callable[[Message | Call], bool]:
    """
    A function that sends a message to its conductor, or a call to any.

    It returns False, and raises nothing, when the broker does not take them: the reconciler, or
    whoever looks after what is called, will send them again.
    """

    def run(message: Message) -> None:
        hint = (message.node, message.operation, message.fence, message.cursor)
        shown = f"operation {message.operation} at {message.cursor}"
        application.send_task(
            RUN,
            args=hint,
            queue=queue_of(message.conductor),
            shadow=message.kind,
            argsrepr=shown,  # Celery's own takes longer than all the rest of the message
            kwargsrepr="",
        )

    def call(message: Call) -> None:
        application.send_task(
            message.task,
            args=tuple(message.arguments),
            queue=SHARED_QUEUE,
            countdown=message.delay or None,
        )

    def send(message: Message | Call) -> bool:
        try:
            call(message) if isinstance(message, Call) else run(message)
        except (OperationalError, OSError) as error:
            logger.warning("broker.unreachable", detail=str(error))
            return False
        return True

    return send


class Asks:
    """
    Questions to conductors over Redis (`app.runtime.Asks`), at the asking and the answering end.

    A message carries only a key. The question lies under the key until a conductor takes it, the
    asker takes it back, or its time is up: so it is begun once at most, however often its message
    comes. Redis out of reach raises Unavailable at the asking end.
    """

    def __init__(self, application: Celery, settings: Settings) -> None:
        self._application = application
        self._prefix = settings.broker.prefix
        self._client = client(settings.broker.url, max(settings.broker.connect_timeout, 5.0))

    def post(self, conductor: str, key: str, question: Mapping[str, Any], seconds: float) -> None:
        with _reaching():
            self._client.set(self._question(key), orjson.dumps(question), px=int(seconds * 1000))
            self._application.send_task(
                ASK, args=(key, question["node"]), queue=now_queue_of(conductor), expires=seconds
            )

    def receive(self, key: str, seconds: float) -> Mapping[str, Any] | None:
        with _reaching():
            found = self._client.blpop([self._answer(key)], timeout=seconds)
        return cast("Mapping[str, Any]", orjson.loads(found[1])) if found else None

    def withdraw(self, key: str) -> bool:
        with _reaching():
            return bool(self._client.delete(self._question(key)))

    def take(self, key: str) -> tuple[Mapping[str, Any], float] | None:
        """A question that nobody has begun, and the seconds that are left for it."""
        with self._client.pipeline(transaction=True) as pipeline:
            name = self._question(key)
            pipeline.get(name)
            pipeline.pttl(name)
            pipeline.delete(name)
            found, left, _ = pipeline.execute()
        return (orjson.loads(found), left / 1000) if found else None

    def answer(self, key: str, answer: Mapping[str, Any], seconds: float) -> None:
        """Give an answer; it is kept for as long as somebody may wait for it."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.rpush(self._answer(key), orjson.dumps(answer))
            pipeline.pexpire(self._answer(key), int(max(seconds, 1.0) * 1000))
            pipeline.execute()

    def _question(self, key: str) -> str:
        return f"{self._prefix}:question:{key}"

    def _answer(self, key: str) -> str:
        return f"{self._prefix}:answer:{key}"


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, OperationalError, OSError) as error:
        logger.warning("broker.unreachable", detail=str(error))
        raise Unavailable("The message broker is out of reach, please retry.") from error
