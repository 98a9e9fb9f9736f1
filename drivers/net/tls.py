"""
Verification of the TLS certificates of BMCs and agents.

A setting that selects the trusted certificates is a boolean, a path or PEM text. An agent sends its
own certificate as PEM text.
"""

import errno
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from tempfile import NamedTemporaryFile

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options
from drivers.net import safe_files

#: Directories of special files: reading one may block or have side effects.
_NO_FILES = ("/dev", "/proc", "/sys")
#: Most characters of a text in the cache; certificates of most agents are shorter.
_USUAL = 8192
_WORDS = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def trust(value: object) -> bool | str:
    """
    Parse a setting of trusted certificates.

    Returns True for the system's certificates, False to skip verification, else a path or PEM text.
    """
    if isinstance(value, bool):
        return value
    return _WORDS.get(str(value).strip().lower(), str(value))


def of_node(options: Options, value: object, field: str) -> bool | str:
    """
    Parse the value of a node: as `trust`, but a path only below an allowed directory.

    field: the field, for errors.

    Raises InvalidDriverInfo: the directory is not allowed.
    """
    trusted = trust(value)
    if isinstance(trusted, bool) or "-----BEGIN" in trusted:
        return trusted
    allowed_folders = options["conductor"]["verify_ca_allowed_paths"]
    if "\0" in trusted or not safe_files.is_below(trusted, allowed_folders):
        raise InvalidDriverInfo(
            f"{field}: files of certificates may only lie in"
            f" {', '.join(allowed_folders) or 'no directory'}"
            " ([conductor]verify_ca_allowed_paths)"
        )
    return trusted


def is_certificates(text: str) -> bool:
    """Whether a text is one or more certificates in PEM, and not a boolean or a path."""
    try:
        (_load_once if len(text) <= _USUAL else _load)(text)
    except (OSError, ValueError, TypeError):
        return False
    return True


def valid_pem(text: str | None) -> str | None:
    """Return the recorded certificates of an agent; None if the text is not PEM."""
    return text if text and is_certificates(text) else None


def file(path: str) -> str:
    """
    Check that the path of a certificate file can be opened without blocking; return it.

    Raises OSError.
    """
    with safe_files.opened(path) as (_file, path_opened):
        if any(path_opened.is_relative_to(folder) for folder in _NO_FILES):
            raise OSError(errno.EINVAL, "not a file of certificates", path)
    return path


@contextmanager
def bundle(value: object) -> Iterator[bool | str]:
    """
    Yield `trust(value)` for libraries that need a path: PEM text is written to a temporary file.

    Raises InvalidDriverInfo: the file cannot be opened.
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


def context(value: object) -> bool | ssl.SSLContext:
    """
    Return `trust(value)` for asyncio: a boolean, or a context with the trusted certificates.

    Raises InvalidDriverInfo: the file cannot be opened, or has no certificates in PEM.
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
    """
    Load certificates in PEM.

    Raises OSError, ValueError, TypeError: the text is not PEM.
    """
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)


#: Cached, since each heartbeat has the agent's certificate, and loading it is its largest cost.
_load_once = lru_cache(maxsize=4096)(_load)


def _file(path: str) -> str:
    try:
        return file(path)
    except OSError as error:
        raise InvalidDriverInfo(f"verify_ca: {path!r}: {error.strerror}") from None
