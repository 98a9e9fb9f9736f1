"""A BMC in this process: the simulator's documents, without sockets, changed by tests."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from urllib.parse import urlsplit

import requests
from requests.structures import CaseInsensitiveDict

from drivers.core.bmc import Bmcs
from drivers.net.networks import of_bmcs
from drivers.redfish import sweep
from drivers.redfish.transport.http_rules import Answer, received
from drivers.redfish.transport.peer import Peer
from drivers.simulator.faults import Faults
from drivers.simulator.machine import Machine, build
from drivers.simulator.power import Power
from drivers.simulator.redfish import DOCUMENTS, Redfish
from drivers.simulator.server import Request
from tests.unit.drivers.machines import new_registry, target


def _machine() -> Machine:
    """Create a machine that accepts power commands and does not boot."""
    return build(0, "127.0.0.1", 8000, 1, Faults(power_stuck=True))


@dataclass
class LocalBmc:
    """
    Answers the requests of sushy and of the power sweep.

    changes: path -> function that alters the document; None: it is a 404. more: path -> document
    that the simulator lacks. In paths, {id} is the machine. request_log: (method, path).
    """

    machine: Machine = field(default_factory=_machine)
    changes: dict[str, Callable | None] = field(default_factory=dict)
    more: dict[str, dict] = field(default_factory=dict)
    request_log: list = field(default_factory=list)

    def __post_init__(self):
        self._service = Redfish(Power(self.machine, None))

    def node(self, driver="redfish", **fields):
        """Create a target with this BMC, without a connection."""
        registry = new_registry(Bmcs(trip_after=1000))
        info = self.machine.driver_info() | {
            "redfish_auth_type": "basic", "deploy_iso": "http://images/agent.iso",
        }  # fmt: skip
        return target(driver, registry=registry, **{"driver_info": info, **fields})

    def answer(self, method: str, path: str, headers, body: bytes = b"") -> tuple[int, bytes, dict]:
        """(status, body, headers)"""
        self.request_log.append((method, path))
        template = path.rstrip("/").replace(self.machine.uuid, "{id}")
        change = self.changes.get(template, lambda document: document)
        if change is None:
            return 404, b'{"error": {"message": "there is no such resource"}}', {}
        if method == "GET" and template in self.more:
            return 200, json.dumps(change(self.more[template])).encode(), {}
        headers = {name.lower(): value for name, value in headers.items()}
        response = self._service.handle(Request(method, path, "", headers, body or b""))
        if method != "GET" or response.status != 200:
            return response.status, response.body, dict(response.headers or {})
        changed = change(json.loads(response.body))
        content = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
        return response.status, content, dict(response.headers or {})

    def install(self, monkeypatch) -> "LocalBmc":
        """Route all requests to this BMC instead of the network."""

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

        async def deliver(_http, session, step, headers, _timeout):
            status, body, headers = self.answer(step.method, urlsplit(step.url).path, headers)
            answer = Answer(status, "", CaseInsensitiveDict(headers), body)
            return received(Peer(session.access.address), step, answer)

        monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
        monkeypatch.setattr(sweep, "_delivered", deliver)
        return self

    def documents(self) -> dict[str, dict]:
        """All documents of a simulated BMC, by path."""
        return {path: make(self.machine) for path, make in DOCUMENTS.items()}


def sweep_of(node, *, secure_boot: bool = False):
    """Run a power sweep of one node; return its state or an error."""

    async def run():
        async with sweep.power_state_reader(of_bmcs(node.options, "redfish_address")) as ask:
            return await ask(node, secure_boot=secure_boot)

    return asyncio.run(run())


def without(*names: str) -> Callable:
    """Return a change that removes these properties."""
    return lambda document: {name: value for name, value in document.items() if name not in names}


def having(**values) -> Callable:
    """Return a change that sets these properties."""
    return lambda document: {**document, **values}
