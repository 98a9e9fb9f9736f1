"""The operator's commands on a terminal of 80 columns and into a pipe, in colour and without."""

import re
import uuid
from itertools import pairwise

import pytest

from tests.e2e.command_line import on_terminal, piped
from tests.support.fleet import Fleet

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
RED = "\x1b[1;31m"
#: No process listens there.
DEAD = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("terminal"), conductors=1) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def rack(fleet):
    """URL of a service with a good node, one that could not be verified, and one without a name."""
    info = {"redfish_address": DEAD, "redfish_username": "u", "redfish_password": "p"}
    fleet._create("nodes", {"name": "rack1-good", "driver": "fake-hardware"})
    fleet._create("nodes", {"name": "rack1-dead", "driver": "redfish", "driver_info": info})
    fleet._create("nodes", {"driver": "fake-hardware"})
    words = ("node", "provision-state", "rack1-good", "rack1-dead", "manage", "--wait", "60")
    assert 1 == piped(fleet.url, *words).status
    return fleet.url


@pytest.fixture(scope="module")
def operation(rack):
    """UUID of the failed operation."""
    words = ("node", "operations", "rack1-dead", "-o", "value", "-c", "uuid")
    return piped(rack, *words).lines[0]


def shown(answer):
    assert 0 == answer.status, answer
    return [ESCAPE.sub("", line) for line in answer.lines]


@pytest.mark.parametrize(
    "words",
    [
        ("node", "list"),
        ("node", "list", "--long"),
        ("node", "list", "-c", "uuid,name,last_error,driver_info"),
        ("node", "show", "rack1-dead"),
        ("node", "operations", "rack1-dead"),
        ("node", "operation", "OPERATION"),
        ("operation", "list"),
        ("node", "history", "rack1-dead"),
        ("node", "why", "rack1-dead"),
        ("node", "validate", "rack1-dead"),
        ("node", "clean-steps", "rack1-good"),
        ("conductor", "list"),
        ("driver", "list"),
        ("driver", "properties", "redfish"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("width", [80, 140])
def test_no_line_is_wider_than_the_terminal_and_none_is_blank_by_wrapping(
    rack, operation, words, width
):
    words = [operation if word == "OPERATION" else word for word in words]
    lines = shown(on_terminal(rack, *words, width=width))
    assert max(map(len, lines)) <= width, lines
    assert ("", "") not in pairwise(lines), lines


def test_a_list_has_a_line_for_each_node_that_begins_with_its_name(rack):
    head, *lines = shown(on_terminal(rack, "node", "list", width=100))
    assert head.split()[:3] == ["name", "provision", "state"]
    lines_by_name = {line.split()[0]: line for line in lines if not line.startswith(" ")}
    assert {"rack1-good", "rack1-dead"} < set(lines_by_name)
    assert uuid.UUID(*(set(lines_by_name) - {"rack1-good", "rack1-dead"}))
    assert any("BMC http://127.0.0.1:9 did" in line for line in lines)


def test_an_operation_shows_its_error_as_a_sentence(rack):
    lines = shown(on_terminal(rack, "node", "operations", "rack1-dead"))
    assert "BMC http://127.0.0.1:9 did not answer" in "\n".join(lines)
    assert "{" not in "\n".join(lines)


def test_errors_are_coloured_on_a_terminal(rack):
    coloured = {
        "node list": "\x1b[31mBMC",
        "node operations rack1-dead": f"{RED}failed",
        "node history rack1-dead": f"{RED}ERROR",
    }
    for words, expected in coloured.items():
        assert expected in "\n".join(on_terminal(rack, *words.split()).lines)
    assert "\x1b[32mmanageable" in "\n".join(on_terminal(rack, "node", "list").lines)


@pytest.mark.parametrize(
    ("words", "environ"),
    [(("--no-color",), {}), ((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"})],
)
def test_a_terminal_without_colour_gets_none(rack, words, environ):
    answer = on_terminal(rack, "node", "list", *words, **environ)
    assert "rack1-dead" in "\n".join(answer.lines)
    assert "\x1b" not in "\n".join(answer.lines)


def test_a_pipe_gets_every_column_and_colours_only_if_asked(rack):
    plain = piped(rack, "node", "list")
    assert not any("\x1b" in line or "…" in line for line in plain.lines)
    values = piped(rack, "node", "list", "-o", "value")
    assert all(any(line.split("\t")[0] in row for row in plain.lines) for line in values.lines)
    assert 1 + len(values.lines) == len(plain.lines)
    assert any(
        RED in line for line in piped(rack, "node", "operations", "rack1-dead", "--color").lines
    )


def test_scripts_get_stable_fields(rack):
    fields = ["uuid", "name", "provision_state", "power_state", "maintenance"]
    assert [fields] * 3 == [list(node) for node in piped(rack, "node", "list", "-o", "json").read()]
    lines = piped(rack, "node", "list", "-o", "value").lines
    assert [5] * 3 == [line.count("\t") + 1 for line in lines]


def test_nodes_with_errors_can_be_listed(rack, fleet):
    words = ("node", "list", "--failed", "-o", "value", "-c", "name")
    assert ["rack1-dead"] == piped(rack, *words).lines
    assert [] == piped(rack, *words, "--driver", "fake-hardware").lines
    with_columns = piped(rack, "node", "list", "--failed", "-o", "json").read()
    assert "last_error" not in with_columns[0]


def test_the_operations_of_the_fleet_are_listed(rack):
    failed = piped(rack, "operation", "list", "--state", "failed", "-o", "json").read()
    assert {"rack1-dead"} == {entry["node_name"] for entry in failed}
    _head, *lines = shown(on_terminal(rack, "operation", "list", "--no-active", "--limit", "2"))
    assert all(line.split()[1] == "manage" for line in lines if not line.startswith(" "))
    assert [] == piped(rack, "operation", "list", "--active", "-o", "json").read()


def test_a_failure_is_reported_in_sentences(rack):
    ended = piped(rack, "node", "provision-state", "rack1-dead", "manage", "--wait", "60")
    assert 1 == ended.status
    # the second command without an answer: the breaker opens at the third
    assert "did not answer (ConnectionError). Check that its address" in ended.errors[-1]
