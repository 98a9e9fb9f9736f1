"""
What Flower shows: each step of a run as a task of its own, by its name.

A run is one Celery task, so Celery tells of it alone. These are the events that Celery would send
if each step were a task of a chain; as its own, they are only sent when somebody has asked for them
(`[broker]events`, or `enable_events` by Celery's remote control).
"""

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from celery.app.task import Context
from celery.apps.worker import Worker

from drivers.steps import Failed, Outcome
from workers.attempts import Show, unseen


def shows(worker: Worker, request: Context) -> Show:
    """What tells Flower of the steps that one run, the task `request`, consists of."""
    dispatcher = worker.consumer.event_dispatcher
    if dispatcher is None or not dispatcher.enabled:
        return unseen

    def show(label: str) -> Callable[[Outcome | None], None]:
        uuid, began = str(uuid4()), time.monotonic()

        def send(event: str, **facts: Any) -> None:
            dispatcher.send(f"task-{event}", uuid=uuid, **facts)

        def ended(outcome: Outcome | None) -> None:
            if isinstance(outcome, Failed):
                send("failed", exception=outcome.reason, traceback="")
                return
            came_to = "no longer ours" if outcome is None else type(outcome).__name__
            send("succeeded", result=came_to, runtime=time.monotonic() - began)

        send(
            "received", name=label, args=request.argsrepr, kwargs="", root_id=request.id,
            parent_id=request.id, retries=0, eta=None, expires=None,
        )  # fmt: skip
        send("started")
        return ended

    return show
