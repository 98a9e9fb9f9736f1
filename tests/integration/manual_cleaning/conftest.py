"""A service and a scripted agent for manual cleaning (spec manual-cleaning), in one process."""

import pytest

from tests.integration.harness import Harness, requested
from tests.unit.drivers.machines import scripted_agent

POLISH = requested("management", "polish")
HOLD = requested("power", "hold")
ERASE, BURN = requested("deploy", "erase_devices"), requested("deploy", "burnin_cpu")


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture
def band(inside, monkeypatch):
    """Harness with an HTTP agent that has three clean steps."""
    inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
    plain = inside.another()
    with scripted_agent() as agent:
        harness = Harness(plain, agent)
        harness.offer(
            "clean",
            ("deploy", "erase_devices", 10, {"abortable": True}),
            ("deploy", "burnin_cpu", 0),
            ("deploy", "check", 0, {"argsinfo": {"what": {"description": "d", "required": True}}}),
        )
        yield harness
    plain.close()
