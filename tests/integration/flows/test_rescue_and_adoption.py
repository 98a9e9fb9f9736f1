"""Rescue and adoption."""

import pytest

from app.errors import Invalid
from tests.integration.harness import Acme

from .conftest import _rescued

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_a_rescue_sets_the_password_and_deletes_it(harness):
    node = harness.with_agent("active", rescue_interface="agent", power_state="power on")
    harness.agent.answers["rescue.finalize_rescue"] = {}
    assert "rescue wait" == harness.do(node, "rescue", rescue_password="open sesame")
    hashed = harness.inside.read(node).instance_info["hashed_rescue_password"]
    assert hashed.startswith("$5$")
    assert "open sesame" not in str(harness.last(node).arguments)
    assert "rescue" == _rescued(harness, node)
    assert {} == harness.inside.read(node).instance_info
    assert hashed == harness.agent.received[-1][1]["rescue_password"]
    assert "active" == harness.do(node, "unrescue")


@pytest.mark.parametrize("verb", ["abort", "deleted"])
def test_a_waiting_rescue_is_ended(harness, verb):
    node = harness.with_agent("active", rescue_interface="agent", automated_clean=False)
    harness.do(node, "rescue", rescue_password="open sesame")
    ends = {"abort": "rescue failed", "deleted": "available"}
    assert ends[verb] == harness.do(node, verb)
    assert {} == harness.inside.read(node).instance_info
    assert "clean_up_ramdisk" in Acme.did


def test_a_rescue_without_its_requirements_is_refused(harness):
    node = harness.node("active", rescue_interface="no-rescue")
    with pytest.raises(Invalid, match="does not support rescue"):
        harness.do(node, "rescue", rescue_password="x")


def test_an_adopted_node_is_active_without_any_command(harness):
    node = harness.with_agent("manageable", power_state="power on", maintenance=True)
    assert "active" == harness.do(node, "adopt")
    assert [] == Acme.did
