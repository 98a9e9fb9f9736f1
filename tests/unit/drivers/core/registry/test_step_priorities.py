"""Steps of drivers: equal priorities, overridden steps, and frames that name methods."""

import pytest

from app.config import settings
from drivers.builtin import HARDWARE_TYPES, FakeHardware
from drivers.core.driver import HardwareType
from drivers.core.interface_kinds import Deploy, Frame
from drivers.core.registry import load
from drivers.core.steps import Done, clean_step, step
from drivers.fake.hardware import FakeDeploy, FakeInspect, FakeManagement, FakePower

from .conftest import Acme, Clashing


def test_equal_priorities_in_one_interface_refuse_the_driver_and_no_other():
    registry = load([*HARDWARE_TYPES, Clashing, Acme])
    assert "acme" in registry.types
    assert "clashing" not in registry.types
    reason = registry.refused["clashing"]
    assert "'first'" in reason
    assert "'second'" in reason
    assert "priority 5" in reason


class Base(FakeManagement):
    """Has a step of each flow."""

    name = "base"

    @clean_step(priority=10)
    def erase(self, target):
        """Clean."""

    @step(service=0, verify=4)
    def probe(self, target):
        """Serve, and verify."""


def overriding(base, name, method, **attributes):
    """Hardware type "ported" whose interface overrides `name` of a base."""
    cls = type(
        "Late",
        (type("Middle", (base,), {"name": "mid"}),),
        {"name": "late", name: method, **attributes},
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
    registry = load([FakeHardware, overriding(base, name, lambda self, target: Done())])
    assert ["fake-hardware"] == list(registry.types)
    assert registry.refused["ported"].startswith(
        f"{base.kind} interface 'late': Late.{name} overrides the step {base.kind}.{name} of"
    )
    assert f"{owner}, and is no step: decorate it with" in registry.refused["ported"].replace(
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
    ("row", "ending"),
    [
        (("power", "powr_off"), "power.powr_off, which power interface 'fake' does not have"),
        (("deploy", "prepar"), "deploy.prepar, which deploy interface 'mine' does not have"),
        (("powr", "power_off"), "powr.power_off; kinds of interfaces are bios, boot, console, "),
    ],
)
def test_a_frame_with_a_misspelt_method_refuses_the_driver_and_names_the_method(part, row, ending):
    frame = Frame(**{part: row if part == "collect" else (("power", "power_off"), row)})
    registry = load([with_frames("deploy", FakeDeploy, frames={"clean": frame}), Acme])
    assert ["acme"] == list(registry.types)
    message = "hardware type 'framed': the clean frame of deploy interface 'mine' names "
    assert registry.refused["framed"].startswith(message + ending)


def test_the_frame_of_an_inspection_is_checked_as_well():
    frames = {"inspect": Frame(before=(("inspect", "inspekt"),))}
    registry = load([with_frames("inspect", FakeInspect, frames=frames)])
    assert "inspect.inspekt, which inspect interface 'mine'" in registry.refused["framed"]


def test_a_frame_may_name_only_methods_of_every_enabled_interface():
    class Careful(FakePower):
        name = "careful"

        def lower_into_water(self, target):
            """Frame step that only this power interface has."""

    framed = with_frames(
        "deploy", FakeDeploy, frames={"clean": Frame(before=(("power", "lower_into_water"),))}
    )
    framed.interfaces["power"] = (Careful,)
    assert ["framed"] == list(load([framed]).types)
    framed.interfaces["power"] = (Careful, FakePower)
    assert (
        "power.lower_into_water, which power interface 'fake' does not have"
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
    for reason in registry.refused.values():
        assert message in reason


def test_a_setting_may_separate_equal_priorities():
    overrides = {"INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE": "power.first:6"}
    registry = load([*HARDWARE_TYPES, Clashing], options=settings.load(overrides).options())
    assert {} == registry.refused
