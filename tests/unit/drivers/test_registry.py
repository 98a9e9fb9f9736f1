"""A driver from outside, written against the names of the seed specs."""

import pytest

from drivers.builtin import FakeHardware
from drivers.errors import InvalidDriverInfo
from drivers.fake.hardware import FakeManagement, FakePower
from drivers.registry import HardwareType, UnknownName, load
from drivers.steps import Done, Flow, clean_step, deploy_step
from tests.unit.drivers.machines import target


class AcmeManagement(FakeManagement):
    """Management with steps of its own."""

    name = "acme"

    @clean_step(priority=20, argsinfo=[{"name": "level", "description": "how deep"}])
    def reset_bios(self, target, level="all"):
        target.report(properties={"bios_reset": level})

    @clean_step(priority=10.5, abortable=True)
    def scrub(self, target):
        """Takes long."""

    @clean_step(priority=0, requires_ramdisk=False)
    def blink(self, target):
        """Only on demand."""

    @deploy_step(priority=150)
    def set_fans(self, target):
        """Before the agent boots."""


class Acme(HardwareType):
    name = "acme"
    interfaces = {**FakeHardware.interfaces, "management": (AcmeManagement,)}


class ClashingPower(FakePower):
    name = "clashing"

    @clean_step(priority=5)
    def first(self, target):
        """One of two at priority 5."""

    @clean_step(priority=5)
    def second(self, target):
        """The other."""


class Clashing(HardwareType):
    name = "clashing"
    interfaces = {**FakeHardware.interfaces, "power": (ClashingPower,)}


def test_a_driver_from_outside_loads_and_its_steps_run():
    node = target("acme", registry=load(extra=[Acme]))
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
    assert management.get_steps(node, Flow.DEPLOY)[0].abortable
    step = {"interface": "management", "step": "reset_bios", "args": {"level": "some"}}
    assert Done() == management.execute_clean_step(node, step)
    assert {"bios_reset": "some"} == node.reports["properties"]


def test_equal_priorities_in_one_interface_refuse_the_driver_and_no_other():
    registry = load(extra=[Clashing, Acme])
    assert "acme" in registry.types
    assert "clashing" not in registry.types
    why = registry.refused["clashing"]
    assert "'first'" in why
    assert "'second'" in why
    assert "priority 5" in why


def test_a_driver_without_an_enabled_interface_is_refused_and_named():
    registry = load(enabled_types=["redfish"], enabled_interfaces={"power": ["fake"]})
    assert {} == registry.types
    assert "power" in registry.refused["redfish"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"enabled_types": ["redfish", "idrac"]},
            (
                "[DEFAULT]enabled_hardware_types: there is no hardware type 'idrac'; installed are"
                " fake-hardware, ipmi, redfish"
            ),
        ),
        (
            {"enabled_interfaces": {"network": ["noop", "flat"]}},
            (
                "[DEFAULT]enabled_network_interfaces: there is no network interface 'flat'; installed"
                " are noop"
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
def test_a_setting_that_names_an_unknown_driver_or_interface_raises(given, message):
    with pytest.raises(UnknownName) as raised:
        load(**given)
    assert message == str(raised.value)


def test_the_interfaces_of_every_installed_driver_are_known_even_of_one_that_is_not_enabled():
    enabled = {"management": ["redfish", "acme"], "power": ["redfish", "clashing"]}
    registry = load(["redfish"], enabled, {"power": "redfish"}, extra=[Acme, Clashing])
    assert ["redfish"] == list(registry.types)
    assert ["redfish"] == registry.supported("redfish", "management")
    with_clashing = load(["redfish", "clashing"], enabled, extra=[Acme, Clashing])
    assert (["redfish"], ["clashing"]) == (list(with_clashing.types), list(with_clashing.refused))


def test_a_driver_that_is_not_loaded_is_told_with_the_processes_that_need_it():
    with pytest.raises(InvalidDriverInfo) as raised:
        load(enabled_types=["redfish"]).driver("acme", {})
    told = str(raised.value)
    assert told.startswith("driver: there is no driver 'acme'; loaded are redfish.")
    assert "the API and the conductors" in told


def test_a_driver_that_cannot_be_imported_is_named_where_its_interface_is_missing():
    class Broken(HardwareType):
        name = "broken"
        interfaces = None

    assert "broken" in load(extra=[Broken]).refused
    with pytest.raises(UnknownName, match=r"'of-broken'.*; hardware type broken: "):
        load(enabled_interfaces={"power": ["of-broken"]}, extra=[Broken])


def test_a_configured_default_comes_first_where_it_is_accepted():
    registry = load(defaults={"deploy": "direct", "power": "fake"})
    assert "direct" == registry.default("fake-hardware", "deploy")
    assert "redfish" == registry.default("redfish", "power")


@pytest.mark.parametrize(
    "wrong",
    [{"priority": "5"}, {"priority": True}, {"priority": 1, "argsinfo": {"a": {"descr": "x"}}}],
)
def test_a_bad_declaration_is_refused_at_once(wrong):
    with pytest.raises(ValueError):
        clean_step(**wrong)
