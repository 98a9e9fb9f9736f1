"""
Whom to trust when a BMC or an agent shows its certificate.

Operators say it by a word, a path or PEM text; an agent announces PEM text only.
"""

import errno
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from tempfile import NamedTemporaryFile
from typing import Any

from drivers import regular_files
from drivers.core.errors import InvalidDriverInfo

#: What reading from a file here does is not known beforehand; some never end.
_NO_FILES = ("/dev", "/proc", "/sys")
#: Characters of what most agents announce; more is not worth to be remembered.
_USUAL = 8192
_WORDS = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def trust(value: Any) -> bool | str:
    """True: the system's authorities. False: anybody. Else the path, or the PEM text, given."""
    if isinstance(value, bool):
        return value
    return _WORDS.get(str(value).strip().lower(), str(value))


def is_certificates(text: str) -> bool:
    """Whether a text is certificates in PEM, and so neither a word nor a path."""
    try:
        (_load_once if len(text) <= _USUAL else _load)(text)
    except (OSError, ValueError, TypeError):
        return False
    return True


def announced(text: str | None) -> str | None:
    """The certificates that an agent has announced; None for anything else that is recorded."""
    return text if text and is_certificates(text) else None


def file(path: str) -> str:
    """A path of certificates that can be opened without waiting. Raises OSError."""
    with regular_files.opened(path) as (_file, place):
        if any(place.is_relative_to(each) for each in _NO_FILES):
            raise OSError(errno.EINVAL, "not a file of certificates", path)
    return path


@contextmanager
def bundle(value: Any) -> Iterator[bool | str]:
    """
    `trust(value)` for libraries that read certificates from files only: never PEM text.

    Raises InvalidDriverInfo.
    """
    trusted = trust(value)
    if isinstance(trusted, bool):
        yield trusted
        return
    if "-----BEGIN" not in trusted:
        yield _file(trusted)
        return
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(trusted)
        file.flush()
        yield file.name


def context(value: Any) -> bool | ssl.SSLContext:
    """
    `trust(value)` for asyncio: whether to verify by the system's authorities, or by whose.

    Raises InvalidDriverInfo.
    """
    trusted = trust(value)
    if isinstance(trusted, bool):
        return trusted
    try:
        if "-----BEGIN" in trusted:
            return ssl.create_default_context(cadata=trusted)
        return ssl.create_default_context(cafile=_file(trusted))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidDriverInfo(f"verify_ca: not certificates in PEM ({error})") from None


def _load(text: str) -> None:
    """Raises OSError, ValueError, TypeError."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)


#: Agents announce theirs with each heartbeat, and to load them costs more than all else about it.
_load_once = lru_cache(maxsize=4096)(_load)


def _file(path: str) -> str:
    try:
        return file(path)
    except OSError as error:
        raise InvalidDriverInfo(f"verify_ca: {path!r}: {error.strerror}") from None
