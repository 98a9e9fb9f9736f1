"""
Health of the service: database, conductors and beat, for `GET /healthcheck`.
"""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.kit import conductors
from app.models import Conductor
from app.runtime import runtime_of

OK = "OK"


@dataclass(frozen=True, slots=True)
class Part:
    """Health of one part of the service."""

    part: str  # its name
    reason: str  # OK, or the problem in a few words
    details: str  # a sentence for operators

    @property
    def is_healthy(self) -> bool:
        return self.reason == OK


def examine(session: Session) -> list[Part]:
    """Check database, conductors and beat. Without names: callers need no authentication."""
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    known = session.scalar(select(func.count()).select_from(Conductor)) or 0
    alive, lost = len(conductors.alive(session, timeout)), len(conductors.lost(session, timeout))
    leads = conductors.beat_leads(session)
    return [
        Part("database", OK, "it answers"),
        Part(
            "conductors",
            OK if alive else "no conductor is alive",
            f"{alive} of {known} alive, {lost} without a heartbeat",
        ),
        Part("beat", OK if leads else "no beat leads", "it schedules periodic tasks"),
    ]
