"""Requested steps: the errors that are found before the first of them runs."""

import pytest

from app.hardware.steps import problems
from drivers.core.steps import Flow, Step

ERASE = Step("deploy", "erase_devices", {Flow.CLEAN: 10}, in_band=True)
RESET = Step("bios", "factory_reset", {Flow.CLEAN: 0})
KNOWN = {each.key: each for each in (ERASE, RESET)}
ENDS = "power_off before it ends the agent; request power_on or reboot between them"


def found(*labels, agent=True, flow=Flow.CLEAN):
    requested = [
        dict(zip(("interface", "step"), label.split("."), strict=True)) for label in labels
    ]
    return problems(requested, flow, KNOWN, agent=agent)


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        (("power.power_off", "deploy.erase_devices"), "deploy.erase_devices"),
        (("power.power_off", "hardware.of_the_agent"), "hardware.of_the_agent"),
        (("power.power_off", "power.wait", "deploy.erase_devices"), "deploy.erase_devices"),
        (("power.power_on", "power.power_off", "deploy.erase_devices"), "deploy.erase_devices"),
        (("power.power_off", "power.power_on", "deploy.erase_devices"), None),
        (("power.power_off", "power.reboot", "deploy.erase_devices"), None),
        (("power.power_off", "bios.factory_reset"), None),
        (("deploy.erase_devices", "power.power_off"), None),
    ],
)
def test_the_agents_steps_do_not_follow_a_power_off(labels, refused):
    expected = [] if refused is None else [f"{refused}: the agent runs it, but {ENDS}"]
    assert expected == found(*labels)


def test_without_an_agent_an_unknown_step_is_only_unknown():
    (only,) = found("power.power_off", "hardware.of_the_agent", agent=False)
    assert only == "hardware.of_the_agent: this node has no clean step of that name"
