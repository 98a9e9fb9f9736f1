"""
References to secrets in a vault (OpenBao or HashiCorp Vault), in place of the secrets themselves.

A reference is the random name of a secret. The rest of its path in the vault is computed from the
place of the reference, so that it means nothing in another place.
"""

import re
import secrets
from typing import TypeGuard

_MARK = "vault:v1:"
_REFERENCE = re.compile(_MARK + "([0-9a-f]{32})")


def is_reference(value: object) -> TypeGuard[str]:
    """Whether a value is a reference, or is written like one."""
    return isinstance(value, str) and bool(_REFERENCE.fullmatch(value))


def name_in(reference: str) -> str:
    """Return the name of the secret that a reference leads to."""
    return reference.removeprefix(_MARK)


def new_name() -> str:
    """Return a random name for a secret."""
    return secrets.token_hex(16)


def to(name: str) -> str:
    """Return the reference to a secret."""
    return _MARK + name
