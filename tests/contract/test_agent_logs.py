"""Kept logs of agents: listed, downloaded from the conductor that keeps them, named in `/why`."""

from dataclasses import replace

import pytest

from app.agents import agent_logs
from app.db.clock import utcnow
from app.engine import rpc
from app.models import Node, Operation, OperationState, OperationStep, StepState
from drivers.agent import logs

from .conftest import fault
from .direct_calls import DirectCalls

OPERATION = "6f1a2f2e-0f4b-4a40-8b9d-0a7f5b0f2a01"
CONTENT = bytes(range(256)) * 2048  # two parts


@pytest.fixture
def folder(api, tmp_path):
    """The directory of logs of the conductor, which answers calls."""
    settings = api.runtime.settings
    agent = replace(settings.agent, deploy_logs_local_path=str(tmp_path / "logs"))
    api.runtime.settings = replace(settings, agent=agent)
    api.runtime.calls = DirectCalls(api.runtime)
    (tmp_path / "logs").mkdir()
    yield tmp_path / "logs"
    api.runtime.calls, api.runtime.settings = None, settings


def kept(api, node, name, conductor="rack-1", error=None):
    """Record that a failed operation of a node has kept a log, at a path of its conductor's host."""
    with api.runtime.transaction() as session:
        row = session.query(Node).filter_by(uuid=node["uuid"]).one()
        operation = Operation(
            uuid=OPERATION, node_id=row.id, kind="provide", state=OperationState.FAILED, cursor=0,
            fence=1, created_at=utcnow(), finished_at=utcnow(), error=error,
        )  # fmt: skip
        session.add(operation)
        session.flush()
        session.add(OperationStep(
            operation_id=operation.id, position=0, interface="deploy", name="keep_logs",
            source="driver", state=StepState.DONE, conductor=conductor, finished_at=utcnow(),
            result={"logs": f"/some/where/{name}"} if name else {"no_logs": "the agent returned none"},
        ))  # fmt: skip


@pytest.fixture
def node(api):
    return api.node(name="n1", provision_state="clean failed")


@pytest.fixture
def log(api, node, folder):
    """The name of a log that is kept."""
    name = f"{node['uuid']}_n1_clean-wait_2026.tar.gz"
    (folder / name).write_bytes(CONTENT)
    error = {"code": "agent_failed", "message": "it broke", "hint": "read the log"}
    kept(api, node, name, conductor=conductor_of(api), error=error)
    return name


def conductor_of(api):
    """The name of the one live conductor."""
    return api("GET", "/v1/conductors").json["conductors"][0]["hostname"]


def test_a_kept_log_is_listed_and_downloaded_in_parts(api, node, log):
    (listed,) = api("GET", "/v1/nodes/n1/agent-logs").json["agent-logs"]
    assert (log, OPERATION, "provide") == (listed["name"], listed["operation"], listed["kind"])
    assert len(CONTENT) > logs.PART
    answer = api("GET", listed["links"][0]["href"].removeprefix("http://localhost"))
    assert (200, CONTENT) == (answer.status_code, answer.data)
    assert "application/gzip" == answer.headers["Content-Type"]
    assert str(len(CONTENT)) == answer.headers["Content-Length"]
    assert f'attachment; filename="{log}"' == answer.headers["Content-Disposition"]


def test_why_names_the_log_of_the_failed_operation(api, node, log):
    explained = api("GET", "/v1/nodes/n1/why").json
    path = f"/v1/nodes/{node['uuid']}/agent-logs/{log}"
    assert path == explained["agent_log"]
    assert path in explained["summary"]
    assert 200 == api("GET", explained["agent_log"]).status_code


def test_a_node_without_a_log_has_none(api, node, folder):
    kept(api, node, None, error={"code": "agent_failed", "message": "it broke"})
    assert [] == api("GET", "/v1/nodes/n1/agent-logs").json["agent-logs"]
    assert api("GET", "/v1/nodes/n1/why").json["agent_log"] is None
    assert 404 == api("GET", "/v1/nodes/n2/agent-logs").status_code


@pytest.mark.parametrize(
    "name", ["other", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "..", "%00", "logs"]
)
def test_only_names_of_logs_of_the_node_are_accepted(api, node, log, name):
    assert api("GET", f"/v1/nodes/n1/agent-logs/{name}").status_code in (400, 404)


def test_another_node_does_not_give_the_log(api, node, log):
    api.node(name="n2")
    assert 404 == api("GET", f"/v1/nodes/n2/agent-logs/{log}").status_code


def test_a_log_that_was_removed_is_not_found_with_the_reason(api, node, log, folder):
    (folder / log).unlink()
    answer = api("GET", f"/v1/nodes/n1/agent-logs/{log}")
    assert 404 == answer.status_code
    assert "[agent]deploy_logs_max_size" in fault(answer)["faultstring"]


def test_a_log_of_a_dead_conductor_says_where_it_is(api, node, folder):
    name = f"{node['uuid']}_n1_clean-wait_2026.tar.gz"
    kept(api, node, name, conductor="far-away")
    answer = api("GET", f"/v1/nodes/n1/agent-logs/{name}")
    assert 503 == answer.status_code
    words = fault(answer)["faultstring"]
    assert "conductor far-away, which is not alive" in words
    assert "[agent]deploy_logs_local_path" in words


def test_a_call_at_a_conductor_is_answered_by_no_other(api, node, folder):
    """The owner of the node may be another one."""
    with pytest.raises(rpc.NoSuchConductor):
        rpc.call_at(api.runtime, "far-away", node["uuid"], "read_agent_log", name="x", offset=0)


@pytest.mark.parametrize(
    "name",
    [
        "../{}_x",
        "{}_x/../../secret",
        "/etc/passwd",
        "other_x",
        "{}_link",
        "{}_\0",
        "{}_" + "x" * 300,
    ],
)
def test_a_conductor_reads_nothing_but_files_of_the_node(api, node, folder, name):
    """A writer of Redis can call it."""
    (folder.parent / "secret").write_text("s")
    (folder / f"{node['uuid']}_link").symlink_to(folder.parent / "secret")
    with pytest.raises(logs.NotFound):
        logs.read(api.runtime.settings.options(), node["uuid"], name.format(node["uuid"]), 0)


def test_the_list_is_bounded(api, node, folder, monkeypatch):
    monkeypatch.setattr(agent_logs, "MOST", 0)
    kept(api, node, f"{node['uuid']}_x.tar.gz")
    assert [] == api("GET", "/v1/nodes/n1/agent-logs").json["agent-logs"]
