"""Power orders to BMCs that refuse, lose and delay them, over real processes."""

import os
import signal
import time
from contextlib import ExitStack

from tests.support.fleet import Fleet, until
from tests.support.power_bmc import CUT, rude_bmc

CONFLICT = (409, False, "Base.1.18.ActionParameterValueConflict")
SWEEPS = {
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "1",
    "INGOT_CONDUCTOR_POWER_STATE_CHANGE_TIMEOUT": "40",
}


def after_off(bmc, kind):
    """Refuse `On` six times after a power off."""
    return CONFLICT if kind == "On" and bmc.orders.count("On") < 6 else None


def lost_reads(bmc, _kind):
    """Lose the two reads after an order."""
    bmc.readings = [CUT] * 2


def null_reads(bmc, _kind):
    bmc.readings = [None, "PoweringOff", "Reset"]


#: name -> (the BMC, order, power state at the end, orders that the BMC gets)
CASES = {
    "conflict": ({"power": "On", "judge": after_off}, "rebooting", "On", ["ForceOff", *["On"] * 7]),
    "post": (
        {"answers": [(400, False, "iLO.2.14.UnableToModifyDuringSystemPOST"), (503, False)]},
        "power on", "On", ["On"] * 3,
    ),
    "lost order": ({"answers": [(CUT, True)]}, "power on", "On", ["On"]),
    "lost order without effect": ({"answers": [(CUT, False)]}, "power on", "On", ["On"] * 2),
    "lost reads": ({"power": "On", "judge": lost_reads}, "power off", "Off", ["ForceOff"]),
    "null": ({"power": "On", "judge": null_reads}, "power off", "Off", ["ForceOff"]),
    "graceful only": (
        {"power": "On", "allowed": ["On", "GracefulShutdown"]},
        "power off", "Off", ["GracefulShutdown"],
    ),
}  # fmt: skip


def enrol(fleet, bmc, name):
    """Create and verify the node of a BMC; return its UUID."""
    node = {"name": name.replace(" ", "-"), "driver": "redfish", "driver_info": bmc.driver_info()}
    answer = fleet.http.post(f"{fleet.url}/v1/nodes", json=node, timeout=30)
    assert answer.status_code == 201, answer.text
    fleet.provision([answer.json()["uuid"]], "manage")
    return answer.json()["uuid"]


def order(fleet, node, state):
    url = f"{fleet.url}/v1/nodes/{node}/states/power"
    answer = fleet.http.put(url, json={"target": state}, timeout=30)
    assert answer.status_code == 202, answer.text


def settled(fleet, node):
    """Return the power state and the last error, once no change is in progress."""
    row = until(
        lambda: (row := fleet.get(f"nodes/{node}")) and not row["target_power_state"] and row, node
    )
    return row["power_state"], row["last_error"]


def test_power_orders_settle_and_no_sweep_undoes_them(tmp_path):
    with ExitStack() as stack:
        bmcs = {
            name: stack.enter_context(rude_bmc(power=fields.get("power", "Off")))
            for name, (fields, *_) in CASES.items()
        }
        fleet = stack.enter_context(Fleet(tmp_path, conductors=1, **SWEEPS))
        nodes = {name: enrol(fleet, bmc, name) for name, bmc in bmcs.items()}
        fleet.await_state(list(nodes.values()), "manageable")
        for name, (fields, target, *_) in CASES.items():
            for field, value in fields.items():
                setattr(bmcs[name], field, value)
            order(fleet, nodes[name], target)
        for name, (_, _, power, orders) in CASES.items():
            expected = (f"power {power.lower()}", None)
            assert expected == settled(fleet, nodes[name]), name
            assert (power, orders) == (bmcs[name].power, bmcs[name].orders), name
        time.sleep(3)  # several sweeps
        for name, (_, _, power, orders) in CASES.items():
            assert (power, orders) == (bmcs[name].power, bmcs[name].orders), name


def test_a_power_order_of_a_killed_conductor_is_not_repeated(tmp_path):
    with rude_bmc() as bmc, Fleet(tmp_path, conductors=2, **SWEEPS) as fleet:
        node = enrol(fleet, bmc, "killed")
        fleet.await_state([node], "manageable")
        owner = fleet.get(f"nodes/{node}")["conductor"]
        pid = fleet.pids()["conductors"][owner]

        def die(bmc, _kind):
            os.kill(pid, signal.SIGKILL)
            bmc.readings = ["Off"] * 3  # the BMC is late
            return 204, True

        bmc.judge = die
        order(fleet, node, "power on")
        assert ("power on", None) == settled(fleet, node)
        assert ["On"] == bmc.orders
