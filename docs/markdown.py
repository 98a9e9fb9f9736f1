"""Markdown of the generated pages."""

from collections.abc import Iterable, Iterator, Sequence

Lines = Iterator[str]


def table(head: Sequence[str], rows: Iterable[Iterable[object]]) -> Lines:
    """Write a Markdown table, and an empty line after it."""
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(str(cell).replace("|", r"\|") for cell in row) + " |"
    yield ""


def code(*words: object) -> str:
    return ", ".join(f"`{word}`" for word in words)
