"""
Checks of URLs in fields of nodes and in settings, and of the files that file URLs may open.

Check and use share one parser, so that they agree: `FILE:///x` equals `file:///x`. A URL with a
space or a control character is refused, since parsers disagree about it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.target import Options
from drivers.net import networks, safe_files

WEB = ("http", "https")
ALL = (*WEB, "file")
#: File URLs below these are always refused, also if the settings allow them.
FORBIDDEN = ("/dev", "/proc", "/sys", "/run", "/etc", "/boot")


def checked(value: object, field: str, schemes: tuple[str, ...] = WEB) -> str:
    """
    Check a URL and its scheme; return it.

    field: name of the field for the error.

    Raises InvalidDriverInfo.
    """
    url = str(value)
    parts = _split(url)
    if parts is None or parts.scheme not in schemes:
        scheme_names = " or ".join((", ".join(schemes[:-1]), schemes[-1]))
        raise InvalidDriverInfo(f"{field}: {url!r} is no {scheme_names} URL")
    if " " in url or not url.isprintable():
        raise InvalidDriverInfo(
            f"{field}: {url!r} has a space or a control character; encode it, such as %20"
        )
    return url


def readable(options: Options, value: object, field: str) -> str:
    """
    Check a URL that a conductor reads: http, https, or an allowed file, which need not exist.

    Raises InvalidDriverInfo.
    """
    url = checked(value, field, ALL)
    if is_file(url):
        _check_place(options, _real(url, field), field)
    else:
        networks.of_urls(options, field).check_url(url)
    return url


def is_file(url: str) -> bool:
    parts = _split(url)
    return parts is not None and parts.scheme == "file"


def redacted(url: str) -> str:
    """Return a URL without credentials and query, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


@contextmanager
def opened(options: Options, url: str) -> Iterator[tuple[BufferedReader, Path]]:
    """
    Open the file of a file URL; yield it and its real path.

    The place is checked again after opening, so that a link changed meanwhile cannot lead outside.

    Raises InvalidDriverInfo: the place is not allowed.
    Raises BadImage: the file cannot be opened.
    """
    readable(options, url, url)
    try:
        with safe_files.opened(_real(url, url)) as (file, path):
            _check_place(options, path, url)
            yield file, path
    except OSError as error:
        raise BadImage(f"{url}: {error.strerror}") from error


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _real(url: str, field: str) -> Path:
    """
    Return the path of a file URL with links resolved.

    Raises InvalidDriverInfo: it is not file:// and an absolute path.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise InvalidDriverInfo(f"{field}: a file URL is file:// and an absolute path")
    return Path(os.path.realpath(path))


def _check_place(options: Options, path: Path, field: str) -> None:
    """
    Check that a file lies in an allowed place.

    Raises InvalidDriverInfo: it does not.
    """
    allowed_folders = options["conductor"]["file_url_allowed_paths"]
    if not safe_files.is_below(path, allowed_folders):
        raise InvalidDriverInfo(
            f"{field}: files may only lie in {', '.join(allowed_folders) or 'no directory'}"
            " ([conductor]file_url_allowed_paths)"
        )
    if safe_files.is_below(path, (*FORBIDDEN, options["DEFAULT"]["data_dir"])):
        raise InvalidDriverInfo(
            f"{field}: files below {', '.join(FORBIDDEN)} and the data directory are always"
            " refused, also if [conductor]file_url_allowed_paths has them"
        )
