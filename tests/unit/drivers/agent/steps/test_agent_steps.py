"""Commands to the agent: a step is sent once, polled, and judged by its result."""

from dataclasses import replace

import pytest

from drivers.agent import client, in_band, step_hooks
from drivers.core.errors import AgentBusy, LeaseLost, Refused, Unexpected, Unreachable
from drivers.core.steps import Done, Failed, Flow, Wait
from drivers.core.target import Agent
from tests.unit.drivers.machines import TOKEN

from .conftest import ERASE, again, clean


def test_a_step_is_sent_once_polled_and_returns_its_result(agent, node):
    waiting = clean(node)
    assert isinstance(waiting, Wait)
    still = clean(again(node, waiting))
    assert Wait(waiting.progress) == still
    agent.finish_step(result={"erased": 2})
    assert {"erased": 2} == clean(again(node, still)).result["result"]
    assert ["clean.execute_clean_step", "poll.get_hardware_info"] == agent.names()
    params = agent.received[0][1]
    assert {"manager": "1"} == params["clean_version"]
    assert 4 == params["node"]["driver_internal_info"]["disk_erasure_concurrency"]
    assert "52:54:00:00:00:01" == params["ports"][0]["address"]


def test_a_failed_step_fails_with_the_agents_words_and_without_secrets(agent, node):
    waiting = clean(node)
    agent.fail(f"GET http://images/x?sig=abc with {TOKEN} failed")
    failed = clean(again(node, waiting))
    assert (
        Failed(
            "deploy.erase_devices: GET http://images/x?****** with ****** failed",
            code="agent_failed",
        )
        == failed
    )


@pytest.mark.parametrize("status", ["CLEAN_VERSION_MISMATCH", "VERSION_MISMATCH"])
def test_a_version_mismatch_is_reported_as_such(agent, node, status):
    waiting = clean(node)
    agent.fail("no", status)
    assert "version_mismatch" == clean(again(node, waiting)).code


def test_after_a_crash_a_running_step_is_awaited_and_not_sent_again(agent, node):
    clean(node)
    waiting = clean(replace(node, resumed=True))
    assert "id-1" == waiting.progress["command"]
    agent.finish_step()
    for _ in range(2):  # the conductor dies before the outcome is recorded
        assert isinstance(clean(replace(node, resumed=True)), Done)
    assert ["clean.execute_clean_step"] == [name for name in agent.names() if "step" in name]


def test_after_a_crash_the_result_of_the_previous_step_is_not_used(agent, node):
    clean(node)
    agent.finish_step()
    clean(replace(node, step_id="row-2", resumed=True))
    assert ["clean.execute_clean_step"] * 2 == agent.names()


def test_a_command_to_a_busy_agent_is_retried(agent, node):
    agent.refusal = (409, "Agent is busy")
    waiting = clean(node)
    assert in_band.RETRY == waiting.poll_after
    assert waiting.reason.endswith("answered 409: Agent is busy")
    agent.refusal = None
    clean(again(node, waiting))
    assert ["clean.execute_clean_step"] == agent.names()


def test_a_command_whose_answer_was_lost_is_looked_up_before_it_is_sent_again(agent, node):
    silent_node = replace(node, agent=replace(node.agent, url="http://127.0.0.1:1"))
    lost = clean(silent_node)
    assert ({"sent": True}, in_band.RETRY) == (lost.progress, lost.poll_after)
    assert lost.reason.endswith("at http://127.0.0.1:1 did not answer (Connection refused)")
    waiting = clean(again(node, lost))
    assert ["clean.execute_clean_step"] == agent.names()
    assert "id-1" == waiting.progress["command"]


def test_a_step_lost_in_a_restart_is_sent_again_a_limited_number_of_times(agent, node):
    outcome = clean(node)
    for _ in range(in_band.RESTARTS):
        agent.restart()
        outcome = clean(again(node, outcome))
        assert isinstance(outcome, Wait)
    agent.restart()
    assert isinstance(clean(again(node, outcome)), Failed)


def test_no_command_is_sent_without_the_lease(agent, node):
    def lost():
        raise LeaseLost("another conductor has this node")

    with pytest.raises(LeaseLost):
        clean(replace(node, before_order=lost))
    assert [] == agent.received


@pytest.mark.parametrize("flow", [Flow.CLEAN, Flow.DEPLOY])
def test_a_step_that_requests_a_reboot_gets_one_and_the_agent_is_awaited(agent, node, flow):
    step = {**ERASE, "priority": 50, "reboot_requested": True}

    def run(node):
        return node.driver.deploy.execute_in_band(node, flow, step)

    node = replace(node, power_state="power on")
    waiting = run(node)
    agent.finish_step(flow, result="ok")
    rebooting = run(again(node, waiting))
    assert 0 == rebooting.poll_after
    off_node = again(node, rebooting)
    off = run(off_node)
    # the row loses the agent's data before the next agent can boot
    assert (0, None) == (off.poll_after, off_node.reports["agent"])
    booting = run(again(node, off, agent=Agent()))
    assert 0 == booting.poll_after
    assert Wait(booting.progress) == run(again(node, booting, agent=Agent()))
    agent.restart()
    agent.answers[f"{flow}.get_{flow}_steps"] = {
        f"{flow}_steps": {"manager": [step]},
        "hardware_manager_version": {"manager": "1"},
    }
    assert "ok" == run(again(node, booting)).result["result"]


def test_a_hook_runs_after_steps_of_its_flow_only(node, monkeypatch):
    monkeypatch.setattr(step_hooks, "_HOOKS", {})
    step_hooks.post_service_step_hook("deploy", "measure")(
        lambda target, result: target.report(health=result)
    )
    step_hooks.run_hook(node, Flow.CLEAN, "deploy", "measure", "not called")
    assert "health" not in node.reports
    step_hooks.run_hook(node, Flow.SERVICE, "deploy", "measure", "called")
    assert "called" == node.reports["health"]


def test_errors_of_the_client_do_not_contain_the_token(node):
    for url in ("http://127.0.0.1:1", "http://nowhere.invalid"):
        with pytest.raises(Unreachable) as raised:
            client.commands(replace(node, agent=replace(node.agent, url=url)))
        assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    ("refusal", "error"),
    [((401, "no"), Refused), ((409, "x"), AgentBusy), ((500, "x"), Unexpected)],
)
def test_refusals_become_errors(agent, node, refusal, error):
    agent.refusal = refusal
    with pytest.raises(error):
        client.run(node, "standby.sync", {}, wait=True)


def test_the_poller_notices_the_end_of_a_command():
    running, ended = {"command_status": "RUNNING"}, {"command_status": "FAILED"}
    assert not in_band.command_ended({"commands": [ended, running]})
    assert in_band.command_ended({"commands": [running, ended]})
    assert in_band.command_ended({"commands": []})
    with pytest.raises(Unexpected):
        in_band.command_ended({"faultstring": "no"})
