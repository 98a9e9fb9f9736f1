"""
Machines with one rude fault each, of those that a right service can bear, through a life cycle.
"""

from contextlib import suppress

import pytest

from drivers.simulator.rude.profiles import PROFILES
from drivers.simulator.rude.table import ROWS
from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, CALM, Fleet, until

PACE = {
    "boot_seconds": 0.5,
    "task_seconds": 1,
    "heartbeat_gap": 0.3,
    "retry_factor": 0.05,
    "step_seconds": 0.1,
}
FAULTS = PROFILES["rude"]
#: Faults that keep their share: in each request, no work would be possible.
SELDOM = {"answer_cut_short", "busy", "power_state_unknown", "redirect_absolute"}
#: Firmware is polled soon, and power states so often that a defect of the sweep sets a fault.
SETTINGS = {
    "INGOT_REDFISH_FIRMWARE_UPDATE_STATUS_INTERVAL": "1",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "3",
    "INGOT_CONDUCTOR_FORCE_POWER_STATE_DURING_SYNC": "false",
}
UPDATE = {
    "interface": "firmware",
    "step": "update",
    "args": {"settings": [{"component": "bios", "url": "http://192.0.2.1/9.9.bin"}]},
}
#: Verb -> state after it.
LIFE = (
    ("manage", "manageable"), ("inspect", "manageable"), ("clean", "manageable"),
    ("provide", "available"),
    ("active", "active"), ("rebuild", "active"), ("deleted", "available"),
)  # fmt: skip
#: Ends of the names of busy states.
BUSY = ("ing", "wait", "call-back")
#: Most seconds for a verb on all machines.
SECONDS = 90


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """Take all machines through their lives. Return fault -> (last verb, state, error, fault of the node)."""
    names = sorted(FAULTS)
    settings = {**CALM, **AGENTS, **SETTINGS}
    with (
        running(machines=len(names), **PACE) as simulator,
        Fleet(tmp_path_factory.mktemp("fleet"), conductors=2, **settings) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        for number, name in enumerate(names):
            value = FAULTS[name]
            # in each request, not in a share of them, unless nothing would get through
            always = 1.0 if isinstance(value, float) and name not in SELDOM else value
            simulator.set_faults(number, **{name: always})
        nodes = fleet.enrol(simulator, inspect_interface="redfish", firmware_interface="redfish")
        results, names_by_node = {}, dict(zip(nodes, names, strict=True))
        for verb, state in LIFE:
            refused = {node for node in names_by_node if not _accepts(fleet, node, verb)}
            with suppress(AssertionError):  # a machine that stays busy has its state in the result
                until(lambda: not _busy(fleet, names_by_node), verb, SECONDS)
            states = fleet.states("last_error", "fault")
            for node, name in list(names_by_node.items()):
                is_wrong = node in refused or states[node][0] != state or states[node][2]
                if is_wrong or verb == LIFE[-1][0]:
                    results[name] = (verb, *states[node])
                    del names_by_node[node]
        yield results


def _accepts(fleet, node, verb):
    """Request a verb; False: it is refused, as of a node in maintenance."""
    body = {"target": verb, **({"clean_steps": [UPDATE]} if verb == "clean" else {})}
    path = f"{fleet.url}/v1/nodes/{node}/states/provision"
    return fleet.http.put(path, json=body, timeout=60).status_code == 202


def _busy(fleet, nodes):
    """Whether work on one of the nodes has not ended."""
    states = fleet.states("reservation")
    return any(states[node][1] or states[node][0].endswith(BUSY) for node in nodes)


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_machine_with_a_rude_fault_lives_through_its_cycle(lives, name):
    assert name in ROWS
    assert ("deleted", "available", None, None) == lives[name]
