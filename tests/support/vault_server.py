"""
A server of the protocol of OpenBao and Vault, as strict as it is documented, for tests.

It has a secrets engine KV version 2, logins by AppRole and Kubernetes, tokens with leases, policies,
namespaces, and the states of a server: sealed, standby, without an answer. Answers are those of
OpenBao's documentation and source (`internal/builtin/logical/kv`). Time is that of the process, and
can be moved.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from werkzeug.serving import WSGIRequestHandler, make_server

#: Capability of a policy that an HTTP method needs; POST needs `create` or `update`.
_CAPABILITIES = {"GET": "read", "DELETE": "delete", "LIST": "list"}
ALL = frozenset({"create", "read", "update", "delete", "list"})


class Refusal(Exception):
    def __init__(self, status: int, *errors: str, data: object = None) -> None:
        super().__init__(status)
        self.status, self.errors, self.data = status, errors, data


@dataclass(slots=True)
class Version:
    data: Mapping[str, Any] | None
    deleted: bool = False
    destroyed: bool = False


@dataclass(slots=True)
class Token:
    policies: Mapping[str, frozenset[str]]  # prefix of a path -> capabilities
    ttl: float  # 0: none
    created_at: float
    expires_at: float
    max_ttl: float = 0.0
    renewable: bool = True


@dataclass(slots=True)
class Role:
    """A role of AppRole (secret_id) or Kubernetes (jwt)."""

    policies: Mapping[str, frozenset[str]]
    secret: str
    ttl: float = 3600.0
    max_ttl: float = 0.0
    uses: int = -1  # of the SecretID; -1: any number


@dataclass(slots=True)
class VaultServer:
    """State of the server; tests read and change it."""

    mount: str = "secret"
    namespace: str = ""
    address: str = ""
    sealed: bool = False
    standby: str = ""  # address of the active server; empty: this is it
    broken: bool = False  # answers with a page of a proxy
    delay: float = 0.0  # seconds before each answer
    delete_version_after: bool = False
    cas_required: bool = True
    keys: dict[str, list[Version]] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    roles: dict[tuple[str, str], Role] = field(default_factory=dict)  # (path, name or RoleID)
    requests: list[tuple[str, str, int]] = field(default_factory=list)  # method, path, status
    fail: Callable[[str, str], Refusal | None] = lambda _method, _path: None
    _offset: float = 0.0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def now(self) -> float:
        return time.monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        self._offset += seconds

    def add_token(
        self,
        policies: Mapping[str, frozenset[str]] | None = None,
        ttl: float = 0.0,
        max_ttl: float = 0.0,
        *,
        renewable: bool = True,
    ) -> str:
        """Create a token; without policies, it may do everything."""
        text = f"s.{secrets.token_urlsafe(18)}"
        allowed = {"": ALL} if policies is None else policies
        self.tokens[text] = Token(
            allowed, ttl, self.now(), self.now() + ttl, max_ttl, renewable and ttl > 0
        )
        return text

    def contents(self) -> dict[str, Mapping[str, Any]]:
        """Return the readable secrets by their path."""
        return {
            path: versions[-1].data
            for path, versions in self.keys.items()
            if versions[-1].data is not None and not versions[-1].deleted
        }

    def count(self, part: str) -> int:
        """Count requests whose method and path contain a text."""
        return sum(part in f"{method} {path}" for method, path, _ in self.requests)

    def application(
        self, environ: dict[str, Any], start_response: Callable[..., object]
    ) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"]
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        if self.delay:
            time.sleep(self.delay)
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        with self._lock:
            status, document = self._answer(method, path, body, environ)
            self.requests.append((method, path, status))
        if self.broken:
            status, content = 502, b"<html>Bad Gateway</html>"
        else:
            content = b"" if document is None else json.dumps(document).encode()
        if status == 307:
            headers.append(("Location", f"{self.standby}{path}"))
        headers.append(("Content-Length", str(len(content))))
        start_response(f"{status} X", headers)
        return [content]

    def _answer(
        self, method: str, path: str, body: bytes, environ: Mapping[str, Any]
    ) -> tuple[int, Any]:
        if parse_qs(environ.get("QUERY_STRING", "")).get("list") == ["true"] and method == "GET":
            method = "LIST"
        try:
            if not path.startswith("/v1/") or path.endswith("."):
                raise Refusal(404, "unsupported path")
            if path == "/v1/sys/health":
                return self._health()
            if self.sealed:
                raise Refusal(503, "Vault is sealed")
            if self.standby:
                return 307, None
            if refusal := self.fail(method, path):
                raise refusal
            if environ.get("HTTP_X_VAULT_NAMESPACE", "").strip("/") != self.namespace.strip("/"):
                raise Refusal(404, f'no handler for route "{path}". route entry not found.')
            return self._route(
                method, path.removeprefix("/v1/"), self._parsed(method, body), environ
            )
        except Refusal as refusal:
            document: dict[str, Any] = {"errors": list(refusal.errors)}
            if refusal.data is not None:
                document = {"data": refusal.data}
            return refusal.status, document

    def _health(self) -> tuple[int, Any]:
        status = 503 if self.sealed else 429 if self.standby else 200
        return status, {
            "initialized": True,
            "sealed": self.sealed,
            "standby": bool(self.standby),
            "version": "2.5.0",
        }

    def _parsed(self, method: str, body: bytes) -> Mapping[str, Any]:
        if method not in ("POST", "PUT"):
            return {}
        try:
            document = json.loads(body or b"{}")
        except ValueError:
            raise Refusal(400, "failed to parse JSON input: invalid character") from None
        if not isinstance(document, dict):
            raise Refusal(400, "failed to parse JSON input")
        return document

    def _route(
        self, method: str, path: str, body: Mapping[str, Any], environ: Mapping[str, Any]
    ) -> tuple[int, Any]:
        if path.startswith("auth/") and path.endswith("/login"):
            return self._login(method, path, body)
        token = self._token(environ.get("HTTP_X_VAULT_TOKEN", ""))
        if path in ("auth/token/lookup-self", "auth/token/renew-self"):
            return self._of_token(method, path, token)
        mount = f"{self.mount}/"
        if not path.startswith(mount):
            raise Refusal(404, f'no handler for route "{path}". route entry not found.')
        kind, _, key = path.removeprefix(mount).partition("/")
        self._authorize(token, method, path, key)
        if kind == "data" and key:
            return self._data(method, key, body)
        if kind == "metadata":
            return self._metadata(method, key)
        raise Refusal(404, "unsupported path")

    def _token(self, text: str) -> Token:
        token = self.tokens.get(text)
        if token is None or (token.ttl and self.now() >= token.expires_at):
            self.tokens.pop(text, None)
            raise Refusal(403, "permission denied")
        return token

    def _authorize(self, token: Token, method: str, path: str, key: str) -> None:
        needed = _CAPABILITIES.get(method) or ("update" if self.keys.get(key) else "create")
        prefixes = [prefix for prefix in token.policies if path.startswith(prefix)]
        if not prefixes or needed not in token.policies[max(prefixes, key=len)]:
            raise Refusal(403, "1 error occurred:\n\t* permission denied\n\n")

    def _login(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        if method not in ("POST", "PUT"):
            raise Refusal(405, "unsupported operation")
        mount = path.removesuffix("/login")
        is_kubernetes = "jwt" in body
        name = body.get("role" if is_kubernetes else "role_id")
        role = self.roles.get((mount, str(name)))
        if role is None and not any(place == mount for place, _ in self.roles):
            raise Refusal(403, "permission denied")
        credential = body.get("jwt" if is_kubernetes else "secret_id", "")
        if role is None or role.uses == 0 or not secrets.compare_digest(role.secret, credential):
            raise Refusal(403 if is_kubernetes else 400, "invalid role or secret ID")
        role.uses -= role.uses > 0
        text = self.add_token(role.policies, role.ttl, role.max_ttl)
        return 200, {"auth": self._auth(text, self.tokens[text])}

    def _of_token(self, method: str, path: str, token: Token) -> tuple[int, Any]:
        text = next(text for text, stored_token in self.tokens.items() if stored_token is token)
        if path.endswith("lookup-self"):
            if method != "GET":
                raise Refusal(405, "unsupported operation")
            seconds = max(int(token.expires_at - self.now()), 0) if token.ttl else 0
            return 200, {"data": {"ttl": seconds, "renewable": token.renewable, "id": text}}
        if method not in ("POST", "PUT"):
            raise Refusal(405, "unsupported operation")
        if not token.renewable:
            raise Refusal(400, "lease is not renewable")
        token.expires_at = self.now() + token.ttl
        if token.max_ttl:
            token.expires_at = min(token.expires_at, token.created_at + token.max_ttl)
        return 200, {"auth": self._auth(text, token)}

    def _auth(self, text: str, token: Token) -> dict[str, Any]:
        return {
            "client_token": text,
            "accessor": "a",
            "policies": ["default"],
            "lease_duration": int(token.expires_at - self.now() + 0.5) if token.ttl else 0,
            "renewable": token.renewable,
        }

    def _data(self, method: str, key: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        versions = self.keys.get(key)
        if method in ("POST", "PUT"):
            return self._write(key, versions or [], body)
        if method == "DELETE":
            if versions:
                versions[-1].deleted = True
            return 204, None
        if method != "GET":
            raise Refusal(405, "unsupported operation")
        if not versions:
            raise Refusal(404)
        newest = versions[-1]
        about = {"version": len(versions), "destroyed": newest.destroyed, "deletion_time": ""}
        if newest.deleted or newest.destroyed:
            about["deletion_time"] = "2026-01-01T00:00:00Z" if newest.deleted else ""
            raise Refusal(404, data={"data": None, "metadata": about})
        return 200, {"data": {"data": newest.data, "metadata": about}}

    def _write(self, key: str, versions: list[Version], body: Mapping[str, Any]) -> tuple[int, Any]:
        data, options = body.get("data"), body.get("options") or {}
        if "data" not in body:
            raise Refusal(400, "no data provided")
        if not isinstance(data, dict) or not isinstance(options, dict):
            raise Refusal(400, "error converting input for field")
        if "cas" not in options:
            if self.cas_required:
                raise Refusal(400, "check-and-set parameter required for this call")
        elif options["cas"] != len(versions):
            raise Refusal(400, "check-and-set parameter did not match the current version")
        self.keys[key] = [*versions, Version(data)]
        deletion_time = "2026-01-01T00:00:00Z" if self.delete_version_after else ""
        return 200, {"data": {"version": len(versions) + 1, "deletion_time": deletion_time}}

    def _metadata(self, method: str, key: str) -> tuple[int, Any]:
        if method == "DELETE":
            self.keys.pop(key, None)
            return 204, None
        if method == "LIST":
            folder = f"{key.rstrip('/')}/" if key else ""
            names = {
                name.removeprefix(folder).partition("/")[0]
                + ("/" if "/" in name.removeprefix(folder) else "")
                for name in self.keys
                if name.startswith(folder)
            }
            if not names:
                raise Refusal(404)
            return 200, {"data": {"keys": sorted(names)}}
        raise Refusal(405, "unsupported operation")


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_arguments: object) -> None:  # type: ignore[override]
        """Log nothing."""


@contextmanager
def running(server: VaultServer, tls: Any = None) -> Iterator[VaultServer]:
    """Serve on a port of loopback; tls: an `ssl.SSLContext`."""
    listener = make_server(
        "127.0.0.1", 0, server.application, threaded=True, request_handler=_Handler, ssl_context=tls
    )
    server.address = f"{'https' if tls else 'http'}://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
