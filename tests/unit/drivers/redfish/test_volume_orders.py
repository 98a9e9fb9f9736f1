"""Orders of volumes: RAID volumes among others, unreadable parts, and effects."""

import json

import pytest

from drivers.core.errors import HardwareError
from drivers.core.steps import Done, Failed
from drivers.redfish import storage
from drivers.redfish.transport import client
from drivers.simulator.redfish_bmc.documents import STORAGE, SYSTEM
from tests.unit.drivers.documents import having, without
from tests.unit.drivers.redfish.scripted import LOST, MISSING, ScriptedBmc, error, run, task

VOLUMES = f"{STORAGE}/Volumes"


class RaidBmc(ScriptedBmc):
    """A BMC with `volumes` on its controller, which DELETE removes and POST creates."""

    volumes: dict
    is_stuck = False  # orders are accepted without effect

    def __post_init__(self):
        super().__post_init__()
        self.volumes = {}

    def add(self, name, drives=2, **facts):
        path = f"{VOLUMES}/{name}".replace("{id}", self.machine.uuid)
        links = [self.link(f"{STORAGE}/Drives/{number}") for number in range(drives)]
        self.volumes[f"{VOLUMES}/{name}"] = {
            "@odata.id": path, "Id": name, "Name": name, "CapacityBytes": 10**9,
            "Links": {"Drives": links}, **facts,
        }  # fmt: skip

    def link(self, path):
        return {"@odata.id": path.replace("{id}", self.machine.uuid)}

    def answer(self, method, path, headers, body=b""):
        template = path.rstrip("/").replace(self.machine.uuid, "{id}")
        self.more |= {path: {**volume} for path, volume in self.volumes.items()}
        members = [self.link(volume_path) for volume_path in self.volumes]
        self.more[VOLUMES] = {"Members": members, **self.collection}
        answered = (method, template) in self.scripts
        if not answered and method == "DELETE" and template in self.volumes:
            self.orders.append((method, template, json.loads(body) if body else None))
            self.delete(template)
            return 204, b"", {}
        if not answered and method == "POST" and template == VOLUMES:
            self.orders.append((method, template, json.loads(body)))
            self.create(json.loads(body))
            return 201, b"", {"Location": f"{path}/new"}
        return super().answer(method, path, headers, body)

    collection = {
        "@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["Immediate", "OnReset"]}
    }

    def delete(self, template):
        if not self.is_stuck:
            del self.volumes[template]
            del self.more[template]

    def create(self, body):
        if not self.is_stuck:
            self.add("new", len(body["Links"]["Drives"]), RAIDType=body["RAIDType"])


@pytest.fixture
def bmc(monkeypatch):
    return RaidBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    return bmc.node(uuid=bmc.machine.uuid, interfaces={"raid": "redfish"})


def delete(node):
    return run(node, "raid", "delete_configuration")


def create(node, **disk):
    disk = {"raid_level": "1", "size_gb": 10, "is_root_volume": True, **disk}
    config = {"logical_disks": [disk]}
    return run(node, "raid", "apply_configuration", raid_config=config)


def left(bmc):
    return [path.rpartition("/")[2] for path in bmc.volumes]


@pytest.mark.parametrize(
    ("facts", "raid"),
    [
        ({"RAIDType": "RAID5", "VolumeType": "RawDevice"}, "RAID5"),
        ({"RAIDType": "RAID1Triple"}, "RAID1Triple"),
        ({"VolumeType": "Mirrored"}, "RAID1"),
        ({"RAIDType": None, "VolumeType": "NonRedundant"}, "RAID0"),
        ({"VolumeType": "SpannedMirrors"}, "RAID10"),
        ({"VolumeType": "StripedWithParity"}, "StripedWithParity"),
        ({"RAIDType": 5, "VolumeType": ["Mirrored"]}, "unknown"),
        ({"RAIDType": None}, "unknown"),
        ({}, "unknown"),
        ({"RAIDType": None, "drives": 1}, None),
        ({"RAIDType": "None"}, None),
        ({"VolumeType": "RawDevice"}, None),
        ({"RAIDType": None, "VolumeType": "RawDevice"}, None),
        ({"NVMeNamespaceProperties": {"NamespaceId": "1"}}, None),
    ],
)
def test_a_volume_is_raid_by_its_type_or_its_drives(bmc, node, facts, raid):
    bmc.add("v", **facts)
    outcome, reports = delete(node)
    assert Done() == outcome
    assert ([] if raid else ["v"]) == left(bmc)
    assert [] == reports["raid_config"]["logical_disks"]
    bmc.volumes.clear()
    bmc.add("v", **facts)
    with client.turn(node, node.driver.power.bmcs) as connection:
        assert [raid] * bool(raid) == [volume.raid for volume in storage.read(connection).volumes]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (f"{STORAGE}/Drives/1", None),
        (f"{STORAGE}/Drives/1", lambda _: b"["),
        (f"{STORAGE}/Drives/1", lambda _: {"Status": []}),
        (STORAGE, without("StorageControllers")),
        (STORAGE, having(StorageControllers=[{"SupportedRAIDTypes": None}, None])),
        (STORAGE, having(Drives=None)),
        (VOLUMES, without("@Redfish.OperationApplyTimeSupport")),
        (VOLUMES, having(**{"@Redfish.OperationApplyTimeSupport": {"SupportedValues": 5}})),
    ],
)
def test_a_missing_optional_part_keeps_no_volume(bmc, node, path, change):
    bmc.add("v", RAIDType="RAID1")
    bmc.changes[path] = change
    assert Done() == delete(node)[0]
    assert [] == left(bmc)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (f"{SYSTEM}/Storage", None),
        (f"{SYSTEM}/Storage", having(Members={})),
        (f"{SYSTEM}/Storage", having(Members=[{}])),
        (STORAGE, None),
        (STORAGE, lambda _: b"<html>"),
        (STORAGE, having(Volumes=[])),
        (VOLUMES, None),
        (VOLUMES, having(Members=None)),
        (VOLUMES, without("Members")),
        (f"{VOLUMES}/v", None),
        (f"{VOLUMES}/v", lambda _: b"["),
    ],
)
def test_a_list_of_volumes_that_cannot_be_read_fails_the_deletion_of_all(bmc, node, path, change):
    bmc.add("v", RAIDType="RAID1")
    bmc.add("w", RAIDType="RAID1")
    bmc.changes[path] = change
    outcome, _ = delete(node)
    assert isinstance(outcome, HardwareError)
    assert [] == bmc.orders


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "Unsupported parameter name @Redfish.OperationApplyTime"),
        (400, "The property @Redfish.OperationApplyTime is not in the list of valid properties"),
        (501, "OperationApplyTime"),
    ],
)
def test_a_refused_apply_time_is_left_out(bmc, node, status, message):
    bmc.add("v", RAIDType="RAID1")
    deletion = ("DELETE", f"{VOLUMES}/v")
    original = bmc.delete

    def turn():
        if bmc.orders[-1][2]:
            return error(status, message)
        original(f"{VOLUMES}/v")
        return 204, {}, None

    bmc.scripts[deletion] = [turn]
    assert Done() == delete(node)[0]
    assert [{"@Redfish.OperationApplyTime": "Immediate"}, None] == bmc.sent("/v")


def test_another_refusal_of_a_deletion_is_final(bmc, node):
    bmc.add("v", RAIDType="RAID1")
    bmc.scripts["DELETE", f"{VOLUMES}/v"] = [error(400, "The battery is empty")]
    outcome, _ = delete(node)
    assert outcome.reason.startswith("the deletion of volume ")
    assert "was not ordered: 400: The battery is empty" in outcome.reason
    assert 1 == len(bmc.sent("/v"))


def test_a_deletion_without_an_effect_fails(bmc, node):
    bmc.add("v", RAIDType="RAID1")
    bmc.is_stuck = True
    outcome, _ = delete(node)
    assert "was ordered, and has had no effect: volume" in outcome.reason
    assert "is still there" in outcome.reason
    assert 1 == len(bmc.sent("/v"))


def test_a_volume_that_appears_during_the_deletion_is_named(bmc, node):
    bmc.add("v", RAIDType="RAID1")
    original = bmc.delete

    def reborn(template):
        original(template)
        bmc.add("w", RAIDType="RAID0")

    bmc.delete = reborn
    outcome, _ = delete(node)
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("volumes are left: ")
    assert outcome.reason.endswith("/w")


def test_a_lost_deletion_is_repeated_once_the_volume_stays(bmc, node):
    bmc.add("v", RAIDType="RAID1")
    original = bmc.delete
    bmc.scripts["DELETE", f"{VOLUMES}/v"] = [
        LOST,
        lambda: (original(f"{VOLUMES}/v"), (204, {}, None))[1],
    ]
    assert Done() == delete(node)[0]
    assert 2 == len(bmc.sent("/v"))


def test_a_lost_deletion_that_had_its_effect_is_not_repeated(bmc, node):
    bmc.add("v", RAIDType="RAID1")
    original = bmc.delete
    bmc.scripts["DELETE", f"{VOLUMES}/v"] = [lambda: (original(f"{VOLUMES}/v"), LOST)[1]]
    assert Done() == delete(node)[0]
    assert 1 == len(bmc.sent("/v"))


def test_a_lost_creation_is_never_repeated(bmc, node):
    bmc.scripts["POST", VOLUMES] = [LOST]
    outcome, _ = create(node)
    assert "the creation of a RAID1 volume was ordered, not confirmed" in outcome.reason
    assert 1 == len(bmc.sent("Volumes"))


def test_a_lost_creation_is_recognised_by_its_volume(bmc, node):
    original = bmc.create
    bmc.scripts["POST", VOLUMES] = [lambda: (original(bmc.orders[-1][2]), LOST)[1]]
    assert Done() == create(node)[0]
    assert 1 == len(bmc.sent("Volumes"))


@pytest.mark.parametrize(
    ("facts", "is_right"),
    [
        ({"RAIDType": "RAID1"}, True),
        ({"VolumeType": "Mirrored"}, True),
        ({"RAIDType": None}, True),
        ({"RAIDType": "RAID0"}, False),
        ({"VolumeType": "StripedWithParity"}, False),
        ({"RAIDType": "RAID1", "drives": 3}, False),
    ],
)
def test_a_new_volume_is_compared_with_its_order(bmc, node, facts, is_right):
    bmc.create = lambda _body: bmc.add("new", **facts)
    outcome, _ = create(node)
    assert is_right == (Done() == outcome)
    assert is_right or "had no effect: the new volume" in outcome.reason
    assert 1 == len(bmc.sent("Volumes"))


@pytest.mark.parametrize("answers", [[task("Completed")], [MISSING], [task(), MISSING]])
def test_the_task_of_a_volume_is_no_proof_of_it(bmc, node, answers):
    path = "/redfish/v1/TaskService/Tasks/JID_1"
    bmc.collection = {}
    bmc.scripts = {
        ("POST", VOLUMES): [(202, {"Location": path}, None)], ("GET", path): list(answers),
    }  # fmt: skip
    outcome, _ = create(node)
    assert "was ordered, and has had no effect: there is no new volume" in outcome.reason


@pytest.mark.parametrize(
    "change",
    [
        having(StorageControllers=[]),
        without("StorageControllers"),
        having(StorageControllers=[{"SupportedRAIDTypes": []}]),
    ],
)
def test_storage_without_a_raid_controller_builds_no_volume(bmc, node, change):
    bmc.changes[STORAGE] = change
    raised, _ = create(node)
    assert "no controller can build RAID1" in str(raised)
    assert [] == bmc.orders


def test_directly_attached_nvme_drives_build_no_volume(bmc, node):
    bmc.changes[STORAGE] = having(StorageControllers=[{"SupportedDeviceProtocols": ["NVMe"]}])
    for number in range(4):
        bmc.changes[f"{STORAGE}/Drives/{number}"] = having(Protocol="NVMe")
    raised, _ = create(node)
    assert "no controller can build RAID1" in str(raised)


def test_an_unreadable_drive_is_not_chosen(bmc, node):
    bmc.changes[f"{STORAGE}/Drives/0"] = None
    create(node)
    (body,) = bmc.sent("Volumes")
    assert bmc.link(f"{STORAGE}/Drives/0") not in body["Links"]["Drives"]


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("order", ["create", "delete"])
def test_a_death_at_any_call_changes_a_volume_once(bmc, node, number, order):
    def crash(call):
        return call == number

    if order == "delete":
        bmc.add("v", RAIDType="RAID1")
        outcome, _ = run(node, "raid", "delete_configuration", crash=crash)
    else:
        config = {"logical_disks": [{"raid_level": "1", "size_gb": 10, "is_root_volume": True}]}
        outcome, _ = run(node, "raid", "apply_configuration", crash=crash, raid_config=config)
    assert (Done(), 1) == (outcome, len(bmc.orders))


@pytest.mark.vendor("Dell", "BIOS and RAID")
def test_a_volume_whose_job_waits_for_a_restart_gets_it(bmc, node):
    path = "/redfish/v1/Managers/BMC/Oem/Dell/Jobs/JID_1"
    job = {"@odata.id": path, "Id": "JID_1", "JobState": "Scheduled"}

    def look():
        if bmc.machine.power != "On":
            return 200, {}, job
        if not bmc.volumes:
            bmc.add("new", RAIDType="RAID1")
        return 200, {}, {**job, "JobState": "Completed"}

    bmc.scripts = {("POST", VOLUMES): [(202, {"Location": path}, None)], ("GET", path): [look]}
    assert Done() == create(node)[0]
    assert 1 == len(bmc.sent("ComputerSystem.Reset"))
