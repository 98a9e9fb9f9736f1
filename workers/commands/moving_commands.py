"""
The commands that move nodes from Ironic's database and back: `import-ironic`, `export-ironic`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.terminal.output_format import Form
from app.config.loading import secret_in_file
from app.config.settings import SettingsError
from app.text.masking import mask_urls
from workers.commands.command_runtime import silent_runtime
from workers.commands.configuration import Config, DatabaseUrl, DataDir, read
from workers.supervisor import location
from workers.supervisor.location import StartError

if TYPE_CHECKING:
    from app.runtime import Runtime
    from workers.moving.outcomes import MovedRow

#: Variables with the URL of Ironic's database, and with the path of a file that has it.
URL, URL_FILE = "IRONIC_DATABASE_URL", "IRONIC_DATABASE_URL_FILE"


Source = Annotated[
    str | None,
    typer.Argument(
        metavar="[SOURCE]",
        help="ironic.conf, or URL without a password: mysql+pymysql://, postgresql://,"
        f" sqlite:///FILE; default: {URL} or {URL_FILE}",
    ),
]
OutputForm = Annotated[Form, typer.Option("--output", "-o", "-f", help="Output format")]


def import_ironic(
    source: Source = None,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Import; without it nothing is changed")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Import while conductors of Ironic are running")
    ] = False,
    interface: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:NAME=HERE", help="Replace an interface of Ironic: network:flat=noop"
        ),
    ] = None,
    output: OutputForm = Form.TABLE,
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """
    Report what an import of Ironic's database would do to each node; import it with --apply.

    Ironic's database is only read. Rows that exist here are never changed, so that a second run
    goes on where one was interrupted. Exit status: 0; 1 if any row is not here as it is in Ironic.
    """
    from workers.moving import arrival, ironic_database  # here: slow to import

    url = ironic_database.connection_of(_source(source, os.environ))
    replacements = _replacements(interface or (), "HERE")
    with (
        _moving("import", data_dir, database, config) as runtime,
        ironic_database.opened(url) as ironic,
    ):
        _check_stopped("Ironic", ironic.running(), apply=apply, force=force)
        run = arrival.Import(runtime, ironic, replacements, write=apply)
        rows = list(run.run())
    _report(rows, output)


def export_ironic(
    source: Source = None,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Export; without it nothing is changed")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Change rows of Ironic that have other content")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Export while conductors of Ironic or Ingot are running"),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation")] = False,
    interface: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:NAME=THERE",
            help="Replace an interface by one of Ironic: network:switch=noop",
        ),
    ] = None,
    output: OutputForm = Form.TABLE,
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """
    Report what an export to Ironic's database would do to each node; export with --apply.

    Ironic's database has the schema of its release 39. Passwords of BMCs and of volumes are written
    to it IN PLAIN TEXT, as Ironic stores them. Rows that exist in Ironic with other content are
    changed with --overwrite only. Exit status: 0; 1 if any row differs in Ironic.
    """
    from workers.moving import departure, ironic_39, ironic_database  # here: slow to import

    url = ironic_database.connection_of(_source(source, os.environ))
    replacements = _replacements(interface or (), "THERE")
    with (
        _moving("export", data_dir, database, config) as runtime,
        ironic_database.opened(url, write=apply) as ironic,
    ):
        ironic.check_revision(ironic_39.REVISION, ironic_39.RELEASE)
        run = departure.Export(runtime, ironic, replacements, write=apply, overwrite=overwrite)
        _check_stopped("Ironic", ironic.running(), apply=apply, force=force)
        _check_stopped("Ingot", run.conductors(), apply=apply, force=force)
        if apply and not yes:
            _confirm_plain_text(ironic.address)
        if staying := run.staying():
            counts = ", ".join(f"{kind}: {count}" for kind, count in staying.items())
            typer.echo(f"Not exported, as Ironic has no tables for them: {counts}", err=True)
        rows = list(run.run())
    _report(rows, output)


@contextmanager
def _moving(
    process: str, data_dir: DataDir, database: DatabaseUrl, config: Config
) -> Iterator["Runtime"]:
    """
    Yield a runtime for a move, with the settings that the options of its command name.

    process: its name in kill points. Raises StartError, SettingsError.
    """
    from app.process import kill_points  # here: these imports are slow
    from workers.moving import ironic_database

    settings = location.complete(
        read(config, DEFAULT__data_dir=data_dir and str(data_dir), database__connection=database)
    )
    kill_points.arm(settings.default.kill_points, process)
    with silent_runtime(settings) as moving_runtime:
        try:
            yield moving_runtime
        except ironic_database.NotIronic as error:
            raise StartError(f"Ironic's database {error}") from None


def _report(rows: list["MovedRow"], form: Form) -> None:
    """Write the outcome of each row, and exit with a status."""
    from app.cli.terminal.output import Output  # here: slow to import
    from workers.moving.outcomes import LEFT, Outcome

    columns = ("kind", "uuid", "name", "provision_state", "outcome", "detail")
    Output(form).items([asdict(row) for row in rows], columns)
    if form is Form.TABLE:
        for outcome in Outcome:
            if count := sum(row.outcome is outcome for row in rows):
                typer.echo(f"{outcome}: {count}")
    raise typer.Exit(any(row.outcome in LEFT for row in rows))


def _source(source: str | None, environ: Mapping[str, str]) -> str:
    """Return the source of a database. Raises SettingsError: none, or one with a password."""
    if source is not None:
        if mask_urls(source) != source:
            raise SettingsError(
                "every user of this host can read a password on a command line: set"
                f" {URL}, or {URL_FILE} to the path of a file with the URL, or name Ironic's"
                " ironic.conf"
            )
        return source
    if environ.get(URL):
        return environ[URL]
    path = environ.get(URL_FILE)
    if not path:
        raise SettingsError(f"name Ironic's ironic.conf or the URL of its database, or set {URL}")
    return secret_in_file(URL_FILE, path)


def _replacements(texts: Iterable[str], destination: str) -> dict[tuple[str, str], str]:
    """
    Return {(kind, interface): its replacement}.

    destination: word of the option for the replacement.

    Raises SettingsError.
    """
    from drivers.core.interface_kinds import KINDS  # here: slow to import

    replacements = {}
    for text in texts:
        interface, _, replacement = text.partition("=")
        kind, _, name = interface.partition(":")
        if kind not in KINDS or not name or not replacement:
            raise SettingsError(
                f"--interface {text}: not KIND:NAME={destination}, with a KIND of"
                f" {', '.join(KINDS)}"
            )
        replacements[kind, name] = replacement
    return replacements


def _confirm_plain_text(address: str) -> None:
    """Ask whether to write passwords to a database of Ironic. Raises StartError: it is refused."""
    from app.cli import bulk  # here: slow to import
    from app.cli.terminal.errors import Failure

    try:
        bulk.confirm(
            f"Passwords of BMCs and volumes are written IN PLAIN TEXT to {address}, as Ironic"
            " stores them. Export"
        )
    except Failure as error:
        raise StartError(str(error)) from None


def _check_stopped(service: str, conductors: Iterable[str], *, apply: bool, force: bool) -> None:
    """Refuse a move while conductors of a service run; warn of a report. Raises StartError."""
    names = ", ".join(conductors)
    if not names:
        return
    if apply and not force:
        raise StartError(
            f"{service} is running: conductor {names} had a heartbeat within the last minute. Two"
            f" services on one machine overrule each other: stop {service}, or repeat with --force"
        )
    typer.echo(f"{service} is running: conductor {names}; nodes may change", err=True)
