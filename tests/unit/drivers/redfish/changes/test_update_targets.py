"""Targets of firmware updates."""

import pytest

from drivers.core.errors import HardwareError
from drivers.core.steps import Done
from drivers.redfish import software
from drivers.redfish.transport import client
from drivers.simulator.redfish_bmc.documents import INVENTORY, MANAGER, ROOT, SYSTEM
from tests.unit.drivers.redfish.scripted import ACCEPTED, TASK, UPDATE, error, task

from .conftest import NEW, then, update, updated


def systems(bmc, *names):
    bmc.more[f"{ROOT}/Systems"] = {
        "Members": [{"@odata.id": f"{ROOT}/Systems/{name}"} for name in (bmc.machine.uuid, *names)]
    }


def entries(bmc, **items):
    bmc.more[INVENTORY] = {
        "@odata.id": INVENTORY, "Name": "c",
        "Members": [{"@odata.id": f"{INVENTORY}/{name}"} for name in items],
    }  # fmt: skip
    for name, links in items.items():
        bmc.more[f"{INVENTORY}/{name}"] = {
            "@odata.id": f"{INVENTORY}/{name}", "Id": name, "Name": name.replace("_", " "),
            "Version": "1", "RelatedItem": [{"@odata.id": link} for link in links],
        }  # fmt: skip


def own(bmc):
    return SYSTEM.replace("{id}", bmc.machine.uuid)


def request_of(node, component="bios", **fields):
    with client.turn(node, node.driver.power.bmcs) as connection:
        order = software.Update(component, NEW, **fields)
        return order.request(connection).body.get("Targets")


OTHER = f"{ROOT}/Systems/Node1"


def test_a_bmc_of_several_systems_gets_the_target_of_this_system(bmc, node):
    systems(bmc, "Node1")
    mine = own(bmc)
    entries(bmc, Node0_BIOS=[mine], Node1_BIOS=[OTHER], BMC=[])
    assert [f"{INVENTORY}/Node0_BIOS"] == request_of(node)
    entries(bmc, BIOS_0=[f"{mine}/Bios"], BIOS_1=[f"{OTHER}/Bios"])
    assert [f"{INVENTORY}/BIOS_0"] == request_of(node)
    entries(bmc, BIOS=[], BIOS_2=[])
    assert [mine] == request_of(node)
    bmc.more[INVENTORY] = {"Members": []}
    assert [mine] == request_of(node)
    bmc.changes[f"{ROOT}/Systems"] = None
    assert [mine] == request_of(node)


def test_the_target_of_a_shared_bmc_is_its_own_entry(bmc, node):
    systems(bmc, "Node1")
    entries(bmc, BIOS=[OTHER], BMC=[MANAGER])
    assert [f"{INVENTORY}/BMC"] == request_of(node, "bmc")


@pytest.mark.parametrize("shared", [False, True])
def test_two_matching_targets_are_refused_with_both_names(bmc, node, shared):
    if shared:
        systems(bmc, "Node1")
    mine = own(bmc)
    entries(bmc, BIOS_A=[mine], BIOS_B=[mine])
    raised, _ = update(node)
    assert f"{INVENTORY}/BIOS_A, {INVENTORY}/BIOS_B" in str(raised)
    assert "`target`" in str(raised)
    assert [] == bmc.orders
    for choice in ("BIOS_B", f"{INVENTORY}/BIOS_B"):
        assert [f"{INVENTORY}/BIOS_B"] == request_of(node, target=choice)
    assert [mine] == request_of(node, target=mine)
    with pytest.raises(HardwareError, match="target 'x' is none of"):
        request_of(node, target="x")


@pytest.mark.parametrize(
    ("shared", "message", "times"),
    [
        (False, "The action SimpleUpdate has no parameter Targets", 2),
        (False, "The value of Targets is not in the list", 1),
        (False, "The image is not for this target", 1),
        (True, "The action SimpleUpdate has no parameter Targets", 1),
    ],
)
def test_targets_are_left_out_only_where_they_are_unknown_and_harmless(
    bmc, node, shared, message, times
):
    if shared:
        systems(bmc, "Node1")
    bmc.scripts = {
        ("POST", UPDATE): [error(400, message), ACCEPTED],
        ("GET", TASK): [then(updated(bmc), task("Completed"))],
    }
    outcome, _ = update(node)
    has_targets = ["Targets" in body for body in bmc.sent("SimpleUpdate")]
    assert [True, False][:times] == has_targets
    assert (times == 2) == isinstance(outcome, Done)


def test_a_component_that_the_machine_lacks_is_refused(bmc, node):
    with pytest.raises(HardwareError, match="has no nic:S9"):
        request_of(node, "nic:S9")


def test_an_entry_that_cannot_be_updated_is_no_target(bmc, node):
    entries(bmc, BIOS_A=[], BIOS_B=[])
    bmc.more[f"{INVENTORY}/BIOS_A"]["Updateable"] = False
    assert [f"{INVENTORY}/BIOS_B"] == request_of(node)
