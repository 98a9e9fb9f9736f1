"""
Commands that work on the database itself: their options, their database, their errors.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.cli.commands import WRITING, option
from app.config.settings import Settings
from workers.commands.command_runtime import disposing
from workers.commands.configuration import Config, DatabaseUrl, DataDir, read
from workers.supervisor import location
from workers.supervisor.location import StartError

if TYPE_CHECKING:  # slow to import
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    from app.cli.terminal.output import Output

T = TypeVar("T")

#: Options of each command.
OPTIONS = (
    *WRITING[:2],
    option("data_dir", DataDir),
    option("database", DatabaseUrl),
    option("config", Config),
)

UserName = Annotated[str, typer.Argument(metavar="USER", help="Name of a user")]
OfUser = Annotated[str | None, typer.Option("--user", help="Name of a user")]


#: Argument of a command that names the target of its audit record; the first one that is given.
TARGETS = ("uuid", "name", "user", "group")


def group(name: str, subject: str) -> typer.Typer:
    """Create a group of commands, as `ingot user`."""
    return typer.Typer(name=name, help=f"{subject}, for auth_strategy local.", no_args_is_help=True)


class Accounts:
    """The database, the output of a command, and its record for the audit."""

    def __init__(
        self,
        engine: "Engine",
        settings: Settings,
        output: "Output",
        action: str,
        target: str | None,
    ) -> None:
        self._engine, self.settings, self.output = engine, settings, output
        self._action, self._target = action, target

    def change(self, work: "Callable[[Session], T]") -> T:
        """Run `work`, and record the command, in a transaction. Raises the errors of `work`."""
        from app.audit import audit_records
        from app.db import transactions  # here: slow to import

        with transactions.transaction(self._engine) as session:
            result = work(session)
            connection = transactions.connection_of(session)
            audit_records.add_command(connection, self.settings, self._action, self._target)
            return result

    def read(self, work: "Callable[[Session], T]") -> T:
        """Run `work` in a transaction that is only read."""
        from app.db import transactions  # here: slow to import

        with transactions.reading(self._engine) as session:
            return work(session)


def command(group: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function of `Accounts` and its own arguments to a group as a command."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        @wraps(function)
        def run(**values: Any) -> None:
            from app.cli.terminal.output import Output  # here: rich is slow to import

            connection_options = {
                parameter.name: values.pop(parameter.name) for parameter in OPTIONS
            }
            columns = (connection_options.pop("fields") or "").split(",")
            output = Output(
                connection_options.pop("output"), tuple(filter(None, map(str.strip, columns)))
            )
            target = next((str(values[name]) for name in TARGETS if values.get(name)), None)

            def work(engine: "Engine", settings: Settings) -> None:
                action = f"{name}/{group.info.name}"
                function(Accounts(engine, settings, output, action, target), **values)

            _run(connection_options, work)

        run.__signature__ = inspect.Signature([*parameters, *OPTIONS])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        group.command(name)(run)
        return function

    return add


def _run(connection_options: dict[str, Any], work: "Callable[[Engine, Settings], None]") -> None:
    """
    Run `work` with the database that the options name.

    Raises StartError: the database is unreachable, or refuses; or the command is refused.
    Raises SettingsError.
    """
    from app.db import connections
    from app.errors import ServiceError
    from app.rows import data_keys

    settings = _settings(**connection_options)
    database = settings.database
    keyring = data_keys.keyring(database)  # signs the audit record
    engine = connections.connect(database.connection, **database.limits, keyring=keyring)
    with disposing(engine):
        _check_tables(engine)
        try:
            work(engine, settings)
        except ServiceError as error:
            raise StartError(str(error)) from None


def _settings(data_dir: Path | None, database: str | None, config: Path | None) -> Settings:
    settings = location.complete(
        read(config, DEFAULT__data_dir=data_dir and str(data_dir), database__connection=database)
    )
    scheme, _, path = settings.database.connection.partition(":///")
    if scheme == "sqlite" and not Path(path).exists():
        raise StartError(
            f"database {path}: there is no such file; name it by --data-dir or --database"
        )
    return settings


def _check_tables(engine: "Engine") -> None:
    from sqlalchemy import inspect as inspected

    from app.models import User

    if not inspected(engine).has_table(User.__tablename__):
        raise StartError("database: it has no table of users; run `ingot db upgrade`")
