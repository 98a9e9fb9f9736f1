"""Interfaces with Ironic's names for iDRACs: the Redfish interfaces, and steps for the iDRAC."""

from dataclasses import replace

import pytest

from app.inspection.process import process
from drivers.builtin import HARDWARE_TYPES, Idrac, Redfish
from drivers.core.errors import InvalidDriverInfo, NotSupported, Refused, Unreachable
from drivers.core.interface_kinds import POWER_OFF
from drivers.core.registry import load
from drivers.core.steps import Done, Flow, Wait
from drivers.redfish import idrac
from drivers.simulator.redfish_bmc.documents import MANAGER, SYSTEM
from tests.unit.drivers.documents import LocalBmc, having
from tests.unit.drivers.machines import new_registry, target

DELL = f"{MANAGER}/Oem/Dell"
NICS = f"{SYSTEM}/EthernetInterfaces"


class IdracBmc(LocalBmc):
    """A BMC with Dell's services; records what is posted to them."""

    jobs = ()  # of (id, state)
    reset_at = "2026-11-26T10:00:00Z"
    refuses = None  # status of an answer to orders

    def __post_init__(self):
        super().__post_init__()
        self.posted = []
        services = {
            name: {"@odata.id": f"{DELL}/{name}"}
            for name in ("DellJobService", "DelliDRACCardService", "Jobs")
        }
        oem = {"@odata.type": "#DellManager.v1_0_0.DellManager"}
        self.changes[MANAGER] = lambda document: {
            **document, "Oem": {"Dell": oem}, "LastResetTime": self.reset_at,
            "Links": {**document["Links"], "Oem": {"Dell": services}},
        }  # fmt: skip
        for name, action, parameters in (
            ("DellJobService", "DellJobService.DeleteJobQueue", {}),
            ("DelliDRACCardService", "DelliDRACCardService.iDRACReset",
             {"Force@Redfish.AllowableValues": ["Graceful"]}),
        ):  # fmt: skip
            at = f"{DELL}/{name}"
            actions = {f"#{action}": {"target": f"{at}/Actions/{action}", **parameters}}
            self.more[at] = {"@odata.id": at, "Id": name, "Name": name, "Actions": actions}
        self.more[f"{DELL}/Jobs"] = {"@odata.id": f"{DELL}/Jobs", "Id": "Jobs", "Name": "Jobs"}

    def answer(self, method, path, headers, body=b""):
        if method == "POST" and path.startswith(DELL):
            self.posted.append((path.rpartition(".")[2], body))
            return self.refuses or 204, b"", {}
        if path == f"{DELL}/Jobs":
            members = [
                {"@odata.id": f"{path}/{name}", "Id": name, "Name": name, "JobState": state}
                for name, state in self.jobs
            ]
            self.more[path] = {"@odata.id": path, "Id": "Jobs", "Name": "Jobs", "Members": members}
        return super().answer(method, path, headers, body)


@pytest.fixture
def bmc(monkeypatch):
    return IdracBmc().install(monkeypatch)


def call(node, step, progress=()):
    return getattr(node.driver.management, step)(replace(node, progress=dict(progress)))


def test_each_name_of_ironic_is_an_interface_of_the_hardware_type_and_the_default():
    registry = load(HARDWARE_TYPES)
    for kind in ("bios", "inspect", "management", "power", "raid", "vendor"):
        names = registry.supported("idrac", kind)
        assert "idrac-redfish" == names[0]
        assert "redfish" in names
    assert "idrac-redfish-virtual-media" == registry.default("idrac", "boot")
    with pytest.raises(InvalidDriverInfo, match=r"power_interface.*idrac-redfish"):
        registry.driver("redfish", {"power": "idrac-redfish"})


@pytest.mark.parametrize(
    "kind", ["bios", "boot", "inspect", "management", "power", "raid", "vendor"]
)
def test_an_alias_is_the_redfish_interface_with_its_steps_and_keys(kind):
    alias, original = Idrac.interfaces[kind][0], Redfish.interfaces[kind]
    (base,) = [cls for cls in original if issubclass(alias, cls)]
    assert base.properties == alias.properties
    assert {name: step.priorities for name, step in base.steps.items()}.items() <= {
        name: step.priorities for name, step in alias.steps.items()
    }.items()


def test_the_power_of_an_idrac_node_is_that_of_its_redfish_system(bmc):
    node = bmc.node(driver="idrac")
    assert "idrac-redfish" == node.driver.power.name
    assert POWER_OFF == node.driver.power.get_power_state(node)
    node.driver.power.validate(node)
    missing = target("idrac", registry=new_registry(), driver_info={})
    with pytest.raises(InvalidDriverInfo, match="redfish_address"):
        missing.driver.power.validate(missing)


@pytest.mark.vendor("Dell", "inspection")
def test_the_service_tag_is_the_serial_number_and_pxe_settings_name_the_boot_interface(bmc):
    path = NICS.replace("{id}", bmc.machine.uuid)
    bmc.more[NICS] = {"Members": [{"@odata.id": f"{path}/{at}"} for at in ("A", "B")]}
    for at, mac in (("A", "52:54:00:00:00:0a"), ("B", "52:54:00:00:00:0b")):
        bmc.more[f"{NICS}/{at}"] = {"@odata.id": f"{path}/{at}", "Id": at, "MACAddress": mac}
    bmc.changes[SYSTEM] = having(SKU="TAG1234", SerialNumber="CN-BOARD")
    pxe = {
        "PxeDev1EnDis": "Disabled", "PxeDev1Interface": "A",
        "PxeDev2EnDis": "Enabled", "PxeDev2Interface": "B",
    }  # fmt: skip
    bmc.changes[f"{SYSTEM}/Bios"] = having(Attributes=pxe)
    findings = {}
    for driver in ("idrac", "redfish"):
        node = bmc.node(driver=driver)
        node.driver.inspect.inspect_hardware(node)
        process(node)
        findings[driver] = node.reports["findings"]
    assert "TAG1234" == findings["idrac"].inventory["system_vendor"]["serial_number"]
    assert "CN-BOARD" == findings["redfish"].inventory["system_vendor"]["serial_number"]
    assert ["52:54:00:00:00:0b"] == [port["address"] for port in findings["idrac"].ports]
    assert 2 == len(findings["redfish"].ports)


@pytest.mark.parametrize(
    "change", [having(SKU=None), having(SKU=["x"]), lambda document: {**document, "Bios": 5}]
)
def test_an_idrac_without_service_tag_or_bios_is_inspected_nevertheless(bmc, change):
    bmc.changes[SYSTEM] = change
    node = bmc.node(driver="idrac")
    node.driver.inspect.inspect_hardware(node)
    process(node)
    assert "x86_64" == node.reports["findings"].node["properties"]["cpu_arch"]


@pytest.mark.vendor("Dell", "management")
def test_the_job_queue_is_cleared_once_and_watched_until_it_is_empty(bmc):
    node = bmc.node(driver="idrac")
    bmc.jobs = (("JID_1", "Running"), ("JID_2", "Completed"))
    waits = call(node, "clear_job_queue")
    assert isinstance(waits, Wait)
    assert [("DeleteJobQueue", b'{"JobID": "JID_CLEARALL"}')] == bmc.posted
    assert isinstance(call(node, "clear_job_queue", waits.progress), Wait)
    bmc.jobs = (("JID_2", "Completed"),)
    assert Done() == call(node, "clear_job_queue", waits.progress)
    assert 1 == len(bmc.posted)


def test_a_refused_order_fails_the_step(bmc):
    node = bmc.node(driver="idrac")
    bmc.refuses = 400
    for step in ("clear_job_queue", "reset_idrac"):
        with pytest.raises(Refused):
            call(node, step)


@pytest.mark.vendor("Dell", "management")
def test_an_idrac_has_restarted_when_it_reports_a_new_time_of_its_reset(bmc):
    node = bmc.node(driver="idrac")
    waits = call(node, "reset_idrac")
    assert [("iDRACReset", b'{"Force": "Graceful"}')] == bmc.posted
    for _ in range(idrac.POLLS + 1):
        waits = call(node, "reset_idrac", waits.progress)
        assert isinstance(waits, Wait)
    bmc.reset_at = "2026-11-26T10:05:00Z"
    assert Done() == call(node, "reset_idrac", waits.progress)
    assert 1 == len(bmc.posted)


def test_an_idrac_without_that_time_has_to_be_silent_once_or_answer_for_long(bmc, monkeypatch):
    bmc.reset_at = None
    node = bmc.node(driver="idrac")
    ordered = call(node, "reset_idrac")
    waits = call(node, "reset_idrac", ordered.progress)
    assert isinstance(waits, Wait)
    with monkeypatch.context() as patch:
        patch.setattr(idrac.client, "turn", _silent)
        waits = call(node, "reset_idrac", waits.progress)
        assert isinstance(waits, Wait)
    assert Done() == call(node, "reset_idrac", waits.progress)
    outcome = ordered
    for _ in range(idrac.POLLS):
        assert isinstance(outcome, Wait)
        outcome = call(node, "reset_idrac", outcome.progress)
    assert Done() == outcome


def _silent(*_):
    raise Unreachable("it restarts")


def test_a_known_good_state_is_a_reset_and_then_an_empty_job_queue(bmc):
    node = bmc.node(driver="idrac")
    outcome = call(node, "known_good_state")
    assert isinstance(outcome, Wait)
    bmc.reset_at = "2026-11-26T10:05:00Z"
    assert Done() == call(node, "known_good_state", outcome.progress)
    assert ["iDRACReset", "DeleteJobQueue"] == [name for name, _ in bmc.posted]


def test_the_steps_run_only_on_request_and_without_a_ramdisk(bmc):
    management = bmc.node(driver="idrac").driver.management
    for name in ("clear_job_queue", "reset_idrac", "known_good_state"):
        step = management.steps[name]
        assert {0} == set(step.priorities.values())
        assert {Flow.CLEAN, Flow.VERIFY, Flow.SERVICE} == step.priorities.keys()
        assert not step.needs_ramdisk


def test_a_bmc_of_another_vendor_has_no_idrac(monkeypatch):
    node = LocalBmc().install(monkeypatch).node(driver="idrac")
    with pytest.raises(NotSupported, match="no iDRAC"):
        call(node, "clear_job_queue")
