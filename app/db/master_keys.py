"""Master keys, the data keys that they encrypt, and the cipher of both."""

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.observe import log

logger = log.RateLimited(log.get(__name__))

_NONCE = 12


_KEY = 32


class WrongKey(Exception):
    """No master key opens a data key, or a text is no master key; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class DataKeyRow:
    id: str  # random
    master: str  # name of the master key that encrypts it
    wrapped: str
    bound: bool = True  # its texts in rows must be bound to their place


@dataclass(frozen=True)
class Master:
    key: bytes

    @property
    def name(self) -> str:
        """Name that does not tell the key."""
        return hashlib.sha256(b"ingot master key " + self.key).hexdigest()[:16]

    def new_data_key(self) -> DataKeyRow:
        return self.wrapped(os.urandom(8).hex(), os.urandom(_KEY))

    def wrapped(self, ident: str, key: bytes) -> DataKeyRow:
        return DataKeyRow(ident, self.name, encrypted(AESGCM(self.key), ident.encode(), key))


def masters_of(text: str) -> list[Master]:
    """
    Read master keys, one per line, base64 of 32 bytes each. The first one encrypts.

    Raises WrongKey.
    """
    keys = []
    for line in text.split():
        try:
            key = base64.b64decode(line, validate=True)
        except binascii.Error:
            key = b""
        if len(key) != _KEY:
            raise WrongKey("a key is base64 of 32 bytes, as `openssl rand -base64 32` prints it")
        keys.append(Master(key))
    if not keys:
        raise WrongKey("there is no key in it")
    return keys


def unwrapped(masters: Iterable[Master], row: DataKeyRow) -> bytes:
    """
    Decrypt a data key.

    Raises WrongKey.
    """
    for master in masters:
        if master.name == row.master:
            try:
                return decrypted(AESGCM(master.key), row.id.encode(), row.wrapped)
            except (InvalidTag, ValueError):
                break
    raise WrongKey(f"data key {row.id} needs master key {row.master}, which is not given")


def encrypted(cipher: AESGCM, bound: bytes, data: bytes) -> str:
    """Encrypt data; `bound` is authenticated with it."""
    nonce = os.urandom(_NONCE)
    return base64.b64encode(nonce + cipher.encrypt(nonce, data, bound)).decode()


def decrypted(cipher: AESGCM, bound: bytes, text: str) -> bytes:
    data = base64.b64decode(text)
    return cipher.decrypt(data[:_NONCE], data[_NONCE:], bound)
