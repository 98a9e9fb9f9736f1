"""Commands for many nodes at once, and for other resources, against a real service."""

import json
import signal
import subprocess
import sys

import pytest

from tests.e2e.command_line import environment, on_terminal
from tests.support import programs
from tests.support.fleet import PATIENCE, Fleet, until

RESET = {"interface": "bios", "step": "factory_reset"}
MAC = "52:54:00:00:00:01"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    # a wait that a test interrupts does not end by itself, however busy the machine is
    longest = {"INGOT_CONDUCTOR_MAX_CONDUCTOR_WAIT_STEP_SECONDS": "1800"}
    with Fleet(tmp_path_factory.mktemp("commands"), conductors=1, **longest) as fleet:
        yield fleet


@pytest.fixture
def rack(fleet, request):
    """Names of twelve nodes, owned by the project of the test's name."""
    names = [f"{request.node.name[5:30].replace('_', '-')}-{number:02}" for number in range(12)]
    for name in names:
        fleet._create("nodes", {"name": name, "driver": "fake-hardware", "owner": owner(request)})
    yield names
    for name in names:
        fleet.http.put(f"{fleet.url}/v1/nodes/{name}/maintenance")
        fleet.http.delete(f"{fleet.url}/v1/nodes/{name}")


def owner(request):
    return f"of-{request.node.name}"


def test_a_verb_takes_many_nodes_and_waits_for_all(ingot, fleet, rack):
    answer = ingot("node", "provision-state", *rack, "manage", "--wait", "60")
    assert [f"{name}: manageable, power off" for name in rack] == sorted(answer.lines)
    assert ["manage"] == [operation["kind"] for operation in fleet.operations(rack[-1])]


def test_nodes_are_selected_by_their_fields(ingot, fleet, rack, request):
    where = ("--where", f"owner={owner(request)}", "--where", "maintenance=false")
    ingot("node", "maintenance", rack[0], "on")
    answer = ingot("node", "set", *where, "--description", "chosen")
    assert [f"{name}: changed description" for name in rack[1:]] == sorted(answer.lines)
    assert fleet.get(f"nodes/{rack[0]}")["description"] is None
    assert ["there is no such node"] == ingot(
        "node", "set", *where, "--where", "driver=ipmi", "--extra", "a=1"
    ).lines
    either = f"owner={owner(request)} and (name=*-03 or name in ({rack[4]}, nonesuch))"
    listed = ingot("node", "list", "--where", either, "-c", "name", "-o", "json").read()
    assert rack[3:5] == [node["name"] for node in listed]


def test_nodes_are_named_in_a_file(ingot, fleet, rack, tmp_path):
    names = tmp_path / "names"
    names.write_text(f"# the spreadsheet's\n{rack[1]}\n\n {rack[2]} \nmissing\n")
    answer = ingot("node", "set", "--nodes", str(names), "--description", "listed", status=1)
    assert [f"{name}: changed description" for name in rack[1:3]] == sorted(answer.lines)
    assert any(line.startswith("missing: ") for line in answer.errors)
    refused = ingot("node", "delete", "--nodes", str(names), status=2)
    assert "needs --yes" in refused.errors[-1]
    assert fleet.get(f"nodes/{rack[1]}")["description"] == "listed"


def test_failures_are_listed_last_with_their_reasons_and_other_nodes_are_changed(
    ingot, fleet, rack
):
    answer = ingot("node", "maintenance", "missing", *rack, "nothing", "on", status=1)
    assert len(rack) == len(answer.lines)
    assert [
        "missing: Node missing could not be found.",
        "nothing: Node nothing could not be found.",
        "ingot: 2 of 14 nodes failed, for the reasons above",
    ] == answer.errors
    assert all(fleet.get(f"nodes/{name}")["maintenance"] for name in rack)


def test_scripts_get_one_document_for_many_nodes(ingot, rack):
    entries = ingot("node", "maintenance", rack[0], "missing", "on", "-o", "json", status=1).read()
    assert [(rack[0], True), ("missing", False)] == [
        (entry["node"], entry["ok"]) for entry in entries
    ]
    assert entries[1]["error"].startswith("Node missing")
    assert entries[0]["result"]["maintenance"] is True


def test_the_exit_status_reports_a_wait_that_timed_out_for_some_of_many_nodes(ingot, fleet, rack):
    ingot("node", "provision-state", *rack[:2], "manage", "--wait", "60")
    hold = json.dumps([{"step": "hold"}])
    words = ("node", "provision-state", *rack[:2], "clean", "--clean-steps", hold)
    answer = ingot(*words, "--wait", "60", status=3)
    assert "is held" in answer.errors[0]
    ingot("node", "abort", *rack[:2], "--wait", "60")


def test_an_interrupt_ends_the_wait_for_many_nodes_at_once(ingot, fleet, rack):
    pair = rack[:2]

    def states():
        return {fleet.get(f"nodes/{node}/states")["provision_state"] for node in pair}

    ingot("node", "provision-state", *pair, "manage", "--wait", "60")
    steps = json.dumps([{"interface": "power", "step": "wait", "args": {"seconds": 1800}}])
    words = ("node", "provision-state", *pair, "clean", "--clean-steps", steps, "--wait")
    environ = environment(fleet.url)
    process = programs.start("workers.ingot:main", argv=words, environ=environ)
    try:
        # of both: they are requested in parallel, and an interrupt drops a request not yet sent
        until(lambda: {"clean wait"} == states(), "the waits")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) not in {0, None}
        assert {"clean wait"} == states(), "the wait went on"
    finally:
        process.kill()
        process.wait()
    ingot("node", "abort", *pair, "--wait", "60")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("abort",), "name nodes, or choose them"),
        (("abort", "n", "--where", "driver=ipmi"), "--nodes FILE: one of"),
        (("abort", "--where", " "), "chooses no nodes"),
        (("abort", "--nodes", "/none"), "--nodes: /none: No such file"),
        (("abort", "n", "--nodes", "-"), "--nodes FILE: one of"),
        (("abort", "--where", "owner="), "chooses no nodes"),
        (("abort", "--where", "project=a", "--where", "project=b"), "can be given once"),
        (("create",), "--driver is needed"),
        (("abort", "n", "--os-cacert", "/none"), "there is no file /none"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_line_has_its_own_exit_status(ingot, words, message):
    (error,) = ingot("node", *words, status=2).errors
    assert message in error


def test_an_unknown_filter_changes_no_node(ingot, rack, fleet):
    ingot("node", "maintenance", "--where", "colour=red", "on", status=2)
    ingot("node", "maintenance", "--where", "owner=null", "on")
    assert not any(fleet.get(f"nodes/{name}")["maintenance"] for name in rack)


def test_deletion_by_a_filter_needs_a_confirmation(fleet, ingot, rack, request):
    words = ("node", "delete", "--where", f"owner={owner(request)}")
    assert "--yes" in ingot(*words, status=2).errors[-1]
    answer = on_terminal(fleet.url, *words, answer="n\n")
    assert 1 == answer.status
    assert "delete: 12 nodes" in "".join(answer.lines)
    assert fleet.get(f"nodes/{rack[0]}")
    assert 0 == on_terminal(fleet.url, *words, answer="y\n").status
    assert ["there is no such node"] == ingot(*words, "--yes").lines


def test_a_machine_is_enrolled_with_its_port(ingot, fleet):
    ingot("node", "create", "--driver", "fake-hardware", "--name", "ported")
    port = ingot(
        "port", "create", "--node", "ported", "--address", MAC, "--name", "p1", "-o", "json"
    ).read()
    assert (fleet.get("nodes/ported")["uuid"], True) == (port["node_uuid"], port["pxe_enabled"])
    ingot("port", "set", MAC, "--no-pxe-enabled", "--extra", "a=1")
    assert [MAC] == ingot("port", "list", "--node", "ported", "-o", "value", "-c", "address").lines
    changed_port = ingot("port", "show", "p1", "-o", "json").read()
    assert (False, {"a": 1}) == (changed_port["pxe_enabled"], changed_port["extra"])
    ingot("port", "unset", "p1", "--name", "--extra", "a")
    assert {"name": None, "extra": {}} == ingot(
        "port", "show", MAC, "-c", "name,extra", "-o", "json"
    ).read()
    ingot("port", "delete", MAC)
    assert f"address is {MAC}" in ingot("port", "delete", MAC, status=1).errors[0]
    assert "--node is needed" in ingot("port", "create", "--address", MAC, status=2).errors[0]
    assert "nothing to change" in ingot("port", "set", MAC, status=2).errors[0]


@pytest.mark.parametrize(
    ("kind", "fields"), [("runbook", {"order": 1}), ("template", {"args": {}, "priority": 10})]
)
def test_steps_are_kept_under_a_name(ingot, kind, fields):
    ingot(kind, "create", "--name", "CUSTOM_KEPT", "--steps", json.dumps([RESET | fields]))
    ingot(kind, "set", "CUSTOM_KEPT", "--description", "a few")
    assert ["CUSTOM_KEPT\ta few"] == ingot(
        kind, "list", "-o", "value", "-c", "name,description"
    ).lines
    assert (
        "factory_reset"
        == ingot(kind, "show", "CUSTOM_KEPT", "-o", "json").read()["steps"][0]["step"]
    )
    ingot(kind, "unset", "CUSTOM_KEPT", "--description")
    ingot(kind, "delete", "CUSTOM_KEPT")
    assert [] == ingot(kind, "list", "-o", "json").read()
    assert "--steps is needed" in ingot(kind, "create", "--name", "x", status=2).errors[0]


def test_a_webhook_is_kept_and_replayed(ingot, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret of sixteen characters\n")
    url = "https://receiver.invalid/events"
    create = ("webhook", "create", "--name", "cmdb", "--receiver", url)
    ingot(*create, "--secret-file", secret, "--type", "node.created", "--type", "node.deleted")
    webhook = ingot("webhook", "show", "cmdb", "-o", "json").read()
    assert (["node.created", "node.deleted"], url) == (webhook["types"], webhook["url"])
    ingot("webhook", "set", "cmdb", "--no-enabled", "--secret-file", secret)
    assert ["cmdb\tfalse"] == ingot("webhook", "list", "-o", "value", "-c", "name,enabled").lines
    ingot("webhook", "unset", "cmdb", "--type")
    assert [] == ingot("webhook", "failures", "cmdb", "-o", "json").read()
    assert "after: required" in ingot("webhook", "replay", "cmdb", status=1).errors[0]
    assert (
        "cmdb: the events after 0 are posted again"
        in ingot("webhook", "replay", "cmdb", "--after", "0").lines[0]
    )
    ingot("webhook", "delete", "cmdb")
    assert "--secret-file is needed" in ingot(*create, status=2).errors[0]
    missing = ingot(*create, "--secret-file", tmp_path / "none", status=2)
    assert "No such file" in missing.errors[0]


def test_a_node_is_allocated(ingot, fleet):
    ingot(
        "allocation",
        "create",
        "--name",
        "a1",
        "--resource-class",
        "none",
        "--trait",
        "CUSTOM_A",
        "--trait",
        "CUSTOM_B",
    )
    allocation = ingot("allocation", "show", "a1", "-o", "json").read()
    assert (["CUSTOM_A", "CUSTOM_B"], "none") == (
        allocation["traits"],
        allocation["resource_class"],
    )
    ingot("allocation", "set", "a1", "--extra", "b=2")
    assert ["a1"] == ingot(
        "allocation", "list", "--resource-class", "none", "-o", "value", "-c", "name"
    ).lines
    ingot("allocation", "delete", "a1")
    assert [] == ingot("allocation", "list", "-o", "json").read()


def test_parts_of_a_node_are_shown_and_set(ingot, fleet):
    ingot("node", "create", "--driver", "fake-hardware", "--name", "parts")
    ingot("node", "provision-state", "parts", "manage", "--wait", "60")
    ingot("node", "trait", "add", "parts", "CUSTOM_A", "CUSTOM_B")
    ingot("node", "trait", "remove", "parts", "CUSTOM_A")
    assert ["CUSTOM_B"] == ingot("node", "trait", "list", "parts", "-o", "value").lines
    ingot("node", "trait", "set", "parts")
    assert [] == ingot("node", "trait", "list", "parts", "-o", "value").lines
    ingot("node", "boot-device", "set", "parts", "pxe", "--persistent")
    device = ingot("node", "boot-device", "show", "parts", "-o", "json").read()
    assert "pxe" == device["boot_device"]
    assert "pxe" in ingot("node", "boot-device", "show", "parts", "--supported").lines[0]
    ingot("node", "console", "enable", "parts")
    assert "console_enabled" in ingot("node", "console", "show", "parts", "-o", "json").read()
    ingot("node", "console", "disable", "parts")
    ingot("node", "vif", "attach", "parts", "net1", "--info", "a=1")
    ingot("node", "vif", "detach", "parts", "net1")
    assert [] == ingot("node", "vif", "list", "parts", "-o", "json").read()
    interfaces = ingot("node", "validate", "parts", "-o", "json").read()
    assert {"power", "deploy"} <= {interface["interface"] for interface in interfaces}


def test_drivers_and_their_properties_are_shown(ingot):
    assert {"fake-hardware", "redfish"} <= set(
        ingot("driver", "list", "-o", "value", "-c", "name").lines
    )
    assert (
        "redfish"
        == ingot("driver", "show", "redfish", "-o", "json").read()["default_power_interface"]
    )
    names = ingot("driver", "properties", "redfish", "-o", "value", "-c", "name").lines
    assert "redfish_address" in names


def test_the_releases_of_client_and_service_are_shown(ingot):
    (line,) = ingot("--version").lines
    releases = ingot("version", "-o", "json").read()
    assert f"ingot {releases['client']}" == line
    assert releases["client"] == releases["service"]


def test_a_command_starts_without_modules_that_only_the_service_needs(fleet):
    """Check imports, not time, which depends on the load of the machine."""
    program = (
        "import sys\nsys.argv = ['ingot', *sys.argv[1:]]\nfrom workers import ingot\n"
        "try:\n    ingot.main()\nfinally:\n    sys.stderr.write(' '.join(sys.modules))"
    )
    words = ("node", "list", "--url", fleet.url)
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in ended.stderr.split()}
    assert loaded.isdisjoint({"redis", "sqlalchemy", "celery", "flask", "structlog"})
    assert loaded >= {"typer", "requests"}
