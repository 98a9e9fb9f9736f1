"""Nodes with a scripted agent."""

from dataclasses import replace

import pytest

from drivers.core.steps import Flow
from tests.unit.drivers.machines import target

ERASE = {"interface": "deploy", "step": "erase_devices", "priority": 10}
DIRECT = {"deploy": "direct"}


@pytest.fixture
def node(agent):
    return target(interfaces=DIRECT, agent=agent.seen(), step_id="row-1")


def clean(node, step=ERASE):
    return node.driver.deploy.execute_in_band(node, Flow.CLEAN, step)


def again(node, outcome, **changes):
    """Return the node as the worker passes it to the next call of the step."""
    return replace(node, progress=outcome.progress, reports={}, **changes)
