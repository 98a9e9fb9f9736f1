"""
Celery configuration, and publishing to conductors.

A message is a hint: it may be lost, delayed or delivered twice. A conductor checks it against the
operation's row before it acts.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from kombu import Connection, Exchange, Queue
from kombu.transport import virtual

from app.broker import chain, monitoring, redis_transport
from app.broker.breakers import FAILURES, Breakers
from app.broker.chain import HEADERS
from app.broker.messages import Message, TaskMessage
from app.broker.redis_broker import KEEPALIVE
from app.config import redis_url
from app.config.settings import Settings
from app.metrics.table import MESSAGES
from app.process.before_fork import BuiltBeforeFork

#: `[broker]prefix` that is left out of the names of queues, as in earlier releases.
PLAIN = "ingot"
#: Seconds within which publishing fails on a connection that was closed while it was idle.
STALE = 0.5
#: Seconds between AMQP heartbeats on a connection to RabbitMQ.
HEARTBEAT = 10
#: Milliseconds after which RabbitMQ deletes a queue without a consumer.
QUEUE_LIFETIME = 24 * 3600 * 1000


# Kombu keeps the class of a transport from its first connection on.
redis_transport.register()


def version_of(request: Any) -> int:
    """
    Version that the receiver of a message must understand (`app.process.release`).

    Raises chain.Malformed.
    """
    try:
        return int((request.headers or {}).get("ingot_version", 0))
    except (AttributeError, TypeError, ValueError):
        raise chain.Malformed("version") from None


@dataclass(frozen=True, slots=True)
class Queues:
    """Names of the queues of a service; services with different prefixes may share a broker."""

    prefix: str  # `[broker]prefix`

    def steps(self, conductor: str) -> str:
        """Return the name of the queue of a conductor's steps."""
        return self.named(f"conductor.{conductor}")

    def now(self, conductor: str) -> str:
        """Return the name of a control process's queue, for its periodic work and calls."""
        return self.named(f"conductor.{conductor}.now")

    @property
    def shared(self) -> str:
        """The queue of periodic work that any conductor may do."""
        return self.named("conductor.now")

    @property
    def deadlines(self) -> str:
        """Key of Kombu in Redis with the ends of temporary bindings."""
        key = "_kombu.binding_deadlines"
        return key if self.prefix == PLAIN else f"{key}.{self.prefix}"

    def named(self, name: str) -> str:
        """Return the name of a queue or an exchange with the prefix of this service."""
        return name if self.prefix == PLAIN else f"{self.prefix}.{name}"


def queues_of(application: Celery) -> Queues:
    """Return the names of the queues of an application that `celery` created."""
    queues: Queues = application.conf.ingot_queues
    return queues


@BuiltBeforeFork
def celery(settings: Settings) -> Celery:
    """Create the Celery application of a process; it connects to the broker when it is used."""
    # The reconciler dispatches the unacknowledged messages of a worker that ends. Kombu would write
    # them to a file that no process reads if Redis is out of reach.
    virtual.Channel.do_restore = False
    url, options = _transport(settings)
    application = Celery("ingot", broker=url, amqp=_Amqp, set_as_current=True)
    queues = Queues(settings.broker.prefix)
    application.conf.update(
        ingot_queues=queues,
        # unused, but Kombu binds it in Redis
        task_default_queue=queues.named("celery"),
        task_default_exchange=queues.named("celery"),
        task_default_routing_key=queues.named("celery"),
        # of remote control and of events
        control_exchange=queues.named("celery"),
        event_exchange=queues.named("celeryev"),
        event_queue_prefix=queues.named("celeryev"),
        accept_content=["json"],
        broker_channel_error_retry=True,  # a read-only or full Redis recovers
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=settings.broker.connect_timeout,
        broker_transport_options=options,
        broker_heartbeat=HEARTBEAT if _is_amqp(url) else 0,
        enable_utc=True,
        task_acks_late=True,  # with a prefetch of 1: no more messages than the worker has threads
        task_create_missing_queues=True,
        task_ignore_result=True,
        task_publish_retry=False,  # see `send_task`
        task_serializer="json",
        result_backend_thread_safe=True,  # there is none
        task_store_errors_even_if_ignored=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_disable_rate_limits=True,
        # After a reconnection to RabbitMQ, Celery would restore the count in the threads of steps.
        # They read from the consumer's connection for it, and the consumer could then wait for an
        # answer that another thread has read, and take no messages
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=settings.broker.remote_control,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
        worker_send_task_events=settings.broker.events,
        task_send_sent_event=False,
    )
    application.events.dispatcher_cls = monitoring.Dispatcher
    application.breakers = Breakers(settings.broker)
    application.outbox = monitoring.Outbox(application)
    application.finalize()
    _ = application.backend  # Celery reads the entry points of all packages for it
    for name in [task_name for task_name in application.tasks if task_name.startswith("celery.")]:
        application.tasks.unregister(name)  # they run or send any task that a message names
    return application


def _is_amqp(url: str) -> bool:
    return url.startswith("amqp")


def _transport(settings: Settings) -> tuple[str, dict[str, object]]:
    """Return the URL of the broker of messages for Kombu, and the options of its transport."""
    seconds = settings.broker.connect_timeout  # to connect, and for an answer
    if settings.broker.messages_url:
        options = {"confirm_publish": True, "max_retries": 0, "socket_settings": KEEPALIVE}
        return settings.broker.messages_url, options
    if not settings.broker.url:  # of a stopped service
        return "", {}
    address = redis_url.parse(settings.broker.url)
    options = {
        # the reconciler dispatches the messages of a dead worker; keeping unacknowledged messages
        # in Redis would double the cost of a message
        "ack_emulation": False,
        "max_retries": 0,
        "socket_connect_timeout": seconds,
        "socket_timeout": seconds,
        # a consumer closes a connection that was silent for twice this time
        "health_check_interval": max(seconds, 1.0),
        redis_transport.DEADLINES: Queues(settings.broker.prefix).deadlines,
    }
    if address.scheme != "redis+socket":
        options |= {"socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
    if address.scheme == "sentinel":
        sentinels = address.sentinel_options(seconds)
        options |= {"master_name": address.master, "sentinel_kwargs": sentinels}
    return address.for_kombu, options


class _Connection(Connection):  # type: ignore[misc]
    """A connection that retries every second, even after a long outage."""

    def ensure_connection(self, *args: object, **options: object) -> object:
        intervals = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 1}
        return super().ensure_connection(*args, **intervals | options)


class _Amqp(AMQP):  # type: ignore[misc]
    Connection = _Connection


def queue_for(application: Celery, queue: str) -> str | Queue:
    """
    Return the queue of this name in the form that producers and consumers pass to Celery.

    RabbitMQ needs a declaration: a durable queue that expires without a consumer. Redis needs the
    name only.
    """
    if not _is_amqp(application.conf.broker_url):
        return queue
    lifetime = {"x-expires": QUEUE_LIFETIME}
    return Queue(queue, Exchange(""), routing_key=queue, queue_arguments=lifetime)


def sender(application: Celery) -> Callable[[Message | TaskMessage], bool]:
    """
    Return a function that sends a message to its conductor, or a `TaskMessage` to any conductor.

    The function returns False if the broker does not accept the message, and raises nothing: the
    reconciler, or the periodic task that belongs to the task, sends it again. That also repeats a
    delayed message that is lost with this process.
    """
    reach = application.breakers.of_messages()
    queues = queues_of(application)

    def send_link(message: Message) -> None:
        queue = queue_for(application, queues.steps(message.conductor))
        timeout = application.conf.broker_connection_timeout
        _retry_if_stale(lambda: chain.publish(application, message, queue, timeout))

    def send_task_message(message: TaskMessage) -> None:
        send_task(
            application,
            message.task,
            tuple(message.arguments),
            queues.shared,
        )

    def send(message: Message | TaskMessage) -> bool:
        if isinstance(message, TaskMessage) and message.delay:
            # here, as a time in the message would be compared with another host's clock
            timer = threading.Timer(message.delay, send, (replace(message, delay=0),))
            timer.daemon = True
            timer.start()
            return True
        try:
            with reach.guard():
                send_task_message(message) if isinstance(message, TaskMessage) else send_link(
                    message
                )
        except FAILURES:
            MESSAGES.add("not_sent")
            return False
        MESSAGES.add("sent")
        return True

    return send


def send_task(
    application: Celery, task: str, args: tuple[Any, ...], queue: str, **options: object
) -> None:
    """
    Send a task; retry once if the connection had been closed while it was idle.

    Takes at most `[broker]connect_timeout` seconds to connect, and as many for the answer.

    Raises one of FAILURES.
    """
    timeout = application.conf.broker_connection_timeout
    options |= {"headers": dict(HEADERS), "confirm_timeout": timeout}
    destination = queue_for(application, queue)
    _retry_if_stale(lambda: application.send_task(task, args=args, queue=destination, **options))


def _retry_if_stale(publish: Callable[[], object]) -> None:
    """Publish; retry at once after a failure within STALE seconds, that of an idle connection."""
    start = time.monotonic()
    try:
        publish()
    except FAILURES:
        if time.monotonic() - start > STALE:
            raise
        publish()
