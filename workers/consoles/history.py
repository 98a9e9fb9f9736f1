"""
History of consoles: output of machines, in files of this conductor.

A node has a folder, and each session of its console writes files of its own, its segments. A
segment is a sequence of records: a line of its own, `\\x1e KIND MILLISECONDS LENGTH`, and that many
bytes. So `less` shows it, no output of a machine can pass for the beginning of a record, and a
record that the death of a conductor has cut off is read as far as it goes.

Values of secret settings, as in the command line of a kernel, are masked before they are written.
Input is not written at all; it is in the history only if the machine echoes it.
"""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

#: Kinds of records: output of the machine; a change of the connection's state, in words.
OUTPUT, STATE = "o", "s"
#: Share of the kept bytes after which a session begins another segment.
SHARE = 8
#: Most bytes, and seconds, that a line without an end waits before it is written.
LONGEST_LINE, LINE_TIME = 4096, 1.0
SUFFIX = ".console"
#: Longest line before a record.
_LONGEST_HEAD = 64
_HEAD = re.compile(rb"\n?\x1e ([os]) (\d{1,15}) (\d{1,8})\n")
_SECRET = re.compile(
    rb"""((?:token|passw(?:or)?d|pwd|secret|sshkey|api_?key)[\w.-]{0,64}["']?=)("[^"\r\n]*|'[^'\r\n]*|[^\s"']+)""",
    re.IGNORECASE,
)
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Record:
    """A part of a console's history."""

    kind: str  # OUTPUT or STATE
    at: int  # milliseconds since 1970, by the clock of the conductor
    data: bytes
    segment: str  # name of its file
    offset: int  # in its file


def masked(line: bytes) -> bytes:
    """Mask the values of secret settings (`NAME=VALUE`) in a line."""
    return _SECRET.sub(rb"\1******", line)


@dataclass(slots=True)
class History:
    """
    The history of a node that one session of its console writes.

    `append` raises OSError: the output is lost.
    """

    folder: Path  # of all nodes
    node: str  # UUID
    session: str  # id of the session: files of two sessions have different names
    limit: int  # bytes that are kept of a node; 0: nothing is written
    clock: Callable[[], float] = time.monotonic
    _line: bytearray = field(default_factory=bytearray)
    _line_at: float = 0.0  # time at which the line began, by the host's clock
    _line_began: float = 0.0  # by the monotonic clock
    _file: BinaryIO | None = None

    def append(self, data: bytes, now: float | None = None) -> None:
        """Add output of the machine; now: seconds since 1970."""
        if not self.limit:
            return
        now = time.time() if now is None else now
        if not self._line:
            self._line_at, self._line_began = now, self.clock()
        self._line += data
        end = max(self._line.rfind(b"\n"), self._line.rfind(b"\r")) + 1
        if len(self._line) - end > LONGEST_LINE:
            end = len(self._line)
        if end:
            self._write(OUTPUT, masked(bytes(self._line[:end])), self._line_at)
            del self._line[:end]
            self._line_at, self._line_began = now, self.clock()

    def note(self, text: str, now: float | None = None) -> None:
        """Add a change of the connection's state."""
        if self.limit:
            self.flush()
            self._write(STATE, text.encode(), time.time() if now is None else now)

    def flush(self, older_than: float = 0.0) -> None:
        """Write the line that has no end yet, if it began `older_than` seconds ago."""
        if self._line and self.clock() - self._line_began >= older_than:
            line = masked(bytes(self._line))
            self._line.clear()
            self._write(OUTPUT, line, self._line_at)

    def close(self) -> None:
        """Write what is left."""
        try:
            self.flush()
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, kind: str, data: bytes, at: float) -> None:
        if self._file is None or self._file.tell() >= self.limit // SHARE:
            self._next_segment(at)
        assert self._file is not None
        self._file.write(b"\n\x1e %s %d %d\n%s" % (kind.encode(), at * 1000, len(data), data))
        self._file.flush()

    def _next_segment(self, at: float) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.folder / self.node
        folder.mkdir(mode=0o700, exist_ok=True)
        prune(folder, self.limit - self.limit // SHARE)
        path = folder / f"{int(at * 1000):015d}-{self.session}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(path, flags, 0o600), "ab")


def read(
    folder: Path, node: str, *, since: int | None, until: int | None, size: int
) -> tuple[list[Record], bool]:
    """
    Return the newest records of a node between two times, and whether older ones are left out.

    since, until: milliseconds since 1970; None: no limit. size: most bytes of their data.
    """
    in_time = [
        record
        for path in _segments_since(folder / node, since)
        for record in records(path)
        if (since is None or record.at >= since) and (until is None or record.at <= until)
    ]
    in_time.sort(key=lambda record: (record.at, record.segment, record.offset))
    newest: deque[Record] = deque()
    for record in reversed(in_time):
        size -= len(record.data)
        if size < 0 and newest:
            break
        newest.appendleft(record)
    return list(newest), len(newest) < len(in_time)


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a segment; none if it was removed meanwhile."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    offset = 0
    while head := _HEAD.match(content, offset, offset + _LONGEST_HEAD):
        begin = head.end()
        data = content[begin : begin + int(head[3])]
        yield Record(head[1].decode(), int(head[2]), data, path.name, offset)
        offset = begin + len(data)


def _segments_since(folder: Path, since: int | None) -> list[Path]:
    """Return the segments of a node in order, without those that ended before a time."""
    segments = sorted(folder.glob(f"*{SUFFIX}"))
    if since is None:
        return segments
    return [path for path in segments if _changed(path) * 1000 >= since]


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def prune(folder: Path, limit: int) -> None:
    """Remove the oldest segments of a node until the others have at most `limit` bytes."""
    segments = [(path, path.stat().st_size) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    size = sum(length for _, length in segments)
    for path, length in segments:
        if size <= max(limit, 0):
            return
        path.unlink(missing_ok=True)
        size -= length


def remove_old(folder: Path, days: float, now: float | None = None) -> int:
    """Remove the segments of all nodes that ended `days` ago; return how many."""
    removed = 0
    oldest = (time.time() if now is None else now) - days * _DAY
    for path in folder.glob(f"*/*{SUFFIX}"):
        if _changed(path) < oldest:
            path.unlink(missing_ok=True)
            removed += 1
    for path in folder.glob("*"):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    return removed
