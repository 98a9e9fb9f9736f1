"""Times on a command line, and lists of the items since one."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document

#: Unit of a duration -> its seconds.
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
FORMS = "8h, 30m, 2d, today, yesterday, 2026-01-31 or 2026-01-31T12:00:00Z"

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help=f"Only those since then: {FORMS}; in UTC"),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only those before then")
]


def seconds_of(option: str, text: str) -> int:
    """Parse a duration, as 30m or 4h. Raises Usage."""
    match = re.fullmatch(rf"(\d{{1,5}})([{''.join(UNITS)}])", text.strip())
    if match is None:
        raise Usage(f"{option}: {text!r} is no duration, as 30m, 4h or 2d")
    return int(match[1]) * UNITS[match[2]]


def moment_of(option: str, text: str, *, now: datetime | None = None) -> datetime:
    """
    Parse a time: a duration before now, a word, a day or a time in ISO 8601; without a zone in UTC.

    now: by default by the clock of this host.

    Raises Usage.
    """
    now = now or datetime.now(UTC)
    word = text.strip().lower()
    if re.fullmatch(r"\d+[a-z]", word):
        return now - timedelta(seconds=seconds_of(option, word))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "yesterday"):
        return midnight - timedelta(days=word == "yesterday")
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Usage(f"{option}: {text!r} is no time, as {FORMS}") from error
    return _aware(instant)


def iso(option: str, text: str | None) -> str | None:
    """Return the time of an option as the API reads it. Raises Usage."""
    return text and moment_of(option, text).isoformat()


def recent(
    items: Iterable[Document], since: str | None, *, key: str = "created_at", in_order: bool = False
) -> Iterator[Document]:
    """
    Yield the items since a time.

    in_order: they are the newest first, and no page of older ones is read.

    Raises Usage.
    """
    if since is None:
        yield from items
        return
    begin = moment_of("--since", since)
    for item in items:
        if item[key] and instant_of(item[key]) >= begin:
            yield item
        elif in_order:
            return


def instant_of(text: str) -> datetime:
    """Parse a time of the API."""
    return _aware(datetime.fromisoformat(text))


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
