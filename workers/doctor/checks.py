"""
Types of the doctor's checks: a check, its findings, and the installation that it examines.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import redis
from celery import Celery

from app.config.settings import Settings
from app.reports import stalled_operations
from app.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Installation:
    runtime: Runtime
    broker: redis.Redis | None  # None: Redis is stopped or unreachable
    messages: Celery | None  # None: Redis is stopped or unreachable

    @property
    def grace(self) -> float:
        """Seconds after which the service itself should have repaired a finding."""
        return stalled_operations.grace(self.runtime.settings)


@dataclass(frozen=True, slots=True)
class Finding:
    subject: str  # such as "node UUID"; identifies the finding within its check
    explanation: str  # the problem, and the operator's action if there is no repair
    key: Any = None  # the repair's reference to the subject


Find = Callable[[Installation], Iterable[Finding]]
Repair = Callable[[Installation, Finding], None]


@dataclass(frozen=True, slots=True)
class Check:
    """A kind of inconsistency."""

    name: str
    find: Find
    #: Repairs one finding if it still exists; without it, an operator must. Changes rows, Redis
    #: keys and files, never machines.
    repair: Repair | None = None
    rows: bool = True  # the check needs the database
    broker: bool = False  # the check needs Redis
    remote_control: bool = False  # the check needs `[broker]remote_control`

    def applies(self, settings: Settings) -> bool:
        """Whether the check can be made with these settings."""
        broker = settings.broker
        return (bool(broker.url) or not self.broker) and (
            broker.remote_control or not self.remote_control
        )
