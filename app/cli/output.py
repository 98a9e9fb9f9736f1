"""
How answers are written: tables for people, JSON or bare values for scripts.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.rest import Document, Failure

#: Wider than any table: what is not read on a terminal is not wrapped.
ENDLESS = 100_000
#: Words up to this length, a UUID's, are not broken into lines.
WORD = 36
LOOK: Mapping[str, Any] = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}


class Form(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Output:
    """fields: those that are shown, in this order; none: those that the command shows."""

    form: Form = Form.TABLE
    fields: tuple[str, ...] = ()

    @property
    def people(self) -> bool:
        """Whether it is read by people, who want few words."""
        return self.form is Form.TABLE and not self.fields

    def items(self, items: Iterable[Document], columns: Sequence[str]) -> None:
        """Write a list; without chosen fields JSON has all there are."""
        found = list(items)
        names = self.fields or tuple(columns)
        _check(self.fields if found else (), {name for item in found for name in item})
        match self.form:
            case Form.JSON:
                _json([_chosen(each, self.fields) for each in found])
            case Form.VALUE:
                for each in found:
                    typer.echo("\t".join(plain(each.get(name)) for name in names))
            case Form.TABLE:
                cells = [[cell(name, each.get(name)) for name in names] for each in found]
                table = Table(**LOOK)
                for at, name in enumerate(names):
                    head = name.replace("_", " ")
                    words = " ".join([head, *(row[at].plain for row in cells)]).split()
                    least = min(max(map(len, words)), WORD)
                    table.add_column(head, overflow="fold", min_width=least)
                for row in cells:
                    table.add_row(*row)
                _draw(table)

    def item(self, document: Document, columns: Sequence[str] = ()) -> None:
        """Write one thing; without chosen fields all of it, but tables only the columns, if any."""
        names = self.fields or tuple(columns) or tuple(sorted(set(document) - {"links"}))
        _check(self.fields, set(document))
        match self.form:
            case Form.JSON:
                _json(_chosen(document, self.fields))
            case Form.VALUE:
                for name in names:
                    typer.echo(plain(document.get(name)))
            case Form.TABLE:
                table = Table("field", "value", **LOOK)
                table.columns[1].overflow = "fold"
                for name in names:
                    table.add_row(name, cell(name, document.get(name), indent=2))
                _draw(table)

    def told(self, document: Document, text: str) -> None:
        """Write what came of a command: a sentence for people, the document for scripts."""
        if self.people:
            console().print(cell("", text))
        else:
            self.item(document)


def console(*, stderr: bool = False) -> Console:
    """Where people read: as wide as their terminal, or endless."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else ENDLESS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def plain(value: Any) -> str:
    """A value in one line, as scripts want it: nothing for null."""
    match value:
        case None:
            return ""
        case str():
            return " ".join(value.replace("\t", " ").splitlines())
        case _:
            return json.dumps(value)


def moment(text: str) -> str:
    """A time of the API's to the second, in UTC."""
    return text[:19].replace("T", " ")


def cell(name: str, value: Any, indent: int | None = None) -> Text:
    """A value as people read it: times to the second, in UTC; documents indented."""
    match value:
        case None:
            text = ""
        case str() if name.endswith("_at"):
            text = moment(value)
        case str():
            text = value
        case list() if all(isinstance(each, str) for each in value):
            text = ", ".join(value)
        case dict() | list():
            text = json.dumps(value, indent=indent, ensure_ascii=False)
        case _:
            text = json.dumps(value)
    # what a BMC said must not steer a terminal
    return Text("".join(each if each.isprintable() or each == "\n" else " " for each in text))


def _draw(table: Table) -> None:
    """Write a table; rather wider than the terminal than without some of its columns."""
    screen = console()
    least = screen.measure(table, options=screen.options.update(max_width=ENDLESS)).minimum
    screen.print(table, width=max(screen.width, least), crop=False)


def _json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2))


def _chosen(document: Document, fields: Sequence[str]) -> Document:
    return {name: document.get(name) for name in fields} if fields else document


def _check(names: Iterable[str], known: set[str]) -> None:
    """Every name is a field of some item. Raises Failure."""
    for name in names:
        if name not in known:
            raise Failure(f"there is no field {name!r}; there are {', '.join(sorted(known))}")
