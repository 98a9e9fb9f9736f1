"""Whom to trust when a BMC or an agent shows its certificate."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Any

_WORDS = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def trust(value: Any) -> bool | str:
    """True: the system's authorities. False: anybody. Else the path, or the PEM text, given."""
    if isinstance(value, bool):
        return value
    return _WORDS.get(str(value).strip().lower(), str(value))


@contextmanager
def bundle(value: Any) -> Iterator[bool | str]:
    """`trust(value)` for libraries that read certificates from files only: never PEM text."""
    trusted = trust(value)
    if isinstance(trusted, bool) or "-----BEGIN" not in trusted:
        yield trusted
        return
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(trusted)
        file.flush()
        yield file.name


def context(value: Any) -> bool | ssl.SSLContext:
    """`trust(value)` for asyncio: whether to verify by the system's authorities, or by whose."""
    trusted = trust(value)
    if isinstance(trusted, bool):
        return trusted
    if "-----BEGIN" in trusted:
        return ssl.create_default_context(cadata=trusted)
    return ssl.create_default_context(cafile=trusted)
