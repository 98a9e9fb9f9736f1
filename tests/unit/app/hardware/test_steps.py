"""Requested steps: the errors that are found before the first of them runs."""

from app.hardware.steps import problems
from drivers.core.steps import Flow, Step

ERASE = Step("deploy", "erase_devices", {Flow.CLEAN: 10}, in_band=True)
KNOWN = {ERASE.key: ERASE}


def test_without_an_agent_an_unknown_step_is_only_unknown():
    requested = [
        {"interface": "power", "step": "power_off"},
        {"interface": "hardware", "step": "of_the_agent"},
    ]
    (only,) = problems(requested, Flow.CLEAN, KNOWN, agent=False)
    assert only == "hardware.of_the_agent: this node has no clean step of that name"
