"""A service and a scripted agent for flows other than cleaning, in one process."""

import pytest

from tests.integration.harness import Harness, requested
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import scripted_agent

POLISH = requested("management", "polish")
SCRUB = requested("management", "scrub", args={"level": "deep"})


class Image(Handler):
    """Server of one small raw image."""

    def do_GET(self):
        self.answer(200, bytes(512))


@pytest.fixture(scope="module")
def image():
    """instance_info of a deployment whose image can be checked."""
    with serving(Image) as server:
        yield {"image_source": f"{server.url}/disk.raw", "image_checksum": "a" * 64}


def deploy_step(interface, name, priority, **args):
    return {"interface": interface, "step": name, "priority": priority, "args": args}


@pytest.fixture
def harness(inside):
    with scripted_agent() as agent:
        inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
        plain = inside.another()
        harness = Harness(plain, agent)
        harness.offer("deploy", ("deploy", "tune", 0), ("deploy", "check", 50))
        harness.offer("service", ("deploy", "burn", 0, {"abortable": True}))
        harness.offer("clean", ("deploy", "erase_devices", 10))
        yield harness
        plain.close()


def ran(harness, node, flow):
    return [row.label for row in harness.steps(node) if row.flow == flow and row.state == "done"]


def _rescued(harness, node):
    """Let the agent set the password at once."""
    post = harness.agent.post
    harness.agent.post = lambda name, params, *, wait: post(name, params, wait=True)
    try:
        return harness.call(node)
    finally:
        harness.agent.post = post
