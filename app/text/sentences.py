"""
Sentences: join parts of a message for people, and keep it from controlling their terminal.
"""

import re
from collections.abc import Sequence

#: First word to capitalize; excludes URLs, field names and step labels.
_WORD = re.compile(r"[a-z]+(?=[\s,;!?]|\.?$)")


def joined(*parts: str | None) -> str:
    """Join parts as sentences, each with a capital and a full stop; empty parts are left out."""
    return " ".join(filter(None, map(_sentence, parts)))


def enumerated(
    phrases: Sequence[str], limit: int, *, separator: str = ", ", total: int | None = None
) -> str:
    """
    Join the first phrases, and tell the number of the others, as in "a, b and 3 more".

    total: number of all, if `phrases` has only the first ones.
    """
    text = separator.join(phrases[:limit])
    remainder = (len(phrases) if total is None else total) - len(phrases[:limit])
    conjunction = " and" if separator == ", " else f"{separator}and"
    return f"{text}{conjunction} {remainder} more" if remainder > 0 else text


def counted(number: int, noun: str) -> str:
    """Count things of a noun whose plural ends in s, as in "1 node" and "2 nodes"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def harmless(text: str) -> str:
    """Replace control characters, of which an error text of a machine may have any, by blanks."""
    return "".join(
        character if character.isprintable() or character == "\n" else " " for character in text
    )


def _sentence(part: str | None) -> str:
    text = " ".join((part or "").split())
    if _WORD.match(text):
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
