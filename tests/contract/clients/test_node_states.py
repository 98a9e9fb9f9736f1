"""Verbs and power through `baremetal node`, also with `--wait`."""

import io
import json

import pytest

from tests.contract.clients.cli import COMMANDS
from tests.support.fleet import until

CLEAN = [{"interface": "bios", "step": "factory_reset"}]
SERVICE = [{"interface": "vendor", "step": "log_passthrough"}]
DEPLOY = [{"interface": "deploy", "step": "hold", "args": {}, "priority": 50}]
RUNBOOK = [{"interface": "vendor", "step": "log_passthrough", "args": {}, "order": 1}]
HOLD = json.dumps([*CLEAN, {"step": "hold"}])
#: state -> arguments of the verb that leads to it from the previous state
LIVES = {
    "a life": [
        ("manageable", "manage"),
        ("manageable", "inspect"),
        ("manageable", "clean", "--clean-steps", json.dumps(CLEAN)),
        ("clean hold", "clean", "--clean-steps", '[{"step": "hold"}]', "--disable-ramdisk"),
        ("manageable", "unhold"),
        ("clean hold", "clean", "--clean-steps", HOLD),
        ("clean failed", "abort"),
        ("manageable", "manage"),
        ("available", "provide"),
        ("manageable", "manage"),
        ("active", "adopt"),
        ("available", "undeploy"),
    ],
    "an instance": [
        ("manageable", "manage"),
        ("available", "provide"),
        ("active", "deploy", "--config-drive", '{"meta_data": {"a": 1}}'),
        ("active", "rebuild"),
        ("deploy hold", "rebuild", "--deploy-steps", json.dumps(DEPLOY), "--config-drive", "{}"),
        ("active", "unhold"),
        ("rescue", "rescue", "--rescue-password", "let me in"),
        ("active", "unrescue"),
        ("active", "service", "--service-steps", json.dumps(SERVICE)),
        ("active", "service", "--service-steps", json.dumps(SERVICE), "--disable-ramdisk"),
        ("service hold", "service", "--service-steps", json.dumps([{"step": "hold"}])),
        ("active", "unhold"),
        ("service hold", "service", "--service-steps", '[{"step": "hold"}]'),
        ("active", "abort"),
        ("available", "undeploy"),
        ("deploy hold", "deploy", "--deploy-steps", json.dumps(DEPLOY)),
        ("active", "unhold"),
        ("available", "undeploy"),
    ],
}


@pytest.fixture
def settled(fleet):
    def settle(node, state):
        """Wait until a node is in a stable state, without a following transition."""

        def reached():
            answer = fleet.get(f"nodes/{node}")
            now = answer["provision_state"], answer["reservation"]
            ended = now == (state, None) and answer["target_power_state"] is None
            assert ended or "failed" not in now[0] or "failed" in state, answer["last_error"]
            return ended

        until(reached, f"{node} in {state!r}")

    return settle


@pytest.mark.parametrize("life", LIVES)
def test_a_node_goes_through_its_life_cycle(baremetal, node, settled, life):
    for state, verb, *options in LIVES[life]:
        baremetal("node", verb, node, *options)
        settled(node, state)
    baremetal("node", "maintenance", "unset", node)


def test_every_verb_of_the_client_is_tested():
    verbs = {
        command.split()[1]
        for command, entry in COMMANDS.items()
        if hasattr(entry.load(), "PROVISION_STATE")
    }
    assert verbs == {verb for life in LIVES.values() for _, verb, *_ in life}


def test_the_client_waits_for_the_end_of_a_verb(baremetal, node):
    for verb, state in (("manage", "manageable"), ("adopt", "active")):
        baremetal("node", verb, node, "--wait", 60)
        assert state == baremetal("node", "show", node)["provision_state"]


def test_steps_are_read_from_a_runbook_a_file_and_an_argument(
    baremetal, node, settled, monkeypatch, tmp_path
):
    baremetal("node", "manage", node)
    settled(node, "manageable")
    baremetal("runbook", "create", "--name", "CUSTOM_BOOK", "--steps", json.dumps(RUNBOOK))
    baremetal("node", "add", "trait", node, "CUSTOM_BOOK")
    baremetal("node", "clean", node, "--runbook", "CUSTOM_BOOK")
    settled(node, "manageable")
    file = tmp_path / "steps.yaml"
    file.write_text("- {interface: bios, step: factory_reset}\n")
    baremetal("node", "clean", node, "--clean-steps", file)
    settled(node, "manageable")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(CLEAN)))
    baremetal("node", "clean", node, "--clean-steps", "-")
    settled(node, "manageable")

    baremetal("node", "adopt", node)
    settled(node, "active")
    baremetal("node", "service", node, "--runbook", "CUSTOM_BOOK")
    settled(node, "active")

    events = [entry["event"] for entry in baremetal("node", "history", "list", node)]
    assert 3 == events.count("The node was cleaned.")
    baremetal("runbook", "delete", "CUSTOM_BOOK")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("deploy",), 400),
        (("unhold",), 400),
        (("abort",), 400),
        (("clean", "--clean-steps", "[{}]"), 400),
        (("clean", "--runbook", "no-such"), 404),
        (("rescue", "--rescue-password", "let me in"), 400),
    ],
)
def test_a_verb_that_the_state_does_not_accept_is_refused(baremetal, node, settled, words, status):
    baremetal("node", "manage", node)
    settled(node, "manageable")
    verb, *options = words
    assert f"(HTTP {status})" in baremetal.refused("node", verb, node, *options)
    assert "manageable" == baremetal("node", "show", node)["provision_state"]


def test_power_is_changed(baremetal, node, settled):
    baremetal("node", "manage", node)
    settled(node, "manageable")
    for words, state in (
        (("power", "on"), "power on"),
        (("reboot",), "power on"),
        (("reboot", "--soft", "--power-timeout", 20), "power on"),
        (("power", "off", "--soft", "--power-timeout", 20), "power off"),
        (("power", "on", "--power-timeout", 20), "power on"),
        (("power", "off"), "power off"),
    ):
        baremetal("node", *words, node)
        settled(node, "manageable")
        assert state == baremetal("node", "show", node)["power_state"], words
    baremetal("node", "set", node, "--disable-power-off")
    assert "409" in baremetal.refused("node", "power", "off", node)


def test_maintenance_is_set_with_a_reason_for_several_nodes(baremetal, node):
    baremetal("node", "create", "--driver", "fake-hardware", "--name", "another")
    baremetal("node", "maintenance", "set", node, "another", "--reason", "a fan")

    answers = [baremetal("node", "show", name) for name in (node, "another")]
    assert [(True, "a fan")] * 2 == [
        (answer["maintenance"], answer["maintenance_reason"]) for answer in answers
    ]
    baremetal("node", "maintenance", "unset", node, "another")
    answer = baremetal("node", "show", node)
    assert (False, None) == (answer["maintenance"], answer["maintenance_reason"])
    baremetal("node", "delete", "another")
