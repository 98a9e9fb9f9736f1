"""
Run of the script on one service.
"""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from app.lifecycle.provision_states import Kind, of_kind
from tests.compare.asks import NEWEST, VERSION, Ask, Raw, Unknown, filled
from tests.compare.comparison import Answer, answer

BUSY = {str(state) for state in of_kind(Kind.BUSY)} | {"allocating"}
PATIENCE = 60.0
#: Collections to empty after each table; references come before their targets.
COLLECTIONS = (
    "allocations", "volume/connectors", "volume/targets", "ports", "portgroups", "nodes",
    "chassis", "deploy_templates", "runbooks", "inspection_rules",
)  # fmt: skip


class Service:
    """A service under test, and the values saved from its responses."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._placeholders: dict[str, str] = {}

    def run(self, table: Sequence[Ask]) -> list[Answer]:
        """Send a table of requests, and clean up; return the responses."""
        self._placeholders = {}
        answers = [self._ask(ask) for ask in table]
        self._clean()
        return answers

    def _ask(self, ask: Ask) -> Answer:
        try:
            path = filled(ask.path, self._placeholders)
            body = (
                filled(ask.body, self._placeholders) if not isinstance(ask.body, Raw) else ask.body
            )
        except Unknown as missing:
            return Answer.unsent(f"no {missing} was saved")
        status, headers, data = self._send(ask.method, path, body, ask.version, ask.headers)
        if status < 400 and ask.save:
            document = json.loads(data)
            for name, place in ask.save.items():
                value = _found(document, place)
                if value is not None:
                    self._placeholders[name] = value
        if ask.settle and status < 400:
            self._settle(filled(ask.settle, self._placeholders))
        return answer(status, headers, data, self._url, self._placeholders)

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        version: str | None = NEWEST,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        # an address of a client's own: of a trusted proxy's, an agent gets no token again
        request_headers = {
            "Accept": "application/json",
            "X-Forwarded-For": "192.0.2.1",
            **(headers or {}),
        }
        if version is not None:
            request_headers[VERSION] = version
        data = None
        if isinstance(body, Raw):
            data = body.data
            if body.type is not None:
                request_headers["Content-Type"] = body.type
        elif body is not None:
            data = json.dumps(body).encode()
            request_headers["Content-Type"] = "application/json"
        elif method in ("POST", "PUT", "PATCH"):
            request_headers["Content-Length"] = "0"
        connection = http.client.HTTPConnection(self._url.rpartition("/")[2], timeout=PATIENCE)
        try:
            # a service may refuse a body by its length without reading it; the response is there
            with suppress(BrokenPipeError):
                connection.request(
                    method, quote(path, safe="/?&=%:,;.~{}@+-_*'()!"), data, request_headers
                )
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, {}, json.dumps(type(error).__name__).encode()
        finally:
            connection.close()

    def _settle(self, path: str) -> None:
        """Wait until no work is under way; the following requests show its result."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            status, _, data = self._send("GET", path)
            if status != 200 or _rests(json.loads(data)):
                return
            time.sleep(0.05)

    def _clean(self) -> None:
        """Remove all resources."""
        for collection in COLLECTIONS:
            query = "?include_children=true" if collection == "nodes" else ""
            status, _, data = self._send("GET", f"/v1/{collection}{query}")
            items = json.loads(data).get(collection.rpartition("/")[2], []) if status == 200 else []
            for item in items:
                path = f"/v1/{collection}/{item['uuid']}"
                status, _, _ = self._send("DELETE", path)
                if status >= 400 and collection == "nodes":
                    self._force(path)

    def _force(self, path: str) -> None:
        """Remove a node that is in use."""
        self._settle(path)
        self._send("PUT", f"{path}/maintenance", {})
        self._send("PATCH", path, [{"op": "replace", "path": "/protected", "value": False}])
        self._send("DELETE", path)


def _found(document: Any, place: str) -> str | None:
    for key in place.split("."):
        if isinstance(document, list):
            if len(document) <= int(key):
                return None
            document = document[int(key)]
        elif isinstance(document, dict) and key in document:
            document = document[key]
        else:
            return None
    return None if document is None else str(document)


def _rests(document: Mapping[str, Any]) -> bool:
    return (
        document.get("reservation") is None
        and document.get("target_power_state") is None
        and document.get("provision_state") not in BUSY
        and document.get("state") not in BUSY
    )
