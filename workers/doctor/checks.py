"""
What the doctor looks for, one row for each check, and what it does about what it finds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import redis
from celery import Celery

from app.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Patient:
    """
    The service that is looked at. broker: None when there is none to be asked. messages: what
    carries messages, None likewise.
    """

    runtime: Runtime
    broker: redis.Redis | None
    messages: Celery | None

    @property
    def patience(self) -> float:
        """Seconds after which the service should have seen to it by itself."""
        settings = self.runtime.settings.conductor
        return 2 * settings.heartbeat_timeout + 2 * settings.reconcile_interval


@dataclass(frozen=True, slots=True)
class Finding:
    """
    subject: what it is about, in a word. explanation: what is wrong, and what to do where nothing
    is repaired. key: by which the repair finds it again.
    """

    subject: str
    explanation: str
    key: Any = None


Look = Callable[[Patient], Iterable[Finding]]
Repair = Callable[[Patient, Finding], None]


@dataclass(frozen=True, slots=True)
class Check:
    """
    looks: returns what is wrong. repair: sets right one finding, if it is still so; None: an
    operator must. It changes rows, hints and files, never machines. rows, broker: what has to be
    within reach to look.
    """

    name: str
    looks: Look
    repair: Repair | None = None
    rows: bool = True
    broker: bool = False
