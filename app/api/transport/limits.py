"""
Limits per client: refused requests of agents, long polls, streams and codes of logins, in a minute.

Requests of agents need no credentials. Only refused ones count, so the limits do not concern agents
that behave, however many have one address. Each MiB of a body counts as a request.

Further requests are refused before their body is read and their caller is authenticated, and before
any query of the database.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from app.api.declarations.public_paths import EVENT_STREAM, HEARTBEAT, LOOKUP, REPORT
from app.api.transport import errors
from app.api.transport.client_addresses import Clients
from app.api.transport.request_body import length_of
from app.api.transport.responses import Wsgi
from app.config.settings import Api
from app.errors import TooMany
from app.requests.rate_limit import RateLimit

#: Refused requests of an address that a process answers with their reason in a minute: agents of
#: many machines may have one address and retry every few seconds; a report is larger than a lookup.
REFUSED_PER_MINUTE: Mapping[str, int] = {LOOKUP: 600, HEARTBEAT: 600, REPORT: 60}
#: Long polls and streams of an address that are refused with the reason in a minute, for want of a
#: place: a client retries after seconds.
REFUSED_FOLLOWERS_PER_MINUTE = 60


class Limits:
    """The limits of one application."""

    def __init__(self, api: Api) -> None:
        self.clients = Clients(api.trusted_proxies)
        self.refused_codes = RateLimit(api.wrong_passwords_per_minute)
        self._refused = {path: RateLimit(limit) for path, limit in REFUSED_PER_MINUTE.items()}
        #: Long polls and streams for which there was no place.
        self.refused_followers = RateLimit(REFUSED_FOLLOWERS_PER_MINUTE)

    def middleware(self, inner: Wsgi) -> Wsgi:
        """Wrap an application: refuse requests of an address with too many refused ones."""

        def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            limit = self._refused.get(HEARTBEAT if path.startswith(HEARTBEAT) else path)
            if limit is None:
                if _follows(environ) and (
                    seconds := self.refused_followers.pause(self.clients.key_of(environ))
                ):
                    return refuse(seconds, environ, start_response)
                return inner(environ, start_response)
            address = self.clients.key_of(environ)
            weight = 1 + (length_of(environ) >> 20)
            if seconds := limit.take(address, weight):
                return refuse(seconds, environ, start_response)

            def started(status: str, headers: Any, *arguments: Any) -> Any:
                if not _is_refusal(status):
                    limit.give_back(address, weight)
                return start_response(status, headers, *arguments)

            return inner(environ, started)

        def refuse(seconds: float, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            return errors.service_error(TooMany(seconds), environ)(environ, start_response)

        return application


def _follows(environ: Mapping[str, Any]) -> bool:
    """Whether a request is a long poll or a stream of change events."""
    return "wait=" in environ.get("QUERY_STRING", "") or environ["PATH_INFO"] == EVENT_STREAM


def _is_refusal(status: str) -> bool:
    """Whether a status is the client's fault; 409: the node is locked, as agents must expect."""
    return status.startswith("4") and not status.startswith("409")
