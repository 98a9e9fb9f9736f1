"""
Health: whether the parts that nothing can be done without are at work.
"""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.kit import conductors
from app.models import Conductor
from app.runtime import of

OK = "OK"


@dataclass(frozen=True, slots=True)
class Part:
    """reason: OK, or what is wrong in a few words. details: for people."""

    part: str
    reason: str
    details: str

    @property
    def well(self) -> bool:
        return self.reason == OK


def examine(session: Session) -> list[Part]:
    """Database, conductors and beat; numbers instead of names, as anybody may ask."""
    timeout = of(session).settings.conductor.heartbeat_timeout
    known = session.scalar(select(func.count()).select_from(Conductor)) or 0
    alive, lost = len(conductors.alive(session, timeout)), len(conductors.lost(session, timeout))
    leads = conductors.beat_leads(session)
    return [
        Part("database", OK, "it answers"),
        Part(
            "conductors",
            OK if alive else "no conductor is alive",
            f"{alive} of {known} alive, {lost} without a sign of life",
        ),
        Part("beat", OK if leads else "no beat leads", "it is the clock of periodic work"),
    ]
