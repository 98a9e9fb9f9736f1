"""
Moves of the secrets of all nodes: from the database into the vault, or back.

Each node is a transaction of its own: the next run continues one that ended early, and a further
run finds nothing to do. The nodes may be worked on meanwhile.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.audit import audit_records
from app.config.settings import SettingsError
from app.db.sealing import unreadable_secret
from app.db.transactions import retrying
from app.models import Node
from app.models.vaulting import COLUMNS, secrets_in
from app.runtime import Runtime
from app.vault import writing
from app.vault.vault import Vault
from drivers.core.errors import InvalidDriverInfo
from drivers.core.references import is_reference

#: Nodes that are read at once.
PAGE = 200


@dataclass(slots=True)
class Report:
    """Counts of a move; a dry run counts what it would move."""

    nodes: int = 0
    secrets: int = 0
    unreadable_nodes: int = 0  # nodes with a secret that cannot be read


class NotReadable(Exception):
    """A secret of a node cannot be read where it is; the message names it."""


def move(runtime: Runtime, *, to_vault: bool, dry_run: bool, tell: Callable[[str], None]) -> Report:
    """
    Move the secrets of all nodes; call `tell` with each node that is left as it is.

    Raises SettingsError: the settings are not those for this direction.
    Raises SecretsUnavailable: the vault does not take or give them; run it again.
    """
    vault, report = _vault(runtime, to_vault=to_vault), Report()
    for ident, uuid in _nodes(runtime):
        with runtime.reading() as session:
            count = _count(session.get(Node, ident), to_vault=to_vault)
        if not count:
            continue
        if not dry_run:
            try:
                count = _move(runtime, vault, ident, to_vault=to_vault)
            except NotReadable as error:
                report.unreadable_nodes += 1
                tell(f"node {uuid} is left: {error}")
                continue
        report.nodes += 1
        report.secrets += count
    if report.nodes and not dry_run:
        action = f"update/{'vault' if to_vault else 'database'}/secrets"
        with runtime.write_connection() as connection:
            audit_records.add_command(connection, runtime.settings, action)
    return report


def _vault(runtime: Runtime, *, to_vault: bool) -> Vault:
    """Return the vault. Raises SettingsError: new secrets would go elsewhere."""
    if runtime.vault is None:
        raise SettingsError("[vault]address is needed: it is the address of the vault")
    if runtime.vault.stores is not to_vault:
        value = "true" if to_vault else "false"
        raise SettingsError(
            f"[vault]store_secrets: set it to {value} for all processes first, or new secrets go"
            " the other way"
        )
    return runtime.vault


def _nodes(runtime: Runtime) -> Iterator[tuple[int, str]]:
    """Yield id and UUID of all nodes."""
    last_id = 0
    while True:
        query = select(Node.id, Node.uuid).where(Node.id > last_id).order_by(Node.id).limit(PAGE)
        with runtime.reading() as session:
            rows = session.execute(query).all()
        if not rows:
            return
        yield from ((row.id, row.uuid) for row in rows)
        last_id = rows[-1].id


def _secrets(node: Node, *, to_vault: bool) -> dict[str, list[Any]]:
    """Return the values that a move concerns, by column."""
    return {
        column: [
            value
            for _, value in secrets_in(column, getattr(node, column))
            if is_reference(value) is not to_vault
        ]
        for column in COLUMNS
    }


def _count(node: Node | None, *, to_vault: bool) -> int:
    return 0 if node is None else sum(map(len, _secrets(node, to_vault=to_vault).values()))


def _move(runtime: Runtime, vault: Vault, ident: int, *, to_vault: bool) -> int:
    """
    Move the secrets of a node; return how many there were.

    Raises NotReadable, SecretsUnavailable.
    """
    if to_vault:
        return writing.storing(
            runtime.engine, vault, lambda: retrying(lambda: _rewrite(runtime, ident)), whole=True
        )
    with runtime.reading() as session:
        node = session.get(Node, ident)
    if node is None:
        return 0
    # before the transaction, which does not wait for the vault
    documents = {column: _opened(vault, node, column) for column in COLUMNS}
    return retrying(lambda: _write_back(runtime, node, documents))


def _rewrite(runtime: Runtime, ident: int) -> int:
    """Write the documents of a node as they are: its secrets are stored and replaced."""
    with runtime.transaction() as session:
        node = _locked(session, ident)
        if node is None:
            return 0
        count = _count(node, to_vault=True)
        for column in COLUMNS:
            document = getattr(node, column)
            if (unreadable := unreadable_secret(document)) is not None:
                raise NotReadable(f"{column}/{unreadable[0]} cannot be decrypted")
            setattr(node, column, {**document})
        return count


def _write_back(runtime: Runtime, read_node: Node, documents: dict[str, Any]) -> int:
    """Write documents with secrets, if the node has not changed since it was read."""
    with runtime.transaction() as session:
        node = _locked(session, read_node.id)
        if node is None:
            return 0
        count = 0
        for column in COLUMNS:
            if getattr(node, column) == getattr(read_node, column):
                count += len(_secrets(node, to_vault=False)[column])
                setattr(node, column, documents[column])
        return count


def _opened(vault: Vault, node: Node, column: str) -> Any:
    try:
        return vault.opened(node.uuid, column, getattr(node, column))
    except InvalidDriverInfo as error:
        raise NotReadable(str(error)) from None


def _locked(session: Session, ident: int) -> Node | None:
    node: Node | None = session.scalar(select(Node).where(Node.id == ident).with_for_update())
    return node
