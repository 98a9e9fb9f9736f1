"""Masking of secrets in documents of nodes, by the names of their keys."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

HIDDEN = "******"
WORDS = (
    "password", "passphrase", "secret", "token", "admin_pass", "adminpass", "new_pass",
    "sys_pswd", "private_key", "sslkey", "encrypted_key", "fernetkey", "configdrive",
    "chapsecret",
)  # fmt: skip
#: Document of a node -> further keys that are secret in it.
ALSO: Mapping[str, frozenset[str]] = {
    "driver_info": frozenset({"snmp_auth_key", "snmp_priv_key"}),
    "instance_info": frozenset({"image_url"}),
}
#: Document of a node -> policy rule that shows its secrets.
SHOWN_BY: Mapping[str, str] = {
    "driver_info": "show_password",
    "driver_internal_info": "show_password",
    "instance_info": "show_instance_secrets",
}
DOCUMENTS = tuple(SHOWN_BY)
#: Fields of a node with a policy rule for reading that are texts, not documents.
TEXTS = ("last_error", "reservation")

_SECRET = re.compile("|".join(WORDS))
_NONE: frozenset[str] = frozenset()


def mask(value: Any, document: str = "") -> Any:
    """Return a copy with asterisks for each secret value. document: the node's field, if any."""
    return _mask(value, ALSO.get(document, _NONE))


def _mask(value: Any, also: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: HIDDEN
            if _is_secret(key, also)
            else inner
            if isinstance(inner, str)
            else _mask(inner, also)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_mask(inner, also) for inner in value]
    return value


@lru_cache(maxsize=1000)  # a rack's documents have the same few keys
def _secrets(keys: tuple[str, ...], also: frozenset[str]) -> tuple[str, ...]:
    return tuple(key for key in keys if _is_secret(key, also))


@lru_cache(maxsize=10_000)
def _is_secret(key: str, also: frozenset[str]) -> bool:
    lower = key.lower()
    return lower in also or bool(_SECRET.search(lower))


def mask_text(text: str | None, document: str, *, shown: bool = False) -> str:
    """
    Mask the JSON text of a document. shown: the caller may see secrets; only replace null.

    Decoding and encoding a document is faster than a search for secrets in its text.
    """
    if text is None or text in ("{}", "null"):
        return "{}"
    if shown:
        return text
    value = orjson.loads(text)
    if isinstance(value, dict) and "{" not in text[1:] and "[" not in text:  # flat, as most are
        for key in _secrets(tuple(value), ALSO.get(document, _NONE)):
            value[key] = HIDDEN
    else:
        value = mask(value, document)
    return orjson.dumps(value).decode()


def redacted(rule: str) -> Any:
    """Return the replacement of a document or text that needs a rule which the caller fails."""
    text = f"** Redacted: this needs {rule} **"
    return text if rule.rpartition(":")[2] in TEXTS else {"content": text}
