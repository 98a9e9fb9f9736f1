"""Tables of the command line: width of the terminal, and colours."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from app.cli.terminal import styles
from app.cli.terminal.output import cell
from app.cli.terminal.tables import draw
from app.lifecycle.provision_states import State

UUID = "0b1a7c1e-33a6-4a1c-9a3e-4a8f4d6f3c11"
REASON = "BMC http://192.0.2.4 did not answer (ReadTimeout). Check that its address is right."
NODE = {
    "name": "rack1-u04",
    "provision_state": "clean failed",
    "last_error": REASON,
    "updated_at": "2026-11-22T11:18:32+00:00",
    "uuid": UUID,
}


def drawn(width, items, *, terminal=True, whole=False):
    screen = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    names = list(items[0])
    rows = [[cell(name, item[name]) for name in names] for item in items]
    draw(screen, names, rows, whole=whole)
    return screen.file.getvalue().splitlines()


def test_a_table_that_fits_is_shown_completely():
    head, line = drawn(200, [NODE])
    assert ["name", "provision", "state", "last", "error", "updated", "at", "uuid"] == head.split()
    assert all(part in line for part in (UUID, REASON, "2026-11-22 11:18:32"))


def test_a_list_that_is_too_wide_loses_its_uuid_and_the_end_of_its_error():
    _head, line = drawn(80, [NODE])
    assert line.startswith("rack1-u04  clean failed")
    assert UUID[:8] not in line
    assert "BMC http://192.0.2.4 did not a…" in line
    assert len(line) <= 80


def test_an_error_that_is_too_wide_stands_below_its_row():
    _head, line, below = drawn(50, [NODE])
    assert line == "rack1-u04  clean failed     11-22 11:18"
    assert below.startswith("    BMC http://")
    assert below.endswith("…")
    assert len(below) <= 50


def test_a_table_that_is_too_wide_is_shown_as_records():
    lines = drawn(30, [NODE, NODE])
    assert "name             rack1-u04" in lines
    assert "" in lines
    assert max(map(len, lines)) <= 41  # a UUID is never cut


def test_other_long_text_is_wrapped_in_its_column():
    reason = " ".join(["word"] * 30)
    head, *lines = drawn(60, [{"interface": "deploy", "reason": reason}])
    assert ["interface", "reason"] == head.split()
    assert f"deploy {reason}" == " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 60


def test_requested_fields_are_not_cut():
    lines = drawn(60, [{"name": "n", "last_error": REASON}], whole=True)
    assert REASON == " ".join(" ".join(lines).split()[3:])


@pytest.mark.parametrize("width", [20, 80])
def test_nothing_is_left_out_without_a_terminal(width):
    assert drawn(200, [NODE, NODE]) == drawn(width, [NODE, NODE], terminal=False)


def test_a_resource_without_a_name_keeps_its_uuid():
    (_head, line, _below) = drawn(80, [{**NODE, "name": None}])
    assert UUID in line


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_colour_and_failures_are_red(state):
    style = styles.of("provision_state", state.value)
    assert style
    assert (style == styles.TROUBLE) == (state.value.endswith("failed") or state == "error")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"severity": "ERROR"}, styles.TROUBLE),
        ({"alive": False}, styles.TROUBLE),
        ({"severity": "INFO", "alive": True}, ""),
    ],
)
def test_rows_with_a_problem_are_coloured(item, expected):
    assert expected == styles.of_row(item)


def test_the_error_of_an_operation_is_shown_as_sentences():
    error = {"code": "bmc", "message": "it is silent", "hint": "look at it"}
    assert Text("It is silent. Look at it.", "red") == cell("error", error)
