"""
Sentences: parts of an answer, put together for people.
"""

import re

#: A word that begins a sentence; not a URL, a field or the label of a step.
_WORD = re.compile(r"[a-z]+(?=[\s,;!?]|\.?$)")


def joined(*parts: str | None) -> str:
    """Parts as sentences: each on one line, with a capital and a full stop; empty ones left out."""
    return " ".join(filter(None, map(_sentence, parts)))


def _sentence(part: str | None) -> str:
    text = " ".join((part or "").split())
    if _WORD.match(text):
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
