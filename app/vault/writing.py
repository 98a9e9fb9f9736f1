"""
Transactions whose secrets are stored in the vault first (`app.models.vaulting`).

A secret is created between two runs of the transaction: after the first one has passed all checks
and was rolled back, before the second one refers to it. The row of a secret is committed before the
secret is created: if the process dies in between, `sweep` destroys the secret by the row.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, delete, func, insert, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from app.db.clock import after, fixed, now
from app.db.transactions import reading, write_connection
from app.models import VaultSecret, VaultState
from app.models.vaulting import WRITING, NotStored, VaultedSecret, Writing
from app.process import kill_points
from app.vault.vault import Vault
from drivers.core import references
from drivers.core.errors import SecretsUnavailable

T = TypeVar("T")

#: Runs of a transaction, of which each has found further secrets, until it is given up.
MOST_RUNS = 20
#: Seconds after which a secret that no node refers to counts as left behind by its process.
LEFT_BEHIND = 3600.0
#: Secrets of a node that are kept for `[vault]keep_days`.
KEPT = 10
#: Secrets that one run of `sweep` destroys.
BATCH = 500
_DAY = 86400.0


def storing(
    engine: Engine, vault: Vault | None, work: Callable[[], T], *, whole: bool = False
) -> T:
    """
    Run a transaction; store its new secrets in the vault, if they belong there, and run it again.

    whole: also the secrets that its nodes have in the database.

    Raises SecretsUnavailable: the vault does not keep them; nothing was written.
    """
    if vault is None or not vault.stores:
        return work()
    writing = Writing(whole)
    names: list[str] = []
    context = WRITING.set(writing)
    try:
        for _ in range(MOST_RUNS):
            try:
                return work()
            except NotStored as error:
                _store(engine, vault, writing, error.secrets, names)
        raise SecretsUnavailable("the secrets of a transaction change at each of its runs")
    except Exception:
        with suppress(SQLAlchemyError):  # the sweep finds them later
            _abandon(engine, names)
        raise
    finally:
        WRITING.reset(context)


def _store(
    engine: Engine,
    vault: Vault,
    writing: Writing,
    secrets: Sequence[VaultedSecret],
    names: list[str],
) -> None:
    """Create secrets, and append their names to `names` before."""
    new_names = {secret: references.new_name() for secret in secrets}
    names += new_names.values()
    with write_connection(engine) as connection:
        for secret, name in new_names.items():
            connection.execute(
                insert(VaultSecret).values(
                    name=name,
                    node_uuid=secret.node_uuid,
                    field=secret.field,
                    state=VaultState.PENDING,
                    changed_at=now(),
                )
            )
    kill_points.reach("vault_noted")
    for secret, name in new_names.items():
        vault.create(secret, name)
    writing.names.update(new_names)
    kill_points.reach("vault_stored")


def _abandon(engine: Engine, names: Sequence[str]) -> None:
    """Let the sweep destroy secrets to which no node refers."""
    if names:
        with write_connection(engine) as connection:
            connection.execute(
                update(VaultSecret)
                .where(VaultSecret.name.in_(names), VaultSecret.state == VaultState.PENDING)
                .values(state=VaultState.UNUSED, changed_at=now())
            )


def sweep(engine: Engine, vault: Vault) -> int:
    """
    Destroy secrets that no node may refer to; return how many.

    Raises SecretsUnavailable: the vault does not destroy them; the next run goes on.
    """
    with write_connection(engine) as connection:
        connection.execute(
            update(VaultSecret)
            .where(
                VaultSecret.state == VaultState.PENDING,
                VaultSecret.changed_at < fixed(after(-LEFT_BEHIND)),
            )
            .values(state=VaultState.UNUSED, changed_at=now())
        )
    with reading(engine) as session:
        query = _destroyed(vault.settings.keep_days)
        rows: list[VaultSecret] = list(session.scalars(query))
    for row in rows:
        vault.destroy(row)
        kill_points.reach("vault_destroyed")
        with write_connection(engine) as connection:
            connection.execute(
                delete(VaultSecret).where(
                    VaultSecret.name == row.name, VaultSecret.state == row.state
                )
            )
    return len(rows)


def _destroyed(keep_days: float) -> Select[Any]:
    """Select the secrets that are to be destroyed now."""
    is_dropped = VaultSecret.state == VaultState.DROPPED
    # a BMC that was left is still visited with its old password (`event_subscriptions`)
    is_old = VaultSecret.changed_at < fixed(after(-max(keep_days * _DAY, LEFT_BEHIND)))
    newly_changed = select(VaultSecret.node_uuid).where(
        is_dropped, VaultSecret.changed_at > fixed(after(-LEFT_BEHIND))
    )
    position = func.row_number().over(
        partition_by=VaultSecret.node_uuid,
        order_by=(VaultSecret.changed_at.desc(), VaultSecret.name),
    )
    dropped = (
        select(VaultSecret.name, position.label("position"))
        .where(is_dropped, VaultSecret.node_uuid.in_(newly_changed))
        .subquery()
    )
    excess = select(dropped.c.name).where(dropped.c.position > KEPT)
    return (
        select(VaultSecret)
        .where(
            or_(
                VaultSecret.state == VaultState.UNUSED,
                is_dropped & (is_old | VaultSecret.name.in_(excess)),
            )
        )
        .limit(BATCH)
    )


def counts(connection: Connection) -> dict[str, int]:
    """Count secrets in the vault by their state."""
    query = select(VaultSecret.state, func.count()).group_by(VaultSecret.state)
    return {row.state: row[1] for row in connection.execute(query)}
