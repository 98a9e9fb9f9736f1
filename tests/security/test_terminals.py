"""Texts of strangers and machines cannot control the terminal that shows them, nor forge lines."""

import logging

import pytest
import typer
from typer.testing import CliRunner

from app.cli import audit, commands
from app.cli.terminal.errors import Failure
from app.cli.terminal.output import Output
from app.cli.terminal.output_format import Form
from app.observe import log
from tests.support.log_output import logged

#: Clears the screen; sets the title; moves the cursor; reverses the direction of the text.
CONTROLS = ("\x1b[2J", "\x1b]0;title\x07", "\x9b2J", "\u202e")


@pytest.fixture
def written(monkeypatch):
    """Read the log as text."""
    with logged(monkeypatch, "text") as text:
        yield text


@pytest.mark.parametrize("control", CONTROLS)
def test_lines_of_the_log_have_no_control_characters(control, written):
    logger = log.get(__name__)
    logger.info("request.answered", path=f"/v1/{control}", detail=f"two words{control}")
    logging.getLogger("library").error("a library says %s", control)
    try:
        raise ValueError(f"a machine says {control}")
    except ValueError:
        logger.exception("step.crashed")
    assert 3 <= written().count("says")
    assert all(each.isprintable() for each in written().split("\n"))


def test_a_value_forges_no_line_of_the_log(written):
    log.get(__name__).info("request.answered", path="/v1/x\n2026-01-01 [info] user.removed")
    logging.getLogger("library").error("first\n2026-01-01 [info] user.removed")
    assert 2 == written().count("\n")


@pytest.mark.parametrize("control", CONTROLS)
def test_commands_print_no_control_characters(control, capsys):
    text = f"a machine says {control}"
    for form in (Form.TABLE, Form.VALUE):
        Output(form).items([{"last_error": text}], ("last_error",))
        Output(form).item({"last_error": text, "extra": {"key": text}})
        Output(form).line({"last_error": text}, ("last_error",), text)
    audit._write_csv(iter([dict.fromkeys(audit.COLUMNS, text)]))
    written = capsys.readouterr().out.replace("\r\n", "\n")
    assert 7 <= written.count("a machine says")
    assert all(each.isprintable() for each in written.split("\n"))


@pytest.mark.parametrize("control", CONTROLS)
def test_errors_of_commands_have_no_control_characters(control, monkeypatch):
    def refused(_api, _out, **_connection):
        raise Failure(f"a machine says {control}")

    monkeypatch.setattr(commands, "connect", lambda _values: None)
    group = typer.Typer()
    commands.add(group, "refused", commands.Command(refused))
    result = CliRunner().invoke(group, [])
    assert 1 == result.exit_code
    assert "a machine says" in result.output
    assert all(each.isprintable() for each in result.output.split("\n"))
