"""
Client of a secrets engine KV version 2, in OpenBao or HashiCorp Vault.

Secrets are created, read and destroyed, never changed: a secret that was read stays as it is. The
errors differ in their remedy: `VaultUnreachable` ends by itself, `SecretsUnavailable` needs an
operator, `Missing` is certain.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson
import requests
from urllib3.exceptions import HTTPError

from drivers.core.errors import SecretsUnavailable, VaultUnreachable

#: Most bytes of an answer: KV secrets have at most 1 MiB by default.
LONGEST = 2 << 20
#: Most characters of the server's words in an error.
_MOST_WORDS = 300
#: Statuses of a server that cannot serve the request now: too many requests; replication is behind,
#: or a replica for disaster recovery, or for reading; an error of its storage; sealed.
_NOT_NOW = frozenset({412, 429, 472, 473, 500, 501, 502, 503, 504})
#: Answers of /sys/health by a server that can serve requests: active; standby, which forwards them.
_ABLE = frozenset({200, 429, 473})
#: Seconds before each further read of a secret that a replica may not have yet.
_BEHIND = (0.1, 0.5)

#: Called with seconds, operation and result of each request.
Observe = Callable[[float, str, str], None]


class Missing(Exception):
    """There is no such secret, or it was deleted."""


class Denied(SecretsUnavailable):
    """The server refuses the token, or its policies do not allow the request."""


@dataclass(frozen=True, slots=True)
class Server:
    """Address of a server, and what all requests to it have in common."""

    address: str
    namespace: str  # empty: the root namespace
    ca_file: str | None  # None: the system's certificates
    timeout: float  # seconds for an answer

    def __str__(self) -> str:
        return "the vault"  # its address is no matter of the owners of nodes


class Connection:
    """Requests to a server, without knowledge of their meaning; for all threads of a process."""

    def __init__(self, server: Server, observe: Observe = lambda *_: None) -> None:
        self.server = server
        self._observe = observe
        self._of_thread = threading.local()

    def request(
        self,
        operation: str,
        method: str,
        path: str,
        body: object = None,
        token: str | None = None,
    ) -> tuple[int, Mapping[str, Any]]:
        """
        Return status and document of an answer that is no error; 404 without a reason is none.

        operation: its name in metrics. path: after `/v1/`.

        Raises VaultUnreachable: no answer, or none that says anything about the request.
        Raises Denied. Raises SecretsUnavailable: any other refusal.
        """
        begin, result = time.monotonic(), "unreachable"
        try:
            status, document = self._exchange(method, path, body, token)
            result = str(status)
        finally:
            self._observe(time.monotonic() - begin, operation, result)
        self._raise_for(status, document, f"{method} {path}")
        return status, document

    def is_able(self) -> str:
        """
        Return a description of the server, which can serve requests.

        Raises VaultUnreachable: it cannot.
        """
        status, document = self._exchange("GET", "sys/health", None, None, is_in_namespace=False)
        if status not in _ABLE:
            reason = "sealed" if document.get("sealed") else f"not able: status {status}"
            raise VaultUnreachable(f"{self.server} is {reason}")
        return f"version {document.get('version', 'unknown')}"

    def _exchange(
        self,
        method: str,
        path: str,
        body: object,
        token: str | None,
        *,
        is_in_namespace: bool = True,
    ) -> tuple[int, Mapping[str, Any]]:
        """Return status and document of any answer. Raises VaultUnreachable: there is none."""
        headers = {"X-Vault-Request": "true", "Accept-Encoding": "identity"}
        if token is not None:
            headers["X-Vault-Token"] = token
        if self.server.namespace and is_in_namespace:
            headers["X-Vault-Namespace"] = self.server.namespace
        url = f"{self.server.address.rstrip('/')}/v1/{path}"
        try:
            answer = self._send(method, url, headers, body)
            location = answer.headers.get("Location", "")
            if answer.status_code == 307 and self._is_peer(urljoin(url, location)):
                answer = self._send(method, urljoin(url, location), headers, body)
            return answer.status_code, _document(answer, self.server)
        except (requests.RequestException, HTTPError, OSError) as error:
            raise VaultUnreachable(f"{self.server} does not answer: {_cause(error)}") from None

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: object
    ) -> requests.Response:
        data = None if body is None else orjson.dumps(body)
        return self._session().request(
            method,
            url,
            headers=headers,
            data=data,
            timeout=self.server.timeout,
            allow_redirects=False,
            stream=True,
        )

    def _is_peer(self, url: str) -> bool:
        """Whether a standby may send its clients to a URL: not from https to http."""
        return urlsplit(url).scheme == urlsplit(self.server.address).scheme

    def _session(self) -> requests.Session:
        """Return the session of this thread: sessions of `requests` are not for several."""
        session: requests.Session | None = getattr(self._of_thread, "session", None)
        if session is None:
            session = self._of_thread.session = requests.Session()
            session.trust_env = False  # no proxy, no .netrc
            session.verify = self.server.ca_file or True
        return session

    def _raise_for(self, status: int, document: Mapping[str, Any], request: str) -> None:
        if status < 300 or (status == 404 and not document.get("errors")):
            return
        words = "; ".join(map(str, document.get("errors") or ()))
        words = " ".join(words.split())[:_MOST_WORDS]
        text = f"{self.server} answered {status} to {request}{': ' if words else ''}{words}"
        if status in _NOT_NOW:
            raise VaultUnreachable(text)
        if status == 403:
            raise Denied(text)
        raise SecretsUnavailable(text)


class Kv:
    """
    The secrets below a prefix.

    token: returns one. refused: called with one that the server refuses; returns whether `token`
    may return another.
    """

    def __init__(
        self,
        connection: Connection,
        mount: str,
        prefix: str,
        token: Callable[[], str],
        refused: Callable[[str], bool],
    ) -> None:
        self._connection, self._mount, self._prefix = connection, mount, prefix
        self._token, self._refused = token, refused

    def create(self, path: str, data: Mapping[str, object]) -> None:
        """
        Create a secret.

        Raises SecretsUnavailable: it may nevertheless exist.
        """
        _, answer = self._request(
            "create", "POST", f"data/{path}", {"options": {"cas": 0}, "data": data}
        )
        if (answer.get("data") or {}).get("deletion_time"):
            raise SecretsUnavailable(
                f"{self._connection.server} would delete secrets of mount {self._mount} by itself:"
                " set its delete_version_after to 0s"
            )

    def read(self, path: str) -> Mapping[str, Any]:
        """
        Return the content of a secret.

        Raises Missing, also for one that was deleted. Raises SecretsUnavailable.
        """
        for pause in (*_BEHIND, None):
            status, answer = self._request("read", "GET", f"data/{path}")
            if status != 404:
                content = (answer.get("data") or {}).get("data")
                if not isinstance(content, dict):
                    raise SecretsUnavailable(
                        f"{self._connection.server}: {self._mount} is no secrets engine KV"
                        " version 2"
                    )
                return content
            if pause is not None:
                time.sleep(pause)
        raise Missing

    def destroy(self, path: str) -> None:
        """Destroy a secret with all its versions, if it exists. Raises SecretsUnavailable."""
        self._request("destroy", "DELETE", f"metadata/{path}")

    def _request(
        self, operation: str, method: str, path: str, body: object = None
    ) -> tuple[int, Mapping[str, Any]]:
        """Send a request with a token, and once more if there is another token."""
        kind, _, place = path.partition("/")
        full_path = f"{self._mount}/{kind}/{self._prefix}/{place}"
        token = self._token()
        try:
            return self._connection.request(operation, method, full_path, body, token)
        except Denied:
            if not self._refused(token):
                raise
        return self._connection.request(operation, method, full_path, body, self._token())


def _document(answer: requests.Response, server: Server) -> Mapping[str, Any]:
    """
    Return the JSON document of an answer, {} for none.

    Raises VaultUnreachable: it is something else, as of a proxy before the server.
    """
    data = answer.raw.read(LONGEST + 1, decode_content=False)
    if answer.status_code == 204 or not data:
        return {}
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = None
    if len(data) > LONGEST or not isinstance(document, dict):
        raise VaultUnreachable(
            f"{server} did not answer: status {answer.status_code} has no document of a vault"
        )
    return document


def _cause(error: Exception) -> str:
    """Return the kind of an error: its text may quote a request."""
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not accepted ([vault]ca_file)"
    if isinstance(error, requests.Timeout):
        return "timeout"
    return "no connection" if isinstance(error, requests.ConnectionError) else type(error).__name__
