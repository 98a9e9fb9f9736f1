"""
Vaulting: before a session writes a node, its new secrets are replaced by references to a vault.

No transaction waits for the vault. A transaction that finds secrets which are not in the vault yet
ends with `NotStored`; `app.vault.writing` stores them, and runs it again. In that run the rows of
the secrets move from PENDING to USED, together with the references.

Without `writing`, secrets are sealed in the database as ever (`app.db.sealing`): those of importers
and of dry runs. `ingot secrets move` finds them.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, update

from app.db.clock import now
from app.db.sealing import Path, is_empty, names_secret
from app.errors import Invalid
from app.models.secret import VaultSecret, VaultState
from drivers.core import references
from drivers.core.password_rotation import KEY as ROTATION

#: Column of a node -> the keys of its document whose secrets belong into the vault; None: all.
COLUMNS: Mapping[str, frozenset[str] | None] = {
    "driver_info": None,
    "driver_internal_info": frozenset({ROTATION}),
}
#: Secrets of a document that a caller may write; nodes have one to four.
MOST_SECRETS = 32
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True, slots=True)
class VaultedSecret:
    """A secret of a node that belongs into the vault."""

    node_uuid: str
    field: str  # part of its path in the vault, see `field_of`
    value: bytes  # JSON


class NotStored(Exception):
    """The transaction writes secrets that are not in the vault yet."""

    def __init__(self, secrets: list[VaultedSecret]) -> None:
        super().__init__("secrets are to be stored in the vault first")
        self.secrets = secrets


@dataclass(slots=True)
class Writing:
    """Secrets that were stored in the vault for a transaction."""

    whole: bool  # also those that the node has had before in the database
    names: dict[VaultedSecret, str] = field(default_factory=dict)


#: Of the transaction that this thread runs; None: its secrets stay in the database.
WRITING: ContextVar[Writing | None] = ContextVar("writing", default=None)


def field_of(column: str, path: Path) -> str:
    """Return the part of a secret's path in the vault that stands for its place in a node."""
    if len(path) == 1 and isinstance(path[0], str) and _PLAIN_KEY.fullmatch(path[0]):
        return f"{column}.{path[0]}"
    return f"{column}..{hashlib.sha256(orjson.dumps(path)).hexdigest()[:32]}"


def secrets_in(column: str, document: object) -> Iterator[tuple[Path, Any]]:
    """Yield path and value of each secret, or reference to one, that belongs into the vault."""
    keys = COLUMNS[column]
    if isinstance(document, dict):
        for key, value in document.items():
            if keys is None or key in keys:
                yield from _secrets_at((key,), value)


def replaced(document: object, values: Mapping[Path, object]) -> Any:
    """Return a copy of a document with other values at some paths."""
    return _replaced((), document, values)


def vaulted(
    connection: Connection, node_uuid: str, column: str, old: object, document: object
) -> Any:
    """
    Return the document to write: new secrets are replaced by references.

    old: the document in the database. Secrets that it had already are left as they are there.

    Raises NotStored. Raises Invalid: a caller wrote a reference, or moved one to another key.
    """
    writing = WRITING.get()
    old_values = dict(secrets_in(column, old))
    new_values = dict(secrets_in(column, document))
    new_references: dict[Path, str] = {}
    missing_secrets: list[VaultedSecret] = []
    for path, value in new_values.items():
        if references.is_reference(value):
            if old_values.get(path) != value:
                raise Invalid(
                    f"{column}/{'/'.join(map(str, path))}: a reference to the vault cannot be"
                    " written or moved to another key: set the secret itself again"
                )
        elif writing is not None and (writing.whole or old_values.get(path) != value):
            secret = VaultedSecret(node_uuid, field_of(column, path), orjson.dumps(value))
            if (name := writing.names.get(secret)) and _use(connection, name):
                new_references[path] = references.to(name)
            else:
                missing_secrets.append(secret)
    if writing is not None and not writing.whole and len(new_values) > MOST_SECRETS:
        raise Invalid(
            f"{column}: it has {len(new_values)} secrets; at most {MOST_SECRETS} are kept"
        )
    if missing_secrets:
        raise NotStored(missing_secrets)
    new_values |= new_references
    dropped_names = [
        references.name_in(value)
        for path, value in old_values.items()
        if references.is_reference(value) and new_values.get(path) != value
    ]
    if dropped_names:
        _drop(connection, VaultSecret.name.in_(dropped_names))
    return replaced(document, new_references) if new_references else document


def drop_all(connection: Connection, node_uuid: str) -> None:
    """Record that a deleted node refers to no secret any more."""
    _drop(connection, VaultSecret.node_uuid == node_uuid)


def _drop(connection: Connection, condition: Any) -> None:
    connection.execute(
        update(VaultSecret)
        .where(condition, VaultSecret.state == VaultState.USED)
        .values(state=VaultState.DROPPED, changed_at=now())
    )


def _use(connection: Connection, name: str) -> bool:
    """Let a node refer to a secret; False: it may be destroyed already."""
    change = (
        update(VaultSecret)
        .where(VaultSecret.name == name, VaultSecret.state == VaultState.PENDING)
        .values(state=VaultState.USED, changed_at=now())
    )
    return connection.execute(change).rowcount == 1


def _secrets_at(path: Path, value: object) -> Iterator[tuple[Path, Any]]:
    if names_secret(path):
        if not is_empty(value):
            yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _secrets_at((*path, key), inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _secrets_at((*path, index), inner)


def _replaced(path: Path, value: object, values: Mapping[Path, object]) -> Any:
    if path in values:
        return values[path]
    if isinstance(value, dict):
        return {key: _replaced((*path, key), inner, values) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced((*path, index), inner, values) for index, inner in enumerate(value)]
    return value
