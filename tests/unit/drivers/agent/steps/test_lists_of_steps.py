"""Lists of steps of agents, and errors of its client."""

from dataclasses import replace

import pytest

from drivers.agent import in_band
from drivers.core.errors import Unexpected
from drivers.core.steps import Done, Flow, Wait
from drivers.core.target import Agent
from tests.unit.drivers.machines import with_option

from .conftest import ERASE


def test_the_agents_steps_are_collected_after_its_first_heartbeat(agent, node):
    deploy = node.driver.deploy
    assert Wait() == deploy.await_clean_agent(replace(node, agent=Agent()))
    agent.answers["clean.get_clean_steps"] = {
        "clean_steps": {"manager": [ERASE]},
        "hardware_manager_version": {"manager": "2"},
    }
    assert Done() == deploy.await_clean_agent(node)
    assert {"clean": [ERASE]} == node.reports["agent_steps"]
    assert {"manager": "2"} == node.reports["hardware_manager_version"]


def test_priorities_of_the_agents_steps_follow_the_settings(node):
    raid = {"interface": "raid", "step": "create_configuration", "priority": 0}
    node = replace(
        node,
        agent=replace(node.agent, steps={"clean": [ERASE, raid]}),
        options=with_option("deploy", erase_devices_priority=0),
    )
    (step,) = node.driver.deploy.in_band_steps(node, Flow.CLEAN)
    assert ("deploy", "erase_devices") == step.key
    assert {Flow.CLEAN: 0} == step.priorities
    assert step.in_band


@pytest.mark.parametrize("priority", [40, 100, "50"])
def test_an_agents_deploy_step_outside_its_range_is_refused(agent, node, priority):
    step = {"interface": "deploy", "step": "paint", "priority": priority}
    agent.answers["deploy.get_deploy_steps"] = {
        "deploy_steps": {"manager": [step]},
        "hardware_manager_version": {},
    }
    with pytest.raises(Unexpected, match="paint"):
        in_band.collect(node, Flow.DEPLOY)


@pytest.mark.parametrize("listed", [None, 7, True, "paint", {"interface": "deploy"}])
def test_an_agents_steps_that_are_no_list_are_refused(agent, node, listed):
    agent.answers["deploy.get_deploy_steps"] = {
        "deploy_steps": {"manager": listed},
        "hardware_manager_version": {},
    }
    with pytest.raises(Unexpected, match="did not list the deploy steps of each hardware manager"):
        in_band.collect(node, Flow.DEPLOY)


def test_an_agent_without_the_deploy_extension_has_no_deploy_steps(agent, node):
    agent.refusal = (404, "Extension with id deploy not found")
    assert Done({"lacks": "deploy"}) == in_band.collect(node, Flow.DEPLOY)
    assert {"deploy": []} == node.reports["agent_steps"]
    assert {} == node.reports["hardware_manager_version"]


def test_an_agents_deploy_step_of_a_negative_priority_runs_on_request_only(agent, node):
    step = {"interface": "deploy", "step": "paint", "priority": -1}
    agent.answers["deploy.get_deploy_steps"] = {
        "deploy_steps": {"manager": [step]},
        "hardware_manager_version": {},
    }
    assert Done() == in_band.collect(node, Flow.DEPLOY)
