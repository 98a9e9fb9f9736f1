"""
Seals of documents in Redis.

If secrets are encrypted in the database, such a document is encrypted as a whole with the same data
keys (AES-256-GCM), and bound to its key or channel in Redis: one that another process wrote,
changed, or copied from elsewhere is refused.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from app.db.master_keys import WrongKey
from app.db.sealing import Keyring


class Forged(Exception):
    """A document in Redis was not written by this service for this place; one line says why."""


class Seals:
    """Seals and opens documents; without data keys they are plain JSON."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def seal(self, document: Mapping[str, object], name: str) -> bytes:
        """Return the text of a document. name: its key or channel in Redis."""
        data = orjson.dumps(document)
        return self._keyring.seal(data, name).encode() if self._are_used() else data

    def open(self, data: bytes, name: str) -> Mapping[str, Any]:
        """
        Return the document in a text.

        Raises Forged.
        """
        try:
            content = self._keyring.unseal(data.decode(), name) if self._are_used() else data
            if content is None:
                raise Forged("it is not sealed with a key of this service for this place")
            document = orjson.loads(content)
        except (ValueError, WrongKey) as error:
            raise Forged(f"it cannot be read: {error}") from None
        if not isinstance(document, dict):
            raise Forged("it is no document")
        return document

    def _are_used(self) -> bool:
        """Whether documents are sealed; at once when another process has made the first key."""
        ring = self._keyring
        if ring.masters and not ring.seals:
            ring.refresh()
        return ring.seals
