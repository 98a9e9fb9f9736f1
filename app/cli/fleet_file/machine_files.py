"""Fleet files: their forms, and the text of a file in any of them."""

import codecs
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from app.cli.fleet_file import documents, spreadsheet
from app.cli.fleet_file.entry import Entry
from app.cli.terminal.errors import Usage
from app.cli.terminal.inputs import content
from app.cli.terminal.output import Document


class FileForm(StrEnum):
    """Form of a fleet file."""

    CSV = "csv"
    YAML = "yaml"
    JSON = "json"


#: End of a file's name -> its form.
SUFFIXES = {
    ".csv": FileForm.CSV, ".tsv": FileForm.CSV, ".txt": FileForm.CSV, ".yaml": FileForm.YAML,
    ".yml": FileForm.YAML, ".json": FileForm.JSON,
}  # fmt: skip


def read(
    option: str, path: str, form: FileForm | None, columns: Mapping[str, str] = {}
) -> list[Entry]:
    """
    Read a fleet file, or standard input ("-"), whose entries are not checked yet.

    columns: of a spreadsheet, as in `spreadsheet.read`.

    Raises Usage: it is none, or has no machine.
    """
    try:
        text = _decoded(content(option, path))
        form = form or SUFFIXES.get(Path(path).suffix.lower()) or _form_of(text)
        if columns and form is not FileForm.CSV:
            raise Usage("--map: only with CSV, whose columns it names")
        match form:
            case FileForm.CSV:
                entries = spreadsheet.read(text, columns)
            case FileForm.YAML:
                entries = documents.read_yaml(text)
            case FileForm.JSON:
                entries = documents.read_json(text)
        if not entries:
            raise Usage("has no machine")
    except Usage as error:
        raise Usage(f"{path}: {error}") from error
    return entries


def written(form: FileForm, machines: Iterable[Document]) -> str:
    """Return the text of a fleet file."""
    match form:
        case FileForm.CSV:
            return spreadsheet.write(machines)
        case FileForm.YAML:
            return documents.write_yaml(machines)
        case FileForm.JSON:
            return documents.write_json(machines)


def _form_of(text: str) -> FileForm:
    """Guess the form of standard input."""
    start = text.lstrip()
    if start[:1] in ("[", "{"):
        return FileForm.JSON
    return FileForm.YAML if re.match(r"(---|#|nodes:|- )", start) else FileForm.CSV


def _decoded(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark. Raises Usage with the line."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, name = "utf-16", "UTF-16"
    else:
        encoding, name = "utf-8-sig", "UTF-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Usage(
            f"line {line}: this is not {name} (byte 0x{data[error.start]:02x});"
            ' save the file as "CSV UTF-8"'
        ) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Usage(f"line {line}: has a NUL character, so this is not CSV")
    return text
