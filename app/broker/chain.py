"""
Chains: an operation on its way to its conductor, one Celery task per step.

On the wire this is what `celery.chain` sends: each message carries the rest of its chain, and any
Celery worker or monitor can read it. Links are put together and published here because Celery's
canvas needs three times the processor time for the same bytes: it builds, freezes and routes a
signature for each link.
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
#: What each message carries beside its arguments. In any release those of RUN begin with the node
#: and the operation; others are added behind.
HEADERS = {"ingot_version": release.NEEDED}


def publish(application: Celery, message: Message, queue: str | Queue, timeout: float) -> None:
    """
    Publish the first link of a chain with the rest of the chain in it.

    queue: that of the conductor, declared where it is a Queue. timeout: seconds for the broker to
    confirm. Raises one of `app.broker.queue.FAILURES`.
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
    The message that a task was called with, the links after it included.

    request: of the task; its chain is taken from it, so that Celery publishes none of it.
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
    """The arguments as monitors show them; Celery's own take longer than the rest of a message."""
    return f"node {message.node}, operation {message.operation}, step {link.position}"


def _signature(message: Message, link: Link, queue: str) -> Mapping[str, Any]:
    """A later link, as Celery writes the signature of a task."""
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
