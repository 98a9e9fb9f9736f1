"""The one caller who may type at a console, of all who watch it."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: Seconds after which a writer that does not claim again loses its place.
WRITER_TIME = 15.0
#: Most holders whose last number is remembered.
REMEMBERED = 256


@dataclass(slots=True)
class Writers:
    """
    The writer of one session of a console.

    changed: called when the writer has changed, with its id and name; both are empty if there is
    none. clock: monotonic.
    """

    session: str  # id of the session
    type: Callable[[bytes], None]
    changed: Callable[[str, str], None]
    clock: Callable[[], float] = time.monotonic
    holder: str = ""  # id of the writer; empty: there is none
    name: str = ""
    _until: float = 0.0
    _numbers: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def accept(self, document: Mapping[str, object], data: bytes) -> None:
        """
        Handle a document of input (`app.broker.consoles`), unless it is old, or of another session.

        data: its input.
        """
        if self.is_new(document):
            self.act(document, data)

    def is_new(self, document: Mapping[str, object]) -> bool:
        """Whether a document is of this session, and none like it or after it has come before."""
        holder, number = document.get("holder"), document.get("number")
        if document.get("session") != self.session or not isinstance(holder, str) or not holder:
            return False
        if not isinstance(number, int) or number <= self._numbers.get(holder, -1):
            return False
        self._numbers[holder] = number
        self._numbers.move_to_end(holder)
        if len(self._numbers) > REMEMBERED:
            self._numbers.popitem(last=False)
        return True

    def act(self, document: Mapping[str, object], data: bytes) -> None:
        """Do what a new document asks for."""
        holder, act = str(document["holder"]), document.get("act")
        if act == "type":
            if holder == self.holder:
                self.type(data)
        elif act == "release":
            self.release(holder)
        elif act in ("claim", "steal"):
            self.claim(holder, str(document.get("name") or "")[:255], by_force=act == "steal")

    def type_if_free(self, holder: str, name: str, data: bytes) -> None:
        """Type for a caller that has made no claim, if there is no other writer."""
        if self.claim(holder, name):
            self.type(data)

    def claim(self, holder: str, name: str, *, by_force: bool = False) -> bool:
        """Make a caller the writer, if there is no other one; return whether it is the writer."""
        now = self.clock()
        if self.holder not in ("", holder) and now < self._until and not by_force:
            return False
        self._until = now + WRITER_TIME
        self._set(holder, name)
        return True

    def release(self, holder: str) -> None:
        if holder == self.holder:
            self._set("", "")

    def expire(self) -> None:
        """Let a writer go that has not claimed again in time."""
        if self.holder and self.clock() >= self._until:
            self._set("", "")

    def _set(self, holder: str, name: str) -> None:
        if holder != self.holder:
            self.holder, self.name = holder, name
            self.changed(holder, name)
