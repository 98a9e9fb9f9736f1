"""Fields of nodes that callers see masked or redacted, as the policy says."""

from collections.abc import Mapping
from typing import Any

import orjson

from app.db.sealing import NO_KEYS, Keyring, Place, has_sealed
from app.text.masking import HIDDEN, mask, may_have_credentials, secret_keys

#: Document of a node -> policy rule that shows its secrets.
SHOWN_BY: Mapping[str, str] = {
    "driver_info": "show_password",
    "driver_internal_info": "show_password",
    "instance_info": "show_instance_secrets",
}
DOCUMENTS = tuple(SHOWN_BY)
#: Fields of a node with a policy rule for reading that are texts, not documents.
TEXTS = ("last_error", "reservation")


def mask_text(
    text: str | None,
    document: str,
    *,
    is_shown: bool = False,
    keyring: Keyring = NO_KEYS,
    place: Place = "",
) -> str:
    """
    Mask the JSON text of a document. is_shown: the caller may see secrets; only replace null.

    keyring: opens sealed texts of the place; none is opened whose value is masked.

    Decoding and encoding a document is faster than a search for secrets in its text.
    """
    if text is None or text in ("{}", "null"):
        return "{}"
    if is_shown:
        return keyring.open_text(text, place)
    value = orjson.loads(text)
    if isinstance(value, dict) and "{" not in text[1:] and "[" not in text:  # flat, as most are
        for key in secret_keys(tuple(value), document):
            value[key] = HIDDEN
        masked = orjson.dumps(value).decode()
        if not (has_sealed(masked) or may_have_credentials(masked)):
            return masked
        value = {
            key: mask(item) if isinstance(item, str) else item
            for key, item in keyring.opened(value, place).items()
        }
    else:
        value = mask(value, document)
        if has_sealed(text):
            value = mask(keyring.opened(value, place), document)
    return orjson.dumps(value).decode()


def redacted(rule: str) -> Any:
    """Return the replacement of a document or text that needs a rule which the caller fails."""
    text = f"** Redacted: this needs {rule} **"
    return text if rule.rpartition(":")[2] in TEXTS else {"content": text}
