"""
The command that moves Ironic's database here: `ingot import-ironic`.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from app.cli.terminal.output_format import Form
from app.config.loading import secret_in_file
from app.config.settings import SettingsError
from app.text.masking import mask_urls
from workers.commands.configuration import Config, DatabaseUrl, DataDir, read
from workers.supervisor import location
from workers.supervisor.location import StartError

#: Variables with the URL of Ironic's database, and with the path of a file that has it.
URL, URL_FILE = "IRONIC_DATABASE_URL", "IRONIC_DATABASE_URL_FILE"


def import_ironic(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="ironic.conf, or URL without a password: mysql+pymysql://, postgresql://,"
            f" sqlite:///FILE; default: {URL} or {URL_FILE}",
        ),
    ] = None,
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
    output: Annotated[
        Form, typer.Option("--output", "-o", "-f", help="Output format")
    ] = Form.TABLE,
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """
    Report what an import of Ironic's database would do to each node; import it with --apply.

    Ironic's database is only read. Rows that exist here are never changed, so that a second run
    goes on where one was interrupted. Exit status: 0; 1 if any row is not here as it is in Ironic.
    """
    from sqlalchemy.exc import SQLAlchemyError  # here: these imports are slow

    from app import runtime
    from app.cli.terminal.output import Output
    from app.db.diagnosis import reason
    from app.process import kill_points
    from workers.moving import arrival, ironic_database

    url = ironic_database.connection_of(_source(source, os.environ))
    replacements = _replacements(interface or ())
    settings = location.complete(
        read(config, DEFAULT__data_dir=data_dir and str(data_dir), database__connection=database)
    )
    kill_points.arm(settings.default.kill_points, "import")
    import_runtime = runtime.make(settings, send=lambda _message: False)
    try:
        with ironic_database.opened(url) as ironic:
            _check_stopped(ironic.running(), apply=apply, force=force)
            run = arrival.Import(import_runtime, ironic, replacements, write=apply)
            arrivals = list(run.run())
    except ironic_database.NotIronic as error:
        raise StartError(f"Ironic's database {error}") from None
    except SQLAlchemyError as error:
        raise StartError(f"database: {reason(error)}") from None
    finally:
        import_runtime.engine.dispose()
    columns = ("kind", "uuid", "name", "provision_state", "outcome", "detail")
    Output(output).items([item.document() for item in arrivals], columns)
    if output is Form.TABLE:
        for outcome in arrival.Outcome:
            if count := sum(item.outcome is outcome for item in arrivals):
                typer.echo(f"{outcome}: {count}")
    raise typer.Exit(any(item.outcome in arrival.LEFT for item in arrivals))


def _source(source: str | None, environ: Mapping[str, str]) -> str:
    """Return the source of the import. Raises SettingsError: none, or one with a password."""
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


def _replacements(texts: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return {(kind, interface of Ironic): interface here}. Raises SettingsError."""
    from drivers.core.interface_kinds import KINDS  # here: slow to import

    replacements = {}
    for text in texts:
        interface, _, here = text.partition("=")
        kind, _, name = interface.partition(":")
        if kind not in KINDS or not name or not here:
            raise SettingsError(
                f"--interface {text}: not KIND:NAME=HERE, with a KIND of {', '.join(KINDS)}"
            )
        replacements[kind, name] = here
    return replacements


def _check_stopped(conductors: Iterable[str], *, apply: bool, force: bool) -> None:
    """Refuse an import while conductors of Ironic run; warn of a report. Raises StartError."""
    names = ", ".join(conductors)
    if not names:
        return
    if apply and not force:
        raise StartError(
            f"Ironic is running: conductor {names} had a heartbeat within the last minute. Two"
            " services on one machine overrule each other: stop Ironic, or repeat with --force"
        )
    typer.echo(f"Ironic is running: conductor {names}; nodes may change", err=True)
