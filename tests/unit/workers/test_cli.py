"""`ingot config`: the settings as a TOML file, all or some of them."""

import tomllib

import pytest
from typer.testing import CliRunner

from workers import cli

SET = {"INGOT_API_PORT": "7000", "INGOT_HOST": "rack-1", "INGOT_DATABASE_CONNECTION": ""}


@pytest.fixture
def config(monkeypatch):
    """Run the command; return the printed document and its text."""
    monkeypatch.setattr("os.umask", lambda _mode: None)  # keep the test process's umask

    def run(*words, **environ):
        result = CliRunner(env={"INGOT_CONFIG": "", **environ}).invoke(cli.app, ["config", *words])
        assert 0 == result.exit_code, result.output
        return tomllib.loads(result.stdout), result.stdout

    return run


def test_all_settings_are_shown_as_a_readable_file(config):
    document, text = config(**SET)
    assert {"DEFAULT", "api", "conductor", "pxe"} < document.keys()
    assert 7000 == document["api"]["port"]
    assert "# INGOT_API_PORT, default 6385, from: INGOT_API_PORT" in text


def test_one_section_is_shown(config):
    document, _ = config("api", **SET)
    assert ["api"] == list(document)
    assert len(document["api"]) > 10


def test_only_changed_settings_are_shown(config):
    assert {
        "DEFAULT": {"host": "rack-1"},
        "database": {"connection": ""},
        "api": {"port": 7000},
    } == (config("--changed", **SET)[0])
    assert {"api": {"port": 7000}} == config("api", "--changed", **SET)[0]
    assert ({}, "# no setting is changed from its default\n") == config("pxe", "--changed", **SET)


def test_secrets_are_shown_without_their_credentials(config):
    url = "postgresql://ingot:p%2Fw@h/db?password=QPW"
    document, text = config("database", "--changed", INGOT_DATABASE_CONNECTION=url)

    assert "p%2Fw" not in text
    assert "QPW" not in text
    shown_url = "postgresql://ingot:******@h/db?password=******"
    assert {"database": {"connection": shown_url}} == document


def test_an_unknown_section_is_reported_with_the_nearest(config):
    with pytest.raises(
        cli.SettingsError, match="apii: there is no such section; the nearest is api"
    ):
        CliRunner().invoke(cli.app, ["config", "apii"], catch_exceptions=False)


def test_a_conductor_makes_the_folder_that_a_file_server_alone_may_only_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cli.roles, "become_alone", lambda *_arguments: None)
    environ = {
        "INGOT_CONFIG": "", "INGOT_DATA_DIR": str(tmp_path), "INGOT_BROKER_URL": "redis://127.0.0.1",
        "INGOT_DATABASE_CONNECTION": "postgresql://ingot@127.0.0.1/ingot",
    }  # fmt: skip
    result = CliRunner(env=environ).invoke(cli.app, ["conductor"])
    assert 0 == result.exit_code, result.output
    assert (tmp_path / "httpboot").is_dir()
