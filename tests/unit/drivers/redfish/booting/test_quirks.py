"""Machines that differ: a BMC of each row of the table, and the table itself."""

import json
import re

import pytest

from drivers.core.errors import FailureCode, Unexpected, WithoutEffect
from drivers.core.steps import Done
from drivers.redfish.booting import boot_device
from drivers.redfish.booting.quirks import QUIRKS, Difference, Identity
from drivers.redfish.transport import client
from drivers.simulator.redfish_bmc.documents import MANAGER, ROOT, SYSTEM
from tests.unit.drivers.documents import having
from tests.unit.drivers.machines import with_option
from tests.unit.drivers.redfish.boot_bmc import TASK, BootBmc, Drive, run

ISO = "http://images/agent.iso"


@pytest.fixture
def bmc(monkeypatch):
    monkeypatch.setattr(boot_device, "LOOK_INTERVAL", 0.0)
    return BootBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    brief = with_option("redfish", vmedia_insert_timeout=10.0, vmedia_insert_poll_interval=2.0)
    return bmc.node(options=brief)


def is_made_by(bmc, vendor, model="", firmware=""):
    bmc.changes[ROOT] = having(Vendor=vendor)
    bmc.changes[SYSTEM] = having(Manufacturer=vendor)
    bmc.changes[MANAGER] = having(Model=model, FirmwareVersion=firmware)


def boots(bmc):
    return [body["Boot"] for _, _, body in bmc.orders if body and "Boot" in body]


FULL = {
    "BootSourceOverrideTarget": "Pxe",
    "BootSourceOverrideEnabled": "Once",
    "BootSourceOverrideMode": "UEFI",
}


@pytest.mark.vendor("AMI", "boot device")
@pytest.mark.vendor("ASRock Rack", "boot device")
@pytest.mark.vendor("Supermicro", "boot device")
@pytest.mark.parametrize(
    "vendor", ["AMI", "American Megatrends International LLC.", "ASRockRack", "Supermicro"]
)
def test_target_enabled_and_mode_are_sent_together(bmc, node, vendor):
    is_made_by(bmc, vendor)
    bmc.on_boot = lambda boot: boot if set(FULL) <= set(boot) else 400
    node.driver.management.set_boot_device(node, "pxe")
    assert [FULL] == boots(bmc)
    bmc.orders.clear()
    node.driver.management.set_boot_mode(node, "bios")
    assert [FULL | {"BootSourceOverrideMode": "Legacy"}] == boots(bmc)


@pytest.mark.vendor("Supermicro", "virtual media")
def test_the_virtual_cd_of_a_supermicro_boots_as_usb_cd(bmc, node):
    is_made_by(bmc, "Supermicro")
    node.driver.management.set_boot_device(node, "cdrom")
    assert "UsbCd" == bmc.machine.boot_target
    assert "cdrom" == node.driver.management.get_boot_device(node)["boot_device"]


@pytest.mark.parametrize(("url", "substitute"), [(None, "Pxe"), (ISO, "Cd")])
def test_http_boot_of_the_emulator_is_reported_as_its_substitute(bmc, node, url, substitute):
    def emulate(boot):
        return boot | {"BootSourceOverrideTarget": substitute}

    def order():
        with client.turn(node, node.driver.management.bmcs) as connection:
            boot_device.choose(node, connection, "uefihttp", persistent=False, url=url)

    bmc.on_boot = emulate
    with pytest.raises(WithoutEffect, match=f"reports target {substitute}, not UefiHttp"):
        order()
    is_made_by(bmc, "Sushy Emulator")
    order()
    bmc.on_boot = lambda boot: boot | {"BootSourceOverrideTarget": "Hdd"}
    with pytest.raises(WithoutEffect, match="reports target Hdd"):
        order()


@pytest.mark.vendor("Dell", "virtual media")
@pytest.mark.parametrize(
    ("model", "firmware"), [("13G Monolithic", "2.86"), ("14G Modular", "3.21.26.22")]
)
def test_a_dell_without_insertion_is_refused_with_the_interfaces_that_work(
    bmc, node, model, firmware
):
    is_made_by(bmc, "Dell Inc.", model, firmware)
    bmc.drives = {"CD": Drive(has_actions=False)}
    with pytest.raises(Unexpected, match="boot_interface ipxe, pxe or http-ipxe"):
        run(node, "boot", "prepare_ramdisk")


IMPORT = "/redfish/v1/Managers/BMC/Actions/Oem/EID_674_Manager.ImportSystemConfiguration"


class OldIdrac(BootBmc):
    """Takes the OEM action, with a task."""

    answers: tuple = ()
    place: str | None = f"{MANAGER}/Attributes"  # of the attributes; None: they are not served
    boot: dict = {"FirstBootDevice": "Normal", "BootOnce": "Disabled"}
    #: effect of an import -> the attributes afterwards
    effect: object = staticmethod(lambda boot: boot)
    is_lost: bool = False  # the answer to an import

    def answer(self, method, path, headers, body=b""):
        if path == self.place:
            boot = {f"ServerBoot.1.{name}": value for name, value in self.boot.items()}
            return 200, json.dumps({"@odata.id": path, "Attributes": boot}).encode(), {}
        if path != IMPORT:
            return super().answer(method, path, headers, body)
        self.orders.append((method, "import", json.loads(body)))
        status, words = self.answers.pop(0) if self.answers else (202, "")
        if status == 202:
            ordered = re.findall(r"1#(\w+)\">([\w-]+)<", json.loads(body)["ImportBuffer"])
            self.boot = {**self.boot, **self.effect(dict(ordered))}
        content = json.dumps({"error": {"message": words}}).encode() if words else b""
        return 500 if self.is_lost else status, content, {"Location": TASK}


NEW_PLACE = f"{MANAGER}/Oem/Dell/DellAttributes/iDRAC.Embedded.1"


@pytest.fixture
def idrac(monkeypatch):
    bmc = OldIdrac().install(monkeypatch)
    bmc.answers = []
    is_made_by(bmc, "Dell Inc.", "14G Monolithic", "5.10.50.00")
    actions = {"OemManager.v1_0_0#OemManager.ImportSystemConfiguration": {"target": IMPORT}}
    change = bmc.changes[MANAGER]
    bmc.changes[MANAGER] = lambda document: {
        **change(document), "Id": "iDRAC.Embedded.1", "Actions": {"Oem": actions},
    }  # fmt: skip
    return bmc


@pytest.mark.vendor("Dell", "boot device")
def test_the_virtual_cd_of_an_old_idrac_is_ordered_by_its_oem_action(idrac):
    outcome, _ = run(idrac.node(), "boot", "prepare_ramdisk")
    (order,) = [body for _, name, body in idrac.orders if name == "import"]
    assert Done() == outcome
    assert 'FQDD="iDRAC.Embedded.1"' in order["ImportBuffer"]
    assert '#BootOnce">Enabled<' in order["ImportBuffer"]
    assert '#FirstBootDevice">VCD-DVD<' in order["ImportBuffer"]
    assert ([], ISO) == (boots(idrac), idrac.drives["Cd"].medium)


def imports(idrac):
    return [body for _, name, body in idrac.orders if name == "import"]


def test_a_failed_oem_task_fails_the_boot(idrac):
    idrac.task = ("Exception", "Critical")
    outcome, _ = run(idrac.node(), "boot", "prepare_ramdisk")
    assert "boot device VCD-DVD failed: Exception: no such image" == outcome.reason


@pytest.mark.parametrize("name", ["LC068", "SYS011", "RAC0679", "SYS518"])
def test_an_idrac_with_another_job_is_asked_again(idrac, name):
    idrac.answers = [(400, f"IDRAC.2.8.{name}: a job is running")] * 2
    outcome, _ = run(idrac.node(), "boot", "prepare_ramdisk")
    assert (Done(), 3) == (outcome, len(imports(idrac)))
    idrac.answers = [(400, f"IDRAC.2.8.{name}: a job is running")] * 200
    outcome, _ = run(idrac.node(), "boot", "prepare_ramdisk")
    assert (FailureCode.BUSY, True) == (outcome.code, outcome.retryable)


@pytest.mark.vendor("Dell", "boot device")
@pytest.mark.parametrize("place", [f"{MANAGER}/Attributes", NEW_PLACE])
@pytest.mark.parametrize(
    ("effect", "words"),
    [
        ({}, "FirstBootDevice is Normal, not VCD-DVD"),
        ({"FirstBootDevice": "VCD-DVD"}, "BootOnce is Disabled, not Enabled"),
        ({"FirstBootDevice": "PXE", "BootOnce": "Enabled"}, "is PXE, not VCD-DVD"),
    ],
)
def test_an_import_that_succeeds_without_effect_fails_the_boot(idrac, place, effect, words):
    idrac.place, idrac.effect = place, lambda boot: effect
    outcome, _ = run(idrac.node(), "boot", "prepare_ramdisk")
    assert words in outcome.reason
    assert 1 == len(imports(idrac))


@pytest.mark.parametrize("place", [f"{MANAGER}/Attributes", NEW_PLACE, None])
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_lost_import_is_settled_by_the_attributes_and_not_repeated(idrac, place, is_carried_out):
    idrac.place, idrac.is_lost = place, True
    idrac.effect = lambda boot: boot if is_carried_out else {}
    outcome, _ = run(idrac.node(), "boot", "prepare_ramdisk")
    assert 1 == len(imports(idrac))
    if is_carried_out and place:
        assert Done() == outcome
    else:
        assert FailureCode.UNCONFIRMED == outcome.code
        assert "was ordered, not confirmed" in outcome.reason


def test_an_idrac_that_does_not_show_its_attributes_is_believed_by_its_task(idrac):
    idrac.place, idrac.effect = None, lambda boot: {}
    assert Done() == run(idrac.node(), "boot", "prepare_ramdisk")[0]


@pytest.mark.vendor("Dell", "virtual media")
def test_an_idrac_10_gets_its_image_in_medium_1(bmc, node):
    is_made_by(bmc, "Dell Inc.", "17G Monolithic", "1.20.25.00")
    bmc.drives = {"2": Drive(insertion="ignored"), "1": Drive()}
    run(node, "boot", "prepare_ramdisk")
    assert ["1"] == [name for name, drive in bmc.drives.items() if drive.medium]
    assert 1 == len(bmc.named("InsertMedia"))


def test_each_row_has_a_source_and_a_test_that_exists():
    assert len(QUIRKS) == len({row.name for row in QUIRKS})
    for row in QUIRKS:
        assert row.source.startswith("https://"), row.name
        assert callable(globals().get(row.test)), row.name
        assert row.test.startswith("test_"), row.name


def test_each_difference_has_a_row():
    assert set(Difference) == {row.difference for row in QUIRKS}


@pytest.mark.parametrize(
    ("identity", "differences"),
    [
        (Identity("Dell Inc.", "14G Monolithic", "6.10.30.00"), set()),
        (Identity("Dell Inc.", "14G Monolithic", "7.00.00.171"), set()),
        (Identity("Dell Inc.", "16G Monolithic", "5.10.50.00"), {Difference.OEM_VIRTUAL_CD}),
        (Identity("Dell Inc.", "14G Monolithic", ""), set()),
        (Identity("Dell Inc.", "14G Monolithic", "3.29"), {Difference.NO_INSERTION}),
        (Identity("Dell Inc.", "17G Monolithic", "1.20.25.00"), {Difference.MEDIUM_1}),
        (Identity("Dell Inc.", "13G Modular", "2.86.86.86"), {Difference.NO_INSERTION}),
        (Identity("Odell"), set()),
        (Identity("HPE"), set()),
        (Identity("Lenovo"), set()),
        (Identity("Miami"), set()),
        (Identity("GIGABYTE AMI"), {Difference.FULL_BOOT_REQUEST}),
        (Identity("Super Micro Computer"), {Difference.FULL_BOOT_REQUEST, Difference.USB_CD}),
    ],
    ids=lambda value: str(value) if isinstance(value, Identity) else "",
)
def test_a_machine_matches_by_vendor_model_and_firmware(identity, differences):
    assert differences == {row.difference for row in QUIRKS if row.matches(identity)}


def test_the_manager_is_read_only_for_vendors_whose_rows_need_it(bmc, node):
    is_made_by(bmc, "HPE")
    node.driver.management.set_boot_device(node, "cdrom")
    assert ("GET", MANAGER) not in bmc.request_log
