"""Values for the entries of a fleet file from elsewhere: options, and a file of secrets."""

from collections.abc import Sequence

from app.cli.fleet_file.entry import DOCUMENTS, Entry, problem_of_path
from app.cli.fleet_file.spreadsheet import set_value
from app.cli.terminal import secrets
from app.cli.terminal.arguments import texts_of
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document
from app.text.masking import is_secret


def columns_of(texts: Sequence[str]) -> dict[str, str]:
    """Parse the options `--map COLUMN=FIELD`. Raises Usage."""
    columns = texts_of("--map", texts)
    for column, field in columns.items():
        if field and (problem := problem_of_path(field)):
            raise Usage(f"--map {column!r}: {problem}")
    return columns


def defaults_of(texts: Sequence[str]) -> Document:
    """Parse the options `--set FIELD=VALUE`, whose values are those of cells. Raises Usage."""
    values: Document = {}
    for field, text in texts_of("--set", texts).items():
        if problem := problem_of_path(field):
            raise Usage(f"--set {problem}")
        if is_secret(field.partition(".")[2]):
            raise Usage(
                f"--set {field}: all users of this host can read arguments;"
                f" --secret {field}=SOURCE takes {secrets.SOURCES}"
            )
        try:
            set_value(values, field, text)
        except ValueError as error:
            raise Usage(f"--set {field}: {error}") from error
    return values


def secrets_of(texts: Sequence[str]) -> Document:
    """Read the options `--secret FIELD=SOURCE`. Raises Usage."""
    values: Document = {}
    for text in texts:
        field, _, source = text.partition("=")
        head, _, key = field.partition(".")
        if head not in DOCUMENTS or not key:
            raise Usage(f"--secret {field}: a key is expected, as driver_info.redfish_password")
        values.setdefault(head, {})[key] = secrets.read("--secret", field, source or "@")
    return values


def add(entries: Sequence[Entry], values: Document) -> None:
    """Add values to the entries that have none of their own."""
    for entry in entries:
        entry.values = _merged(values, entry.values)


def add_of_file(entries: Sequence[Entry], secret_entries: Sequence[Entry]) -> None:
    """
    Add the values of another file to the entries of the same name or UUID.

    Raises Usage: an entry of the other file is wrong, or has no counterpart.
    """
    by_label = {entry.label: entry for entry in entries}
    for other in secret_entries:
        if other.problems:
            raise Usage(f"--secrets: {other.place}: {'; '.join(other.problems)}")
        entry = by_label.get(other.label)
        if entry is None:
            raise Usage(f"--secrets: {other.place}: {other.label} is not in the other file")
        entry.values = _merged(entry.values, other.values)


def _merged(values: Document, stronger: Document) -> Document:
    documents = {
        name: {**values[name], **stronger[name]}
        for name in values.keys() & stronger.keys() & {*DOCUMENTS}
        if isinstance(values[name], dict) and isinstance(stronger[name], dict)
    }
    return {**values, **stronger, **documents}
