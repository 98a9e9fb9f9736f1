"""`ingot fleet`: rollouts against a real service."""

import sqlite3
import uuid
from collections import Counter

import pytest

from tests.e2e.command_line import on_terminal
from tests.support.fleet import Fleet, until

WAVES = ("--max-unavailable", "2", "--group-by", "extra.rack", "--max-groups", "1", "--canary", "1")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), conductors=1) as fleet:
        for number in range(5):
            extra = {"rack": f"r{number // 3}"}
            node = {"name": f"n{number}", "resource_class": "small", "extra": extra}
            fleet._create("nodes", {"driver": "fake-hardware", **node})
        fleet._create("nodes", {"driver": "fake-hardware", "name": "away"})
        with sqlite3.connect(fleet.data / "ingot.db") as database:  # as if its conductor had left
            database.execute("UPDATE nodes SET conductor_group = 'left' WHERE name = 'away'")
        yield fleet


def rollouts(fleet):
    return [rollout["uuid"] for rollout in fleet.get("rollouts")["rollouts"]]


def test_a_rollout_from_its_dry_run_to_its_end(ingot, fleet):
    target = ("fleet", "run", "manage", "--where", "resource_class=small", *WAVES)
    assert [
        "5 nodes in 3 waves, 0 excluded; pauses at 1 failed node", "wave 1 (canary): 1 node: n0",
        "wave 2: 2 nodes: n1, n2", "wave 3: 2 nodes: n3, n4",
    ] == ingot(*target, "--dry-run").lines  # fmt: skip
    plan = ingot(*target, "--dry-run", "-o", "json").read()
    assert (5, 3) == (plan["included"], plan["waves"])
    refused = ingot(*target, status=2)
    assert "needs --yes where there is no terminal" in refused.errors[-1]
    assert 1 == on_terminal(fleet.url, *target, answer="n\n").status
    assert [] == rollouts(fleet)

    name = str(uuid.uuid4())
    answer = ingot(*target, "--yes", "--uuid", name)
    assert f"{name}: Wave 1 of 3 (canary) waits for 1 of 1 node: 1 not started." in answer.lines
    assert "already exists" in ingot(*target, "--yes", "--uuid", name, status=1).errors[-1]
    until(lambda: fleet.get(f"rollouts/{name}")["state"] == "completed", "the end")
    assert "completed: 5 of 5 nodes succeeded." == ingot("fleet", "show", name).lines[0]
    nodes = ingot("fleet", "nodes", name, "-o", "json").read()
    assert ["n0", "n1", "n2", "n3", "n4"] == [node["node_name"] for node in nodes]
    assert ["n3", "n4"] == ingot(
        "fleet", "nodes", name, "--wave", "3", "-f", "value", "-c", "node_name"
    ).lines  # fmt: skip
    assert name in " ".join(ingot("fleet", "list", "--state", "completed").lines)
    assert {"manageable": 5, "enroll": 1} == Counter(fleet.states().values())


def test_a_rollout_is_paused_resumed_and_aborted(ingot, fleet):
    away = ("--where", "conductor_group=left")
    name = ingot("fleet", "run", "power on", *away, "--yes", "-o", "json").read()["uuid"]
    unfinished = ingot("fleet", "watch", name, "--timeout", "0.5", status=3)
    assert f"ingot: {name} is not over yet; it goes on" == unfinished.errors[-1]
    assert f"{name}: paused: by an operator." in ingot("fleet", "pause", name).lines[0]
    assert f"{name} is paused" in ingot("fleet", "watch", name, status=3).errors[-1]
    assert 'pause needs state "running"' in ingot("fleet", "pause", name, status=1).errors[-1]
    assert f"{name}: Wave 1 of 1 waits for 1 of 1 node" in ingot("fleet", "resume", name).lines[0]
    waits = "1 without a live conductor"
    until(lambda: waits in fleet.get(f"rollouts/{name}")["summary"], "the refusal")
    assert 'is in state "running": abort it' in ingot("fleet", "delete", name, status=1).errors[-1]
    assert f"{name}: aborting:" in ingot("fleet", "abort", name).lines[0]
    until(lambda: fleet.get(f"rollouts/{name}")["state"] == "aborted", "the end")
    aborted = ingot("fleet", "watch", name, status=1)
    assert f"ingot: {name} is aborted; 0 of its nodes have failed" == aborted.errors[-1]
    assert [f"{name}: deleted"] == ingot("fleet", "delete", name).lines
    assert name not in rollouts(fleet)


def test_a_rollout_is_followed_wave_by_wave(ingot, fleet):
    words = ("power on", "--where", "resource_class=small", "--max-unavailable", "3", "--yes")
    lines = ingot("fleet", "run", *words, "--wait").lines
    assert "0 of 5 done. Wave 1 of 2 waits for 3 of 3 nodes" in lines[0]
    assert "3 of 5 done. Wave 2 of 2 waits for 2 of 2 nodes" in lines[1]
    assert "completed: 5 of 5 nodes succeeded." in lines[2]
    rollout = ingot("fleet", "run", *words, "--wait", "60", "-o", "json").read()
    assert ("completed", 5) == (rollout["state"], rollout["succeeded"])


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ("run", "manage"),
            2,
            "choose nodes by --where EXPRESSION or --nodes FILE, or all by --all",
        ),
        (("run", "manage", "--all", "--where", "driver=x"), 2, "one of them"),
        (("run", "manage", "--where", "driver<3", "--dry-run"), 2, "Character 7"),
        (("run", "abort", "--all", "--dry-run"), 1, "'abort' is not one of"),
        (("run", "manage", "--all", "--dry-run", "--canary", "-1"), 1, "canary"),
        (("run", "manage", "--where", "colour=red", "--dry-run"), 2, "colour"),
        (("show", "n1"), 2, "'n1' is not the UUID of a rollout"),
        (("pause", str(uuid.uuid4())), 1, "could not be found"),
    ],
)
def test_wrong_commands_have_clear_messages(ingot, words, status, message):
    assert message in ingot("fleet", *words, status=status).errors[-1]
