"""
Chains of Celery tasks: the messages of an operation, one task per step.

The wire format is that of `celery.chain`: each message carries the rest of its chain, and any
Celery worker or monitor can read it. Messages are built and published here because Celery's canvas
builds, freezes and routes a signature for each link, which takes three times the processor time.
"""

import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from celery import Celery
from kombu import Queue

from app.broker import monitoring
from app.broker.messages import Link, Message
from app.process import release

#: The task that runs one step.
RUN = "ingot.run"
#: Header with the name of the node, for monitors.
NODE_NAME = "ingot_node"
#: Headers of each message. Arguments of RUN start with node and operation in every release; a
#: release may add arguments at the end.
HEADERS = {"ingot_version": release.NEEDED}
_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
#: Fences and positions are below this number, the limit of their columns.
_MOST = 1 << 31
#: Characters of the name of a node.
LONGEST_NAME = 255


def publish(application: Celery, message: Message, queue: str | Queue, timeout: float) -> None:
    """
    Publish the first link of a chain; its message contains the other links.

    `queue` is the conductor's; a Queue is declared first. `timeout` is the time in seconds for the
    broker to confirm the message.

    Raises one of `app.broker.breakers.FAILURES`.
    """
    name = queue if isinstance(queue, str) else queue.name
    first_link, *later_links = message.links
    task = application.amqp.as_task_v2(
        first_link.task,
        RUN,
        args=_arguments(message, first_link),
        shadow=first_link.label,
        root_id=message.root,
        parent_id=message.parent,
        chain=[_signature(message, link, name) for link in reversed(later_links)] or None,
        argsrepr=monitoring.shown(message, first_link),
        kwargsrepr="",
        origin=_origin(),
        ignore_result=True,
    )
    with application.producer_pool.acquire(block=True) as producer:
        producer.publish(
            orjson.dumps(task.body),
            exchange="",
            routing_key=name,
            content_type="application/json",
            content_encoding="utf-8",
            headers=task.headers | _headers(message),
            declare=[] if isinstance(queue, str) else [queue],
            confirm_timeout=timeout,
            **task.properties,
        )
    if message.parent is None:
        monitoring.announce(application, message, name)


class Malformed(Exception):
    """A part of a message, which the text names, has no form that a release of Ingot sends."""


def operation_of(arguments: Sequence[object]) -> str:
    """
    Return the operation's UUID in a message of any release.

    Raises Malformed.
    """
    operation = arguments[1] if len(arguments) > 1 else None
    if not _is_name(operation):
        raise Malformed("the identifier of an operation")
    return str(operation)


def received(conductor: str, request: Any, arguments: Sequence[Any]) -> Message:
    """
    Return the message of a running task, with the later links of its chain.

    Removes the chain and all callbacks from `request`, so that Celery publishes nothing itself.
    Raises Malformed.
    """
    request.callbacks = request.errbacks = None
    request.chain, chain = None, request.chain
    try:
        name = (request.headers or {}).get(NODE_NAME)
        node, operation, fence, cursor = arguments[:4]
        links = [Link(request.id, cursor, request.shadow or "")]
        for signature in reversed(chain or ()):
            options = signature["options"]
            links.append(Link(options["task_id"], signature["args"][3], options["shadow"]))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Malformed(f"arguments or chain ({type(error).__name__})") from None
    names = (node, operation, request.root_id, request.parent_id, *(link.task for link in links))
    if not all(name is None or _is_name(name) for name in names) or None in (node, operation):
        raise Malformed("the identifier of a node, an operation or a task")
    if not all(_is_number(number) for number in (fence, *(link.position for link in links))):
        raise Malformed("fence or position")
    if not all(isinstance(link.label, str) for link in links):
        raise Malformed("label of a step")
    if name is not None and not (isinstance(name, str) and len(name) <= LONGEST_NAME):
        raise Malformed("the name of a node")
    return Message(
        conductor, node, operation, fence, tuple(links), request.root_id, request.parent_id, name
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _arguments(message: Message, link: Link) -> list[object]:
    return [message.node, message.operation, message.fence, link.position]


def _headers(message: Message) -> dict[str, Any]:
    return HEADERS if message.name is None else {**HEADERS, NODE_NAME: message.name}


def _signature(message: Message, link: Link, queue: str) -> Mapping[str, object]:
    """A later link of a chain in Celery's format of a task signature."""
    return {
        "task": RUN,
        "args": _arguments(message, link),
        "kwargs": {},
        "options": {
            "queue": queue,
            "shadow": link.label,
            "headers": _headers(message),
            "argsrepr": monitoring.shown(message, link),
            "kwargsrepr": "",
            "task_id": link.task,
        },
        "subtask_type": None,
        "immutable": True,
    }


def _origin() -> str:
    return f"{os.getpid()}@{socket.gethostname()}"
