"""A BMC in this process: the simulator's documents, without sockets, altered by tests."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from urllib.parse import urlsplit

import requests

from drivers.core.bmc import Bmcs
from drivers.redfish import sweep
from drivers.simulator.faults import Faults
from drivers.simulator.machine import Machine, build
from drivers.simulator.power import Power
from drivers.simulator.redfish import DOCUMENTS, Redfish
from drivers.simulator.server import Request
from tests.unit.drivers.machines import new_registry, target


def _machine() -> Machine:
    """A machine that takes power orders and stays as it is: nothing runs here that could boot."""
    return build(0, "127.0.0.1", 8000, 1, Faults(power_stuck=True))


@dataclass
class LocalBmc:
    """
    Answers the requests of sushy and of the power sweep.

    changes: path -> function that alters the document; None: it is a 404. more: path -> document
    that the simulator lacks. In paths, {id} is the machine. asked: (method, path).
    """

    machine: Machine = field(default_factory=_machine)
    changes: dict[str, Callable | None] = field(default_factory=dict)
    more: dict[str, dict] = field(default_factory=dict)
    asked: list = field(default_factory=list)

    def __post_init__(self):
        self._service = Redfish(Power(self.machine, None))

    def node(self, **fields):
        """A target whose BMC this is, not yet connected to."""
        registry = new_registry(Bmcs(trip_after=1000))
        info = self.machine.driver_info() | {
            "redfish_auth_type": "basic", "deploy_iso": "http://images/agent.iso",
        }  # fmt: skip
        return target("redfish", registry=registry, driver_info=info, **fields)

    def answer(self, method: str, path: str, headers, body: bytes = b"") -> tuple[int, bytes, dict]:
        """(status, body, headers)"""
        self.asked.append((method, path))
        known = path.rstrip("/").replace(self.machine.uuid, "{id}")
        change = self.changes.get(known, lambda document: document)
        if change is None:
            return 404, b'{"error": {"message": "there is no such resource"}}', {}
        if method == "GET" and known in self.more:
            return 200, json.dumps(change(self.more[known])).encode(), {}
        headers = {name.lower(): value for name, value in headers.items()}
        found = self._service.handle(Request(method, path, "", headers, body or b""))
        if method != "GET" or found.status != 200:
            return found.status, found.body, dict(found.headers or {})
        changed = change(json.loads(found.body))
        content = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
        return found.status, content, dict(found.headers or {})

    def install(self, monkeypatch) -> "LocalBmc":
        """Have all requests come here instead of to the network."""

        def send(_adapter, request, **_options):
            url = urlsplit(request.url)
            if url.netloc != f"{self.machine.address}:{self.machine.port}":
                raise requests.exceptions.ConnectionError(f"nothing listens at {url.netloc}")
            status, body, headers = self.answer(
                request.method, url.path, request.headers, request.body or b""
            )
            response = requests.Response()
            response.status_code, response.raw = status, BytesIO(body)
            response.headers.update({"Content-Type": "application/json", **headers})
            response.request, response.url = request, request.url
            return response

        async def ask(_http, _kept, path, headers):
            status, body, _ = self.answer("GET", path, headers)
            try:
                return status, json.loads(body) if status == 200 else None
            except ValueError:
                return status, None

        monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
        monkeypatch.setattr(sweep, "_ask", ask)
        return self

    def documents(self) -> dict[str, dict]:
        """Every document that a BMC of this kind has, by its path."""
        return {path: make(self.machine) for path, make in DOCUMENTS.items()}


def sweep_of(node, *, secure_boot: bool = False):
    """What a power sweep reads of a machine: its state or an error."""

    async def run():
        async with sweep.power_state_reader() as ask:
            return await ask(node, secure_boot=secure_boot)

    return asyncio.run(run())


def without(*names: str) -> Callable:
    """A change: the document lacks these properties."""
    return lambda document: {name: each for name, each in document.items() if name not in names}


def having(**values) -> Callable:
    """A change: properties have other values."""
    return lambda document: {**document, **values}
