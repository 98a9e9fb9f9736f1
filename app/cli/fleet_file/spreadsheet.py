"""
Fleet files as CSV: a row for each machine, a column for each field.

Spreadsheets write a byte order mark, semicolons in half of Europe, and Windows line ends; all of
that is read. A column of a document has the name of its key: `driver_info.redfish_address`.

A cell is text. In a column of a key, a number, true, false or null is that value, if it is written
as JSON writes it: `1.10` and `007` stay text. A text in JSON's quotation marks is always text, so
that each value has a cell, and no cell is a formula.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.cli.fields import Kind
from app.cli.fleet_file.documents import refuse_constant
from app.cli.fleet_file.entry import DOCUMENTS, KINDS, NAMES, Entry, problem_of_path
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document
from app.text.masking import is_secret

DELIMITERS = ";,\t"
#: Field of a column that is ignored.
IGNORED = "-"
#: First characters of cells that spreadsheets evaluate as formulas.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TRUE = {"true", "yes", "y", "1", "x"}
_FALSE = {"false", "no", "n", "0"}


def read(text: str, columns: Mapping[str, str]) -> list[Entry]:
    """
    Read the rows of a spreadsheet.

    columns: name of a column -> its field; an empty field: the column is ignored.

    Raises Usage: the file is no spreadsheet, or a column has no field.
    """
    if first_line := re.match(r"sep=(.)\r?\n", text):  # a hint for spreadsheet programs
        text, delimiter = text[first_line.end() :], first_line[1]
    else:
        delimiter = _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    offset = 1 if first_line else 0
    try:
        header = [cell.strip() for cell in next(reader, [])]
        fields = _fields(header, columns)
        titles = {
            field: cell for field, cell in zip(fields, header, strict=True) if field != _usual(cell)
        }
        entries, line = [], reader.line_num + 1
        for row in reader:
            if any(cell.strip() for cell in row):
                entries.append(_entry(f"line {line + offset}", row, fields))
                entries[-1].columns = titles
            line = reader.line_num + 1
    except csv.Error as error:
        raise Usage(f"line {reader.line_num + offset}: this is not CSV: {error}") from error
    return entries


def _delimiter(text: str) -> str:
    """Return the most frequent delimiter of the header, outside of quotation marks."""
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    return max(DELIMITERS, key=header.count)


def _fields(header: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """
    Return the field of each column; IGNORED: it is ignored, empty: it has no name.

    Raises Usage: a column has no field, two columns have the same, or `columns` names no column.
    """
    names = {name.lower(): field or IGNORED for name, field in columns.items()}
    cells = {cell.lower() for cell in header}
    if missing_names := [name for name in columns if name.lower() not in cells]:
        there = ", ".join(header)
        raise Usage(f"--map: there is no column {missing_names[0]!r}; there are {there}")
    fields: list[str] = []
    for number, cell in enumerate(header, 1):
        field = names.get(cell.lower()) or _usual(cell)
        if field not in ("", IGNORED):
            if problem := problem_of_path(field):
                hint = f"--map {cell!r}=FIELD names its field, --map {cell!r}= ignores it"
                raise Usage(f"column {number}, {cell!r}: {problem}; {hint}")
            if field in fields:
                raise Usage(f"column {number}, {cell!r}: there is a column of {field} already")
        fields.append(field)
    if not any(field and field != IGNORED for field in fields):
        raise Usage("the first line names no column")
    return fields


def _usual(name: str) -> str:
    """Return a name as fields are written: `Resource Class` is resource_class."""
    head, dot, key = name.partition(".")
    return head.strip().lower().replace(" ", "_") + dot + key


def _entry(place: str, row: Sequence[str], fields: Sequence[str]) -> Entry:
    entry = Entry(place)
    if more_cells := [cell for cell in row[len(fields) :] if cell.strip()]:
        entry.problems.append(
            f"has {len(more_cells)} more cells than there are columns; is a delimiter unquoted?"
        )
    for field, cell in zip(fields, row, strict=False):
        text = cell.strip()
        if field == IGNORED or not text:
            continue
        if field:
            try:
                set_value(entry.values, field, text)
            except ValueError as error:
                entry.problems.append(f"{field}: {error}")
        else:
            entry.problems.append(f"{text!r} is in a column without a name")
    return entry


def set_value(values: Document, field: str, text: str) -> None:
    """Set the value of a cell. Raises ValueError."""
    head, dot, key = field.partition(".")
    if dot:
        document = values.setdefault(head, {})
        if key in document:
            raise ValueError("has two values, one in the column of the whole document")
        document[key] = _unquoted(text) if is_secret(key) else value_of(text)
    elif head in ("ports", "traits"):
        values[head] = (
            _json(text, list) if text[0] == "[" else re.split(r"[\s,;]+", text.strip(" ,;"))
        )
    elif KINDS[head] is Kind.FLAG:
        values[head] = _flag(text)
    elif KINDS[head] in (Kind.PAIRS, Kind.JSON):
        values[head] = {**_json(text, dict), **values.get(head, {})}
    else:
        values[head] = _unquoted(text)


def _flag(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is neither true nor false")
    return word in _TRUE


def _json(text: str, kind: type) -> Any:
    value = json.loads(text, parse_constant=refuse_constant)
    if not isinstance(value, kind):
        raise ValueError(f"{text!r} is no {'list' if kind is list else 'document'} in JSON")
    return value


def value_of(text: str) -> Any:
    """Return the value of a cell of a key: that of its JSON, if it is written so, else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except ValueError:
        return text
    if isinstance(value, dict | list | str) or json.dumps(value) == text:
        return value
    return text


def _unquoted(text: str) -> str:
    """Return the text of a cell, which may be in JSON's quotation marks."""
    if text[:1] == '"':
        value = value_of(text)
        return value if isinstance(value, str) else text
    return text


def cell_of(value: object, *, is_key: bool) -> str:
    """Return the cell of a value. is_key: of a key of a document, not of a field."""
    if isinstance(value, str):
        is_plain = (
            value == value.strip() and value.isprintable() and value[:1] not in ("", *FORMULA)
        )
        read_back = (value_of if is_key else _unquoted)(value)
        return value if is_plain and read_back == value else json.dumps(value, ensure_ascii=True)
    return json.dumps(value)


def write(machines: Iterable[Document]) -> str:
    """Return the spreadsheet of machines: a column for each field that any of them has."""
    rows = [dict(_cells(machine)) for machine in machines]
    columns = {column: None for row in rows for column in row}
    ranks = {name: rank for rank, name in enumerate(("name", "uuid", *NAMES))}
    header = sorted(columns, key=lambda column: (ranks[column.partition(".")[0]], column))
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(header)
    writer.writerows([row.get(column, "") for column in header] for row in rows)
    return sheet.getvalue()


def _cells(machine: Document) -> Iterable[tuple[str, str]]:
    for name, value in machine.items():
        if name in DOCUMENTS and all(map(_is_column, value)):
            for key, inner in value.items():
                yield f"{name}.{key}", cell_of(inner, is_key=True)
        elif name == "ports" and all(port.keys() == {"address"} for port in value):
            yield name, " ".join(port["address"] for port in value)
        elif name == "traits":
            yield name, " ".join(value)
        else:
            yield name, cell_of(value, is_key=False)


def _is_column(key: str) -> bool:
    """Whether a key can be a part of a column's name."""
    return bool(key) and key == key.strip() and key.isprintable()
