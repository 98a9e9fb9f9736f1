"""
Commands about the master keys and data keys: their state, their rotation, and what is proven with
them.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.config.settings import Settings, SettingsError
from app.text.sentences import harmless
from workers.commands.command_runtime import silent_runtime
from workers.commands.configuration import Config, read
from workers.supervisor import location
from workers.supervisor.location import StartError

if TYPE_CHECKING:  # slow to import
    from sqlalchemy import Connection

    from app.db.master_keys import Master

T = TypeVar("T")

keys = typer.Typer(help="Manage the keys that encrypt secrets.", no_args_is_help=True)


def with_data_keys(
    config: Path | None, work: "Callable[[Settings, Connection, Sequence[Master]], T]"
) -> T:
    """Run `work` in a transaction, with the master keys. Raises StartError, SettingsError."""
    from app.db.sealing import keyring_of  # here: SQLAlchemy is slow to import

    settings = location.complete(read(config))
    with silent_runtime(settings) as runtime, runtime.write_connection() as connection:
        return work(settings, connection, keyring_of(connection.dialect).masters)


@keys.command()
def status(config: Config = None) -> None:
    """
    Show master keys and data keys by their names, tables with rows to encrypt, and the number of
    secrets in the vault by their state, as JSON.
    """
    from app.rows import data_keys
    from app.vault import writing

    def work(_: Settings, connection: "Connection", masters: "Sequence[Master]") -> object:
        return {
            **data_keys.status(connection, masters),
            "vault_secrets": writing.counts(connection),
        }

    table_status = with_data_keys(config, work)
    typer.echo(json.dumps(table_status, indent=2))


@keys.command()
def rotate(config: Config = None) -> None:
    """
    Encrypt the data keys with the first master key, and add a data key for new secrets.

    The first run starts the encryption of a database; all processes must have the key by then.
    """
    from app.audit import audit_records
    from app.rows import data_keys

    def work(settings: Settings, connection: "Connection", masters: "Sequence[Master]") -> None:
        if not masters:
            raise SettingsError("[database]secrets_key_file is needed: it has the master key")
        data_keys.rotate(connection, masters)
        audit_records.add_command(connection, settings, "update/database/secrets")

    with_data_keys(config, work)
    typer.echo("new secrets are encrypted with a new key within a minute")


class Place(StrEnum):
    """Place of the passwords of BMCs."""

    VAULT = "vault"
    DATABASE = "database"


@keys.command()
def move(
    to: Annotated[Place, typer.Option(help="New place of the passwords")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them")] = False,
    config: Config = None,
) -> None:
    """
    Move the passwords of BMCs between the database and the vault, on the database.

    Run it again if it ended early: it goes on with the nodes that remain. Exit status 1: a password
    of a node cannot be read, and the node is left as it is.
    """
    from app.process import kill_points
    from drivers.core.errors import SecretsUnavailable
    from workers.moving import vault_secrets

    settings = location.complete(read(config))
    kill_points.arm(settings.default.kill_points, "move")
    with silent_runtime(settings) as runtime:
        try:
            report = vault_secrets.move(
                runtime,
                to_vault=to is Place.VAULT,
                dry_run=dry_run,
                tell=partial(typer.echo, err=True),
            )
        except SecretsUnavailable as error:
            raise StartError(f"{error}; run the command again") from None
    verb = "to move" if dry_run else "moved"
    typer.echo(f"{verb} to the {to}: {report.secrets} secrets of {report.nodes} nodes")
    raise typer.Exit(1 if report.unreadable_nodes else 0)


def verify_audit(
    head: Annotated[
        str | None, typer.Option(help="Checkpoint of an earlier verification, which must exist")
    ] = None,
    config: Config = None,
) -> None:
    """
    Verify that audit records were not changed, added or removed, on the database.

    Exit status 1: some were; they are named. It prints the newest checkpoint: keep it on another
    host, for --head.
    """
    from app.audit import audit_proofs

    def work(
        settings: Settings, connection: "Connection", masters: "Sequence[Master]"
    ) -> "audit_proofs.Verdict":
        if not masters:
            raise SettingsError("[database]secrets_key_file is needed: audit records are signed")
        return audit_proofs.verify(connection, settings.audit, head)

    report = with_data_keys(config, work)
    for finding in report.findings:
        typer.echo(finding)
    typer.echo(f"{report.records} records, {report.checkpoints} checkpoints, head {report.head}")
    if report.unproven:
        typer.echo(f"{report.unproven} records are older than the first checkpoint: not verified")
    raise typer.Exit(1 if report.findings else 0)


def public_key(config: Config = None) -> None:
    """
    Print the public key of sanitation reports as PEM, from the database.

    Keep it where the readers of reports find it: a report is verified with a key from elsewhere.
    """
    import base64

    from app.audit import sanitation_proofs
    from app.db.sealing import keyring_of

    def work(_: Settings, connection: "Connection", _masters: "Sequence[Master]") -> str | None:
        signed = keyring_of(connection.dialect).signature(b"")
        return signed and signed[1]

    encoded_key = with_data_keys(config, work)
    if encoded_key is None:
        raise StartError("there is no data key, so that no report is signed: see `ingot secrets`")
    typer.echo(sanitation_proofs.pem_of(base64.b64decode(encoded_key)), nl=False)


def verify_reports(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Reports, as `show --file` writes them")
    ],
    *,
    key: Annotated[
        str,
        typer.Option(help="Public key: path of a PEM file, or base64, as `key` has printed it"),
    ],
) -> None:
    """
    Verify the signatures of sanitation reports in files, without the service.

    Exit status 1: one of them is not what the service has signed. The result of each report is
    printed: a genuine report may say that the machine was not sanitized.
    """
    from app.audit import sanitation_proofs

    try:
        encoded_key = Path(key).read_text() if Path(key).exists() else key
        public_key = sanitation_proofs.key_of(encoded_key)
    except (OSError, UnicodeDecodeError, sanitation_proofs.NotProven) as error:
        raise StartError(f"--key: {error}") from None
    results: Counter[str] = Counter()
    for file in files:
        try:
            document = sanitation_proofs.read(file.read_bytes())
            report = sanitation_proofs.verify(document, public_key)
        except (sanitation_proofs.NotProven, OSError) as error:
            if len(files) == 1:
                raise StartError(f"{file}: {error}") from None
            typer.echo(harmless(f"{file}: not genuine: {error}"), err=True)
        else:
            results[report["result"]] += 1
            _print_report(report)
    if len(files) > 1:
        genuine = results.total()
        counts = ", ".join(f"{number} {result}" for result, number in results.most_common())
        typer.echo(harmless(f"{genuine} of {len(files)} reports are genuine: {counts or 'none'}"))
        raise typer.Exit(0 if genuine == len(files) else 1)


def _print_report(report: Mapping[str, Any]) -> None:
    node, operation = report["node"], report["operation"]
    typer.echo(
        harmless(
            f"genuine: node {node['uuid']} ({node['name']}), operation {operation['uuid']}"
            f" ({operation['kind']}), {operation['finished_at']}"
        )
    )
    typer.echo(harmless(f"result: {report['result']}"))
    for reason in report["reasons"]:
        typer.echo(harmless(f"  {reason}"))


def _alone(name: str, function: Callable[..., None]) -> typer.Typer:
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command.command(name)(function)
    return command


#: Group of the operator's commands -> commands that belong to it and do not use the API.
OF_GROUPS: Mapping[str, Mapping[str, typer.Typer]] = {
    "audit": {"verify": _alone("verify", verify_audit)},
    "sanitation": {
        "verify": _alone("verify", verify_reports),
        "key": _alone("key", public_key),
    },
}
