"""
URLs that nodes and settings name: which are accepted, and which files they may open.

What a URL means is decided by one parser, for the check as for its use: `FILE:///x` and
`file:///x` are the same, and a URL with a blank or a control character, on which parsers differ,
is none.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from drivers import regular_files
from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.target import Options

WEB = ("http", "https")
ALL = (*WEB, "file")
#: No URL opens a file below these, whatever the settings allow.
FORBIDDEN = ("/dev", "/proc", "/sys", "/run", "/etc", "/boot")


def checked(value: Any, where: str, schemes: tuple[str, ...] = WEB) -> str:
    """A URL with one of these schemes. where: the field. Raises InvalidDriverInfo."""
    url = str(value)
    parts = _split(url)
    if parts is None or parts.scheme not in schemes:
        named = " or ".join((", ".join(schemes[:-1]), schemes[-1]))
        raise InvalidDriverInfo(f"{where}: {url!r} is no {named} URL")
    if " " in url or not url.isprintable():
        raise InvalidDriverInfo(
            f"{where}: {url!r} has a blank or a control character; URLs have them as %20 and such"
        )
    return url


def readable(options: Options, value: Any, where: str) -> str:
    """A URL that a conductor may read: of a web server or an allowed file, which need not exist."""
    url = checked(value, where, ALL)
    if is_file(url):
        _check_place(options, _real(url, where), where)
    return url


def is_file(url: str) -> bool:
    parts = _split(url)
    return parts is not None and parts.scheme == "file"


@contextmanager
def opened(options: Options, url: str) -> Iterator[tuple[BufferedReader, Path]]:
    """
    Open the file of a file URL, and tell where it really lies.

    Only a regular file in an allowed place is opened, and what was opened is checked once more, so
    no link leads elsewhere. Raises InvalidDriverInfo, BadImage.
    """
    readable(options, url, url)
    try:
        with regular_files.opened(_real(url, url)) as (file, place):
            _check_place(options, place, url)
            yield file, place
    except OSError as error:
        raise BadImage(f"{url}: {error.strerror}") from error


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _real(url: str, where: str) -> Path:
    """The path of a file URL, without links. Raises InvalidDriverInfo."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise InvalidDriverInfo(f"{where}: a file URL is file:// and an absolute path")
    return Path(os.path.realpath(path))


def _check_place(options: Options, place: Path, where: str) -> None:
    """Raises InvalidDriverInfo."""
    allowed = options["conductor"]["file_url_allowed_paths"]
    if not _is_below(place, allowed):
        raise InvalidDriverInfo(
            f"{where}: files may only lie in {', '.join(allowed) or 'no folder'}"
            " ([conductor]file_url_allowed_paths)"
        )
    if _is_below(place, (*FORBIDDEN, options["DEFAULT"]["data_dir"])):
        raise InvalidDriverInfo(
            f"{where}: files below {', '.join(FORBIDDEN)} and the data directory are never read,"
            " whatever [conductor]file_url_allowed_paths says"
        )


def _is_below(place: Path, folders: Iterable[str]) -> bool:
    return any(place.is_relative_to(os.path.realpath(each)) for each in folders if each)
