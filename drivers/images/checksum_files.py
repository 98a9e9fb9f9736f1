"""
Files of checksums, as coreutils, BSD and OpenSSL write them: SHA256SUMS, CHECKSUM, image.sha256.

Accepted lines, of one or several algorithms:

    HEX  NAME                  and HEX *NAME, of sha256sum and its like
    SHA256 (NAME) = HEX        of sha256sum --tag, and of BSD
    SHA2-256(NAME)= HEX        of openssl
    HEX                        alone in the file

A leading backslash marks a name with escapes. The name extends to the end of the line.
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
    Return the checksum of the file at a path, which comes from its URL. algorithm: a key of DIGITS.

    Of several files with this name, the one whose folders the path has is meant; if there is no
    such file, they must have one checksum. Without an algorithm, the strongest one is taken.

    Raises ValueError: there is no such checksum, or more than one; the message has the file of
    checksums as its subject.
    """
    sought_path = _parts(path)
    entries = [
        (_common(listed_path, sought_path), checksum)
        for listed_path, checksum in _entries(text, sought_path)
        if listed_path[-1:] == sought_path[-1:] and algorithm in (None, checksum.algorithm)
    ]
    name = "/".join(sought_path[-1:])
    if not entries:
        raise ValueError(f"holds no {f'{algorithm} ' if algorithm else ''}checksum of {name!r}")
    best_match = max(common for common, _ in entries)
    matching_checksums = {checksum for common, checksum in entries if common == best_match}
    best_length = max(DIGITS[checksum.algorithm] for checksum in matching_checksums)
    checksums = {
        checksum for checksum in matching_checksums if DIGITS[checksum.algorithm] == best_length
    }
    if len(checksums) > 1:
        raise ValueError(f"holds {len(checksums)} different checksums of {name!r}")
    return checksums.pop()


def _entries(text: str, sought_path: Path) -> Iterator[tuple[Path, Checksum]]:
    """Read the lines with checksums of known algorithms. A checksum alone is that of `sought`."""
    lines = [line.strip() for line in text.removeprefix("\ufeff").split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) == 1 and _ALONE.fullmatch(lines[0]):
        if algorithm := _ALGORITHMS.get(len(lines[0])):
            yield sought_path, Checksum(algorithm, lines[0].lower())
        return
    for line in lines:
        entry = _TAGGED.fullmatch(line) or _GNU.fullmatch(line)
        algorithm = _ALGORITHMS.get(len(entry["value"])) if entry else None
        if entry is None or algorithm is None:
            continue
        tag = entry.groupdict().get("algorithm")
        if tag is not None and _TAGS.get(tag.lower()) != algorithm:
            continue
        name = entry["name"]
        if entry["escaped"]:
            name = _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], name)
        yield _parts(name), Checksum(algorithm, entry["value"].lower())


def _parts(path: str) -> Path:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _common(listed_path: Path, sought_path: Path) -> int:
    """Return the number of parts of a listed path if `sought` ends with it, else 0."""
    return (
        len(listed_path) if sought_path[len(sought_path) - len(listed_path) :] == listed_path else 0
    )
