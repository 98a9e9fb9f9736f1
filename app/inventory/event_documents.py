"""
Events of BMCs, read from documents of DSP0266. Of metric reports nothing is read.

A document is hostile: it may be any JSON. An event is a hint which facts to read from the BMC, and
a text for the history of its node; nothing in it is believed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from app.text.sentences import harmless

#: Most events of a document that are read.
MOST = 20
#: Most characters of a message, an id and a path.
_LONGEST_MESSAGE, _LONGEST_NAME = 300, 120
#: Facts that can be read -> words in an event that tell of a change; BMCs have registries of their
#: own, so a word that fits by chance costs a read.
_WORDS: Mapping[str, re.Pattern[str]] = {
    "power": re.compile(r"(?i)power|SYS100\d|\breset|restart|shut ?down|turn(ed|ing) o(n|ff)"),
    "sensors": re.compile(r"(?i)sensor|temperature|thermal|\bfans?\b|/fan|voltage|threshold|psu"),
}
#: Severities of events that are entries of the history.
ALERTS = ("Warning", "Critical")


@dataclass(frozen=True, slots=True)
class Event:
    """An event, with printable texts of limited length."""

    severity: str  # OK, Warning or Critical; "": none of them
    message_id: str
    message: str
    origin: str  # path of the resource; "": unknown
    hints: frozenset[str]  # keys of `_WORDS`

    @property
    def is_alert(self) -> bool:
        return self.severity in ALERTS

    @property
    def key(self) -> str:
        """Identity of an alert; its message may have a reading that changes."""
        return f"({self.message_id or 'no MessageId'} of {self.origin or 'no resource'})"

    @property
    def text(self) -> str:
        return f"The BMC reports {self.severity}: {self.message or 'no message'} {self.key}"


def events_in(body: bytes) -> list[Event] | None:
    """Return the events in a body; None if it has no JSON object with a list of them."""
    try:
        document = orjson.loads(body)
    except ValueError:
        return None
    items = document.get("Events") if isinstance(document, dict) else None
    if not isinstance(items, list):
        return [] if isinstance(document, dict) and "MetricValues" in document else None
    return [_event(item) for item in items[:MOST] if isinstance(item, dict)]


def _event(item: Mapping[str, object]) -> Event:
    severity = item.get("MessageSeverity") or item.get("Severity")
    origin = item.get("OriginOfCondition")
    if isinstance(origin, dict):
        origin = origin.get("@odata.id")
    message_id = _text(item.get("MessageId"), _LONGEST_NAME)
    message = _text(item.get("Message"), _LONGEST_MESSAGE).rstrip(".")
    path = _text(origin, _LONGEST_NAME)
    return Event(
        severity if isinstance(severity, str) and severity in ("OK", *ALERTS) else "",
        message_id,
        message,
        path,
        frozenset(_hints(f"{message_id} {message} {path}")),
    )


def _hints(words: str) -> Iterator[str]:
    return (fact for fact, pattern in _WORDS.items() if pattern.search(words))


def _text(value: object, longest: int) -> str:
    """Return a text on one line; "" for other values. Lone surrogates cannot be stored."""
    if not isinstance(value, str):
        return ""
    return " ".join(harmless(value[:longest]).split())
