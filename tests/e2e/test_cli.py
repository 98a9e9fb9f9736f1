"""The operator's commands against a real service: as processes, and in this process over HTTP."""

import json
import os
import pty
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.fleet import Fleet, until
from workers import cli

INGOT = Path(sys.executable).parent / "ingot"
RESET = {"interface": "bios", "step": "factory_reset"}
CACHE = {"interface": "bios", "step": "cache_bios_settings"}
HOLD = {"step": "hold"}
#: Longer than a poll interval, so that it is seen under way.
LONG = {"interface": "power", "step": "wait", "args": {"seconds": 2}}
MISSING = "Node missing could not be found."


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    with Fleet(folder, conductors=1, restart=True, INGOT_FAKE_BIOS_DELAY="0.5") as fleet:
        yield fleet


@pytest.fixture(scope="module")
def ingot(fleet):
    """Run a command in this process, and check its exit status; return its result."""
    environ = {"INGOT_URL": fleet.url, "OS_ENDPOINT": "", "OS_TOKEN": ""}

    def run(*words, status=0, stdin=None):
        result = CliRunner().invoke(cli.app, words, env=environ, input=stdin)
        assert status == result.exit_code, result.output
        return result

    return run


@pytest.fixture
def process(fleet):
    """Start a command as a process; its output comes through pipes."""
    started = []

    def start(*words, **streams):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        environ = {**os.environ, "INGOT_URL": fleet.url, "TERM": "xterm"}
        started.append(subprocess.Popen([INGOT, *words], env=environ, text=True, **pipes))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture
def node(ingot):
    """Name of a manageable node."""
    name = f"n-{uuid.uuid4().hex[:8]}"
    ingot("node", "create", "--driver", "fake-hardware", "--name", name)
    ingot("node", "provision-state", name, "manage", "--wait", "60")
    return name


def read(ingot, *words):
    return json.loads(ingot(*words, "-o", "json").stdout)


def labels(text):
    """Steps in the progress output, in order."""
    return [line.split()[1] for line in text.splitlines() if " done in " in line]


def test_a_node_goes_through_its_life_by_processes(process, ingot, fleet):
    def run(*words):
        out, err = process("node", *words).communicate(timeout=60)
        return out, err

    out, _ = run(
        "create", "--driver", "fake-hardware", "--name", "life", "-o", "value", "-c", "uuid"
    )
    assert fleet.get("nodes/life")["uuid"] == out.strip()
    assert ("life: manageable, power off\n", ["power.read"]) == (
        (answer := run("provision-state", "life", "manage", "--wait"))[0],
        labels(answer[1]),
    )
    ingot("node", "provision-state", "life", "provide", "--wait", "60")
    ingot("node", "set", "life", "--instance-info", "image_source=file:///image")
    out, _ = run(
        "provision-state", "life", "active", "--config-drive", '{"meta_data": {}}', "--wait"
    )
    assert "life: active, power off\n" == out
    ingot("node", "provision-state", "life", "undeploy", "--wait", "60")
    assert "available" == fleet.get("nodes/life")["provision_state"]


def test_waiting_reports_each_step_as_it_ends(process, fleet, node, tmp_path):
    steps = tmp_path / "steps.json"
    steps.write_text(json.dumps([CACHE, RESET, LONG]))
    cleaning = process("node", "provision-state", node, "clean", "--clean-steps", steps, "--wait")
    first_line = cleaning.stderr.readline()
    assert fleet.operations(node)[0]["state"] in ("running", "waiting")
    # `communicate` would miss text that came with the first line
    later_lines = cleaning.stderr.read()
    assert f"{node}: manageable, power off\n" == cleaning.stdout.read()
    assert 0 == cleaning.wait(60)
    step_labels = [
        f"{step['interface']}.{step['step']}" for step in fleet.operations(node)[0]["steps"]
    ]
    assert step_labels == labels(first_line + later_lines)
    assert {"bios.cache_bios_settings", "bios.factory_reset", "power.wait"} <= set(step_labels)


def test_on_a_terminal_the_step_under_way_is_shown(process, node):
    master, slave = pty.openpty()
    steps = json.dumps([LONG])
    words = ("node", "provision-state", node, "clean", "--clean-steps", steps, "--wait", "60")
    cleaning = process(*words, stderr=slave)
    os.close(slave)
    output = b""
    with open(master, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(4096):
                output += piece
        except OSError:  # on Linux: the other end is closed
            pass
    assert 0 == cleaning.wait(60)
    assert b"power.wait: waiting" in output
    assert b"power.wait done in" in output


def test_clean_steps_are_required_with_clean_and_refused_with_other_verbs(ingot, fleet, node):
    words = ("node", "provision-state", node)
    assert '"clean_steps" is required' in ingot(*words, "clean", status=2).stderr
    refused = ingot(*words, "provide", "--clean-steps", json.dumps([RESET]), status=1).stderr
    assert '"clean_steps" is only valid when setting' in refused
    assert "manageable" == fleet.get(f"nodes/{node}")["provision_state"]


def test_a_wait_that_times_out_reports_it_and_the_operation_continues(ingot, fleet, node):
    steps = json.dumps([RESET, RESET, RESET])
    words = ("node", "provision-state", node, "clean", "--clean-steps", "-")
    result = ingot(*words, "--wait", "0.2", status=3, stdin=steps)
    assert "clean of " in result.stderr
    assert "is not over yet; it goes on" in result.stderr
    fleet.await_state([fleet.get(f"nodes/{node}")["uuid"]], "manageable")


def test_a_hold_ends_the_wait_with_a_hint_and_unhold_continues(ingot, node):
    steps = json.dumps([HOLD, CACHE])
    words = ("node", "provision-state", node, "clean", "--clean-steps", steps, "--wait", "60")
    assert "unhold" in ingot(*words, status=3).stderr
    assert "Next: step bios.cache_bios_settings" in ingot("node", "why", node).stdout
    result = ingot("node", "provision-state", node, "unhold", "--wait", "60")
    assert f"{node}: manageable, power off\n" == result.stdout


def test_an_abort_is_waited_for(ingot, node):
    steps = json.dumps([HOLD])
    ingot(
        "node", "provision-state", node, "clean", "--clean-steps", steps, "--wait", "60", status=3
    )
    assert f"{node}: clean failed" in ingot("node", "abort", node, "--wait", "60").stdout
    assert "aborted" == read(ingot, "node", "operations", node)[0]["state"]


def test_a_failure_is_reported_in_one_line(ingot, node):
    wrong = json.dumps([{"interface": "bios", "step": "apply_configuration", "args": {}}])
    words = ("node", "provision-state", node, "clean", "--clean-steps", wrong, "--wait", "60")
    result = ingot(*words, status=1)
    error = result.stderr.splitlines()[-1]
    assert error.startswith("ingot: ")
    assert "settings" in error


def test_a_dry_run_changes_nothing(ingot, fleet, node):
    plan = read(ingot, "node", "provision-state", node, "provide", "--dry-run")
    assert (True, "cleaning") == (plan["accepted"], plan["to"])
    people = ingot("node", "provision-state", node, "provide", "--dry-run").stdout
    assert all(step["step"] in people for step in plan["steps"])
    refused = ingot("node", "provision-state", node, "unrescue", "--dry-run", status=1)
    assert 'The requested action "unrescue" can not be performed' in refused.stderr
    assert ["manage"] == [operation["kind"] for operation in fleet.operations(node)]


def test_a_node_is_retired(ingot, node):
    ingot("node", "set", node, "--retired", "--retired-reason", "end of warranty")
    retired = ingot("node", "list", "--retired", "-o", "value", "--fields", "name,retired_reason")
    assert f"{node}\tend of warranty" in retired.stdout.splitlines()
    assert node not in ingot("node", "list", "--no-retired").stdout
    refused = ingot("node", "provision-state", node, "provide", status=1)
    assert "is retired and cannot become available" in refused.stderr
    ingot("node", "unset", node, "--retired", "--retired-reason")
    fields = read(ingot, "node", "show", node, "-c", "retired,retired_reason")
    assert {"retired": False, "retired_reason": None} == fields


def test_steps_are_listed_once_they_are_known(ingot, node):
    steps = read(ingot, "node", "clean-steps", node)
    priorities = [step["priority"] for step in steps]
    assert sorted(priorities, reverse=True) == priorities
    automatic_steps = read(ingot, "node", "clean-steps", node, "--min-priority", "1")
    assert [step for step in steps if step["priority"] >= 1] == automatic_steps
    assert automatic_steps == read(ingot, "node", "clean-steps", node, "--min_priority", "1")
    assert 0 < len(automatic_steps) < len(steps)
    assert "settings (required)" in ingot("node", "clean-steps", node).stdout
    assert "deploy" in [step["step"] for step in read(ingot, "node", "deploy-steps", node)]
    ingot("node", "set", node, "--deploy-interface", "direct")
    unknown = ingot("node", "clean-steps", node, status=3)
    assert "has not listed its steps yet" in unknown.stderr
    assert "Retry once it has run." in unknown.stderr


def test_fields_are_set_and_unset(ingot, node):
    ingot(
        "node", "set", node, "--property", "cpus=4", "--property", "note=a b", "--driver-info",
        "a/b=1", "--description", "the third", "--no-automated-clean",
    )  # fmt: skip
    columns = ("-c", "properties,driver_info,description,automated_clean")
    fields = read(ingot, "node", "show", node, *columns)
    assert {
        "properties": {"cpus": 4, "note": "a b"},
        "driver_info": {"a/b": 1},
        "description": "the third",
        "automated_clean": False,
    } == fields
    ingot("node", "unset", node, "--property", "cpus", "--driver-info", "a/b", "--description")
    fields = read(ingot, "node", "show", node, *columns)
    assert ({"note": "a b"}, {}, None) == tuple(fields.values())[:3]


def test_power_and_maintenance(ingot, fleet, node):
    assert (
        f"{node}: manageable, power on\n"
        == ingot("node", "power", node, "on", "--wait", "60").stdout
    )
    ingot("node", "power", node, "off", "--soft", "--timeout", "10", "--wait", "60")
    ingot("node", "maintenance", node, "on", "--reason", "a fan")
    document = fleet.get(f"nodes/{node}")
    assert ("power off", True, "a fan") == (
        document["power_state"],
        document["maintenance"],
        document["maintenance_reason"],
    )
    ingot("node", "maintenance", node, "off")
    assert not fleet.get(f"nodes/{node}")["maintenance"]


def test_the_history_of_a_node_is_shown(ingot, node):
    (manage,) = read(ingot, "node", "operations", node)
    operation = read(ingot, "node", "operation", manage["uuid"])
    assert ["power.read"] == [f"{step['interface']}.{step['step']}" for step in operation["steps"]]
    assert "read" in ingot("node", "operation", manage["uuid"]).stdout
    assert ["The node was verified."] == [
        entry["event"] for entry in read(ingot, "node", "history", node)
    ]
    (conductor,) = read(ingot, "conductor", "list")
    assert ("fleet-1", True) == (conductor["hostname"], conductor["alive"])


def is_served(fleet, node):
    try:
        return fleet.get(f"nodes/{node}")
    except (OSError, AssertionError):
        return None


def test_events_are_listed_and_followed(ingot, fleet, node, process):
    events = read(ingot, "events", "--node", node, "--limit", "100")
    assert ["node.created", "manageable"] == [events[0]["type"], events[-1]["after"]]
    assert events[-3:] == read(ingot, "events", "--node", node, "--limit", "3")
    position = events[-2]["sequence"]
    words = ("--follow", "--node", node, "--after", str(position), "-o", "json")
    following = process("events", *words)
    assert events[-1] == json.loads(following.stdout.readline()), "those that have occurred"
    for reason in ("a", "b"):
        ingot("node", "maintenance", node, "on", "--reason", reason)
        if reason == "a":
            first_event = json.loads(following.stdout.readline())
            for pid in (killed := set(fleet.pids()["api"])):
                os.kill(pid, signal.SIGKILL)
            until(lambda: killed.isdisjoint(fleet.pids()["api"]), "the end of the API")
            until(lambda: is_served(fleet, node), "an API")
        ingot("node", "maintenance", node, "off")
    new_events = [first_event, *(json.loads(following.stdout.readline()) for _ in range(3))]
    assert ["true", "false"] * 2 == [event["after"] for event in new_events]
    numbers = [event["sequence"] for event in new_events]
    assert sorted(numbers) == numbers
    assert "node.maintenance" in ingot("events", "--node", node).stdout
    ingot("events", "--type", "node", status=1)


def test_lists_are_read_page_by_page(ingot, fleet):
    names = [f"page-{number}" for number in range(3)]
    for name in names:
        fleet._create("nodes", {"name": name, "driver": "fake-hardware", "owner": "pages"})
    words = ("node", "list", "--owner", "pages", "-o", "value", "-c", "name")
    assert names == ingot(*words, "--sort", "name").stdout.split()
    assert names[:1:-1] == ingot(*words, "--sort", "name:desc", "--limit", "1").stdout.split()
    ingot("node", "delete", *names)
    assert "" == ingot(*words).stdout


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("show", "missing"), 1, MISSING),
        (("delete", "missing"), 1, MISSING),
        (("power", "missing", "on"), 1, MISSING),
        (("provision-state", "missing", "manage"), 1, MISSING),
        (("why", "missing"), 1, MISSING),
        (("show", ""), 2, "'' names nothing"),
        (("show", ".."), 2, "'..' names nothing"),
        (("list", "--state", "happy"), 1, "'happy' is not one of ['enroll', 'verifying',"),
        (("list", "-c", "uuid,colour"), 1, "Field(s) colour are not valid"),
        (("create", "--driver", "abacus"), 1, "abacus"),
        (("create",), 2, "--driver is needed: The hardware type"),
        (("set", "missing"), 2, "nothing to change was named"),
        (("set", "missing", "--property", "cpus"), 2, "--property: expected KEY=VALUE, not 'cpus'"),
        (
            ("provision-state", "missing", "clean", "--clean-steps", "/none"),
            2,
            "/none: No such file",
        ),
        (("provision-state", "missing", "clean", "--clean-steps", "[1,"), 2, "this is not JSON"),
        (("maintenance", "missing", "off", "--reason", "x"), 2, "--reason: only with on"),
        (("power", "missing", "on", "--soft"), 2, "--soft: only with off and reboot"),
        (("list", "--url", "ftp://here"), 2, "is no URL of a service"),
        (("list", "--url", "http://127.0.0.1:9"), 1, "no answer from http://127.0.0.1:9 (Conn"),
        (("provision-state", "missing", "fly"), 2, "fly"),
        (("power", "missing", "sideways"), 2, "sideways"),
        (("lost",), 2, "lost"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_error_is_reported_in_one_line(ingot, words, status, message):
    result = ingot("node", *words, status=status)
    assert message in result.stderr
    assert "" == result.stdout
    if "Usage" not in result.stderr:
        assert 1 == len(result.stderr.splitlines())


def test_names_of_nodes_are_completed(process, node):
    environ = {"COMP_WORDS": f"ingot node show {node[:4]}", "COMP_CWORD": "3"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environ, "_INGOT_COMPLETE": "complete_bash"}.items():
            patch.setenv(name, value)
        out, _ = process().communicate(timeout=30)
    assert node in out.split()


def test_a_wait_outlives_a_restart_of_the_api(process, fleet, node):
    steps = json.dumps([CACHE, LONG])
    words = ("node", "provision-state", node, "clean", "--clean-steps", steps, "--wait")
    cleaning = process(*words)
    cleaning.stderr.readline()  # it is under way
    killed = fleet.pids()["api"]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    out, err = cleaning.communicate(timeout=60)
    assert (0, f"{node}: manageable, power off\n") == (cleaning.returncode, out), err
    assert killed != fleet.pids()["api"]
