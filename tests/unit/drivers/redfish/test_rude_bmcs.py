"""
Orders to BMCs whose documents lose or change properties, and that answer any request with any status.

Each order ends in a typed outcome with the right verb; it is carried out once, and success is what
the machine's state shows.
"""

import json
import os
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.core.errors import HardwareError
from drivers.core.kinds import boot_settings
from drivers.core.steps import Done, Failed, Wait
from drivers.redfish.booting import boot_device, oem_boot
from drivers.simulator.redfish_bmc.documents import MANAGER, ROOT, STORAGE, SYSTEM
from tests.unit.drivers.machines import with_option
from tests.unit.drivers.redfish.scripted import (
    LOST,
    TASK,
    UPDATE,
    ScriptedBmc,
    error,
    finish,
    run,
    task,
)
from tests.unit.drivers.redfish.test_volume_orders import VOLUMES, RaidBmc
from tests.unit.drivers.redfish.transport.test_documents import (
    GONE,
    VALUES,
    WHOLES,
    changed,
    pointers,
)

#: Examples of each property; more by hand: RUDE_EXAMPLES=5000.
EXAMPLES = int(os.environ.get("RUDE_EXAMPLES", "25"))
BUSY = (409, 423, 429, 503)
#: Statuses that say that nothing was done.
REFUSED = (400, 403, 404, 405, 406, 410, 412, 415, 428, 501, 505)
#: Those after which the rules send an order again, since they say that it was not carried out.
SENT_AGAIN = (*BUSY, 401, 406, 412, 428)
STATUSES = (200, 201, 202, 204, 304, *REFUSED, 401, *BUSY, 500, 502, 504, LOST)
#: Of orders that sushy sends: lost answers over its connection have tests of their own.
BY_SUSHY = tuple(status for status in STATUSES if status != LOST)
LOGIN = f"{ROOT}/SessionService"
BRIEF = with_option("redfish", vmedia_insert_timeout=20.0, vmedia_insert_poll_interval=2.0)
ISO = "http://192.0.2.1/agent.iso"
IMPORT = f"{MANAGER}/Actions/Oem/EID_674_Manager.ImportSystemConfiguration"


@dataclass
class Rude(ScriptedBmc):
    """
    telling: properties that alone tell the state. Documents with them are replaced in parts only.

    number, count: the first request that gets the status, and how many do. performs: whether the
    BMC carries these out nevertheless.
    """

    number: int = -1
    count: int = 0
    status: int | str = 0
    performs: bool = False
    requests: int = 0
    effects: list = field(default_factory=list)  # orders that were carried out
    lies: list = field(default_factory=list)  # statuses of those of them that were answered rudely
    running: int = 0  # reads of the task that show it running
    violations: list = field(default_factory=list)  # resets during an update
    telling: ClassVar[tuple[str, ...]] = ()
    statuses: ClassVar[tuple] = STATUSES
    spared: ClassVar[str] = ""  # part of the paths whose reads are polite

    def answer(self, method, path, headers, body=b""):
        self.requests += 1
        is_rude = self.number <= self.requests - 1 < self.number + self.count
        # the end that a monitor tells is the BMC's word, and so is a document that alone tells a state
        is_told = TASK in path or self.telling
        is_word = method == "GET" and is_told and self.status in (200, 201, 202, 204)
        is_spared = method == "GET" and bool(self.spared) and self.spared in path
        if not is_rude or is_word or is_spared:
            return self.polite(method, path, headers, body)
        if self.performs and method != "GET":
            count = len(self.effects)
            self.polite(method, path, headers, body)
            if len(self.effects) > count:
                self.lies.append(self.status)
        if self.status == LOST:
            self.lose()
        document = error(self.status, "rude")[2] if self.status >= 400 else {}
        body = b"" if self.status in (204, 304) else json.dumps(document).encode()
        return self.status, body, {}

    def polite(self, method, path, headers, body):
        count = len(self.orders)
        answered = super().answer(method, path, headers, body)
        if len(self.orders) > count and answered[0] < 300:
            self.effects.append(path)
        return answered

    def _reset(self, kind):
        if self.running:
            self.violations.append(kind)
        return super()._reset(kind)


class FirmwareBmc(Rude):
    def prepare(self):
        self.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
        self.scripts["POST", UPDATE] = [self.start]
        return run_of("firmware", "update", settings=[
            {"component": "bios", "url": "http://images/1.1.0.bin", "version": "1.1.0"}
        ])  # fmt: skip

    def start(self):
        self.running = 2
        self.more[f"{ROOT}/TaskService/Tasks"]["Members"] = [{"@odata.id": TASK}]
        self.more[TASK] = task("Running", "OK", Payload={"TargetUri": UPDATE})[2]
        return 202, {"Location": TASK}, self.more[TASK]

    def polite(self, method, path, headers, body):
        if path == TASK and self.running:
            self.running -= 1
            if not self.running:
                self.more[TASK] = task("Completed")[2]
                self.machine.firmware["BIOS"] = "1.1.0"
        return super().polite(method, path, headers, body)

    def is_right(self):
        return self.machine.firmware["BIOS"] == "1.1.0"


class BiosBmc(Rude):
    def prepare(self):
        return run_of("bios", "apply_configuration", settings=[{"name": "NumLock", "value": "Off"}])

    def is_right(self):
        return self.machine.bios["NumLock"] == "Off"


class VolumeBmc(RaidBmc):
    collection = {"@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["Immediate"]}}

    def is_right(self):
        return not self.volumes


class DeletionBmc(Rude, VolumeBmc):
    def prepare(self):
        self.add("v", RAIDType="RAID1")
        return run_of("raid", "delete_configuration")


class CreationBmc(Rude, VolumeBmc):
    def prepare(self):
        config = {"logical_disks": [{"raid_level": "1", "size_gb": 10, "is_root_volume": True}]}
        return run_of("raid", "apply_configuration", raid_config=config)

    def is_right(self):
        return len(self.volumes) == 1


class MediumBmc(Rude):
    telling = ("Inserted", "Image", "ConnectedVia", "MediaTypes", "Members")

    @property
    def image(self):
        return self.machine.media.get("Cd")


class InsertionBmc(MediumBmc):
    def prepare(self):
        return run_of("management", "attach_virtual_media", device_type="cdrom", image_url=ISO)

    def is_right(self):
        return self.image == ISO


class EjectionBmc(MediumBmc):
    spared = "/VirtualMedia/"  # one drive of several that cannot be read is left out

    def prepare(self):
        self.machine.media["Cd"] = ISO
        return run_of("management", "detach_virtual_media", device_types=["cdrom"])

    def is_right(self):
        return not self.image


class BootDeviceBmc(Rude):
    statuses = BY_SUSHY
    telling = ("Boot",)

    def prepare(self):
        return run_of("management", "set_boot_device", device="pxe", persistent=False)

    def is_right(self):
        return self.machine.boot_target == "Pxe"


class SecureBootBmc(Rude):
    statuses = BY_SUSHY
    telling = ("SecureBootEnable", "SecureBootCurrentBoot", "SecureBoot", "Boot")

    def prepare(self):
        def change(node):
            return boot_settings.change(node, boot_settings.SECURE_BOOT, True)

        return lambda node: finish(node, change, 500)

    def is_right(self):
        return self.machine.secure_boot


class PowerBmc(Rude):
    statuses = BY_SUSHY
    telling = ("PowerState",)

    def prepare(self):
        return run_of("power", "change", state="power on")

    def is_right(self):
        return self.machine.power == "On"


class ImportBmc(Rude):
    """An iDRAC whose boot device is ordered by an import of its configuration."""

    telling = ("ServerBoot.1.FirstBootDevice", "ServerBoot.1.BootOnce")
    place = f"{MANAGER}/Attributes"

    def prepare(self):
        actions = {"OemManager.v1_0_0#OemManager.ImportSystemConfiguration": {"target": IMPORT}}
        self.changes[MANAGER] = lambda document: {**document, "Actions": {"Oem": actions}}
        self.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
        self.more[self.place] = self.shown("Normal", "Disabled")
        self.scripts["POST", IMPORT] = [self.start]

        def order(node):
            return oem_boot.choose_virtual_cd(node, node.driver.power.bmcs, persistent=False)

        return lambda node: finish(node, order, 500)

    def shown(self, device, once):
        attributes = {"ServerBoot.1.FirstBootDevice": device, "ServerBoot.1.BootOnce": once}
        return {"@odata.id": self.place, "Attributes": attributes}

    def start(self):
        self.more[f"{ROOT}/TaskService/Tasks"]["Members"] = [{"@odata.id": TASK}]
        self.more[TASK] = task("Completed", Payload={"TargetUri": IMPORT})[2]
        self.more[self.place] = self.shown("VCD-DVD", "Enabled")
        return 202, {"Location": TASK}, None

    def is_right(self):
        return self.more[self.place] == self.shown("VCD-DVD", "Enabled")


#: BMC -> most effects: a deletion and a setting may be repeated, see `Order.is_repeatable`; media and
#: boot settings are ordered again after reading them
KINDS = {
    FirmwareBmc: 1, CreationBmc: 1, DeletionBmc: 2, BiosBmc: 2, InsertionBmc: 40, EjectionBmc: 40,
    BootDeviceBmc: 2, SecureBootBmc: 2, PowerBmc: 0, ImportBmc: 1,
}  # fmt: skip
#: Those whose failures say whether they were ordered.
WITH_VERBS = (FirmwareBmc, CreationBmc, DeletionBmc, BiosBmc, ImportBmc)


def run_of(kind, step, **args):
    return lambda node: run(node, kind, step, polls=500, **args)


def try_(kind, changes=(), **rudeness):
    """Run the order against a rude BMC; return (BMC, outcome)."""
    with pytest.MonkeyPatch.context() as patch:
        bmc = kind(**rudeness).install(patch)
        bmc.__post_init__()
        step = bmc.prepare()
        bmc.changes |= dict(changes)
        patch.setattr(boot_device, "LOOK_INTERVAL", 0.0)
        outcome, _ = step(
            bmc.node(uuid=bmc.machine.uuid, interfaces={"raid": "redfish"}, options=BRIEF)
        )
    return bmc, outcome


def judge(kind, bmc, outcome):
    message = str(getattr(outcome, "reason", outcome))
    orders = [path for path in bmc.effects if not path.endswith(("Reset", "Sessions"))]
    assert isinstance(outcome, Done | Failed | HardwareError | Wait), outcome
    assert [] == bmc.violations, message
    assert len(orders) <= KINDS[kind], (orders, message)
    if isinstance(outcome, Done):
        assert bmc.is_right(), outcome
    if orders and not set(bmc.lies).intersection((*REFUSED, *BUSY, 401)):
        assert "was not ordered" not in message
    if not orders and isinstance(outcome, Failed) and kind in WITH_VERBS:
        assert "ordered" in message, message


@pytest.mark.parametrize("kind", KINDS)
def test_a_polite_bmc_ends_well(kind):
    bmc, outcome = try_(kind)
    assert isinstance(outcome, Done)
    judge(kind, bmc, outcome)
    assert bmc.is_right()


@pytest.mark.parametrize("kind", KINDS)
def test_any_request_may_be_answered_with_any_status(kind):
    requests = try_(kind)[0].requests

    @settings(
        derandomize=True, database=None, deadline=None, max_examples=EXAMPLES,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        st.integers(0, requests - 1), st.sampled_from([1, 2, 5, 10**6]),
        st.sampled_from(kind.statuses),
        st.booleans(),
    )  # fmt: skip
    def rude(number, count, status, performs):
        lies = status in SENT_AGAIN
        bmc, outcome = try_(
            kind, number=number, count=count, status=status, performs=performs and not lies
        )
        judge(kind, bmc, outcome)

    rude()


def documents(kind):
    """Return (path, pointer) of all properties of the documents that an order reads."""
    bmc, _ = try_(kind)
    contents = {**bmc.documents(), **bmc.more}
    paths = {path.rstrip("/").replace(bmc.machine.uuid, "{id}") for _, path in bmc.request_log}
    read = [path for path in sorted(paths & contents.keys()) if LOGIN not in path]
    return [
        (path, pointer)
        for path in read
        for pointer in pointers(json.loads(json.dumps(contents[path])))
    ]


#: Properties whose absence is legitimate, or which alone tell the state.
TELLING = {
    (STORAGE, ("Volumes",)),  # controllers without volumes
    # counts of members are optional, and often wrong
    (VOLUMES, ("Members",)),
    (f"{SYSTEM}/Storage", ("Members",)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_property_of_any_document_may_be_missing_or_of_another_type(kind):
    places = [
        (path, pointer)
        for path, pointer in documents(kind)
        if (path, pointer) not in TELLING
        and not set(pointer).intersection(kind.telling)
        and (MANAGER not in path or kind.telling)
    ]

    telling_documents = {
        (path, ()) for path, pointer in documents(kind) if set(pointer).intersection(kind.telling)
    }

    @settings(
        derandomize=True, database=None, deadline=None, max_examples=EXAMPLES,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        st.one_of(
            st.tuples(st.sampled_from(places), st.sampled_from((GONE, *VALUES))),
            st.tuples(
                st.sampled_from(sorted({(path, ()) for path, _ in places} - telling_documents)),
                st.sampled_from(WHOLES),
            ),
        )
    )
    def malformed(drawn):
        (path, pointer), value = drawn
        whole = None if value is None else lambda _: value
        change = changed(pointer, value) if pointer else whole
        bmc, outcome = try_(kind, {path: change}.items())
        judge(kind, bmc, outcome)

    malformed()


def test_the_system_is_read():
    assert any(path == SYSTEM for path, _ in documents(FirmwareBmc))
