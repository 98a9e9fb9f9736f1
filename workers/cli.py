"""
All commands of `ingot`: service processes, database, settings, and the API client of `app/cli`.
"""

import socket
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from app.cli import command_tree
from app.cli.terminal.output_format import Form
from app.config.settings import Settings, SettingsError
from workers.commands import (
    key_commands,
    moving_commands,
    role_commands,
    settings_commands,
    user_commands,
)
from workers.commands.command_runtime import disposing, silent_runtime
from workers.commands.configuration import Config, DatabaseUrl, DataDir, read
from workers.supervisor import location, permissions, roles
from workers.supervisor import up as supervisor
from workers.supervisor.location import StartError

app = typer.Typer(
    help="Bare-metal provisioning that loses nothing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
db = typer.Typer(help="Manage the database.", no_args_is_help=True)
app.add_typer(db, name="db")
app.add_typer(key_commands.keys, name="secrets")
conductors = typer.Typer(invoke_without_command=True)
app.add_typer(conductors, name="conductor")
for group in (user_commands.users, user_commands.groups, user_commands.projects):
    app.add_typer(group)
for group in (role_commands.grants, role_commands.api_tokens):
    app.add_typer(group)
app.add_typer(settings_commands.group, name="config")
app.command("import-ironic")(moving_commands.import_ironic)
app.command("export-ironic")(moving_commands.export_ironic)


def main() -> None:
    """Run the command line; print a SettingsError or StartError as one line on standard error."""
    try:
        app()
    except (SettingsError, StartError) as error:
        sys.stderr.write(f"ingot: {error}\n")
        sys.exit(1)


@app.command()
def up(
    *,
    data_dir: Annotated[
        Path | None, typer.Option(help="Directory of database, Redis and files")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0: any")] = None,
    conductors: Annotated[int, typer.Option(help="Number of conductors", min=1)] = 1,
    database: DatabaseUrl = None,
    broker: Annotated[str | None, typer.Option(help="Redis URL")] = None,
    pidfile: Annotated[Path | None, typer.Option(help="File for the pids, as JSON")] = None,
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="Do not restart processes that end")
    ] = False,
    config: Config = None,
) -> None:
    """Start the whole service: API, conductors, beat, Redis; migrate the database first."""
    settings = read(
        config,
        role="up",
        DEFAULT__data_dir=data_dir and str(data_dir),
        api__host_ip=host,
        api__port=port,
        database__connection=database,
        broker__url=broker,
    )
    options = supervisor.Options(conductors, pidfile and pidfile.absolute(), not no_restart)
    raise typer.Exit(supervisor.run(settings, options))


def read_alone(config: Path | None, role: str) -> Settings:
    """
    Load the settings of a role that runs alone, with an external Redis.

    Raises SettingsError: no URL of Redis is set.
    """
    settings = location.complete(read(config, role=role))
    if not settings.broker.url:
        raise SettingsError("[broker]url is needed to run a role alone: set INGOT_BROKER_URL")
    return settings


@app.command()
def api(config: Config = None) -> None:
    """Serve the API."""
    settings = read_alone(config, "api")
    roles.become_alone(settings, "api", "api")


@conductors.callback()
def conductor(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Option(help="Unique name; default: [DEFAULT]host or the host name")
    ] = "",
    config: Config = None,
) -> None:
    """Run a conductor, which works on nodes."""
    if ctx.invoked_subcommand:
        return
    settings = read_alone(config, "conductor")
    # `ingot files` may only read it in a container; a step that needs it says why it cannot be made
    with suppress(OSError):
        Path(settings.deploy.http_root).mkdir(parents=True, exist_ok=True)
    permissions.prepare(settings)
    conductor_name = name or settings.default.host or socket.gethostname()
    roles.become_alone(settings, conductor_name, "conductor", conductor_name)


@app.command()
def beat(config: Config = None) -> None:
    """Run the scheduler of periodic tasks; a second one stands by."""
    settings = read_alone(config, "beat")
    roles.become_alone(settings, "beat", "beat")


@app.command()
def files(config: Config = None) -> None:
    """Serve the files that machines fetch from the conductors of this host."""
    settings = location.complete(read(config, role="files"))
    if not settings.deploy.http_port:
        raise SettingsError("[deploy]http_port is needed to serve files alone")
    permissions.prepare(settings)
    roles.become_alone(settings, "files", "files")


@app.command("dhcp-config")
def dhcp_config(
    boot: Annotated[str, typer.Option(help="ipxe, pxe or http")] = "ipxe",
    range_: Annotated[
        list[str] | None, typer.Option("--range", help="Address range, as dhcp-range of dnsmasq")
    ] = None,
    config: Config = None,
) -> None:
    """Print a dnsmasq configuration: DHCP and TFTP for machines that boot from the network."""
    from drivers.builtin import dnsmasq  # slow to import

    settings = location.complete(read(config))
    if boot not in dnsmasq.LOADERS:
        raise SettingsError(f"--boot: {boot!r} is neither {' nor '.join(dnsmasq.LOADERS)}")
    if boot == "http" and not settings.deploy.http_url:
        raise SettingsError("--boot: http needs [deploy]http_url, from which machines boot")
    typer.echo(dnsmasq.config(settings.options(), boot, range_ or ()), nl=False)


@db.command()
def upgrade(
    *,
    grants: Annotated[
        bool,
        typer.Option(
            "--grants", help="Then give the users of the roles their rights, see `grants`"
        ),
    ] = False,
    config: Config = None,
    database: DatabaseUrl = None,
) -> None:
    """Bring the database to the schema of this release."""
    settings = read(config, database__connection=database)
    if grants and not settings.database.connection.startswith("postgres"):
        raise SettingsError("--grants: only PostgreSQL has users")
    uses_bundled_database = not settings.database.connection
    location.make_key(settings)
    settings = location.complete(settings)
    if uses_bundled_database:
        Path(settings.default.data_dir).mkdir(parents=True, exist_ok=True)
        permissions.prepare(settings)
    roles.migrate(settings)
    _record_upgrade(settings, grants)


@db.command("grants")
def show_grants(config: Config = None) -> None:
    """
    Print the SQL that gives ingot_api, ingot_conductor and ingot_beat exactly their rights.

    For the owner of the tables in PostgreSQL, after each upgrade, and after a change of
    [oidc]group_map or [audit]keep_days; `upgrade --grants` executes it.
    """
    from app.rows import database_users

    settings = read(config)
    typer.echo("BEGIN;")
    for statement in database_users.statements(settings):
        typer.echo(f"{statement};")
    typer.echo("COMMIT;")


@app.command()
def doctor(
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair findings where possible; no machine is touched")
    ] = False,
    output: Annotated[
        Form, typer.Option("--output", "-o", "-f", help="Output format")
    ] = Form.TABLE,
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    broker: Annotated[str | None, typer.Option(help="Redis URL")] = None,
    config: Config = None,
) -> None:
    """Find and explain inconsistencies. Exit status: 0 no findings, 1 findings, 2 wrong usage."""
    from app.cli.terminal.output import Output  # here: rich is slow to import
    from workers.doctor import examination  # here: it imports nearly all modules

    settings = location.with_own_redis(
        location.complete(
            read(
                config,
                DEFAULT__data_dir=data_dir and str(data_dir),
                database__connection=database,
                broker__url=broker,
            )
        )
    )
    results = [asdict(result) for result in examination.examine(settings, fix=fix)]
    if results or output is Form.JSON:
        columns = ("check", "subject", "explanation", "repaired" if fix else "repairable")
        Output(output).items(results, columns)
    else:
        typer.echo("\n".join(("No findings.", *examination.scope(settings))))
    raise typer.Exit(bool(results))


@db.command()
def restored(
    config: Config = None,
    database: DatabaseUrl = None,
) -> None:
    """
    Declare the database restored from a backup: end all operations, set maintenance on all nodes.

    Conductors detect a restore by themselves, unless Redis has lost its data too.
    """
    from app.audit import audit_records  # here: SQLAlchemy is slow to import
    from app.db.transactions import connection_of
    from app.lifecycle.operation_states import Actor
    from workers.restoration import restore

    settings = location.complete(read(config, database__connection=database))
    with silent_runtime(settings) as runtime, runtime.transaction(Actor.COMMAND) as session:
        operation_count, nodes = restore.quarantine(session)
        audit_records.add_command(connection_of(session), settings, "update/database/restored")
    typer.echo(f"{operation_count} operations ended, {nodes} nodes are in maintenance")


def _record_upgrade(settings: Settings, grants: bool) -> None:
    """
    Record the upgrade, and give the users of the roles their rights, in one transaction.

    Raises StartError: there are no such users.
    """
    from app.audit import audit_records  # here: SQLAlchemy is slow to import
    from app.db import connections, transactions
    from app.rows import data_keys, database_users

    database = settings.database
    engine = connections.connect(
        database.connection, **database.limits, keyring=data_keys.keyring(database)
    )
    with disposing(engine), transactions.write_connection(engine) as connection:
        audit_records.add_command(connection, settings, "update/database/schema")
        for statement in database_users.statements(settings) if grants else ():
            connection.exec_driver_sql(statement)


if sys.argv[1:2] != ["up"]:  # its processes would keep what the operator's commands import
    # last: the help lists commands in the order of registration
    command_tree.join(app, conductors, key_commands.OF_GROUPS)

if __name__ == "__main__":
    main()
