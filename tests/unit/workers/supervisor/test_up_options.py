"""The options of `ingot up`, which typer does not convert."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from workers import cli


@pytest.fixture
def started(monkeypatch):
    """Run the command; return its result, and the settings and options of the supervisor."""
    monkeypatch.setattr("os.umask", lambda _mode: None)  # keep the test process's umask

    def run(*words):
        arguments = []
        monkeypatch.setattr(cli.supervisor, "run", lambda *passed: arguments.extend(passed) or 0)
        return CliRunner(env={"INGOT_CONFIG": ""}).invoke(cli.app, ["up", *words]), arguments

    return run


def test_numbers_and_paths_are_converted(started):
    words = ("--port", "0", "--conductors", "3", "--data-dir", "data", "--pidfile", "up.pid")
    result, (settings, options) = started(*words)
    assert 0 == result.exit_code, result.output
    assert (0, "data") == (settings.api.port, settings.default.data_dir)
    assert (3, Path("up.pid").absolute(), True) == (
        options.conductors, options.pidfile, options.restart,
    )  # fmt: skip


def test_the_defaults_are_one_conductor_and_restarts(started):
    _, (_, options) = started("--no-restart")
    assert (1, None, False) == (options.conductors, options.pidfile, options.restart)


@pytest.mark.parametrize(
    "words", [("--conductors", "0"), ("--conductors", "many"), ("--port", "x"), ("--port", "")]
)
def test_other_values_are_refused(started, words):
    result, arguments = started(*words)
    assert (2, []) == (result.exit_code, arguments)
    assert f"Invalid value for '{words[0]}'" in result.output
