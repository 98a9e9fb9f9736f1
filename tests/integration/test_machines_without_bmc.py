"""Machines without a BMC in flows: power by the running agent, and by webhooks."""

import hashlib

import pytest

from app.errors import Invalid
from app.models import AgentRecord, Node
from drivers.core.interface_kinds import POWER_OFF, POWER_ON
from tests.integration.harness import Harness
from tests.support.web import serving
from tests.unit.drivers.generic.test_webhook import SECRET, Plug
from tests.unit.drivers.machines import image_server, scripted_agent
from workers.periodic import power_sync

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

IMAGE = b"an operating system\n" * 64


@pytest.fixture
def harness(inside):
    inside.environ |= {
        "INGOT_AGENT_REQUIRE_TLS": "false",
        "INGOT_DEPLOY_FAST_TRACK": "true",
    }
    with scripted_agent() as agent, image_server() as server:
        server.files["/disk.raw"] = IMAGE
        view = inside.another()
        harness = Harness(view, agent)
        harness.image = {
            "image_source": f"{server.url}/disk.raw",
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": hashlib.sha256(IMAGE).hexdigest(),
        }
        yield harness
        view.close()


def without_bmc(harness, power, state="enroll", **columns):
    """Create a node of `manual-management` whose firmware boots the network."""
    node = harness.node(state, deploy_interface="direct", **columns)
    with harness.inside.runtime.transaction() as session:
        row = session.get_one(Node, node)
        row.driver, row.power_interface, row.boot_interface = "fake-hardware", power, "fake"
        row.management_interface = "noop"
    return node


def restarts(harness):
    return harness.agent.names().count("standby.run_image")


def silent(harness, node):
    """Let the machine restart: its agent is gone."""
    with harness.inside.runtime.transaction() as session:
        session.get_one(AgentRecord, node).url = "http://127.0.0.1:9"


def test_a_machine_is_enrolled_cleaned_and_deployed_through_its_agent_alone(harness):
    harness.offer("clean", ("deploy", "erase_devices", 10))
    harness.offer("deploy", ("deploy", "check", 50))
    harness.agent.answers["standby.get_partition_uuids"] = {}
    node = without_bmc(harness, "agent", instance_info=harness.image)
    assert "enroll" == harness.do(node, "manage")
    assert "is silent: its power is unknown" in harness.inside.read(node).last_error
    harness.call(node)
    assert "manageable" == harness.do(node, "manage")
    assert POWER_ON == harness.inside.read(node).power_state
    assert "clean wait" == harness.do(node, "provide")
    harness.call(node)
    assert "available" == harness.finish(node)
    assert "wait call-back" == harness.do(node, "active")
    harness.call(node)
    harness.finish(node, "deploy")  # write_image
    harness.agent.finish()  # install_bootloader
    harness.call(node)
    assert 0 == restarts(harness)
    harness.finish(node, "deploy")  # check
    while not restarts(harness):
        harness.poll(node)
    assert "standby.power_off" not in harness.agent.names()
    assert "system.lockdown" not in harness.agent.names()
    assert "deploying" != harness.state(node) != "active"
    silent(harness, node)
    assert "active" == harness.poll(node)
    assert (1, POWER_ON) == (restarts(harness), harness.inside.read(node).power_state)
    for verb in ("deleted", "rescue"):
        with pytest.raises(Invalid, match="power interface"):
            harness.ask(node, verb, **({"rescue_password": "p"} if verb == "rescue" else {}))
    assert "active" == harness.state(node)


def test_the_power_sync_leaves_a_machine_of_an_agent_out(harness):
    node = without_bmc(harness, "agent", "available", power_state=POWER_ON)
    assert 0 == power_sync.sync(harness.inside.runtime, "c-1")["read"]
    assert (POWER_ON, False) == (
        harness.inside.read(node).power_state,
        harness.inside.read(node).maintenance,
    )


def test_a_machine_behind_a_smart_plug_is_enrolled_switched_and_watched(harness):
    with serving(Plug, answers={}, request_log=[], power="off") as plug:
        urls = {
            f"webhook_power_{name}_url": f"{plug.url}/{name}" for name in ("on", "off", "state")
        }
        info = {**urls, "webhook_power_secret": SECRET, "fast_track": False}
        node = without_bmc(harness, "webhook", driver_info=info)
        assert "manageable" == harness.do(node, "manage")
        assert POWER_OFF == harness.inside.read(node).power_state
        assert "clean wait" == harness.do(node, "provide")
        assert "on" == plug.power
        plug.power = "off"
        harness.do(node, "abort")
        assert 1 == power_sync.sync(harness.inside.runtime, "c-1")["read"]
        plug.answers["/state"] = (200, b"<html>")
        assert 1 == power_sync.sync(harness.inside.runtime, "c-1")["failed"]
