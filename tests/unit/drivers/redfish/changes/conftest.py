"""A simulated BMC for orders and their ends."""

import pytest

from tests.unit.drivers.redfish.scripted import ScriptedBmc, run

NEW = "http://images/1.1.0.bin"
BIOS = [{"component": "bios", "url": NEW}]


@pytest.fixture
def bmc(monkeypatch):
    return ScriptedBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    return bmc.node(uuid=bmc.machine.uuid)


def updated(bmc, version="1.1.0"):
    """Return a turn of a script in which the version changes."""

    def change():
        bmc.machine.firmware["BIOS"] = version

    return change


def then(effect, answer):
    """Return a turn that has an effect before its answer."""

    def turn():
        effect()
        return answer

    return turn


def update(node, waits=None, **fields):
    return run(node, "firmware", "update", settings=[{**BIOS[0], **fields}], waits=waits)


def resets(bmc):
    return bmc.sent("ComputerSystem.Reset")
