"""
The way to the workers: how Celery is set up, and the one function that sends to it.

A message is a hint. It may be lost, come twice or late: what it says is checked against the
operation's row before anything is done.
"""

from collections.abc import Callable

from celery import Celery, chain, signature
from kombu.exceptions import OperationalError

from app import log
from app.runtime import Message
from app.settings import Settings

logger = log.get(__name__)

STEP = "ingot.step"
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
            # recovery is the reconciler's; this only bounds how long rubbish lies about
            "visibility_timeout": 3600,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
            "socket_connect_timeout": seconds,
            "socket_timeout": max(seconds, 10.0),
            "socket_keepalive": not settings.broker.url.startswith("redis+socket"),
        },
        broker_heartbeat=0,
        enable_utc=True,
        task_acks_late=True,
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


def sender(application: Celery) -> Callable[[Message], bool]:
    """
    A function that sends an operation's steps as a chain, one task per step.

    It returns False, and raises nothing, when the broker does not take them: the reconciler will
    send them again.
    """

    def send(message: Message) -> bool:
        queue = queue_of(message.conductor)
        last = message.cursor + len(message.labels) - 1
        steps = [
            signature(
                STEP,
                kwargs={
                    "node": message.node,
                    "operation": message.operation,
                    "fence": message.fence,
                    "cursor": cursor,
                    "last": cursor == last,
                },
                immutable=True,
                app=application,
            ).set(queue=queue, shadow=label)
            for cursor, label in enumerate(message.labels, message.cursor)
        ]
        try:
            (chain(*steps, app=application) if len(steps) > 1 else steps[0]).apply_async()
        except (OperationalError, OSError) as error:
            logger.warning("broker.unreachable", detail=str(error))
            return False
        return True

    return send
