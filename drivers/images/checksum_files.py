"""
Files of checksums, as coreutils, BSD and OpenSSL write them: SHA256SUMS, CHECKSUM, image.sha256.

Accepted lines, of one or several algorithms:

    HEX  NAME                  and HEX *NAME, of sha256sum and its like
    SHA256 (NAME) = HEX        of sha256sum --tag, and of BSD
    SHA2-256(NAME)= HEX        of openssl
    HEX                        alone in the file

A line that begins with a backslash has a name with escapes. The name is all of the line's rest.
Other lines are no checksums: remarks, and signatures around the file.
"""

import re
from collections.abc import Iterator

from drivers.images.checksums import DIGITS, Checksum

_GNU = re.compile(r"(?P<escaped>\\?)(?P<value>[0-9a-fA-F]+)[ \t]+\*?(?P<name>\S.*)")
_TAGGED = re.compile(
    r"(?P<escaped>\\?)(?P<algorithm>[A-Za-z0-9-]+) ?\((?P<name>.+)\) ?= ?(?P<value>[0-9a-fA-F]+)"
)
_ALONE = re.compile(r"[0-9a-fA-F]+")
_ESCAPE = re.compile(r"\\([\\nr])")
_ESCAPED = {"\\": "\\", "n": "\n", "r": "\r"}
_ALGORITHMS = {digits: name for name, digits in DIGITS.items()}
#: Name of an algorithm in a line, in lower case -> key of DIGITS.
_TAGS = {tag: name for name in DIGITS for tag in (name, name.replace("sha", "sha2-"))}

Path = tuple[str, ...]


def checksum_of(text: str, path: str, algorithm: str | None = None) -> Checksum:
    """
    Return the checksum of the file at a path, that of its URL. algorithm: a key of DIGITS.

    Of several files with this name, the one whose folders the path has is meant; if the path has
    those of none, they must have one checksum. Without an algorithm, the strongest one is taken.

    Raises ValueError: there is no such checksum, or more than one; the message has the file of
    checksums as its subject.
    """
    sought = _parts(path)
    entries = [
        (_common(listed, sought), checksum)
        for listed, checksum in _entries(text, sought)
        if listed[-1:] == sought[-1:] and algorithm in (None, checksum.algorithm)
    ]
    name = "/".join(sought[-1:])
    if not entries:
        raise ValueError(f"holds no {f'{algorithm} ' if algorithm else ''}checksum of {name!r}")
    closest = max(common for common, _ in entries)
    meant = {checksum for common, checksum in entries if common == closest}
    strongest = max(DIGITS[checksum.algorithm] for checksum in meant)
    checksums = {checksum for checksum in meant if DIGITS[checksum.algorithm] == strongest}
    if len(checksums) > 1:
        raise ValueError(f"holds {len(checksums)} different checksums of {name!r}")
    return checksums.pop()


def _entries(text: str, sought: Path) -> Iterator[tuple[Path, Checksum]]:
    """Read the lines with checksums of known algorithms. A checksum alone is that of `sought`."""
    lines = [line.strip() for line in text.removeprefix("\ufeff").split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) == 1 and _ALONE.fullmatch(lines[0]):
        if algorithm := _ALGORITHMS.get(len(lines[0])):
            yield sought, Checksum(algorithm, lines[0].lower())
        return
    for line in lines:
        entry = _TAGGED.fullmatch(line) or _GNU.fullmatch(line)
        algorithm = _ALGORITHMS.get(len(entry["value"])) if entry else None
        if entry is None or algorithm is None:
            continue
        stated = entry.groupdict().get("algorithm")
        if stated is not None and _TAGS.get(stated.lower()) != algorithm:
            continue
        name = entry["name"]
        if entry["escaped"]:
            name = _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], name)
        yield _parts(name), Checksum(algorithm, entry["value"].lower())


def _parts(path: str) -> Path:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _common(listed: Path, sought: Path) -> int:
    """Return the number of parts of a listed path if `sought` ends with it, else 0."""
    return len(listed) if sought[len(sought) - len(listed) :] == listed else 0
