"""
Prefetch count of a conductor whose connection to RabbitMQ has broken while steps run.

Celery would lower the count, and raise it again from each thread whose step ends. For that it sends
a command on the consumer's connection and reads the answer. Any other data that this thread reads
is lost to the consumer, which then waits for ever and takes no message.
"""

from types import SimpleNamespace

import pytest
from celery.concurrency.thread import TaskPool
from celery.worker import state
from celery.worker.consumer import Consumer
from kombu.common import QoS

from app.broker import queue
from app.config import settings

THREADS = 4
AMQP = {"INGOT_BROKER_URL": "redis://unused", "INGOT_BROKER_MESSAGES_URL": "amqp://unused"}


class Request:
    """A message whose step runs."""


class Message:
    """A message that arrives."""

    def __init__(self):
        self.headers, self.acknowledged = {"task": "a-task"}, False

    def ack_log_error(self, *_):
        self.acknowledged = True

    reject_log_error = ack_log_error


@pytest.fixture
def consumer():
    """The consumer of a conductor, with steps that have just lost their connection."""
    application = queue.celery(settings.load(AMQP))
    pool = TaskPool(THREADS, app=application)
    worker = SimpleNamespace(use_eventloop=True, semaphore=None)
    instance = Consumer(
        print, app=application, pool=pool, controller=worker, initial_prefetch_count=THREADS
    )
    instance.restart_count = 1  # it has been connected before
    instance.connection = SimpleNamespace(collect=lambda **_: None, close=lambda: None)
    steps = [Request() for _ in range(THREADS - 1)]
    state.active_requests.update(steps)
    yield instance
    state.active_requests.difference_update(steps)
    application.close()


@pytest.mark.filterwarnings("ignore::celery.worker.consumer.consumer.CPendingDeprecationWarning")
def test_the_end_of_a_step_sends_no_command_on_the_connection_of_the_consumer(consumer):
    consumer.on_connection_error_after_connected(OSError("gone"))
    counts, acknowledgements = [], []
    consumer.qos = QoS(lambda **count: counts.append(count), consumer.initial_prefetch_count)
    consumer.strategies["a-task"] = lambda _message, _body, acknowledge, *_: (
        acknowledgements.append(acknowledge)
    )
    messages = [Message() for _ in range(THREADS)]
    for message in messages:
        consumer.create_task_handler()(message)
    for acknowledge in acknowledgements:
        acknowledge()  # a thread of steps does, when its step has ended
    assert all(message.acknowledged for message in messages)
    assert [] == counts
    assert THREADS == consumer.initial_prefetch_count, "all threads get work again"
