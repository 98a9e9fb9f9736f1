"""RAID by the BMC: choice of drives, and commands to a simulated BMC."""

import time
from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.errors import BadArgument, HardwareError, InvalidDriverInfo
from drivers.core.registry import load
from drivers.core.steps import Done, Flow, Wait
from drivers.redfish import raid_plan, storage
from drivers.redfish.changes import restart
from drivers.redfish.storage import Controller, Drive, Volume
from drivers.simulator.simulator import running
from tests.unit.drivers.crashes import attempt_of, crashed
from tests.unit.drivers.machines import target

GIB = 2**30


# Choice of drives


def controller(name="A", raids=None, volumes=(), **groups):
    """groups: "hdd_sas_500" -> the names of drives of 500 GiB."""
    drives = []
    for group, names in groups.items():
        kind, interface, size = group.split("_")
        drives += [
            Drive(f"/{name}/{word}", word, int(size) * GIB, kind, interface)
            for word in names.split()
        ]
    raids = None if raids is None else frozenset(raids)
    return Controller(name, f"/{name}/Volumes", raids, "Immediate", tuple(drives), tuple(volumes))


def disk(level="1", size=100, **fields):
    return {"raid_level": level, "size_gb": size, **fields}


def chosen(disks, *controllers, reserved=()):
    layouts = raid_plan.choose(dict(enumerate(disks)), controllers, frozenset(reserved))
    return [
        " ".join([layout.controller.name, *(drive.name for drive in layout.drives)])
        for _, layout in sorted(layouts.items())
    ]


MIXED = controller(hdd_sas_500="a b c d", ssd_sas_200="e f g h", ssd_sata_100="i j")


@pytest.mark.parametrize(
    ("disks", "choice"),
    [
        ([disk()], ["A i j"]),
        ([disk(size=101)], ["A e f"]),
        ([disk(disk_type="hdd")], ["A a b"]),
        ([disk(interface_type="sata")], ["A i j"]),
        ([disk("5", 150)], ["A e f g"]),
        ([disk("5", 150, number_of_physical_disks=4)], ["A e f g h"]),
        ([disk("0", 300)], ["A a"]),
        ([disk("0", 300, disk_type="ssd")], ["A e f"]),
        ([disk("6")], ["A e f g h"]),
        ([disk("1+0", 401)], ["A a b c d"]),
        ([disk(size="MAX")], ["A a b"]),
        ([disk(size="MAX", disk_type="ssd")], ["A e f"]),
        ([disk(physical_disks=["d", "a"])], ["A d a"]),
        ([disk(), disk()], ["A i j", "A e f"]),
        ([disk(size="MAX"), disk(disk_type="hdd"), disk("0", 1)], ["A c d", "A a b", "A i"]),
        ([disk(), disk(interface_type="sata")], ["A e f", "A i j"]),
        ([disk(), disk(physical_disks=["i", "j"])], ["A e f", "A i j"]),
        ([disk(size=60, share_physical_disks=True)] * 2, ["A i j", "A e f"]),
        ([disk(size=40, share_physical_disks=True)] * 2, ["A i j", "A i j"]),
        (
            [
                disk("5", "MAX", physical_disks=["a", "b", "c"], share_physical_disks=True),
                disk("5", 400, physical_disks=["a", "b", "c"], share_physical_disks=True),
            ],
            ["A a b c", "A a b c"],
        ),
    ],
)
def test_a_logical_disk_gets_the_fewest_and_smallest_suitable_drives(disks, choice):
    assert choice == chosen(disks, MIXED)


def test_drives_of_a_volume_are_not_used_unless_they_are_shared():
    mirror = Volume("/v", "v", "v", "RAID1", 60 * GIB, frozenset({"/A/a", "/A/b"}))
    there = controller(hdd_sas_100="a b c d", volumes=[mirror])
    assert ["A c d"] == chosen([disk()], there)
    assert ["A a b"] == chosen([disk(size=40, share_physical_disks=True)], there)
    assert ["A c d"] == chosen([disk(size=41, share_physical_disks=True)], there)
    with pytest.raises(BadArgument, match="logical_disks/0/physical_disks: a is in use"):
        chosen([disk(physical_disks=["a", "c"])], there)


def test_a_volume_is_on_one_controller_that_supports_its_level():
    two = controller("A", ["RAID0"], hdd_sas_100="a b"), controller("B", hdd_sas_200="a b")
    assert ["B a b"] == chosen([disk()], *two)
    assert ["A a"] == chosen([disk("0")], *two)
    assert ["B a"] == chosen([disk("0", controller="B")], *two)
    assert ["B a b"] == chosen([disk(size=150, physical_disks=["a", "b"])], *two)


@pytest.mark.parametrize(
    ("logical_disk", "complaint"),
    [
        (disk(size=501), "logical_disks/0: there are no free physical disks of one kind for 501"),
        (disk("5+0"), "logical_disks/0: there are no free physical disks"),
        (disk(interface_type="sata", disk_type="hdd"), "logical_disks/0: there are no free"),
        (disk(controller="B"), "logical_disks/0/controller: there is no B: A"),
        (disk(physical_disks=["a", "z"]), "logical_disks/0/physical_disks: no controller has all"),
        (
            disk(size=501, physical_disks=["a", "b"]),
            "logical_disks/0/size_gb: its physical disks have too little",
        ),
    ],
)
def test_a_logical_disk_without_suitable_drives_is_refused_with_its_field(logical_disk, complaint):
    with pytest.raises(BadArgument, match=f"^{complaint}"):
        chosen([logical_disk], MIXED)


# Commands to the BMC


@pytest.fixture(scope="module")
def fleet():
    with running(machines=1, power_off_seconds=0.05) as simulator:
        yield simulator


@pytest.fixture
def machine(fleet):
    """A machine that is on, and has no volumes."""
    machine = fleet.machines[0]
    machine.volumes.clear()
    machine.log.clear()
    yield machine
    fleet.set_faults(0, volumes_on_reset=None, task_seconds=None, task_fails=None)


@pytest.fixture
def node(machine, monkeypatch):
    monkeypatch.setattr(restart, "POLL_INTERVAL", 0.02)
    return target(
        "redfish",
        {"raid": "redfish"},
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100)),
        uuid=machine.uuid,
        driver_info=machine.driver_info(),
    )


def wants(node, *disks):
    config = {"logical_disks": list(disks)}
    return replace(node, record={**node.record, "target_raid_config": config})


def finish(node, step, *, deaths=False, **args):
    """
    Call a step until it ends; return its outcome and all its reports.

    deaths: before each call, another one crashes, and its outcome is lost.
    """
    reports = {}
    for _ in range(300):
        node = attempt_of(node)
        if deaths:
            node.driver.raid.run(node, step, args)
            node = attempt_of(crashed(node))
        outcome = node.driver.raid.run(node, step, args)
        reports |= node.reports
        if not isinstance(outcome, Wait):
            return outcome, reports
        time.sleep(0.01)
        node = replace(node, progress=outcome.progress, reports={})
    raise AssertionError(f"no end: {outcome}")


def ordered(machine, order):
    return [entry["detail"] for entry in machine.log if entry["what"] == order]


def volumes(machine):
    return sorted(
        (volume["RAIDType"], volume["CapacityBytes"] // GIB, len(volume["Links"]["Drives"]))
        for volume in machine.volumes.values()
    )


MIRROR = disk("1", 100, is_root_volume=True, volume_name="root")
STRIPES = disk("0", "MAX", number_of_physical_disks=2)
#: How the BMC applies a change: at once, by a task, or by a task that the next start begins.
PACES = {
    "at once": {},
    "task": {"task_seconds": 0.05},
    "restart": {"volumes_on_reset": True, "task_seconds": 0.05},
}


@pytest.mark.parametrize("deaths", [False, True], ids=["alive", "deaths"])
@pytest.mark.parametrize("pace", PACES.values(), ids=PACES.keys())
def test_volumes_are_created_and_deleted_once_despite_crashes(fleet, machine, node, pace, deaths):
    fleet.set_faults(0, **pace)
    outcome, reports = finish(wants(node, MIRROR, STRIPES), "create_configuration", deaths=deaths)
    assert Done() == outcome
    assert 2 == len(ordered(machine, "create volume"))
    assert [("RAID0", 1788, 2), ("RAID1", 100, 2)] == volumes(machine)
    config = reports["raid_config"]
    logical_disk = {
        name: value for name, value in config["logical_disks"][0].items() if name != "id"
    }
    assert {"name": "root", "controller": "RAID", "size_gb": 100, "raid_level": "1"} == logical_disk
    assert config["last_updated"]

    outcome, reports = finish(node, "delete_configuration", deaths=deaths)
    assert (Done(), []) == (outcome, reports["raid_config"]["logical_disks"])
    assert (2, {}) == (len(ordered(machine, "delete volume")), machine.volumes)


def test_a_machine_is_restarted_only_if_the_bmc_needs_it(fleet, machine, node):
    finish(wants(node, MIRROR), "create_configuration")
    assert [] == ordered(machine, "power off") + ordered(machine, "power on")
    fleet.set_faults(0, volumes_on_reset=True)
    finish(node, "delete_configuration")
    assert ({}, "On") == (machine.volumes, machine.power)
    assert ["On"] == ordered(machine, "power on")


def test_the_size_of_a_volume_is_optional(machine, node):
    finish(wants(node, STRIPES), "create_configuration")
    (body,) = ordered(machine, "create volume")
    assert "CapacityBytes" not in body
    assert "Immediate" == body["@Redfish.OperationApplyTime"]


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES.keys())
def test_a_new_volume_without_a_raid_type_is_accepted(fleet, machine, node, pace, monkeypatch):
    fleet.set_faults(0, **pace)

    monkeypatch.setattr(storage, "raid_of", lambda _volume, _drives: None)
    assert Done() == finish(wants(node, MIRROR, STRIPES), "create_configuration")[0]
    assert 2 == len(machine.volumes) == len(ordered(machine, "create volume"))


@pytest.mark.parametrize(
    ("args", "built"),
    [
        ({}, ["RAID0", "RAID1"]),
        ({"create_root_volume": False}, ["RAID0"]),
        ({"create_nonroot_volumes": False}, ["RAID1"]),
        ({"create_root_volume": False, "create_nonroot_volumes": False}, None),
    ],
)
def test_the_root_volume_or_the_others_may_be_omitted(machine, node, args, built):
    node = wants(node, MIRROR, STRIPES)
    if built is None:
        with pytest.raises(BadArgument, match="create_root_volume"):
            finish(node, "create_configuration", **args)
    else:
        finish(node, "create_configuration", **args)
        assert built == [volume[0] for volume in volumes(machine)]


def test_existing_volumes_occupy_their_drives_unless_they_are_deleted(machine, node):
    node = wants(node, disk("5", 200, number_of_physical_disks=4))
    assert Done() == finish(node, "create_configuration")[0]
    first_volumes = set(machine.volumes)
    with pytest.raises(BadArgument, match="no free physical disks"):
        finish(node, "create_configuration")
    assert (first_volumes, 1) == (set(machine.volumes), len(ordered(machine, "create volume")))
    assert Done() == finish(node, "create_configuration", delete_existing=True)[0]
    assert [("RAID5", 200, 4)] == volumes(machine)
    assert first_volumes.isdisjoint(machine.volumes)


def test_a_configuration_that_cannot_be_built_deletes_nothing(machine, node):
    finish(wants(node, MIRROR), "create_configuration")
    for disks, args in (
        ([disk("6", 2000)], {}),
        ([MIRROR], {"create_root_volume": False, "create_nonroot_volumes": True}),
    ):
        with pytest.raises(BadArgument, match="logical"):
            finish(wants(node, *disks), "create_configuration", delete_existing=True, **args)
    assert [("RAID1", 100, 2)] == volumes(machine)


def test_a_configuration_is_applied_and_becomes_the_target(machine, node):
    config = {"logical_disks": [MIRROR, STRIPES]}
    args = {"raid_config": config, "create_nonroot_volumes": True, "delete_existing": True}
    outcome, reports = finish(node, "apply_configuration", **args)
    assert (Done(), config) == (outcome, reports["target_raid_config"])
    assert 2 == len(reports["raid_config"]["logical_disks"])
    machine.volumes.clear()
    finish(node, "apply_configuration", raid_config=config)  # the root volume alone, as Ironic does
    assert [("RAID1", 100, 2)] == volumes(machine)


def test_a_failed_task_ends_the_step_with_the_message_of_the_bmc(fleet, machine, node):
    fleet.set_faults(0, task_fails="the battery is empty")
    outcome, _ = finish(wants(node, MIRROR), "create_configuration")
    assert (
        "the creation of a RAID1 volume failed: Exception: the battery is empty" == outcome.reason
    )
    assert {} == machine.volumes


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"raid_level": "JBOD"}, "raid_level: Redfish has 0, 1, 5, 6"),
        ({"interface_type": "scsi"}, "interface_type"),
        ({"physical_disks": [{"size": "> 100"}, {}]}, "physical_disks: a list of ids"),
        ({"physical_disks": ["1", "1"]}, "physical_disks: a drive is named twice"),
        ({"physical_disks": ["1", "2", "3"]}, "physical_disks: RAID1 cannot be of 3 disks"),
        ({"number_of_physical_disks": 1}, "number_of_physical_disks: RAID1 cannot be of 1"),
        ({"raid_level": "6+0", "number_of_physical_disks": 9}, "number_of_physical_disks: RAID60"),
    ],
)
def test_an_invalid_target_is_refused(machine, node, wrong, complaint):
    config = {"logical_disks": [disk(), {**disk(), **wrong}]}
    with pytest.raises(InvalidDriverInfo, match=f"^logical_disks/1/{complaint}"):
        node.driver.raid.validate_raid_config(node, config)
    with pytest.raises(HardwareError, match=f"^logical_disks/1/{complaint}"):
        finish(node, "apply_configuration", raid_config=config)
    assert {} == machine.volumes


def test_a_node_without_a_target_is_refused(node):
    with pytest.raises(InvalidDriverInfo, match="target_raid_config"):
        finish(node, "create_configuration")


def test_the_steps_need_no_ramdisk_and_run_only_on_request(node):
    table = {
        flow: {
            step.name: (step.needs_ramdisk, step.priorities[flow], step.abortable)
            for step in node.driver.raid.get_steps(node, flow)
        }
        for flow in (Flow.CLEAN, Flow.DEPLOY, Flow.SERVICE)
    }
    assert {"create_configuration", "delete_configuration"} == set(table[Flow.CLEAN])
    for flow in (Flow.DEPLOY, Flow.SERVICE):
        assert {"apply_configuration", "delete_configuration"} == set(table[flow])
    assert {(False, 0)} == {row[:2] for steps in table.values() for row in steps.values()}
    assert (False, 0, False) == table[Flow.CLEAN]["create_configuration"]
