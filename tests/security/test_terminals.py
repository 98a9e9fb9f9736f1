"""Texts of strangers and machines cannot control the terminal that shows them, nor forge lines."""

import logging

import pytest
import typer
from typer.testing import CliRunner

from app.cli import audit, commands
from app.cli.terminal.errors import Failure
from app.cli.terminal.machine_output import LONGEST, TerminalFilter, plain
from app.cli.terminal.output import Output
from app.cli.terminal.output_format import Form
from app.observe import log
from tests.support.log_output import logged

#: Clears the screen; sets the title; moves the cursor; reverses the direction of the text.
CONTROLS = ("\x1b[2J", "\x1b]0;title\x07", "\x9b2J", "\u202e")


@pytest.fixture
def log_text(monkeypatch):
    """Read the log as text."""
    with logged(monkeypatch, "text") as text:
        yield text


@pytest.mark.parametrize("control", CONTROLS)
def test_lines_of_the_log_have_no_control_characters(control, log_text):
    logger = log.get(__name__)
    logger.info("request.answered", path=f"/v1/{control}", detail=f"two words{control}")
    logging.getLogger("library").error("a library says %s", control)
    try:
        raise ValueError(f"a machine says {control}")
    except ValueError:
        logger.exception("step.crashed")
    assert 3 <= log_text().count("says")
    assert all(word.isprintable() for word in log_text().split("\n"))


def test_a_value_forges_no_line_of_the_log(log_text):
    log.get(__name__).info("request.answered", path="/v1/x\n2026-01-01 [info] user.removed")
    logging.getLogger("library").error("first\n2026-01-01 [info] user.removed")
    assert 2 == log_text().count("\n")


@pytest.mark.parametrize("control", CONTROLS)
def test_commands_print_no_control_characters(control, capsys):
    text = f"a machine says {control}"
    for form in (Form.TABLE, Form.VALUE):
        Output(form).items([{"last_error": text}], ("last_error",))
        Output(form).item({"last_error": text, "extra": {"key": text}})
        Output(form).line({"last_error": text}, ("last_error",), text)
    audit._write_csv(iter([dict.fromkeys(audit.COLUMNS, text)]))
    output = capsys.readouterr().out.replace("\r\n", "\n")
    assert 7 <= output.count("a machine says")
    assert all(word.isprintable() for word in output.split("\n"))


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
    assert all(word.isprintable() for word in result.output.split("\n"))


#: Written by a machine: title, clipboard, file by DCS, a link, a string without an end; questions
#: after position, attributes, window and mode; the answer-back message.
HOSTILE = (
    b"\x1b]0;title\x07", b"\x1b]52;c;cm0gLXJm\x1b\\", b"\x1bP$qm\x1b\\", b"\x1b]8;;http://evil\x1b\\",
    b"\xc2\x9d52;c;x\xc2\x9c", b"\x1b_payload\x1b\\", b"\x1b]0;never\x18", b"\x1b[6n", b"\x1b[c",
    b"\x1b[>0q", b"\x1b[21t", b"\x1b[?1$p", b"\x1b[?u", b"\xc2\x9b6n", b"\x05", b"\x1bZ",
)  # fmt: skip


@pytest.mark.parametrize("sequence", HOSTILE)
def test_a_machine_cannot_ask_or_order_the_terminal_of_an_open_console(sequence):
    text = b"\x1b[1;31mlogin\x1b[0m\x1b[2;5H\xc3\xa9: "
    for cut in range(len(sequence) + 1):
        terminal_filter = TerminalFilter()
        output = terminal_filter.feed(text + sequence[:cut]) + terminal_filter.feed(
            sequence[cut:] + text
        )
        assert text + text == output, cut


def test_an_endless_string_of_a_machine_needs_no_memory_and_ends():
    terminal_filter = TerminalFilter()
    assert b"" == b"".join(terminal_filter.feed(b"\x1b]0;" + b"x" * 1000) for _ in range(10))
    assert len(terminal_filter._unended_part) <= LONGEST
    assert b"after" == terminal_filter.feed(b"\x07after")


@pytest.mark.parametrize("sequence", [*HOSTILE, *(control.encode() for control in CONTROLS)])
def test_the_history_of_a_console_is_text(sequence):
    text = plain(b"first\r\n" + sequence + b"\x08second\x00\ttab\r")
    assert "first\nsecond\ttab\n" == text
