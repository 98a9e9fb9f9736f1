"""The agent's logs, which the conductor keeps after a failure."""

import base64
import os
from dataclasses import replace
from pathlib import Path

import pytest

from drivers.core.steps import Done, Flow
from tests.unit.drivers.machines import target, with_option

ARCHIVE = b"a gzipped tar"
LOGS = {"system_logs": base64.b64encode(ARCHIVE).decode()}


@pytest.fixture
def agent(agent):
    agent.answers["log.collect_system_logs"] = LOGS
    return agent


def machine(tmp_path, agent=None, **settings):
    return target(
        interfaces={"deploy": "direct"},
        options=with_option("agent", deploy_logs_local_path=str(tmp_path / "logs"), **settings),
        provision_state="clean wait",
        **({"agent": agent.seen()} if agent else {}),
    )


@pytest.fixture
def any_user_may_read():
    umask = os.umask(0)
    yield
    os.umask(umask)


@pytest.mark.usefixtures("any_user_may_read")
def test_logs_are_kept_in_a_private_file_of_the_node(agent, tmp_path):
    node = machine(tmp_path, agent)
    first_name, second_name = (node.driver.deploy.keep_logs(node).result["logs"] for _ in range(2))
    assert first_name != second_name
    path = Path(first_name)
    assert (ARCHIVE, 0o600) == (path.read_bytes(), path.stat().st_mode & 0o777)
    assert (tmp_path / "logs", 0o700) == (path.parent, path.parent.stat().st_mode & 0o777)
    assert path.name.startswith(f"{node.uuid}_n0_clean-wait_")
    assert path.name.endswith(".tar.gz")


def test_without_a_configured_path_logs_are_in_the_data_directory(agent, tmp_path):
    node = machine(tmp_path, agent)
    options = with_option("agent", deploy_logs_local_path="")
    node = replace(node, options={**options, "DEFAULT": {"data_dir": str(tmp_path)}})
    assert tmp_path / "agent_logs" == Path(node.driver.deploy.keep_logs(node).result["logs"]).parent


@pytest.mark.parametrize(
    ("answer", "refusal", "reason"),
    [
        ({}, None, "the agent returned none"),
        ({"system_logs": "*"}, None, "base64"),
        (LOGS, (409, "Agent is busy"), "busy"),
    ],
)
def test_a_failure_to_collect_logs_is_reported_and_fails_no_step(
    agent, tmp_path, answer, refusal, reason
):
    agent.answers["log.collect_system_logs"], agent.refusal = answer, refusal
    node = machine(tmp_path, agent)
    outcome = node.driver.deploy.keep_logs(node)
    assert isinstance(outcome, Done)
    assert reason in outcome.result["no_logs"]


def test_an_agent_without_a_heartbeat_is_not_asked(tmp_path):
    node = machine(tmp_path)
    assert {"no_logs": "no agent has sent a heartbeat"} == node.driver.deploy.keep_logs(node).result


def test_an_unwritable_directory_fails_no_step(agent, tmp_path):
    (tmp_path / "logs").write_text("a file")
    node = machine(tmp_path, agent)
    assert "logs" in node.driver.deploy.keep_logs(node).result["no_logs"]


@pytest.mark.parametrize(
    ("when", "after_failure", "at_the_end"),
    [("on_failure", True, False), ("always", True, True), ("never", False, False)],
)
def test_a_setting_decides_when_logs_are_kept(agent, tmp_path, when, after_failure, at_the_end):
    node = machine(tmp_path, agent, deploy_logs_collect=when)
    row = ("deploy", "keep_logs")
    for flow in (Flow.CLEAN, Flow.DEPLOY, Flow.SERVICE):
        assert after_failure == (row in node.driver.deploy.frame(node, flow).on_failure)
    node = replace(node, power_state="power on", driver_internal_info={"power": "power on"})
    node.driver.power.power_on(node)
    node.driver.deploy.tear_down_agent(node)
    assert at_the_end == ("log.collect_system_logs" in agent.names())
