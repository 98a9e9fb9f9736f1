"""
The way to the workers: how Celery is set up, and the one function that sends to it.

A message is a hint. It may be lost, come twice or late: what it says is checked against the
operation's row before anything is done.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import orjson
import redis
from amqp.exceptions import AMQPError
from celery import Celery
from celery.app.amqp import AMQP
from kombu import Connection, Exchange, Queue
from kombu.exceptions import KombuError, OperationalError
from kombu.transport import virtual

from app.broker import chain
from app.broker.chain import HEADERS
from app.broker.redis_broker import KEEPALIVE, OUTAGE, client
from app.config.settings import Settings
from app.errors import Unavailable
from app.kit.reach import Reach
from app.runtime import Call, Message

#: Answers one question, in a process that never waits for steps.
ASK = "ingot.ask"
#: Periodic work that any conductor may do, and that of one conductor.
SHARED_QUEUE = "conductor.now"
#: What is raised when the broker does not take or give a message, whichever it is.
FAILURES = (KombuError, redis.RedisError, AMQPError, OSError)
#: Seconds in which a connection fails that was closed while nobody used it.
STALE = 0.5
#: Seconds between signs of life on a connection to the broker.
HEARTBEAT = 10
#: Milliseconds after which RabbitMQ drops a queue that no conductor listens to.
QUEUE_LIFETIME = 24 * 3600 * 1000


def version_of(request: Any) -> int:
    """What a message needs its receiver to understand; request: of a task that is run."""
    return int((request.headers or {}).get("ingot_version", 0))


def queue_of(conductor: str) -> str:
    """The queue of a conductor's steps."""
    return f"conductor.{conductor}"


def now_queue_of(conductor: str) -> str:
    """The queue of a conductor's periodic work and questions."""
    return f"conductor.{conductor}.now"


def celery(settings: Settings) -> Celery:
    """A Celery application for this process; call it after the last fork."""
    # what a worker that ends had taken is sent again by the reconciler; put back by Kombu, it would
    # be written to a file that nobody reads where Redis is just out of reach
    virtual.Channel.do_restore = False
    url = settings.broker.messages_url or settings.broker.url
    application = Celery("ingot", broker=url, amqp=_Amqp, set_as_current=True)
    application.conf.update(
        accept_content=["json"],
        broker_channel_error_retry=True,  # a Redis that only reads, or is full, will be well again
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=settings.broker.connect_timeout,
        broker_transport_options=_transport_options(url, settings.broker.connect_timeout),
        broker_heartbeat=HEARTBEAT if _is_amqp(url) else 0,
        enable_utc=True,
        task_acks_late=True,  # a worker takes no more messages than it has threads
        task_create_missing_queues=True,
        task_ignore_result=True,
        task_publish_retry=False,  # see `send_task`
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


def _is_amqp(url: str) -> bool:
    return url.startswith("amqp")


def _transport_options(url: str, seconds: float) -> dict[str, Any]:
    """How a connection behaves whose other end does not; seconds: to connect, or to be answered."""
    if _is_amqp(url):
        return {"confirm_publish": True, "max_retries": 0, "socket_settings": KEEPALIVE}
    alive = {"socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
    return {
        # what a dead worker had taken is sent again by the reconciler: no need to note it in
        # Redis, which is half of what a message costs
        "ack_emulation": False,
        "max_retries": 0,
        "socket_connect_timeout": seconds,
        "socket_timeout": seconds,
        # who waits for a message gives up a connection that has been silent for twice as long
        "health_check_interval": max(seconds, 1.0),
        **({} if url.startswith("redis+socket") else alive),
    }


class _Connection(Connection):  # type: ignore[misc]
    """A connection that comes back soon after the broker has, however long that was away."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        soon = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 3}
        return super().ensure_connection(*args, **soon | options)


class _Amqp(AMQP):  # type: ignore[misc]
    Connection = _Connection


def addressed(application: Celery, queue: str) -> str | Queue:
    """
    A queue by its name, as who sends to it or listens to it has to name it.

    Those in RabbitMQ last, but not for ever without a conductor; in Redis there is nothing to say.
    """
    if not _is_amqp(application.conf.broker_url):
        return queue
    lifetime = {"x-expires": QUEUE_LIFETIME}
    return Queue(queue, Exchange(""), routing_key=queue, queue_arguments=lifetime)


def sender(application: Celery) -> Callable[[Message | Call], bool]:
    """
    A function that sends a message to its conductor, or a call to any.

    It returns False, and raises nothing, when the broker does not take them: the reconciler, or
    whoever looks after what is called, will send them again.
    """
    reach = Reach(OUTAGE, FAILURES, OperationalError)

    def run(message: Message) -> None:
        queue = addressed(application, queue_of(message.conductor))
        timeout = application.conf.broker_connection_timeout
        _once_more_if_stale(lambda: chain.publish(application, message, queue, timeout))

    def call(message: Call) -> None:
        send_task(
            application,
            message.task,
            tuple(message.arguments),
            SHARED_QUEUE,
            countdown=message.delay or None,
            expires=message.expires,
        )

    def send(message: Message | Call) -> bool:
        try:
            with reach.trying():
                call(message) if isinstance(message, Call) else run(message)
        except FAILURES:
            return False
        return True

    return send


def send_task(
    application: Celery, task: str, args: tuple[Any, ...], queue: str, **options: Any
) -> None:
    """
    Send, once more if the connection was closed while nobody used it. Raises one of FAILURES.

    It takes `[broker]connect_timeout` seconds at most to connect, and as many to be answered.
    """
    timeout = application.conf.broker_connection_timeout
    options |= {"headers": dict(HEADERS), "confirm_timeout": timeout}
    destination = addressed(application, queue)
    _once_more_if_stale(
        lambda: application.send_task(task, args=args, queue=destination, **options)
    )


def _once_more_if_stale(publish: Callable[[], object]) -> None:
    """Publish; repeat it at once after a failure as quick as that of a stale connection."""
    begun = time.monotonic()
    try:
        publish()
    except FAILURES:
        if time.monotonic() - begun > STALE:
            raise
        publish()


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
        self._reach = Reach(OUTAGE, FAILURES, OperationalError)

    def post(self, conductor: str, key: str, question: Mapping[str, Any], seconds: float) -> None:
        with self._reaching():
            self._client.set(self._question(key), orjson.dumps(question), px=int(seconds * 1000))
            hint = (key, question["node"])
            send_task(self._application, ASK, hint, now_queue_of(conductor), expires=seconds)

    def receive(self, key: str, seconds: float) -> Mapping[str, Any] | None:
        with self._reaching():
            found = self._client.blpop([self._answer(key)], timeout=seconds)
        return cast("Mapping[str, Any]", orjson.loads(found[1])) if found else None

    def withdraw(self, key: str) -> bool:
        with self._reaching():
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
    def _reaching(self) -> Iterator[None]:
        try:
            with self._reach.trying():
                yield
        except FAILURES as error:
            raise Unavailable("The message broker is out of reach, please retry.") from error
