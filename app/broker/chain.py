"""
Chains of Celery tasks: the messages of an operation, one task per step.

The wire format is that of `celery.chain`: each message carries the rest of its chain, and any
Celery worker or monitor can read it. Messages are built and published here because Celery's canvas
builds, freezes and routes a signature for each link, which takes three times the processor time.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from celery import Celery
from kombu import Queue

from app import release
from app.runtime import Link, Message

#: The task that runs one step.
RUN = "ingot.run"
#: Headers of each message. Arguments of RUN begin with node and operation in every release; a
#: release may add arguments at the end.
HEADERS = {"ingot_version": release.NEEDED}


def publish(application: Celery, message: Message, queue: str | Queue, timeout: float) -> None:
    """
    Publish the first link of a chain; its message contains the other links.

    `queue` is the conductor's; a Queue is declared first. `timeout` is the time in seconds for the
    broker to confirm the message.

    Raises one of `app.broker.queue.FAILURES`.
    """
    name = queue if isinstance(queue, str) else queue.name
    first, *rest = message.links
    task = application.amqp.as_task_v2(
        first.task,
        RUN,
        args=_arguments(message, first),
        shadow=first.label,
        root_id=message.root,
        parent_id=message.parent,
        chain=[_signature(message, link, name) for link in reversed(rest)] or None,
        argsrepr=_shown(message, first),
        kwargsrepr="",
        origin=_origin(),
        ignore_result=True,
    )
    with application.producer_pool.acquire(block=True) as producer:
        producer.publish(
            task.body,
            exchange="",
            routing_key=name,
            serializer="json",
            headers=task.headers | HEADERS,
            declare=[] if isinstance(queue, str) else [queue],
            confirm_timeout=timeout,
            **task.properties,
        )


def received(conductor: str, request: Any, arguments: Sequence[Any]) -> Message:
    """
    Return the message of a running task, with the later links of its chain.

    Removes the chain from `request`, so that Celery does not publish the next link itself.
    """
    node, operation, fence, cursor = arguments[:4]
    links = [Link(request.id, cursor, request.shadow or "")]
    for signature in reversed(request.chain or ()):
        options = signature["options"]
        links.append(Link(options["task_id"], signature["args"][3], options["shadow"]))
    request.chain = None
    return Message(
        conductor, node, operation, fence, tuple(links), request.root_id, request.parent_id
    )


def _arguments(message: Message, link: Link) -> list[Any]:
    return [message.node, message.operation, message.fence, link.position]


def _shown(message: Message, link: Link) -> str:
    """Arguments as monitors show them. Celery's repr of them costs more than the whole message."""
    return f"node {message.node}, operation {message.operation}, step {link.position}"


def _signature(message: Message, link: Link, queue: str) -> Mapping[str, Any]:
    """A later link of a chain in Celery's format of a task signature."""
    return {
        "task": RUN,
        "args": _arguments(message, link),
        "kwargs": {},
        "options": {
            "queue": queue,
            "shadow": link.label,
            "headers": HEADERS,
            "argsrepr": _shown(message, link),
            "kwargsrepr": "",
            "task_id": link.task,
        },
        "subtask_type": None,
        "immutable": True,
    }


def _origin() -> str:
    return f"{os.getpid()}@{socket.gethostname()}"
