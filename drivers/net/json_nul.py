"""NUL in the texts of a JSON document, which PostgreSQL cannot read back."""

import re

#: NUL as JSON writes it. In a text, it follows an even number of backslashes.
ESCAPED = b"\\u0000"
_IN_TEXT = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


def removed(data: bytes) -> bytes:
    """Return a JSON text without NUL in its texts."""
    return _IN_TEXT.sub(rb"\1", data) if ESCAPED in data else data


def is_in(data: bytes) -> bool:
    """Whether a text in a JSON text has NUL."""
    return _IN_TEXT.search(data) is not None
