"""
Tables that fit the width of the terminal.

A list that is too wide is reduced in this order: the UUID of items with a name is dropped; an error
is cut, other text is wrapped; times lose the year and the seconds, and UUIDs of other objects all
but their first digits. Text that then has too little room is printed below its row. A list that is
still too wide is printed as records, one field on a line. Output that goes to no terminal is
complete.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

GAP = 2
#: Columns of free text, of which a list has one; errors are cut, other text wraps.
ERRORS = ("last_error", "error")
NOTES = (*ERRORS, "event", "note", "reason", "description", "args", "drivers", "hosts")
#: Columns other than the UUID that identify a row.
CALLED = ("name", "node_name")
#: Least width of a text column; with less, the text is printed below its row.
LEAST = 24
INDENT = 4
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-(\d\d-\d\d \d\d:\d\d):\d\d")

Rows = Sequence[Sequence[Text]]


def draw(console: Console, names: Sequence[str], rows: Rows, *, whole: bool = False) -> None:
    """
    Print a list.

    names: of the columns. whole: cut nothing; print records if the table is too wide.
    """
    flat = [[_flat(cell) for cell in row] for row in rows]
    if not console.is_terminal or console.width >= _sum(_widths(names, flat)):
        _lines(console, names, flat)
        return
    for spared, (columns, cells) in enumerate(() if whole else _narrower(names, flat)):
        note = next((index for index, name in enumerate(columns) if name in NOTES), None)
        widths = _widths(columns, cells)
        room = console.width - _sum(widths)
        if room >= 0:
            _lines(console, columns, cells)
            return
        if note is None:
            continue
        room += widths[note]  # width that is left for the note
        if room >= LEAST:
            _lines(console, columns, cells, cut=(note, room))
            return
        if room >= -GAP and spared:
            _lines(console, columns, cells, below=note)
            return
    for number, row in enumerate(rows):
        if number:
            console.print()
        filled = [(name, cell) for name, cell in zip(names, row, strict=True) if cell.plain]
        pairs(console, filled)


def pairs(console: Console, fields: Sequence[tuple[str, Text]]) -> None:
    """Print a document: a line for each field, and more lines for a long value."""
    indent = max((len(name) for name, _ in fields), default=0) + GAP
    for name, value in fields:
        lines = value.wrap(console, max(console.width - indent, LEAST), overflow="fold") or [Text()]
        for number, line in enumerate(lines):
            line.rstrip()
            head = ("" if number else name).ljust(indent if line.plain else 0)
            console.print(Text().append(head, "bold").append_text(line), soft_wrap=True)


def _narrower(names: Sequence[str], rows: Rows) -> Iterable[tuple[Sequence[str], Rows]]:
    """Yield the list without dispensable UUIDs, then with shortened cells."""
    called = [index for index, name in enumerate(names) if name in CALLED]
    if called and "uuid" in names and all(row[called[0]].plain for row in rows):
        index = names.index("uuid")
        names = [name for name in names if name != "uuid"]
        rows = [[*row[:index], *row[index + 1 :]] for row in rows]
    yield names, rows
    identity_columns = [index for index, name in enumerate(names) if name in ("uuid", *CALLED)]
    yield (
        names,
        [
            [cell if index in identity_columns else _short(cell) for index, cell in enumerate(row)]
            for row in rows
        ],
    )


def _short(cell: Text) -> Text:
    if UUID.fullmatch(cell.plain):
        return cell[:8]
    if match := _TIME.fullmatch(cell.plain):
        return Text(match[1], cell.style)
    return cell


def _lines(
    console: Console,
    names: Sequence[str],
    rows: Rows,
    cut: tuple[int, int] | None = None,
    below: int | None = None,
) -> None:
    """
    Print a line for each row.

    cut: (number, width) of a narrowed column. below: number of a column to print below its row.
    """
    widths = _widths(names, rows)
    if cut:
        widths[cut[0]] = cut[1]
    indexes = [index for index in range(len(names)) if index != below]
    heads = [Text(_head(name), "bold") for name in names]
    for row in [heads, *rows]:
        pieces = [
            _fit(console, names[index], row[index], widths[index]) for index in range(len(names))
        ]
        for number in range(max(len(pieces[index]) for index in indexes)):
            line = Text()
            for index in indexes:
                piece = pieces[index][number].copy() if number < len(pieces[index]) else Text()
                piece.truncate(widths[index] + GAP, pad=index != indexes[-1])
                line.append_text(piece)
            line.rstrip()
            console.print(line, soft_wrap=True)
        if below is not None and row is not heads and row[below].plain:
            for piece in _fit(console, names[below], row[below], console.width - INDENT):
                console.print(Text(" " * INDENT).append_text(piece), soft_wrap=True)


def _fit(console: Console, name: str, cell: Text, width: int) -> Sequence[Text]:
    """Fit a cell into a width: an error is cut to one line, other text is wrapped."""
    if cell.cell_len <= width:
        return [cell]
    if name not in ERRORS:
        return list(cell.wrap(console, width, overflow="fold"))
    cell = cell.copy()
    cell.truncate(width, overflow="ellipsis")
    return [cell]


def _flat(cell: Text) -> Text:
    """Join the lines of a cell."""
    return Text(" ".join(cell.plain.split()), cell.style) if "\n" in cell.plain else cell


def _widths(names: Sequence[str], rows: Rows) -> list[int]:
    heads: list[Any] = [Text(_head(name)) for name in names]
    return [max(cell.cell_len for cell in column) for column in zip(heads, *rows, strict=True)]


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _head(name: str) -> str:
    return name.replace("_", " ")
