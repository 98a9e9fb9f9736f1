"""Waits for an agent have the error that makes them wait, in words that lead to its remedy."""

import ssl
import threading
from http.server import ThreadingHTTPServer

import pytest

from drivers.agent import client, in_band
from drivers.core.steps import Flow, Wait
from drivers.core.target import Agent
from tests.support import tls
from tests.support.web import Handler
from tests.unit.drivers.machines import TOKEN, target

STEP = {"interface": "deploy", "step": "erase", "args": {}}


def collects(node):
    return in_band.collect(node, Flow.DEPLOY)


def executes(node):
    return in_band.execute(node, Flow.CLEAN, STEP)


def rescues(node):
    return node.driver.rescue.rescue(node)


WAYS = pytest.mark.parametrize("way", [collects, executes, rescues])


def node_of(url, ca=None):
    return target(
        interfaces={"deploy": "direct", "rescue": "agent"},
        agent=Agent(url, TOKEN, ca, "13.0.0", {}, {"manager": "1"}),
        instance_info={"hashed_rescue_password": "$6$x"},
    )


@pytest.fixture
def secured(tmp_path):
    """Start a server whose certificate was made with these arguments; its URL and certificate."""
    servers = []

    def start(**certificate):
        paths = tls.certificate(tmp_path, "agent", **certificate)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*paths)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"https://127.0.0.1:{server.server_port}", paths[0].read_text()

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@WAYS
@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        ({"days": (-2, -1)}, "certificate has expired"),
        ({"days": (1, 2)}, "certificate is not yet valid"),
        ({"address": "127.0.0.9"}, "IP address mismatch"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_named_with_its_remedy(
    secured, way, certificate, words
):
    outcome = way(node_of(*secured(**certificate)))
    assert isinstance(outcome, Wait)
    assert words in outcome.reason
    assert "driver_info/agent_verify_ca" in outcome.reason
    assert "clock" in outcome.reason


@WAYS
def test_an_unknown_certificate_is_named(secured, way):
    url, _ = secured()
    assert "CERTIFICATE_VERIFY_FAILED" in way(node_of(url)).reason


@WAYS
def test_an_agent_that_speaks_no_tls_is_named(agent, way):
    outcome = way(node_of(agent.url.replace("http:", "https:")))
    assert "SSL" in outcome.reason


@WAYS
def test_a_closed_port_is_named_and_the_token_is_not(way):
    reason = way(node_of("http://127.0.0.1:1")).reason
    assert "http://127.0.0.1:1 did not answer (Connection refused)" in reason
    assert TOKEN not in reason
    assert "certificate" not in reason


@WAYS
def test_a_busy_agent_is_named_in_its_words(agent, way):
    agent.refusal = (409, f"Agent is busy with {TOKEN} " + "x" * 9000)
    reason = way(node_of(agent.url)).reason
    assert "Agent is busy with ******" in reason
    assert len(reason) < 2 * client._LONGEST_REASON


def test_a_working_agent_gives_no_reason(agent):
    assert executes(node_of(agent.url)).reason is None
