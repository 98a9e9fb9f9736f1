"""The log file of a role: rotated by others, full disks, folders that are gone."""

import json
import os
import sys
from io import StringIO

import pytest

from app.config.settings import load
from app.observe import log
from tests.support.log_output import logged
from workers.commands import configuration
from workers.supervisor.location import StartError


@pytest.fixture
def error_output(monkeypatch):
    with logged(monkeypatch, "json") as text:
        yield text


def written(path):
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_lines_go_to_the_file_and_not_to_standard_error(tmp_path, error_output):
    log.write_to(tmp_path / "log")
    log.get("a").info("step.finished", node="1")
    assert ["step.finished"] == written(tmp_path / "log")
    assert "" == error_output()


def test_lines_go_to_both_places_on_request(tmp_path, error_output):
    log.write_to(tmp_path / "log", on_error_output=True)
    log.get("a").info("step.finished")
    assert ["step.finished"] == written(tmp_path / "log")
    assert "step.finished" in error_output()


@pytest.mark.parametrize("action", ["rename", "remove"])
def test_the_file_is_opened_again_by_each_process_after_a_rotation(tmp_path, error_output, action):
    path = tmp_path / "log"
    log.write_to(path)
    log.get("a").info("before.rotation")
    (path.rename(tmp_path / "log.1") if action == "rename" else path.unlink())
    child = os.fork()
    if not child:
        log.get("a").info("in.child")
        os._exit(0)
    assert 0 == os.waitpid(child, 0)[1]
    log.get("a").info("after.rotation")
    assert ["in.child", "after.rotation"] == written(path)
    if action == "rename":
        assert ["before.rotation"] == written(tmp_path / "log.1")


def test_a_folder_that_is_gone_stops_no_work_and_hides_no_line(tmp_path, error_output):
    folder = tmp_path / "logs"
    folder.mkdir()
    log.write_to(folder / "log")
    (folder).rename(tmp_path / "moved")
    log.get("a").info("without.folder")
    assert "without.folder" in error_output()
    folder.mkdir()
    log.get("a").info("with.folder")
    assert ["with.folder"] == written(folder / "log")
    assert "with.folder" not in error_output()


def test_a_full_disk_stops_no_work_and_hides_no_line(tmp_path, error_output, monkeypatch):
    log.write_to(tmp_path / "log")
    handler = next(item for item in log.logging.root.handlers if isinstance(item, log.LogFile))
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(handler, "stream", full)
        log.get("a").info("on.full_disk")
    assert "on.full_disk" in error_output()
    log.get("a").info("with.room")
    assert ["with.room"] == written(tmp_path / "log")


@pytest.mark.parametrize("form", ["auto", "text"])
def test_a_file_has_no_colours_even_if_standard_error_is_a_terminal(tmp_path, monkeypatch, form):
    class Terminal(StringIO):
        def isatty(self):
            return True

    with logged(monkeypatch, form):
        monkeypatch.setattr(sys, "stderr", Terminal())
        log.set_up(form=form)
        log.write_to(tmp_path / "log", form, on_error_output=True)
        log.get("a").info("a.line")
        assert "\x1b" in sys.stderr.getvalue()
    line = (tmp_path / "log").read_text()
    assert "\x1b" not in line
    assert ("auto" == form) == line.startswith("{")


@pytest.mark.parametrize(
    ("options", "role", "path"),
    [
        ({"LOG_DIR": "{}/new"}, "conductor", "new/ingot-conductor.log"),
        ({"LOG_DIR": "{}"}, "up", "ingot.log"),
        ({"LOG_DIR": "{}", "LOG_FILE": "a.log"}, "api", "a.log"),
        ({"LOG_DIR": "/nowhere", "LOG_FILE": "{}/a.log"}, "beat", "a.log"),
    ],
)
def test_the_settings_name_the_file_of_a_role(tmp_path, error_output, options, role, path):
    environ = {f"INGOT_{name}": value.format(tmp_path) for name, value in options.items()}
    configuration.log_to_file(load(environ), role)
    log.get("a").info("a.line")
    assert ["a.line"] == written(tmp_path / path)


def test_each_role_has_a_file_of_its_own():
    assert len(set(configuration.LOG_FILES.values())) == len(configuration.LOG_FILES)


@pytest.mark.parametrize("option", ["LOG_FILE", "LOG_DIR"])
def test_a_file_that_cannot_be_written_stops_the_start_with_its_option(tmp_path, option):
    (tmp_path / "file").touch()
    environ = {f"INGOT_{option}": str(tmp_path / "file" / "log")}
    with pytest.raises(StartError, match=rf"^\[DEFAULT\]{option.lower()}: .*/file/log"):
        configuration.log_to_file(load(environ), "api")


def test_an_ironic_conf_names_the_file(tmp_path):
    conf = tmp_path / "ironic.conf"
    conf.write_text("[DEFAULT]\nlogdir = /var/log/ironic\nuse_stderr = true\n")
    default = load({}, conf).default
    assert ("/var/log/ironic", "", True) == (default.log_dir, default.log_file, default.use_stderr)
