"""The registry of drivers: which of them load, and what they offer."""

from dataclasses import fields

import pytest

from drivers.builtin import HARDWARE_TYPES, FakeHardware
from drivers.core import errors
from drivers.core.driver import Driver, HardwareType
from drivers.core.errors import HardwareError, InvalidDriverInfo
from drivers.core.interface_kinds import KINDS, Management
from drivers.core.registry import UnknownName, load
from drivers.core.steps import Arg, Done, Flow, clean_step
from drivers.fake.hardware import FakePower
from tests.unit.drivers.machines import target

from .conftest import Acme, AcmeManagement, Clashing, with_management


def test_a_third_party_driver_loads_and_its_steps_run():
    node = target("acme", registry=load([*HARDWARE_TYPES, Acme]))
    management = node.driver.management
    assert [
        {"interface": "management", "step": "reset_bios", "priority": 20},
        {"interface": "management", "step": "scrub", "priority": 10.5},
    ] == management.get_clean_steps(node)
    assert [
        {"interface": "management", "step": "set_fans", "priority": 150}
    ] == management.get_deploy_steps(node)
    by_name = {step.name: step for step in management.get_steps(node, Flow.CLEAN)}
    assert (False, True, False) == (
        by_name["reset_bios"].abortable,
        by_name["scrub"].abortable,
        by_name["blink"].needs_ramdisk,
    )
    assert (Arg("level", "how deep", required=False),) == by_name["reset_bios"].args
    assert (Arg("times", "how often", required=True),) == by_name["blink"].args
    assert management.get_steps(node, Flow.DEPLOY)[0].abortable
    step = {"interface": "management", "step": "reset_bios", "args": {"level": "some"}}
    assert Done() == management.execute_clean_step(node, step)
    assert {"bios_reset": "some"} == node.reports["properties"]


def test_the_given_hardware_types_are_loaded():
    assert ["acme"] == list(load([Acme]).types)
    assert {} == load(()).types


def test_a_driver_has_a_typed_field_for_each_kind_of_interface():
    assert {"hardware_type": str, **KINDS} == {field.name: field.type for field in fields(Driver)}
    driver = load(HARDWARE_TYPES).driver("fake-hardware", {"power": "redfish"})
    assert "redfish" == driver.power.name
    assert list(KINDS) == list(driver.by_kind)
    assert driver.power is driver.by_kind["power"]


def test_a_class_that_is_listed_under_another_kind_refuses_the_driver():
    interfaces = {**FakeHardware.interfaces, "management": (FakePower,)}
    mixed_up = type("MixedUp", (HardwareType,), {"name": "mixed-up", "interfaces": interfaces})
    registry = load([mixed_up, Acme])
    assert ["acme"] == list(registry.types)
    message = "FakePower is listed as a management interface, but is no subclass of Management"
    assert message == registry.refused["mixed-up"]


def test_enabled_steps_are_listed_by_decreasing_priority():
    class Calibrated(AcmeManagement):
        name = "calibrated"

        @clean_step(priority=15)
        def calibrate(self, target):
            """Run between the other two."""

    node = target("ported", registry=load([*HARDWARE_TYPES, with_management(Calibrated)]))
    steps = node.driver.management.get_clean_steps(node)
    assert [("reset_bios", 20), ("calibrate", 15), ("scrub", 10.5)] == [
        (step["step"], step["priority"]) for step in steps
    ]


def test_an_interface_without_steps_offers_none_and_its_driver_loads():
    class Plain(Management):
        name = "plain"

    node = target("ported", registry=load([*HARDWARE_TYPES, with_management(Plain)]))
    for flow in Flow:
        assert [] == getattr(node.driver.management, f"get_{flow}_steps")(node)
    labels = {".".join(step.key) for step in node.driver.steps(Flow.CLEAN, node)}
    assert "vendor.log_passthrough" in labels, "steps of other interfaces are not affected"


def test_a_driver_without_an_enabled_interface_is_refused_and_named():
    registry = load(
        HARDWARE_TYPES, enabled_types=["redfish"], enabled_interfaces={"power": ["fake"]}
    )
    assert {} == registry.types
    assert "power" in registry.refused["redfish"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"enabled_types": ["redfish", "ilo"]},
            (
                "[DEFAULT]enabled_hardware_types: there is no hardware type 'ilo'; installed are"
                " fake-hardware, idrac, intel-ipmi, ipmi, manual-management, redfish"
            ),
        ),
        (
            {"enabled_interfaces": {"network": ["noop", "vxlan"]}},
            (
                "[DEFAULT]enabled_network_interfaces: there is no network interface 'vxlan'; installed"
                " are flat, neutron, noop, switch"
            ),
        ),
        (
            {"defaults": {"network": "flat"}},
            (
                "[DEFAULT]default_network_interface: there is no enabled network interface 'flat';"
                " enabled are noop"
            ),
        ),
        (
            {"enabled_interfaces": {"deploy": ["direct"]}, "defaults": {"deploy": "ramdisk"}},
            (
                "[DEFAULT]default_deploy_interface: there is no enabled deploy interface 'ramdisk';"
                " enabled are direct"
            ),
        ),
    ],
)
def test_a_setting_that_names_an_unknown_driver_or_interface_raises(arguments, message):
    with pytest.raises(UnknownName) as raised:
        load(HARDWARE_TYPES, **arguments)
    assert message == str(raised.value)


def test_interfaces_of_disabled_drivers_are_known():
    enabled = {"management": ["redfish", "acme"], "power": ["redfish", "clashing"]}
    registry = load([*HARDWARE_TYPES, Acme, Clashing], ["redfish"], enabled, {"power": "redfish"})
    assert ["redfish"] == list(registry.types)
    assert ["redfish"] == registry.supported("redfish", "management")
    with_clashing = load([*HARDWARE_TYPES, Acme, Clashing], ["redfish", "clashing"], enabled)
    assert (["redfish"], ["clashing"]) == (list(with_clashing.types), list(with_clashing.refused))


def test_a_driver_that_is_not_loaded_is_reported_with_the_processes_that_need_it():
    with pytest.raises(InvalidDriverInfo) as raised:
        load(HARDWARE_TYPES, enabled_types=["redfish"]).driver("acme", {})
    message = str(raised.value)
    assert message.startswith("driver: there is no driver 'acme'; loaded are redfish.")
    assert "the API and the conductors" in message


def test_a_driver_that_cannot_be_imported_is_named_with_its_missing_interface():
    class Broken(HardwareType):
        name = "broken"
        interfaces = None

    assert "broken" in load([*HARDWARE_TYPES, Broken]).refused
    with pytest.raises(UnknownName, match=r"'of-broken'.*; hardware type broken: "):
        load([*HARDWARE_TYPES, Broken], enabled_interfaces={"power": ["of-broken"]})


def test_a_supported_configured_default_takes_precedence():
    registry = load(HARDWARE_TYPES, defaults={"deploy": "direct", "power": "fake"})
    assert "direct" == registry.default("fake-hardware", "deploy")
    assert "redfish" == registry.default("redfish", "power")


@pytest.mark.parametrize("flow", ["clean", "deploy", "service", "verify"])
def test_drivers_may_raise_the_step_failure_of_a_flow(flow):
    failure = getattr(errors, f"{flow.capitalize()}StepFailed")("no")
    assert isinstance(failure, HardwareError)
    assert ("step_failed", False) == (failure.code, failure.retryable)


@pytest.mark.parametrize(
    "wrong",
    [{"priority": "5"}, {"priority": True}, {"priority": 1, "argsinfo": {"a": {"descr": "x"}}}],
)
def test_a_bad_declaration_is_refused_at_once(wrong):
    with pytest.raises(ValueError):
        clean_step(**wrong)
