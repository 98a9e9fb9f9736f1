"""
Limits per client and minute: refused requests of machines, long polls, streams, codes of logins.

Requests of agents need no credentials, those of BMCs have a secret in their path. Only refused ones
count, so the limits do not concern machines that behave, however many have one address. Each MiB of
a body counts as a request.

Further requests are refused before their body is read and their caller is authenticated, and before
any query of the database.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from app.api.declarations.public_paths import (
    BMC_EVENTS,
    EVENT_STREAM,
    HEARTBEAT,
    LOOKUP,
    REPORT,
)
from app.api.transport import errors
from app.api.transport.client_addresses import Clients
from app.api.transport.request_body import length_of
from app.config.settings import Api
from app.errors import TooMany
from app.requests.rate_limit import RateLimit

#: Refused requests of an address that a process answers with their reason in a minute: agents of
#: many machines may have one address and retry every few seconds; a report is larger than a lookup.
REFUSED_PER_MINUTE: Mapping[str, int] = {
    LOOKUP: 600, HEARTBEAT: 600, REPORT: 60, BMC_EVENTS: 60,
}  # fmt: skip
#: Beginnings of paths with one limit.
_PREFIXES = (HEARTBEAT, BMC_EVENTS)
#: Long polls and streams of a caller that are refused with the reason in a minute, for want of a
#: place: a client retries after seconds.
REFUSED_FOLLOWERS_PER_MINUTE = 60
#: Variables of headers by which callers authenticate.
_CREDENTIALS = ("HTTP_X_AUTH_TOKEN", "HTTP_AUTHORIZATION", "HTTP_COOKIE")


class Limits:
    """The limits of one application."""

    def __init__(self, api: Api) -> None:
        self.clients = Clients(api.trusted_proxies)
        self.refused_codes = RateLimit(api.wrong_passwords_per_minute)
        self._refused = {path: RateLimit(limit) for path, limit in REFUSED_PER_MINUTE.items()}
        self._refused_followers = RateLimit(REFUSED_FOLLOWERS_PER_MINUTE)

    def note_refused_follower(self, environ: Mapping[str, Any]) -> None:
        """Count a long poll or stream for which there was no place."""
        self._refused_followers.take(self._sender_key(environ))

    def _sender_key(self, environ: Mapping[str, Any]) -> str:
        """
        Return a client's address with a digest of its credentials, which were not verified yet.

        So the callers behind one address do not use up each other's limit. One who changes its
        credentials has a limit for each, and waits for its turns like all callers.
        """
        credentials = "\n".join(environ.get(name, "") for name in _CREDENTIALS)
        digest = hashlib.blake2b(credentials.encode(), digest_size=16).hexdigest()
        return f"{self.clients.key_of(environ)} {digest}"

    def middleware(self, inner: WSGIApplication) -> WSGIApplication:
        """Wrap an application: refuse requests of an address with too many refused ones."""

        def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            prefix = next(filter(path.startswith, _PREFIXES), path)
            limit = self._refused.get(prefix)
            if limit is None:
                if _follows(environ) and (
                    seconds := self._refused_followers.pause(self._sender_key(environ))
                ):
                    return refuse(seconds, environ, start_response)
                return inner(environ, start_response)
            address = self.clients.key_of(environ)
            weight = 1 + (length_of(environ) >> 20)
            if seconds := limit.take(address, weight):
                return refuse(seconds, environ, start_response)

            def started(
                status: str, headers: list[tuple[str, str]], *arguments: Any
            ) -> Callable[[bytes], object]:
                if not _is_refusal(status):
                    limit.give_back(address, weight)
                return start_response(status, headers, *arguments)

            return inner(environ, started)

        def refuse(
            seconds: float, environ: WSGIEnvironment, start_response: StartResponse
        ) -> Iterable[bytes]:
            return errors.service_error(TooMany(seconds), environ)(environ, start_response)

        return application


def _follows(environ: Mapping[str, Any]) -> bool:
    """Whether a request is a long poll or a stream of change events."""
    return "wait=" in environ.get("QUERY_STRING", "") or environ["PATH_INFO"] == EVENT_STREAM


def _is_refusal(status: str) -> bool:
    """Whether a status is the client's fault; 409: the node is locked, as agents must expect."""
    return status.startswith("4") and not status.startswith("409")
