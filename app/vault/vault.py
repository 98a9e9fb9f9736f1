"""
The vault of a process: reads, creates and destroys the secrets of nodes.

The path of a secret is PREFIX/NODE/FIELD/NAME. A reference in a row has the name only; node and
field are those of the row (`app.models.vaulting`), and are also in the secret. So a writer of the
database cannot have the secret of one node or field used in another.
"""

import time
from collections.abc import Callable
from typing import Any

import orjson

from app.config.settings import Settings
from app.db.sealing import Path
from app.metrics.table import VAULT_REQUESTS
from app.models import VaultSecret
from app.models.vaulting import VaultedSecret, field_of, replaced, secrets_in
from app.process.circuit_breaker import CircuitBreaker
from app.vault.secret_cache import SecretCache
from drivers.core import references
from drivers.core.errors import InvalidDriverInfo, SecretsUnavailable, VaultUnreachable
from drivers.net import vault as kv
from drivers.net import vault_login

#: Seconds during which a missing secret is not asked for again.
MISSING_FOR = 30.0
#: Most missing secrets that are remembered.
_MOST_MISSING = 1000


class OutOfReach(VaultUnreachable):
    """The vault did not answer the last request, so that none is sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the vault is out of reach: {reason}")


class Vault:
    """The vault as a process uses it, from all its threads."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        group = self.settings = settings.vault
        assert group.address is not None
        server = kv.Server(group.address, group.namespace, group.ca_file, group.timeout)
        self._connection = kv.Connection(server, VAULT_REQUESTS.observe)
        login = vault_login.login_of(settings.options())
        tokens = vault_login.Tokens(self._connection, login, clock)
        self._kv = kv.Kv(
            self._connection, group.mount, group.prefix, tokens.current, tokens.refused
        )
        self._cache = SecretCache(group.cache_time, group.cache_size, clock)
        self._clock = clock
        self._missing: dict[str, float] = {}  # path -> when it was asked for
        self._breaker = CircuitBreaker(
            ("vault.lost", "vault.back"),
            (VaultUnreachable,),
            OutOfReach,
            self._try,
        )

    @property
    def stores(self) -> bool:
        """Whether new secrets are kept here, and not in the database."""
        return self.settings.store_secrets

    def opened(self, node_uuid: str, column: str, document: object) -> Any:
        """
        Return a document of a node with the secrets instead of the references to them.

        Raises InvalidDriverInfo: one was deleted in the vault.
        Raises SecretsUnavailable: the vault does not give one, and it is not remembered.
        """
        values: dict[Path, object] = {
            path: self._read(node_uuid, column, path, value)
            for path, value in secrets_in(column, document)
            if references.is_reference(value)
        }
        return replaced(document, values) if values else document

    def create(self, secret: VaultedSecret, name: str) -> None:
        """Create a secret whose row exists. Raises SecretsUnavailable: it may exist or not."""
        path = _path(secret.node_uuid, secret.field, name)
        content = {
            "node": secret.node_uuid,
            "field": secret.field,
            "value": orjson.loads(secret.value),
        }
        with self._breaker.guard():
            self._kv.create(path, content)

    def destroy(self, row: VaultSecret) -> None:
        """Destroy a secret, if it exists. Raises SecretsUnavailable."""
        path = _path(row.node_uuid, row.field, row.name)
        self._cache.forget(path)
        with self._breaker.guard():
            self._kv.destroy(path)

    def examine(self) -> str:
        """
        Check that secrets can be created, read and destroyed; return a description of the server.

        Raises SecretsUnavailable. Raises kv.Missing: a secret was created, and cannot be read.
        """
        description = self._connection.is_able()
        path = _path("doctor", "check", references.new_name())
        self._kv.create(path, {"value": "check"})
        try:
            self._kv.read(path)
        finally:
            self._kv.destroy(path)
        return description

    def _try(self) -> None:
        self._connection.is_able()

    def _read(self, node_uuid: str, column: str, path: Path, reference: str) -> object:
        """Return a secret; one that is remembered also while the vault does not answer."""
        field = field_of(column, path)
        location = _path(node_uuid, field, references.name_in(reference))
        remembered = self._cache.get(location)
        if remembered is not None and not self._cache.is_due(remembered):
            return remembered.value
        place = f"{column}/{'/'.join(map(str, path))}"
        if self._clock() < self._missing.get(location, float("-inf")) + MISSING_FOR:
            raise _lost(place)
        try:
            with self._breaker.guard():
                content = self._kv.read(location)
        except kv.Missing:
            self._cache.forget(location)
            self._remember_missing(location)
            raise _lost(place) from None
        except SecretsUnavailable:
            if remembered is not None:
                return remembered.value
            raise
        if (content.get("node"), content.get("field")) != (node_uuid, field):
            raise _lost(place)
        self._cache.put(location, content.get("value"))
        return content.get("value")

    def _remember_missing(self, location: str) -> None:
        if len(self._missing) >= _MOST_MISSING:
            self._missing.clear()
        self._missing[location] = self._clock()


def _path(*parts: str) -> str:
    return "/".join(parts)


def _lost(place: str) -> InvalidDriverInfo:
    return InvalidDriverInfo(
        f"{place}: its secret is not in the vault, or is that of another node or field: set it"
        " again"
    )
