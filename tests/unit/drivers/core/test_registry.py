"""The registry of drivers, with third-party drivers written against the seed specs."""

import re
from dataclasses import fields
from typing import ClassVar

import pytest

from app.config import settings
from drivers.builtin import HARDWARE_TYPES, FakeHardware
from drivers.core import errors
from drivers.core.driver import Driver, HardwareType
from drivers.core.errors import CleanStepFailed, HardwareError, InvalidDriverInfo
from drivers.core.interface_kinds import KINDS, Deploy, Frame, Management
from drivers.core.registry import UnknownName, load
from drivers.core.steps import Arg, Done, Flow, clean_step, deploy_step, step
from drivers.fake.hardware import FakeDeploy, FakeInspect, FakeManagement, FakePower
from tests.unit.drivers.machines import target, with_option


class AcmeManagement(FakeManagement):
    """Management with additional steps."""

    name = "acme"

    @clean_step(priority=20, argsinfo=[{"name": "level", "description": "how deep"}])
    def reset_bios(self, target, level="all"):
        target.report(properties={"bios_reset": level})

    @clean_step(priority=10.5, abortable=True)
    def scrub(self, target):
        """Take long."""

    @clean_step(
        priority=0,
        requires_ramdisk=False,
        argsinfo={"times": {"description": "how often", "required": True}},
    )
    def blink(self, target, times):
        """Run only on request."""

    @step(verify=2)
    def peek(self, target):
        """Run in verification."""

    @step(verify=3)
    def look(self, target):
        """Run in verification as well."""

    @deploy_step(priority=150)
    def set_fans(self, target):
        """Run before the agent boots."""


class Acme(HardwareType):
    name = "acme"
    interfaces = {**FakeHardware.interfaces, "management": (AcmeManagement,)}


def with_management(management):
    """Hardware type "ported" with this management interface."""
    interfaces = {**FakeHardware.interfaces, "management": (management,)}
    return type("Ported", (HardwareType,), {"name": "ported", "interfaces": interfaces})


class ClashingPower(FakePower):
    name = "clashing"

    @clean_step(priority=5)
    def first(self, target):
        """First of two steps with priority 5."""

    @clean_step(priority=5)
    def second(self, target):
        """Second of two steps with priority 5."""


class Clashing(HardwareType):
    name = "clashing"
    interfaces = {**FakeHardware.interfaces, "power": (ClashingPower,)}


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
    assert {"hardware_type": str, **KINDS} == {each.name: each.type for each in fields(Driver)}
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
    found = node.driver.management.get_clean_steps(node)
    assert [("reset_bios", 20), ("calibrate", 15), ("scrub", 10.5)] == [
        (each["step"], each["priority"]) for each in found
    ]


def test_an_interface_without_steps_offers_none_and_its_driver_loads():
    class Plain(Management):
        name = "plain"

    node = target("ported", registry=load([*HARDWARE_TYPES, with_management(Plain)]))
    for flow in Flow:
        assert [] == getattr(node.driver.management, f"get_{flow}_steps")(node)
    labels = {".".join(step.key) for step in node.driver.steps(Flow.CLEAN, node)}
    assert "vendor.log_passthrough" in labels, "steps of other interfaces are not affected"


def test_equal_priorities_in_one_interface_refuse_the_driver_and_no_other():
    registry = load([*HARDWARE_TYPES, Clashing, Acme])
    assert "acme" in registry.types
    assert "clashing" not in registry.types
    why = registry.refused["clashing"]
    assert "'first'" in why
    assert "'second'" in why
    assert "priority 5" in why


class Base(FakeManagement):
    """Has a step of each flow."""

    name = "base"

    @clean_step(priority=10)
    def erase(self, target):
        """Clean."""

    @step(service=0, verify=4)
    def probe(self, target):
        """Serve, and verify."""


def overriding(base, name, method, **more):
    """Hardware type "ported" whose interface overrides `name` of a base."""
    cls = type(
        "Late", (type("Middle", (base,), {"name": "mid"}),), {"name": "late", name: method, **more}
    )
    return type("Ported", (HardwareType,), {
        "name": "ported", "interfaces": {**FakeHardware.interfaces, base.kind: (cls,)},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("base", "name", "owner"),
    [
        (Base, "erase", "Base"),
        (Base, "probe", "Base"),
        (FakeDeploy, "deploy", "FakeDeploy"),
        (Deploy, "deploy", "Deploy"),
    ],
)
def test_an_override_that_loses_a_step_refuses_the_driver_and_no_other(base, name, owner):
    found = load([FakeHardware, overriding(base, name, lambda self, target: Done())])
    assert ["fake-hardware"] == list(found.types)
    assert found.refused["ported"].startswith(
        f"{base.kind} interface 'late': Late.{name} overrides the step {base.kind}.{name} of"
    )
    assert f"{owner}, and is no step: decorate it with" in found.refused["ported"].replace(
        "Middle", owner
    )


def test_a_step_is_overridden_by_a_step_or_left_out_by_none_or_listed():
    def erase(self, target):
        """Override the step."""

    def listing(self, target):
        return [{"step": "erase", "priority": 5}]

    renewed = clean_step(priority=10)(lambda self, target: Done())
    for ported in (
        overriding(Base, "erase", renewed),
        overriding(Base, "erase", None),
        overriding(Base, "erase", erase, get_clean_steps=listing),
    ):
        assert "ported" in load([ported]).types
    listed = overriding(Base, "probe", erase, get_verify_steps=lambda self, target: [])
    assert "overrides the step management.probe" in load([listed]).refused["ported"]


def test_steps_that_do_not_run_by_themselves_may_have_equal_priorities():
    class Quiet(FakeManagement):
        name = "quiet"

        @clean_step(priority=-1)
        def first(self, target):
            """Run on request only."""

        @clean_step(priority=-1)
        def second(self, target):
            """Run on request only."""

    interfaces = {**FakeHardware.interfaces, "management": (Quiet,)}
    registry = load([type("Calm", (HardwareType,), {"name": "calm", "interfaces": interfaces})])
    assert {"calm"} == set(registry.types)


def with_frames(kind, base, **attributes):
    """Hardware type with an additional interface of this kind, besides fake ones."""
    owner = type("Owner", (base,), {"name": "mine", **attributes})
    interfaces = {**FakeHardware.interfaces, kind: (owner,)}
    return type("Framed", (HardwareType,), {"name": "framed", "interfaces": interfaces})


@pytest.mark.parametrize("part", ["before", "after", "on_failure", "on_abort", "collect"])
@pytest.mark.parametrize(
    ("row", "what"),
    [
        (("power", "powr_off"), "power.powr_off, which power interface 'fake' does not have"),
        (("deploy", "prepar"), "deploy.prepar, which deploy interface 'mine' does not have"),
        (("powr", "power_off"), "powr.power_off; kinds of interfaces are bios, boot, console, "),
    ],
)
def test_a_frame_with_a_misspelt_method_refuses_the_driver_and_names_the_method(part, row, what):
    frame = Frame(**{part: row if part == "collect" else (("power", "power_off"), row)})
    registry = load([with_frames("deploy", FakeDeploy, frames={"clean": frame}), Acme])
    assert ["acme"] == list(registry.types)
    message = "hardware type 'framed': the clean frame of deploy interface 'mine' names "
    assert registry.refused["framed"].startswith(message + what)


def test_the_frame_of_an_inspection_is_checked_as_well():
    frames = {"inspect": Frame(before=(("inspect", "inspekt"),))}
    registry = load([with_frames("inspect", FakeInspect, frames=frames)])
    assert "inspect.inspekt, which inspect interface 'mine'" in registry.refused["framed"]


def test_a_frame_may_name_only_methods_of_every_enabled_interface():
    class Careful(FakePower):
        name = "careful"

        def discharge(self, target):
            """Frame step that only this power interface has."""

    framed = with_frames(
        "deploy", FakeDeploy, frames={"clean": Frame(before=(("power", "discharge"),))}
    )
    framed.interfaces["power"] = (Careful,)
    assert ["framed"] == list(load([framed]).types)
    framed.interfaces["power"] = (Careful, FakePower)
    assert (
        "power.discharge, which power interface 'fake' does not have"
        in load([framed]).refused["framed"]
    )
    assert ["framed"] == list(load([framed], None, {"power": ["careful"]}).types)


EVERY = {"acme", *(hardware_type.name for hardware_type in HARDWARE_TYPES)}
BIOS = "bios.factory_reset:5,bios.cache_bios_settings:5"


@pytest.mark.parametrize(
    ("environ", "refused", "message"),
    [
        (
            {"CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE": BIOS},
            {"acme", "fake-hardware", "redfish", "idrac"},
            ("the clean steps 'cache_bios_settings' and 'factory_reset'"
            " both have priority 5, by [conductor]clean_step_priority_override"),
        ),
        (
            {"CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE": "management.scrub:20"}, {"acme"},
            ("'reset_bios' and 'scrub' both have priority 20, by"
            " [conductor]clean_step_priority_override"),
        ),
        (
            {"CONDUCTOR_VERIFY_STEP_PRIORITY_OVERRIDE": "management.peek:3"}, {"acme"},
            ("the verify steps 'look' and 'peek' both have priority 3, by"
            " [conductor]verify_step_priority_override"),
        ),
        (
            {"DEPLOY_CREATE_CONFIGURATION_PRIORITY": "7", "DEPLOY_DELETE_CONFIGURATION_PRIORITY": "7"},
            EVERY,
            ("raid interface 'agent': the clean steps 'create_configuration' and"
            " 'delete_configuration' both have priority 7, by [deploy]create_configuration_priority"
            " and [deploy]delete_configuration_priority"),
        ),
        (
            {"DEPLOY_ERASE_DEVICES_PRIORITY": "8",
             "CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE": "deploy.erase_devices_metadata:8"},
            EVERY,
            ("the clean steps 'erase_devices' and 'erase_devices_metadata' both have priority 8, by"
            " [deploy]erase_devices_priority and [conductor]clean_step_priority_override"),
        ),
        ({"DEPLOY_ERASE_DEVICES_PRIORITY": "0", "DEPLOY_ERASE_DEVICES_METADATA_PRIORITY": "0"}, set(), ""),
    ],
)  # fmt: skip
def test_equal_priorities_by_settings_refuse_the_driver_and_name_the_setting(
    environ, refused, message
):
    options = settings.load({f"INGOT_{name}": value for name, value in environ.items()}).options()
    registry = load([*HARDWARE_TYPES, Acme], options=options)
    assert refused == set(registry.refused)
    assert refused.isdisjoint(registry.types)
    for why in registry.refused.values():
        assert message in why


def test_a_setting_may_separate_equal_priorities():
    overrides = {"INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE": "power.first:6"}
    registry = load([*HARDWARE_TYPES, Clashing], options=settings.load(overrides).options())
    assert {} == registry.refused


def test_a_driver_without_an_enabled_interface_is_refused_and_named():
    registry = load(
        HARDWARE_TYPES, enabled_types=["redfish"], enabled_interfaces={"power": ["fake"]}
    )
    assert {} == registry.types
    assert "power" in registry.refused["redfish"]


@pytest.mark.parametrize(
    ("given", "message"),
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
def test_a_setting_that_names_an_unknown_driver_or_interface_raises(given, message):
    with pytest.raises(UnknownName) as raised:
        load(HARDWARE_TYPES, **given)
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


class PortedManagement(AcmeManagement):
    """Management that lists its steps by the method of the seed specs."""

    name = "ported"
    more: ClassVar[list] = [{"interface": "management", "step": "shred", "priority": 30}]

    def get_clean_steps(self, target):
        return [*super().get_clean_steps(target)[1:], *self.more]

    def shred(self, target):
        raise CleanStepFailed("the shredder is full")


def ported(**methods):
    return with_management(type("Management", (PortedManagement,), {"name": "ported", **methods}))


def test_a_driver_offers_the_steps_that_it_lists():
    node = target("ported", registry=load([*HARDWARE_TYPES, ported()]))
    steps = node.driver.steps(Flow.CLEAN, node)
    inherited = {step.name for step in FakeManagement().steps.values()}
    offered = {
        step.name: step
        for step in steps
        if step.interface == "management" and step.name not in inherited
    }
    found = {name: step.priorities[Flow.CLEAN] for name, step in offered.items()}
    # the driver omits reset_bios; blink, of priority 0, is in no such list
    assert {"scrub": 10.5, "shred": 30, "blink": 0} == found
    assert [True, False] == [offered[name].abortable for name in ("scrub", "shred")]
    with pytest.raises(HardwareError, match="the shredder is full"):
        node.driver.management.execute_clean_step(node, {"step": "shred"})


@pytest.mark.parametrize(
    ("listing", "complaint"),
    [
        ([{"step": "shred", "priority": 10.5}], "'scrub' and 'shred' both have priority 10.5"),
        ([{"step": "scrub", "priority": 1}], "'scrub' is listed twice"),
        ([{"step": "nonsense", "priority": 1}], "there is no method 'nonsense'"),
        ([{"step": "shred"}], "KeyError: 'priority'"),
        ([{"step": "shred", "priority": "high"}], "must be a number, not 'high'"),
        ([{"step": "shred", "priority": 1, "interface": "bios"}], "of another interface, 'bios'"),
        ([{"step": "shred", "priority": 1, "prio": 2}], "unknown key 'prio'"),
        (None, "TypeError"),
    ],
)
def test_an_invalid_list_of_steps_is_refused_with_the_reason(listing, complaint):
    node = target("ported", registry=load([*HARDWARE_TYPES, ported(more=listing)]))
    with pytest.raises(InvalidDriverInfo, match="management interface 'ported': get_clean_steps"):
        node.driver.steps(Flow.CLEAN, node)
    with pytest.raises(InvalidDriverInfo, match=complaint):
        node.driver.steps(Flow.CLEAN, node)


OVERRIDE = "clean_step_priority_override"


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"management.shred": 10.5}, "'scrub' and 'shred' both have priority 10.5, by"),
        ({"management.blink": 30}, "'shred' and 'blink' both have priority 30, by"),
        ({"management.shred": 5, "management.scrub": 5}, "both have priority 5, by"),
    ],
)
def test_equal_priorities_by_a_setting_refuse_a_list_of_steps_and_name_the_setting(
    overrides, complaint
):
    node = target(
        "ported",
        registry=load([*HARDWARE_TYPES, ported()]),
        options=with_option("conductor", **{OVERRIDE: overrides}),
    )
    with pytest.raises(InvalidDriverInfo, match="'ported': get_clean_steps: ") as raised:
        node.driver.steps(Flow.CLEAN, node)
    assert str(raised.value).endswith(f"[conductor]{OVERRIDE}")
    assert complaint in str(raised.value)


@pytest.mark.parametrize("priority", [0, 6])
def test_a_setting_may_separate_equal_priorities_of_a_list(priority):
    twin = ported(more=[{"step": "shred", "priority": 10.5}])
    node = target(
        "ported",
        registry=load([*HARDWARE_TYPES, twin]),
        options=with_option("conductor", **{OVERRIDE: {"management.shred": priority}}),
    )
    assert "shred" in {step.name for step in node.driver.steps(Flow.CLEAN, node)}


async def a_coroutine(self, target):
    return []


@pytest.mark.parametrize(
    ("methods", "complaint"),
    [
        ({"get_clean_steps": lambda self: []}, "get_clean_steps is called with .target."),
        ({"get_verify_steps": lambda self, target, ports: []}, "missing a required argument: 'ports'"),
        ({"get_service_steps": a_coroutine}, "get_service_steps must be a plain method"),
        ({"get_deploy_steps": ["shred"]}, "get_deploy_steps is no method"),
        ({"execute_clean_step": lambda self, target: None}, "is called with .target, step."),
    ],
)  # fmt: skip
def test_a_list_method_that_cannot_be_called_refuses_the_driver_and_no_other(methods, complaint):
    registry = load([*HARDWARE_TYPES, ported(**methods), Acme])
    assert {"ported"} == set(registry.refused)
    assert "acme" in registry.types
    assert re.search(complaint, registry.refused["ported"])


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
