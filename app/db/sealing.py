"""
Encryption of secrets in the database.

Columns with secrets (`app.db.secret_columns`) are written and read through a `Keyring`: secret
values (`app.text.masking`) are replaced in place by sealed texts, so that all other keys stay
readable for SQL. Sealed texts are encrypted with a data key (AES-256-GCM). Data keys are in a
table, encrypted with a master key that is not in the database; a new master key needs no row to be
written but theirs.

A sealed text is bound to its place: table, column, row, and the keys that lead to it in a document
are authenticated with it. So a writer of the database who lacks the master key cannot have a secret
opened elsewhere, such as in a field that is shown, or in the row of another BMC.
"""

import base64
import hmac
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Dialect

from app.db.master_keys import DataKeyRow, Master, WrongKey, decrypted, encrypted, unwrapped
from app.observe import log
from app.text.masking import Unreadable, is_secret, mask_urls

logger = log.RateLimited(log.get(__name__))

#: Beginning of each sealed text; then version, id of the data key, base64 of nonce and ciphertext.
MARK = "sealed:v"
#: Versions. Beside the id of the data key, a purpose or a place is authenticated with the content.
#: A purpose is the key in Redis of a call; it is empty in rows that are not bound to a place yet.
OF_PURPOSE, OF_PLACE = "1", "2"
_SEALED = re.compile(rf"{MARK}([12]):([0-9a-f]{{16}}):([A-Za-z0-9+/]+=*)")
#: Seconds after which a process reads the data keys again before it seals.
REFRESH = 60.0

#: Location of a document or text in the database: `TABLE.COLUMN:ROW`.
Place = str
#: Keys and indexes that lead from a document to one of its values.
Path = tuple[str | int, ...]


class UnplacedSecret(RuntimeError):
    """A statement writes a secret and does not say to which row: a defect of the code."""


Rows = Callable[[], Sequence[DataKeyRow]]


class Keyring:
    """
    The keys of a process. Seals and opens secrets.

    Without data keys nothing is sealed: there is no master key, or sealing was not started.
    """

    def __init__(self, masters: Sequence[Master] = (), rows: Rows = tuple) -> None:
        self.masters = masters
        self._rows = rows
        self._keys: Mapping[str, AESGCM] = {}
        self._bound: frozenset[str] = frozenset()  # ids of the keys whose texts must be bound
        self._current: str | None = None  # id of the newest data key
        self._digest_key = self._proof_key = self._signing_key = b""
        self._read_at = -REFRESH
        self._missing: dict[str, float] = {}  # id of a key that no row has -> when it was looked up
        #: Held while the keys are read: without it, a thread that needs them meanwhile would take a
        #: secret for unreadable, or write it unsealed.
        self._reading = RLock()

    def refresh(self) -> None:
        """
        Read the data keys.

        Raises WrongKey: no master key opens them.
        Raises SQLAlchemyError.
        """
        with self._reading:
            begin = time.monotonic()
            rows = self._rows()
            keys = {row.id: unwrapped(self.masters, row) for row in rows}
            if keys:  # of the oldest key, as digests are to outlive a rotation
                oldest = next(iter(keys.values()))
                self._digest_key = hmac.digest(oldest, b"tokens", "sha256")
                self._proof_key = hmac.digest(oldest, b"audit", "sha256")
                self._signing_key = hmac.digest(oldest, b"sanitation", "sha256")
            self._bound = frozenset(row.id for row in rows if row.bound)
            self._keys = {ident: AESGCM(key) for ident, key in keys.items()}
            self._current = next(reversed(keys), None)
            self._read_at = begin

    @property
    def seals(self) -> bool:
        """Whether secrets are sealed when they are written."""
        return self._newest() is not None

    @property
    def binds(self) -> bool:
        """Whether they are also bound to their place."""
        return self._newest() in self._bound

    def seal(self, data: bytes, purpose: str) -> str:
        """
        Return a sealed text that is no part of a row; there is a data key.

        purpose: authenticated with the content, so that the text is of no use for another one.
        """
        ident = self._newest()
        assert ident is not None
        return self._text(OF_PURPOSE, ident, _of_purpose(ident, purpose), data)

    def unseal(self, text: str, purpose: str) -> bytes | None:
        """
        Return the content of a text that `seal` returned.

        None if it is not such a text, was changed, was sealed for another purpose, or its key is
        unknown.
        """
        sealed = _SEALED.fullmatch(text)
        if sealed is None or sealed[1] != OF_PURPOSE:
            return None
        data = self._content(sealed, _of_purpose(sealed[2], purpose))
        if data is None:
            logger.warning("secrets.unreadable", data_key=sealed[2])
        return data

    def seal_at(self, data: bytes, place: Place | None, path: Path = ()) -> str:
        """
        Return the sealed text of a value in a row; there is a data key.

        Raises UnplacedSecret: the place is not known.
        """
        if place is None:
            raise UnplacedSecret(f"the row of {'/'.join(map(str, path)) or 'a text'} is not known")
        ident = self._newest()
        assert ident is not None
        if ident not in self._bound:  # processes of releases that bind nothing may read it
            return self._text(OF_PURPOSE, ident, _of_purpose(ident, ""), data)
        return self._text(OF_PLACE, ident, _of_place(ident, place, path), data)

    def unseal_at(self, text: str, place: Place, path: Path = ()) -> bytes | None:
        """
        Return the content of a text that `seal_at` returned for the same place.

        None, which is logged, if it is not such a text, was changed or moved, or its key is
        unknown. A text that is bound to nothing is opened until all rows have been sealed again.
        """
        data = None
        if sealed := _SEALED.fullmatch(text):
            version, ident = sealed[1], sealed[2]
            if version == OF_PLACE:
                data = self._content(sealed, _of_place(ident, place, path))
            elif ident not in self._bound:
                data = self._content(sealed, _of_purpose(ident, ""))
        if data is None:
            _warn(place, path)
        return data

    def dumps(self, value: object, place: Place | None) -> str:
        """
        Encode a document as JSON text, with its secrets sealed.

        Raises UnplacedSecret: it has a secret, and its place is not known.
        """
        sealed = self._sealed(value, place, ()) if self._newest() is not None else value
        return orjson.dumps(sealed).decode()

    def loads(self, text: str | bytes, place: Place) -> object:
        """Decode JSON text, and open its sealed texts."""
        value = orjson.loads(text)
        return self.opened(value, place) if has_sealed(text) else value

    def open_text(self, text: str, place: Place) -> str:
        """Open the sealed texts in the text of a document, for an answer."""
        return shown(self.loads(text, place)) if has_sealed(text) else text

    def opened(self, value: object, place: Place, path: Path = ()) -> Any:
        """Open the sealed texts in a decoded document; those that cannot be are `Unreadable`."""
        if isinstance(value, str):
            return self._opened_value(value, place, path) if value.startswith(MARK) else value
        if isinstance(value, dict):
            return {key: self.opened(item, place, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.opened(item, place, (*path, index)) for index, item in enumerate(value)]
        return value

    def opened_text(self, text: str, place: Place) -> str:
        """Open a text that is a secret as a whole; if it cannot be opened, it is `Unreadable`."""
        if not (text.startswith(MARK) and self.masters):
            return text
        data = self.unseal_at(text, place)
        return Unreadable(text) if data is None else data.decode(errors="replace")

    def digest(self, token: str) -> str:
        """Return a digest by which SQL compares a token."""
        self._newest()
        return hmac.new(self._digest_key, token.encode(), "sha256").hexdigest()

    def proof(self, data: bytes) -> str | None:
        """Return an HMAC that proves a record to be unchanged, or None without a key."""
        if self._newest() is None:
            return None
        return hmac.new(self._proof_key, data, "sha256").hexdigest()

    def signature(self, data: bytes) -> tuple[str, str] | None:
        """
        Return an Ed25519 signature and its public key, both in base64, or None without a key.

        Unlike `proof`, it is verified without the master key.
        """
        if self._newest() is None:
            return None
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(self._signing_key)
        raw = key.sign(data), key.public_key().public_bytes_raw()
        return base64.b64encode(raw[0]).decode(), base64.b64encode(raw[1]).decode()

    def _opened_value(self, text: str, place: Place, path: Path) -> object:
        """Open a text in a document. Texts of callers that look sealed were sealed again."""
        if not self.masters:
            return text
        data = self.unseal_at(text, place, path)
        if data is None:
            return Unreadable(text)
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            value = None
        # a text that is bound to nothing may have been moved to a key whose value is shown
        if value is None or not (names_secret(path) or _is_sealed_at_any_key(value)):
            _warn(place, path)
            return Unreadable(text)
        return value

    def _sealed(self, value: object, place: Place | None, path: Path) -> object:
        if isinstance(value, Unreadable):
            return str(value)
        if _is_sealed_at_any_key(value) or (names_secret(path) and not is_empty(value)):
            return self.seal_at(orjson.dumps(value), place, path)
        if isinstance(value, dict):
            return {key: self._sealed(item, place, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._sealed(item, place, (*path, index)) for index, item in enumerate(value)]
        return value

    def _text(self, version: str, ident: str, bound: bytes, data: bytes) -> str:
        return f"{MARK}{version}:{ident}:{encrypted(self._keys[ident], bound, data)}"

    def _content(self, sealed: re.Match[str], bound: bytes) -> bytes | None:
        key = self._key(sealed[2])
        try:
            return decrypted(key, bound, sealed[3]) if key else None
        except (InvalidTag, ValueError):
            return None

    def _key(self, ident: str) -> AESGCM | None:
        """
        Return a data key; read the keys again for one that another process may have made.

        Raises SQLAlchemyError: they cannot be read, so that the key may exist.
        """
        if ident not in self._keys and self.masters:
            with self._reading:  # another thread may have read the key meanwhile
                looked_up = self._missing.get(ident, -REFRESH)
                if ident not in self._keys and time.monotonic() - looked_up > REFRESH:
                    try:
                        self.refresh()
                    except WrongKey as error:
                        logger.warning("secrets.keys_not_read", detail=str(error))
                    self._missing[ident] = time.monotonic()
        return self._keys.get(ident)

    def _newest(self) -> str | None:
        """
        Return the id of the newest data key; None without one.

        Raises WrongKey, SQLAlchemyError: the keys cannot be read, and none is known.
        """
        # a thread that knows keys does not wait for the one that reads them again
        if self._is_stale() and self._reading.acquire(blocking=self._current is None):
            try:
                if self._is_stale():  # no other thread has read them meanwhile
                    self.refresh()
            except Exception as error:  # the known keys serve until the database is back
                if self._current is None:
                    raise
                self._read_at = time.monotonic()
                logger.warning("secrets.keys_not_read", detail=str(error))
            finally:
                self._reading.release()
        return self._current

    def _is_stale(self) -> bool:
        return bool(self.masters) and time.monotonic() - self._read_at > REFRESH


def has_sealed(text: str | bytes) -> bool:
    return MARK in text if isinstance(text, str) else MARK.encode() in text


def shown(document: object) -> str:
    """Encode an opened document for an answer: an unreadable secret is null."""
    return orjson.dumps(document, lambda _: None, orjson.OPT_PASSTHROUGH_SUBCLASS).decode()


def data_key_of(secret: Unreadable) -> str:
    """Return the name of the data key that a secret needs."""
    sealed = _SEALED.fullmatch(secret)
    return sealed[2] if sealed else "unknown"


def unreadable_secret(document: object) -> tuple[str, Unreadable] | None:
    """Return path and text of an unreadable secret in an opened document, if there is one."""
    if isinstance(document, dict):
        pairs: Iterable[tuple[object, object]] = document.items()
    elif isinstance(document, list):
        pairs = enumerate(document)
    else:
        return None
    for key, value in pairs:
        if isinstance(value, Unreadable):
            return str(key), value
        if (inner := unreadable_secret(value)) is not None:
            return f"{key}/{inner[0]}", inner[1]
    return None


def is_to_seal(value: object, path: Path = ()) -> bool:
    """Whether a document, as it is stored, has a secret that is open, or bound to no place."""
    if isinstance(value, str) and (sealed := _SEALED.fullmatch(value)):
        return sealed[1] == OF_PURPOSE
    if _is_sealed_at_any_key(value) or (names_secret(path) and not is_empty(value)):
        return True
    if isinstance(value, dict):
        return any(is_to_seal(item, (key,)) for key, item in value.items())
    return isinstance(value, list) and any(
        is_to_seal(item, (index,)) for index, item in enumerate(value)
    )


def is_text_to_seal(text: str) -> bool:
    """Whether a text that is a secret, as it is stored, is open, or bound to no place."""
    sealed = _SEALED.fullmatch(text)
    return sealed is None or sealed[1] == OF_PURPOSE


def names_secret(path: Path) -> bool:
    """Whether the last key of a path is the name of a secret."""
    return bool(path) and isinstance(path[-1], str) and is_secret(path[-1])


def _is_sealed_at_any_key(value: object) -> bool:
    """Whether it is a text with credentials, or one that would be taken for a sealed text."""
    return isinstance(value, str) and (value.startswith(MARK) or mask_urls(value) != value)


def is_empty(value: object) -> bool:
    """Whether a value of a secret's name is none."""
    return value is None or value == "" or isinstance(value, bool)


def _warn(place: Place, path: Path) -> None:
    logger.warning("secrets.unreadable", place=place, field="/".join(map(str, path)) or None)


def _of_purpose(ident: str, purpose: str) -> bytes:
    return f"{ident}{purpose}".encode()


def _of_place(ident: str, place: Place, path: Path) -> bytes:
    return orjson.dumps([ident, place, *path])


_KEYRINGS: WeakKeyDictionary[Dialect, Keyring] = WeakKeyDictionary()
NO_KEYS = Keyring()


def keyring_of(dialect: Dialect) -> Keyring:
    """Return the keyring of an engine, by its dialect."""
    return _KEYRINGS.get(dialect, NO_KEYS)


def use(dialect: Dialect, keyring: Keyring) -> None:
    """Let an engine use a keyring, by its dialect."""
    _KEYRINGS[dialect] = keyring
