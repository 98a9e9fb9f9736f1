"""The operator's commands, as far as they need no service."""

import base64
import gzip
import io
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import requests
from typer.testing import CliRunner

from app.cli import command_tree, operation_progress
from app.cli.lazy_groups import Group
from app.cli.node_commands import verbs
from app.cli.node_commands.node_fields import FIELDS
from app.cli.rest import Api, Credentials, error_text
from app.cli.terminal import arguments
from app.cli.terminal.errors import Failure, NotYet
from app.cli.terminal.output import Output, cell
from app.cli.terminal.output_format import Form
from app.config.settings import SettingsError
from app.text.sentences import joined
from tests.support.web import Handler, serving
from workers import cli

ROOT = Path(__file__).parents[4]


def run(*words, **environ):
    return CliRunner().invoke(cli.app, words, env=environ)


def answer(status, text, reason="Bad"):
    response = requests.Response()
    response.status_code, response.reason, response._content = status, reason, text.encode()
    response.url = "http://here:1/v1/nodes"
    return response


@pytest.mark.parametrize(
    ("environ", "token", "expected"),
    [
        ({}, None, Credentials()),
        ({}, "t", Credentials("t")),
        ({"INGOT_USERNAME": "u", "INGOT_PASSWORD": "p"}, None, Credentials(None, "u", "p")),
        ({"INGOT_USERNAME": "u"}, None, Credentials(None, "u", "")),
        ({"OS_USERNAME": "keystone's", "OS_PASSWORD": "p"}, None, Credentials()),
        (
            {"OS_AUTH_TYPE": "http_basic", "OS_USERNAME": "u", "OS_PASSWORD": "p"},
            None,
            Credentials(None, "u", "p"),
        ),
    ],
)
def test_the_caller_is_taken_from_the_environment(environ, token, expected):
    assert expected == Credentials.of(environ, token)


@pytest.mark.parametrize(
    ("credentials", "header", "value"),
    [
        (Credentials("t", "u", "p"), "X-Auth-Token", "t"),
        (Credentials(None, "u", "p"), "Authorization", "Basic dTpw"),
    ],
)
def test_credentials_are_sent(httpd, credentials, header, value):
    Api(httpd.url, credentials).get("nodes")
    assert value == httpd.headers[-1][header]


@pytest.fixture
def httpd():
    """Server that answers every request with an empty object, and records the headers."""

    class Nothing(Handler):
        def do_GET(self):
            self.server.headers.append(self.headers)
            self.answer(200, {})

    with serving(Nothing, headers=[]) as server:
        yield server


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps({"error_message": json.dumps({"faultstring": "It\nis so."})}), "It is so."),
        (json.dumps({"error_message": json.dumps({"description": "No such path."})}), "No such path."),
        (json.dumps({"faultcode": "Client", "faultstring": "Too large."}), "Too large."),
        ("<html>gateway</html>", "502 Bad from here:1"),
        ("[]", "502 Bad from here:1"),
        ("null", "502 Bad from here:1"),
        ("", "502 Bad from here:1"),
    ],
)  # fmt: skip
def test_every_shape_of_error_is_one_line(text, expected):
    assert expected == error_text(answer(502, text))


def test_documents_are_accepted_inline_or_from_files(tmp_path, monkeypatch):
    (tmp_path / "steps").write_text("[1]")
    assert [1] == arguments.document("--x", str(tmp_path / "steps"))
    assert {"a": 1} == arguments.document("--x", ' {"a": 1}')
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"[2]")))
    assert [2] == arguments.document("--x", "-")
    with pytest.raises(Failure, match=r"--x: this is not JSON: .*line 1 column 3"):
        arguments.document("--x", "[1")
    with pytest.raises(Failure, match=r"--x: .*: Is a directory"):
        arguments.document("--x", str(tmp_path))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"meta_data": {}}', {"meta_data": {}}),
        (b"aGVsbG8=", "aGVsbG8="),
        (gzip.compress(b"x", mtime=0), base64.b64encode(gzip.compress(b"x", mtime=0)).decode()),
    ],
)
def test_a_config_drive_may_be_a_file_of_any_format(tmp_path, content, expected):
    (tmp_path / "drive").write_bytes(content)
    assert expected == arguments.config_drive("--config-drive", str(tmp_path / "drive"))


def test_the_image_of_a_config_drive_is_compressed_and_encoded(tmp_path):
    image = bytes(range(256))
    (tmp_path / "drive").write_bytes(image)
    packed = arguments.config_drive("--config-drive", str(tmp_path / "drive"))
    assert image == gzip.decompress(base64.b64decode(packed))


def test_changes_are_one_patch():
    values = {"name": "n", "retired": False, "extra": ["a~/b=[1]", "c=d=e"], "network_data": "{}"}
    assert [
        {"op": "add", "path": "/name", "value": "n"},
        {"op": "add", "path": "/extra/a~0~1b", "value": [1]},
        {"op": "add", "path": "/extra/c", "value": "d=e"},
        {"op": "add", "path": "/retired", "value": False},
        {"op": "add", "path": "/network_data", "value": {}},
    ] == FIELDS.additions(values)
    assert [
        {"op": "remove", "path": "/name"},
        {"op": "remove", "path": "/extra/c"},
    ] == FIELDS.removals({"name": True, "retired": False, "extra": ["c"]})


def operation(state, **fields):
    step = {"position": 0, "interface": "bios", "step": "update"}
    return {"state": state, "kind": "clean", "cursor": 0, "steps": [step], "error": None, **fields}


@pytest.mark.parametrize(
    ("state", "verb", "error", "message"),
    [
        ("failed", "clean", Failure, "clean of n failed: It burns. Put it out."),
        ("aborted", "clean", Failure, "clean of n aborted: It burns. Put it out."),
        ("held", "clean", NotYet, "clean of n is held, in step bios.update: `ingot node"),
    ],
)
def test_the_outcome_of_an_operation_is_reported(state, verb, error, message):
    burnt = {"message": "It\nburns.", "hint": "Put it out.", "code": "x"}
    with pytest.raises(error) as raised:
        operation_progress.require_success(operation(state, error=burnt), "n", verb)
    assert type(raised.value) is error
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(("state", "verb"), [("succeeded", "clean"), ("aborted", "abort")])
def test_the_requested_end_of_an_operation_is_no_failure(state, verb):
    operation_progress.require_success(operation(state), "n", verb)


@pytest.mark.parametrize(
    ("step", "deadline", "text"),
    [
        ((65, None), None, ", for 1:05"),
        ((65, None), 3700, ", for 1:05, at most 1:01:3"),
        ((65, 30), 3700, ", for 1:05, at most 0:"),
        ((-5, None), -5, ", for 0:00, at most 0:00 more"),
        ((None, None), 60, ""),
    ],
)
def test_a_running_step_is_shown_with_its_duration_and_its_limit(step, deadline, text):
    def moment(seconds):
        if seconds is None:
            return None
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()

    began, limit = step
    row = {"started_at": moment(began and -began), "deadline_at": moment(limit)}
    assert operation_progress.clock_of({"deadline_at": moment(deadline)}, row).startswith(text)


def test_texts_of_a_machine_cannot_control_the_terminal():
    assert "a [2Jb\nc" == cell("last_error", "a\x1b[2Jb\nc").plain


def test_values_are_printed_bare_and_one_per_line(capsys):
    output = Output(Form.VALUE, ("a", "b", "c"))
    output.item({"a": None, "b": "x\ny\tz", "c": {"d": True}})
    output.items([{"a": 1, "b": "two", "c": False}], ())
    assert ["", "x y z", '{"d": true}', "1\ttwo\tfalse"] == capsys.readouterr().out.splitlines()


def test_a_missing_field_is_named():
    with pytest.raises(Failure, match="no field 'b'; there are a"):
        Output(Form.TABLE, ("b",)).items([{"a": 1}], ())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("connection refused", "check the address"), "Connection refused. Check the address."),
        (("It\nburns.", None, "", "Put it out!"), "It burns. Put it out!"),
        ((None,), ""),
    ],
)
def test_a_message_and_its_hint_are_two_sentences(parts, expected):
    assert expected == joined(*parts)


def test_progress_is_shown_without_fields_for_programs():
    report = {"percent": 40, "file": "disk.raw", "done": True, "command": str(uuid4())}
    step = {"attempts": 2, "state": "waiting", "progress": report}
    assert "waiting, try 2, percent 40, file disk.raw" == operation_progress.progress_of(step)


@pytest.mark.parametrize(
    ("result", "sentences"),
    [
        ({}, []),
        ({"agent": None, "destroys": []}, []),
        ({"agent": {"summary": "It erases a."}, "destroys": ["erases a", "b"]}, ["It erases a.", "B."]),
    ],
)  # fmt: skip
def test_a_dry_run_tells_once_what_is_destroyed(result, sentences):
    assert sentences == verbs.foreseen(result)


def commands(entries, *above):
    """The words of every command."""
    for name, entry in entries.items():
        if isinstance(entry, Group):
            yield from commands(entry.entries, *above, name)
        else:
            yield (*above, name)


KNOWN = [
    *commands(command_tree.GROUPS),
    *commands(command_tree.ALONE),
    *commands(command_tree.CONDUCTOR, "conductor"),
]


def test_the_page_names_every_command():
    page = (ROOT / "docs/cli.md").read_text()
    page_names = set()
    for words in re.findall(r"^\| `ingot ([a-z\\| -]+)", page, re.MULTILINE):
        *above, alternatives = words.replace("\\|", "|").split()
        page_names |= {" ".join((*above, name)) for name in alternatives.split("|")}
    without_api = [
        (group, name) for group, names in command_tree.WITHOUT_API.items() for name in names
    ]
    command_names = {" ".join(words) for words in (*KNOWN, *without_api)}
    assert (
        command_names | {f"completion {shell}" for shell in ("bash", "zsh", "fish")} == page_names
    )


@pytest.mark.parametrize("words", KNOWN, ids=" ".join)
def test_every_command_has_a_help_text(words):
    result = run(*words, "--help")
    assert 0 == result.exit_code
    assert "--url" in re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--url http://x node list", "node list --url http://x"),
        ("--url=http://x -o json node list", "node list --url=http://x -o json"),
        ("--insecure node power -- -n on", "node power --insecure -- -n on"),
        ("node list --url http://x", "node list --url http://x"),
        ("--version", "--version"),
        ("--url http://x", "--url http://x"),
        ("--url", "--url"),
        ("", ""),
    ],
)
def test_common_options_may_stand_before_the_command(words, expected):
    assert expected.split() == command_tree.with_options_last(words.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell):
    script = run("completion", shell).output
    assert "_INGOT_COMPLETE" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    "command", ["node list --hold", "hold create n --kind", "hold list --kind"]
)
def test_kinds_of_holds_are_completed(command):
    environ = {
        "_INGOT_COMPLETE": "complete_bash", "COMP_WORDS": f"ingot {command} h",
        "COMP_CWORD": str(len(command.split()) + 1),
    }  # fmt: skip
    completion = subprocess.run(
        [Path(sys.executable).with_name("ingot")], env={**os.environ, **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "hardware" == completion.stdout.strip()


def test_the_command_of_a_single_conductor_exists():
    result = run("conductor", "--name", "x", INGOT_BROKER_URL="", INGOT_CONFIG="")
    assert isinstance(result.exception, SettingsError)
    assert "to run a role alone" in str(result.exception)
