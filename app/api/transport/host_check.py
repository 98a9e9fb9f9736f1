"""
Requests that browsers send for pages of other sites, and headers that restrict browsers.

A browser sends Basic credentials along with a form of any site. Without authentication, a page
whose name resolves to this host (DNS rebinding) could read and write everything.
"""

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Request

from app.api.transport.responses import SOCKET
from app.config.settings import Settings
from app.errors import Forbidden, Invalid

#: Methods of requests that change something.
WRITING = ("POST", "PUT", "PATCH", "DELETE")
#: The pages need their own files and the API; all other answers need nothing.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: Headers of every response.
HEADERS = [
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
]
LOOPBACK = "localhost"


class Sites:
    """Names of this service, for the checks of `Origin` and `Host`."""

    def __init__(self, settings: Settings) -> None:
        own_urls = (settings.api.public_endpoint, settings.deploy.external_callback_url)
        public = [urlsplit(url) for url in own_urls if url]
        self._origins = {url.netloc.lower() for url in public}
        self._with_tls = {url.netloc.lower() for url in public if url.scheme == "https"}
        self._names = {url.hostname for url in public}
        receiver = settings.redfish.event_receiver_url  # BMCs send its name
        self._names |= {urlsplit(receiver).hostname} if receiver else set()
        self._names |= {name.lower() for name in settings.api.allowed_hosts}
        self._any_host = settings.default.auth_strategy != "noauth"

    def check(self, request: Request) -> None:
        """
        Check where a request comes from and to which name it was sent.

        Raises Forbidden: it writes, or opens a WebSocket, and a browser sent it for a page of
        another site.
        Raises Invalid: Host is not a name of this service, and there is no authentication.
        """
        host = request.environ.get("HTTP_HOST", "").lower()
        origin = request.environ.get("HTTP_ORIGIN")
        opens = request.environ.get(SOCKET) is not None
        if origin is not None and (opens or request.method in WRITING):
            site = _split(origin.lower())
            # without TLS, another server may answer for this name
            foreign = site and site.scheme == "http" and site.netloc in self._with_tls
            if not site or foreign or site.netloc not in (*self._origins, host):
                raise Forbidden(f"Origin: pages of {origin} may not change anything here.")
        if not (self._any_host or self._is_own(host)):
            raise Invalid(
                f"Host: {host} is not a name of this service: use its address, or list the name in"
                " [api]allowed_hosts"
            )

    def _is_own(self, host: str) -> bool:
        site = _split(f"//{host}")
        name = site and site.hostname
        if not name:
            return not host  # HTTP/1.0
        return (
            name == LOOPBACK
            or name.endswith(f".{LOOPBACK}")
            or name in self._names
            or _is_address(name)  # the page of an address is this service's own
        )


def _split(url: str) -> SplitResult | None:
    """Split a URL; None if it is malformed."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError
    except ValueError:
        return None
    return parts


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def with_headers(inner: WSGIApplication) -> WSGIApplication:
    """Wrap an application: add `HEADERS` to every response."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def started(
            status: str, headers: list[tuple[str, str]], *arguments: Any
        ) -> Callable[[bytes], object]:
            return start_response(status, [*headers, *HEADERS], *arguments)

        return inner(environ, started)

    return application
