"""
Output of commands: tables for people, JSON or bare values for scripts.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import typer
from rich.text import Text

from app.cli.terminal import consoles, styles, tables
from app.cli.terminal.errors import Usage
from app.cli.terminal.output_format import Form
from app.text.sentences import harmless, joined

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """Writer of results in the format that the options select."""

    form: Form = Form.TABLE
    fields: tuple[str, ...] = ()  # in this order; empty: the command's choice
    colour: bool | None = None  # None: only on a terminal

    @property
    def people(self) -> bool:
        """Whether people read the output, not scripts."""
        return self.form is Form.TABLE and not self.fields

    def items(
        self, items: Iterable[Document], columns: Sequence[str], table: Sequence[str] = ()
    ) -> None:
        """
        Write a list; JSON has all fields unless the options select some.

        table: columns of a table; empty: `columns`.
        """
        documents = list(items)
        names = self.fields or tuple(columns)
        _check(self.fields if documents else (), {name for item in documents for name in item})
        match self.form:
            case Form.JSON:
                _json([_chosen(document, self.fields) for document in documents])
            case Form.VALUE:
                for document in documents:
                    typer.echo("\t".join(plain(document.get(name)) for name in names))
            case Form.TABLE:
                names = self.fields or tuple(table) or names
                styled = [(document, styles.of_row(document)) for document in documents]
                rows = [
                    [cell(name, document.get(name), row) for name in names]
                    for document, row in styled
                ]
                console = consoles.console(self.colour)
                tables.draw(console, names, rows, whole=bool(self.fields))

    def line(self, document: Document, columns: Sequence[str], text: str) -> None:
        """Write an item of a list without an end: `text` for people, JSON lines or tabs else."""
        if self.people:
            self.say(text)
        elif self.form is Form.JSON:
            typer.echo(json.dumps(_chosen(document, self.fields)))
        else:
            typer.echo("\t".join(plain(document.get(name)) for name in self.fields or columns))

    def item(self, document: Document, columns: Sequence[str] = ()) -> None:
        """Write one document; tables show only `columns`, if there are any. Raises Usage."""
        names = self.fields or tuple(columns) or tuple(sorted(set(document) - {"links"}))
        _check(self.fields, set(document))
        match self.form:
            case Form.JSON:
                _json(_chosen(document, self.fields))
            case Form.VALUE:
                for name in names:
                    typer.echo(plain(document.get(name)))
            case Form.TABLE:
                self._page(document, names)

    def _page(self, document: Document, names: Sequence[str]) -> None:
        """Write a document as a table; on a terminal without empty fields and links."""
        console = consoles.console(self.colour)
        visible_names = names
        if console.is_terminal and not self.fields:
            visible_names = [name for name in names if not _is_empty_value(document.get(name))]
        cells = [(name, cell(name, document.get(name), indent=2)) for name in visible_names]
        tables.pairs(console, cells)
        if hidden_count := len(names) - len(visible_names):
            console.print(
                f"{hidden_count} empty fields are not shown; -o json has them", style="dim"
            )

    def result(self, document: Document, text: str) -> None:
        """Write the result of a command: a sentence for people, the document for scripts."""
        if self.people:
            self.say(text)
        else:
            self.item(document)

    def say(self, text: str, style: str = "") -> None:
        """Write a line for people."""
        consoles.console(self.colour).print(consoles.text(text, style))


def plain(value: object) -> str:
    """Format a value for scripts: on one line, without control characters; empty for null."""
    match value:
        case None:
            return ""
        case str():
            return harmless(" ".join(value.splitlines()))
        case _:
            return json.dumps(value)


def moment(text: str) -> str:
    """Format a time of the API to the second, in UTC."""
    return text[:19].replace("T", " ")


def cell(name: str, value: Any, style: str = "", indent: int | None = None) -> Text:
    """
    Format a value for people: times to the second, in UTC; an error as its sentences.

    style: of the row; it overrides that of the value.
    indent: of documents, which are on one line without it.
    """
    match value:
        case None:
            text = ""
        case str() if name.endswith("_at"):
            text = moment(value)
        case str():
            text = value
        case {"message": message}:
            text = joined(message, value.get("hint"))
        case list() if all(isinstance(item, str) for item in value):
            text = ", ".join(value)
        case dict() | list():
            text = json.dumps(value, indent=indent, ensure_ascii=False)
        case _:
            text = json.dumps(value)
    return consoles.text(text, style or styles.of(name, value))


def _is_empty_value(value: object) -> bool:
    if isinstance(value, list) and value:
        return all(isinstance(item, dict) and {"href", "rel"} == set(item) for item in value)
    return value in (None, "", [], {})


def _json(document: object) -> None:
    typer.echo(json.dumps(document, indent=2))


def _chosen(document: Document, fields: Sequence[str]) -> Document:
    return {name: document.get(name) for name in fields} if fields else document


def _check(names: Iterable[str], field_names: set[str]) -> None:
    """Check that every name is a known field. Raises Usage."""
    for name in names:
        if name not in field_names:
            nearest = get_close_matches(name, field_names, 1, 0.5)
            hint = f"; the nearest is {nearest[0]}" if nearest else ""
            there = ", ".join(sorted(field_names))
            raise Usage(f"there is no field {name!r}{hint}; there are {there}")
