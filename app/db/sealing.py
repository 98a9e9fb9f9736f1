"""
Encryption of secrets in the database.

JSON columns are written and read through a `Keyring`: secret values (`app.masking`) are replaced in
place by sealed texts, so that all other keys stay readable for SQL. Sealed texts are encrypted with
a data key (AES-256-GCM). Data keys are in a table, encrypted with a master key that is not in the
database; a new master key needs no row to be written but theirs.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from app import log
from app.masking import is_secret, mask_urls

logger = log.RateLimited(log.get(__name__))

#: Beginning of each sealed text; then the id of the data key, and base64 of nonce and ciphertext.
MARK = "sealed:v1:"
_SEALED = re.compile(rf"{MARK}([0-9a-f]{{16}}):([A-Za-z0-9+/]+=*)")
_NONCE = 12
_KEY = 32
#: Seconds after which a process reads the data keys again before it seals.
REFRESH = 60.0


class WrongKey(Exception):
    """No master key opens a data key, or a text is no master key; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class DataKeyRow:
    """A row of the table of data keys."""

    id: str  # random
    master: str  # name of the master key that encrypts it
    wrapped: str


Rows = Callable[[], Sequence[DataKeyRow]]


@dataclass(frozen=True)
class Master:
    """A master key."""

    key: bytes

    @property
    def name(self) -> str:
        """Name that does not tell the key."""
        return hashlib.sha256(b"ingot master key " + self.key).hexdigest()[:16]

    def new_data_key(self) -> DataKeyRow:
        return self.wrapped(os.urandom(8).hex(), os.urandom(_KEY))

    def wrapped(self, ident: str, key: bytes) -> DataKeyRow:
        return DataKeyRow(ident, self.name, _encrypted(AESGCM(self.key), ident, key))


def masters_of(text: str) -> list[Master]:
    """
    Read master keys, one per line, base64 of 32 bytes each. The first one encrypts.

    Raises WrongKey.
    """
    found = []
    for line in text.split():
        try:
            key = base64.b64decode(line, validate=True)
        except binascii.Error:
            key = b""
        if len(key) != _KEY:
            raise WrongKey("a key is base64 of 32 bytes, as `openssl rand -base64 32` prints it")
        found.append(Master(key))
    if not found:
        raise WrongKey("there is no key in it")
    return found


def unwrapped(masters: Iterable[Master], row: DataKeyRow) -> bytes:
    """
    Decrypt a data key.

    Raises WrongKey.
    """
    for master in masters:
        if master.name == row.master:
            try:
                return _decrypted(AESGCM(master.key), row.id, row.wrapped)
            except (InvalidTag, ValueError):
                break
    raise WrongKey(f"data key {row.id} needs master key {row.master}, which is not given")


class Keyring:
    """
    The keys of a process. Seals and opens secrets.

    Without data keys nothing is sealed: there is no master key, or sealing was not started.
    """

    def __init__(self, masters: Sequence[Master] = (), rows: Rows = tuple) -> None:
        self.masters = masters
        self._rows = rows
        self._keys: Mapping[str, AESGCM] = {}
        self._current: str | None = None  # id of the newest data key
        self._digest_key = b""
        self._read_at = -REFRESH
        # psycopg keeps one codec for all functions with the same code, such as methods of several
        # objects, and keeps a `partial` for ever: each keyring makes one of each
        self.serializer = partial(Keyring.dumps, self)
        self.deserializer = partial(Keyring.loads, self)

    def refresh(self) -> None:
        """
        Read the data keys.

        Raises WrongKey: no master key opens them.
        Raises SQLAlchemyError.
        """
        self._read_at = time.monotonic()
        found = {row.id: unwrapped(self.masters, row) for row in self._rows()}
        self._keys = {ident: AESGCM(key) for ident, key in found.items()}
        self._current = next(reversed(found), None)
        if found:  # of the oldest key, as digests are to outlive a rotation
            self._digest_key = hmac.digest(next(iter(found.values())), b"tokens", "sha256")

    @property
    def seals(self) -> bool:
        """Whether secrets are sealed when they are written."""
        return self._newest() is not None

    def seal(self, data: bytes, purpose: str = "") -> str:
        """
        Return a sealed text; there is a data key.

        purpose: authenticated with the content, so that the text is of no use in another place.
        """
        ident = self._newest()
        assert ident is not None
        return f"{MARK}{ident}:{_encrypted(self._keys[ident], ident + purpose, data)}"

    def unseal(self, text: str, purpose: str = "") -> bytes | None:
        """
        Return the content of a sealed text.

        None: it is none, was changed, was sealed for another purpose, or its key is unknown.
        """
        found = _SEALED.fullmatch(text)
        if found is None:
            return None
        ident = found[1]
        if ident not in self._keys and self.masters:
            self.refresh()  # it was made by a process that knew a newer key
        try:
            return _decrypted(self._keys[ident], ident + purpose, found[2])
        except (KeyError, InvalidTag, ValueError):
            logger.warning("secrets.unreadable", data_key=ident)
            return None

    def dumps(self, value: Any) -> str:
        """Encode a document as JSON text, with its secrets sealed."""
        sealed = self._sealed(value) if self._newest() is not None else value
        return orjson.dumps(sealed).decode()

    def loads(self, text: str | bytes) -> Any:
        """Decode JSON text, and open its sealed texts."""
        value = orjson.loads(text)
        return self.opened(value) if has_sealed(text) else value

    def open_text(self, text: str) -> str:
        """Open the sealed texts in the text of a document."""
        return orjson.dumps(self.loads(text)).decode() if has_sealed(text) else text

    def opened(self, value: Any) -> Any:
        """Open the sealed texts in a decoded document."""
        if isinstance(value, str):
            data = self.unseal(value) if value.startswith(MARK) else None
            return value if data is None else orjson.loads(data)
        if isinstance(value, dict):
            return {key: self.opened(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.opened(each) for each in value]
        return value

    def digest(self, token: str) -> str:
        """Return a digest by which SQL compares a token."""
        return hmac.new(self._digest_key, token.encode(), "sha256").hexdigest()

    def _sealed(self, value: Any) -> Any:
        if isinstance(value, str):
            if value.startswith(MARK) or mask_urls(value) != value:
                return self.seal(orjson.dumps(value))
            return value
        if isinstance(value, dict):
            return {
                key: self.seal(orjson.dumps(each))
                if isinstance(key, str) and is_secret(key) and not _is_empty(each)
                else self._sealed(each)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._sealed(each) for each in value]
        return value

    def _newest(self) -> str | None:
        if self.masters and time.monotonic() - self._read_at > REFRESH:
            try:
                self.refresh()
            except Exception as error:  # the known keys serve until the database is back
                if self._current is None:
                    raise
                logger.warning("secrets.keys_not_read", detail=str(error))
        return self._current


def has_sealed(text: str | bytes) -> bool:
    return MARK in text if isinstance(text, str) else MARK.encode() in text


def has_open_secret(value: Any) -> bool:
    """Whether a document, as it is stored, has a secret that is not sealed."""
    if isinstance(value, str):
        return not _SEALED.fullmatch(value) and mask_urls(value) != value
    if isinstance(value, dict):
        return any(
            not (_is_empty(each) or (isinstance(each, str) and _SEALED.fullmatch(each)))
            if is_secret(key)
            else has_open_secret(each)
            for key, each in value.items()
        )
    return isinstance(value, list) and any(map(has_open_secret, value))


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or isinstance(value, bool)


def _encrypted(cipher: AESGCM, bound: str, data: bytes) -> str:
    """Encrypt data; `bound` is authenticated with it."""
    nonce = os.urandom(_NONCE)
    return base64.b64encode(nonce + cipher.encrypt(nonce, data, bound.encode())).decode()


def _decrypted(cipher: AESGCM, bound: str, text: str) -> bytes:
    data = base64.b64decode(text)
    return cipher.decrypt(data[:_NONCE], data[_NONCE:], bound.encode())


_KEYRINGS: WeakKeyDictionary[Dialect, Keyring] = WeakKeyDictionary()
NO_KEYS = Keyring()


def keyring_of(dialect: Dialect) -> Keyring:
    """Return the keyring of an engine, by its dialect."""
    return _KEYRINGS.get(dialect, NO_KEYS)


def use(dialect: Dialect, keyring: Keyring) -> None:
    """Let an engine use a keyring, by its dialect."""
    _KEYRINGS[dialect] = keyring


class SealedText(TypeDecorator[str]):
    """A column whose whole text is a secret."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        keyring = keyring_of(dialect)
        return keyring.seal(value.encode()) if value is not None and keyring.seals else value

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or not value.startswith(MARK):
            return value
        data = keyring_of(dialect).unseal(value)
        return value if data is None else data.decode()
