"""
Whole documents: collections with the members of all their pages, and paths in place of URLs.

DSP0266 lets a BMC send a part of a list, with a link to the next part. No reader sees such a part.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any
from urllib.parse import urlsplit

from drivers.core.errors import Unexpected
from drivers.net.answers import MOST_VALUES
from drivers.redfish.transport.bodies import MalformedDocument
from drivers.redfish.transport.peer import Peer

#: Reads the document at a URL by the rules of HTTP: a generator of `http_rules`.
ReadDocument = Callable[[str], Generator[object, Any, dict[str, object]]]

_NEXT = "@odata.nextLink"
#: Properties with the path of a resource or action.
_PATHS = ("@odata.id", "target")


def may_be_partial(body: bytes) -> bool:
    """Whether a document may have further pages, or URLs in place of paths."""
    return b"nextLink" in body or b"//" in body or b"\\/" in body


def complete(
    peer: Peer, document: dict[str, Any], url: str, read_document: ReadDocument
) -> Generator[Any, Any, None]:
    """
    Make the document at a URL whole, in place.

    Raises Unexpected: a page is missing, or the pages have no end.
    """
    yield from _add_pages(peer, document, url, read_document)
    _shorten(peer, document)


def _add_pages(
    peer: Peer, document: dict[str, Any], url: str, read_document: ReadDocument
) -> Generator[Any, Any, None]:
    """Add the members of all further pages to the lists of a document."""
    for holder, key in list(_paged(document)):
        name = key.removesuffix(_NEXT) or "Members"
        members, link, base = holder.get(name), holder.pop(key), url
        links: set[str] = set()
        while link not in {None, ""}:
            if not isinstance(link, str) or not isinstance(members, list):
                raise MalformedDocument(f"{peer.name} sent a malformed {key}")
            base = peer.url(link, base)
            if base in links or base == url or len(members) > MOST_VALUES:
                raise Unexpected(f"{peer.name} sent pages of {urlsplit(url).path} without an end")
            links.add(base)
            page = yield from read_document(base)
            more_members, link = page.get(name), page.pop(key, None) or page.pop(_NEXT, None)
            if not isinstance(more_members, list):
                raise Unexpected(f"{peer.name} sent a page of {urlsplit(url).path} without {name}")
            yield from _add_pages(peer, page, base, read_document)  # lists inside its members
            members.extend(more_members)


def _objects(value: Any) -> Iterator[dict[str, object]]:
    """Yield all objects in a JSON value."""
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            yield value
            values.extend(item for item in value.values() if isinstance(item, dict | list))
        else:
            values.extend(item for item in value if isinstance(item, dict | list))


def _paged(document: dict[str, object]) -> Iterator[tuple[dict[str, object], str]]:
    """Yield the objects with a link to a further page, and the key of the link."""
    for value in _objects(document):
        for key in list(value):
            if key.endswith(_NEXT):
                yield value, key


def _shorten(peer: Peer, document: dict[str, object]) -> None:
    """Replace the URLs of the BMC's resources by their paths."""
    for value in _objects(document):
        for key in _PATHS:
            link = value.get(key)
            if isinstance(link, str):
                value[key] = peer.path(link)
