"""
Order of firmware versions, as far as it does not depend on the vendor.

A version is a series of parts between other characters than letters and digits. Numbers compare as
numbers, and one that is missing at the end counts as 0: 7.9 < 7.10 = 7.10.0. All else must be equal
on both sides, in capital or small letters, apart from one letter after a number: 3.4a < 3.4b.
Otherwise the order is unknown: no rule of all vendors says whether 1.0rc1 is older than 1.0, and
`U32 v2.68` is a version of another firmware than `U46 v1.20`.
"""

import re
from itertools import zip_longest

_PART = re.compile(r"[^\W_]+")
#: A number with one letter or none, after a `v` or not.
_NUMBER = re.compile(r"v?([0-9]+)([a-z]?)")
_ZERO = "0"


def is_ordered(version: str) -> bool:
    """Return whether a version has a number, by which others may be older or newer."""
    return any(_NUMBER.fullmatch(part) for part in _parts(version))


def compare(version: str, other: str) -> int | None:
    """
    Return a number below 0 if a version is older than another one, above 0 if it is newer, or 0.

    None: their order is unknown.
    """
    if not (is_ordered(version) and is_ordered(other)):
        return None
    for part, other_part in zip_longest(_parts(version), _parts(other), fillvalue=_ZERO):
        if part == other_part:
            continue
        number, other_number = _NUMBER.fullmatch(part), _NUMBER.fullmatch(other_part)
        if number is None or other_number is None:
            return None
        difference = int(number[1]) - int(other_number[1])
        if difference:
            return difference
        if number[2] != other_number[2]:
            if not (number[2] and other_number[2]):
                return None
            return ord(number[2]) - ord(other_number[2])
    return 0


def _parts(version: str) -> list[str]:
    return _PART.findall(version.lower())
