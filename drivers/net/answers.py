"""
Bounded reading of the answers of agents and BMCs, which may be hostile.

An answer is at most `LONGEST` bytes long, not compressed, complete before a deadline, and from the
address that was asked. Anything else raises a HardwareError. The differences for BMCs are in
`drivers.redfish.transport.http_rules`. A `Budget` limits all answers to one command, as a BMC
chooses to how many documents its links lead.
"""

import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import requests

from drivers.core.errors import Unexpected, Unreachable
from drivers.net import json_nul
from drivers.net.connections import Adapter, Exchange
from drivers.net.networks import Reach

LONGEST = 4 << 20  # bytes
#: Most values in a JSON document: short values take many times their text in memory.
MOST_VALUES = 200_000
#: Errors of a malformed URL or document, and of connections.
Malformed = requests.RequestException
#: Headers of each request.
UNCOMPRESSED = {"Accept-Encoding": "identity"}
#: The whole answer may take this many times the timeout of a single read.
_PATIENCE = 2


class Budget:
    """Limits of all answers to one command: seconds, requests and bytes."""

    SECONDS, REQUESTS, BYTES = 600.0, 5_000, 64 << 20

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin a command."""
        self.end = time.monotonic() + self.SECONDS  # of the command
        self._requests = self._bytes = 0

    def count_request(self, name: str) -> None:
        """
        Count a request.

        Raises Unexpected: the answers before were too many or too long.
        """
        self._requests += 1
        if self._requests > self.REQUESTS:
            raise Unexpected(f"{name} has more than {self.REQUESTS} documents for one command")
        if self._bytes > self.BYTES:
            raise Unexpected(f"{name} sent more than {self.BYTES >> 20} MiB for one command")

    def seconds_left(self, name: str) -> float:
        """Return the seconds that are left for answers. Raises Unreachable: none."""
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise self.passed(name)
        return seconds

    def passed(self, name: str) -> Unreachable:
        """Return the error of a command that has used up its seconds."""
        return Unreachable(f"{name} did not answer a command within {self.SECONDS:g} s")

    def count(self, body: bytes) -> None:
        self._bytes += len(body)


class MachineAdapter(Adapter):
    """
    Adapter of `requests` for one agent or server. Reads each answer completely.

    address: URL of the machine; requests and redirects to another one are refused. name: of the
    machine, for errors. reach: networks that it may be in. max_bytes: size limit of an answer.
    """

    def __init__(self, address: str, name: str, reach: Reach, max_bytes: int = LONGEST) -> None:
        super().__init__()
        self._address, self._name, self._reach, self._longest = address, name, reach, max_bytes
        self.was_sent = False  # the machine may have received a part of the last request

    def send(  # type: ignore[override]
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        **options: Any,
    ) -> requests.Response:
        """
        Send a request, and read its answer.

        Raises Unexpected, Unreachable, requests.RequestException.
        """
        self.was_sent = False
        if origin(request.url or "") != origin(self._address):
            raise Unexpected(f"{self._name} sent a link to another address")
        request.headers.update(UNCOMPRESSED)
        seconds = longest_exchange(timeout)
        with Exchange(self._name, seconds, self._reach.check) as exchange:
            try:
                answer = self.exchange(exchange, request, stream=True, timeout=timeout, **options)
                with answer:
                    check_encoding(self._name, answer.headers)
                    body = body_of(answer, self._longest)
            finally:
                self.was_sent = exchange.was_sent
        check_body(self._name, body, self._longest)
        answer._content = body
        answer._content_consumed = True  # type: ignore[attr-defined]
        return answer


def longest_exchange(timeout: object) -> float:
    """Return the seconds for a whole exchange, from a timeout of `requests`."""
    connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    return float(connect + read * _PATIENCE)


def body_of(answer: requests.Response, max_bytes: int) -> bytes:
    """Read the body of an answer, as it was sent, at most one part beyond `longest` bytes."""
    parts: list[bytes] = []
    bytes_left = max_bytes
    while bytes_left >= 0 and (part := _more(answer)):
        parts.append(part)
        bytes_left -= len(part)
    return b"".join(parts)


def session(adapter: Adapter) -> requests.Session:
    """Return a session with the adapter's agent or BMC."""
    web_session = requests.Session()
    bind(web_session, adapter)
    return web_session


def bind(web_session: requests.Session, adapter: Adapter) -> None:
    """Make a session of another library one with the adapter's agent or BMC only."""
    web_session.trust_env = False  # machines are not behind this host's proxy
    for scheme in ("http://", "https://"):
        web_session.mount(scheme, adapter)


async def document(answer: aiohttp.ClientResponse, name: str) -> Any:
    """
    Read an answer of aiohttp as JSON. The request had the headers `UNCOMPRESSED`.

    Raises Unexpected: too long, compressed, or not JSON.
    """
    check_encoding(name, answer.headers)
    body = await async_body_of(answer, LONGEST)
    check_body(name, body, LONGEST)
    return parsed(name, body)


async def async_body_of(answer: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read the body of an answer, as it was sent, at most one part beyond `longest` bytes."""
    body = b""
    async for chunk in answer.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > max_bytes:
            break
    return body


def parsed(name: str, body: bytes) -> Any:
    """
    Parse JSON. NUL is removed from its texts.

    Raises Unexpected: it is malformed, nested too deeply, or has values that are no JSON.
    """
    try:
        return orjson.loads(json_nul.removed(body))
    except orjson.JSONDecodeError:
        raise Unexpected(f"{name} did not send a JSON document") from None


def check_encoding(name: str, headers: Any) -> None:
    """
    Check that an answer is not compressed.

    Raises Unexpected.
    """
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Unexpected(f"{name} sent a compressed answer, which was not requested")


def check_body(name: str, body: bytes, max_bytes: int) -> None:
    """
    Check the size of an answer and the number of its values.

    Raises Unexpected.
    """
    if len(body) > max_bytes:
        raise Unexpected(f"{name} sent an answer of more than {max_bytes >> 20} MiB")
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise Unexpected(f"{name} sent a document of more than {MOST_VALUES} values")


def origin(url: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of a URL; None if it is malformed."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname or "", port


def _more(answer: requests.Response) -> bytes:
    try:
        return bytes(answer.raw.read(1 << 16))
    except OSError:
        raise
    except Exception as error:  # urllib3's own errors have no common base with OSError
        raise requests.ConnectionError(error) from None
