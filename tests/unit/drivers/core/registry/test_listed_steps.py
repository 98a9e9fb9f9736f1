"""Steps that a driver lists by a method."""

import re

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.errors import HardwareError, InvalidDriverInfo
from drivers.core.registry import load
from drivers.core.steps import Flow
from drivers.fake.hardware import FakeManagement
from tests.unit.drivers.machines import target, with_option

from .conftest import Acme, ported


def test_a_driver_offers_the_steps_that_it_lists():
    node = target("ported", registry=load([*HARDWARE_TYPES, ported()]))
    steps = node.driver.steps(Flow.CLEAN, node)
    inherited = {step.name for step in FakeManagement().steps.values()}
    offered = {
        step.name: step
        for step in steps
        if step.interface == "management" and step.name not in inherited
    }
    priorities = {name: step.priorities[Flow.CLEAN] for name, step in offered.items()}
    # the driver omits reset_bios; blink, of priority 0, is in no such list
    assert {"scrub": 10.5, "shred": 30, "blink": 0} == priorities
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
