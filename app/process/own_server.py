"""A request of a process to its own HTTP server, which proves that the server answers."""

import http.client
import ssl
from contextlib import closing

#: Seconds for the answer.
TIMEOUT = 2.0
#: Address that a server listens on -> the one at which its own host reaches it.
_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def reached_at(host: str) -> str:
    """Return the address at which this host reaches a server that listens on `host`."""
    return _REACHED_AT.get(host, host)


def status(host: str, port: int, *, tls: bool, timeout: float = TIMEOUT) -> int | None:
    """Return the status of the answer to GET / of a server that listens here, if there is one."""
    connection: http.client.HTTPConnection
    if tls:
        # unverified: the certificate is not for loopback's name, and no data is exchanged
        context = ssl._create_unverified_context()  # noqa: S323
        connection = http.client.HTTPSConnection(
            reached_at(host), port, timeout=timeout, context=context
        )
    else:
        connection = http.client.HTTPConnection(reached_at(host), port, timeout=timeout)
    with closing(connection):
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
