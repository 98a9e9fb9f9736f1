"""
Address of a BMC: which links and redirects lead to the same machine, and their one spelling.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import quote, urljoin, urlsplit

from drivers.redfish.transport.bodies import MalformedDocument
from drivers.redfish.transport.conversions import printable

PORTS = {"http": 80, "https": 443}
#: Characters of a path and query that stay as they are.
_PLAIN = "%/:=&?~#+!$,;'@()*[]"


@dataclass(frozen=True, slots=True)
class Peer:
    """A BMC at its address: scheme, host and port."""

    address: str

    @property
    def name(self) -> str:
        return f"BMC {self.address}"

    def url(self, link: str, base: str | None = None) -> str:
        """
        Return the URL of a link at this address.

        link: a path, or a URL with another spelling of the address: of the host, with or without
        the default port, with the other scheme and its default port. base: URL of the document.

        Raises MalformedDocument: the link leads to another address, or is no URL.
        """
        if link.startswith("/") and not link.startswith("//"):
            return self.address + _target(link)
        url = _joined(base or f"{self.address}/", link)
        if url is None or not self._is_of_machine(url):
            raise MalformedDocument(
                f"{self.name} sent a link to another address: {printable(link)[:200]!r}"
            )
        return self.address + _target(url)

    def path(self, link: str) -> str:
        """Return the path of a link to this address; other texts unchanged."""
        url = _joined(f"{self.address}/", link) if "//" in link else None
        return _target(url) if url and self._is_of_machine(url) else link

    def redirect(self, location: str, base: str) -> str | None:
        """
        Return the URL that a redirect leads to, or None if it is another address.

        The scheme may change from http to https between the default ports, never back.
        """
        url = _joined(base, location)
        redirect_origin, base_origin = _place(url) if url else None, _place(base)
        if url is None or redirect_origin is None or base_origin is None:
            return None
        if redirect_origin == base_origin:
            return f"{base.removesuffix(raw_target(base))}{_target(url)}"
        defaults = [
            ("http", base_origin[1], PORTS["http"]),
            ("https", base_origin[1], PORTS["https"]),
        ]
        if [base_origin, redirect_origin] == defaults:
            host = f"[{base_origin[1]}]" if ":" in base_origin[1] else base_origin[1]
            return f"https://{host}:{PORTS['https']}{_target(url)}"
        return None

    def _is_of_machine(self, url: str) -> bool:
        url_origin, bmc_origin = _place(url), _place(self.address)
        if url_origin is None or bmc_origin is None or url_origin[1] != bmc_origin[1]:
            return False
        return url_origin == bmc_origin or (url_origin[2], bmc_origin[2]) == (
            PORTS.get(url_origin[0]),
            PORTS.get(bmc_origin[0]),
        )


def _joined(base: str, link: str) -> str | None:
    try:
        return urljoin(base, link)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _place(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of a URL in one spelling; None if it is no HTTP URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = (parts.hostname or "").rstrip(".")
    if not host or port is None or parts.scheme not in PORTS:
        return None
    with suppress(ValueError):
        host = str(ip_address(host))
    return parts.scheme, host, port


def raw_target(url: str) -> str:
    """Return path and query of a URL, as they are."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _target(url: str) -> str:
    """Return path and query of a URL, quoted."""
    return quote(raw_target(url), safe=_PLAIN)
