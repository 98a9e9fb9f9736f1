"""
Maintenance windows: the times at which a rollout may start nodes.

A window opens at each time of a cron expression in a time zone, and is open for a duration of
elapsed time. Times are compared with the database's clock, which is in UTC. At changes of the
clocks, windows open as jobs of Debian's cron begin: an expression with a fixed minute and hour has
one time a day, which is the end of a gap if its own time is skipped, and the first of two equal
ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

#: Fields of an expression: minute, hour, day of the month, month, day of the week.
FIELDS = 5
#: Most minutes of a window: a week.
LONGEST = 7 * 1440
#: Openings that are remembered: each is computed once a minute.
REMEMBERED = 1024
_ANY_TIME = datetime(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class Window:
    """Repeated times: those of a cron expression in a time zone, and the minutes after each."""

    cron: str
    zone: str
    minutes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A rollout that may start no node. until: naive UTC; None: as far as is known, for ever."""

    until: datetime | None


@cache
def zones() -> frozenset[str]:
    """Return the names of the time zones that this host knows."""
    return frozenset(available_timezones())


def ever_opens(window: Window) -> bool:
    """
    Return whether a window opens in fifty years; the days of a year repeat after at most 40.

    Raises ValueError: its expression is wrong; the message names the field.
    """
    if len(window.cron.split()) != FIELDS:
        raise ValueError(f"it has {FIELDS} fields, as 0 22 * * MON-FRI")
    try:
        return _opening(window, _ANY_TIME) is not None
    except CronSimError as error:
        raise ValueError(str(error)) from error


def waiting(strategy: Mapping[str, Any], time: datetime) -> Waiting | None:
    """
    Return the wait of a rollout for its windows; None: it may start nodes.

    strategy: `app.rollouts.rollout_plan.Strategy` as a document. time: of the database.
    """
    begin, not_before = time, strategy.get("not_before")
    if not_before is not None:
        begin = max(begin, datetime.fromisoformat(not_before))
    windows = [Window(**window) for window in strategy.get("windows") or ()]
    if windows:
        openings = [opening for window in windows if (opening := _next(window, begin)) is not None]
        if not openings:
            return Waiting(None)
        begin = max(begin, min(openings))
    return Waiting(begin) if begin > time else None


def _next(window: Window, time: datetime) -> datetime | None:
    """
    Return the time of the next opening, which is not after `time` if the window is open.

    None: it opens no more, or this host does not know its time zone or the form of its expression.
    """
    try:
        return _opening(window, _minute(time))
    except (CronSimError, ZoneInfoNotFoundError):
        return None


def _minute(time: datetime) -> datetime:
    """Return the begin of a minute: windows open and close at no other time."""
    return time.replace(second=0, microsecond=0)


@lru_cache(REMEMBERED)
def _opening(window: Window, minute: datetime) -> datetime | None:
    """Return the first opening whose window is not over at a minute. Raises CronSimError."""
    earliest = minute.replace(tzinfo=UTC) - timedelta(minutes=window.minutes)
    for local_time in CronSim(window.cron, earliest.astimezone(ZoneInfo(window.zone))):
        opening = local_time.astimezone(UTC)
        if opening > earliest:  # in the second of two equal hours, the first one is repeated
            return opening.replace(tzinfo=None)
    return None
