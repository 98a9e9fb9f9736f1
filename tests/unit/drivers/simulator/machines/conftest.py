"""The simulator and a small service for its agents."""

from urllib.parse import parse_qs, urlsplit

import pytest
import sushy

from drivers.simulator.simulator import running
from tests.support.web import Handler, serving

TOKEN = "t" * 43
IMAGE = b"an operating system" * 5000
FAST = {"boot_seconds": 0.0, "heartbeat_gap": 0.0, "retry_factor": 0.002}


class Service(Handler):
    """The service's side of the agent's protocol, and a web server with an image."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url, service = urlsplit(self.path), self.server
        if url.path == "/":
            self.answer(200, {"default_version": {"id": "v1", "version": "1.115"}})
        elif url.path == "/image":
            self.answer(200, IMAGE)
        elif service.lookup_answers:
            self.answer(service.lookup_answers.pop(0))
        else:
            version = self.headers["X-OpenStack-Ironic-API-Version"]
            service.lookups.append((version, parse_qs(url.query)))
            config = {"heartbeat_timeout": service.heartbeat_timeout, "agent_token": service.token}
            self.answer(200, {"node": {"uuid": "node-1"}, "config": config})

    def do_POST(self):
        body = self.body()
        if self.path == "/v1/continue_inspection":
            self.server.inspections.append(body)
            self.answer(202, {"uuid": "node-1"})
        else:
            version = self.headers["X-OpenStack-Ironic-API-Version"]
            self.server.heartbeats.append((version, self.path, body))
            self.answer(202)


@pytest.fixture
def service():
    facts = {"lookups": [], "heartbeats": [], "inspections": []}
    facts |= {"token": TOKEN, "heartbeat_timeout": 300}
    # lookup_answers: statuses of the lookups before the first success
    with serving(Service, lookup_answers=[], **facts) as server:
        yield server


@pytest.fixture
def sim():
    with running(machines=3, **FAST) as simulator:
        yield simulator


def connect(machine):
    """Connect sushy without a session, which it would end from the garbage collector's thread."""
    login = sushy.auth.BasicAuth("admin", "admin")
    return sushy.Sushy(machine.redfish_address, auth=login, server_side_retries=0)


def what(machine, kind):
    return [entry["what"] for entry in machine.log if entry["kind"] == kind]
