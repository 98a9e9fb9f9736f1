"""The guide to drivers, followed to the letter: its files are installed, its commands run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fleet import ROOT, Fleet
from tests.support.web import Handler, serving

PAGE = ROOT / "docs" / "drivers.md"
INGOT = Path(sys.executable).with_name("ingot")
#: Address of the strip in the guide.
STRIP = "http://192.0.2.7"


class Strip(Handler):
    """A power strip with one outlet, number 4."""

    def do_GET(self):
        self.answer(200 if self.path == "/outlets/4" else 404, {"on": self.server.on})

    def do_PUT(self):
        self.server.on = self.body()["on"]
        self.server.orders.append(self.server.on)
        self.do_GET()


def run(*command, cwd, **environ):
    process = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert 0 == process.returncode, f"{command}\n{process.stdout}\n{process.stderr}"
    return process.stdout


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The files of the guide."""
    folder = tmp_path_factory.mktemp("acme")
    files = re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, text in files:
        (folder / name).write_text(text)
    assert {"pyproject.toml", "ingot_acme.py", "test_ingot_acme.py"} == {name for name, _ in files}
    return folder


@pytest.fixture(scope="module")
def commands():
    """Command lines of the guide, in order."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def installed(guide, commands, tmp_path_factory):
    """Folder with the driver, installed as the guide says, but offline and in its own folder."""
    folder = tmp_path_factory.mktemp("installed")
    assert "pip install ." == commands[0]
    apart = ("--no-build-isolation", "--no-deps", "--no-index", "--target", str(folder))
    run(sys.executable, "-m", *shlex.split(commands[0]), *apart, cwd=guide)
    return folder


def test_the_guides_test_passes_where_its_driver_is_installed(guide, installed):
    path = f"{installed}{os.pathsep}{ROOT}"
    output = run(
        sys.executable, "-m", "pytest", "-q", "test_ingot_acme.py", cwd=guide, PYTHONPATH=path
    )
    assert re.search(r"[1-9]\d* passed", output), output


def test_the_guides_commands_work_on_a_service_that_has_its_driver(tmp_path, installed, commands):
    used = [shlex.split(command) for command in commands if command.startswith("ingot ")]
    assert ["create", "provision-state", "power", "provision-state"] == [words[2] for words in used]
    with (
        serving(Strip, on=True, orders=[]) as strip,
        Fleet(tmp_path, conductors=1, PYTHONPATH=str(installed)) as fleet,
    ):
        for words in used:
            words = [word.replace(STRIP, strip.url) for word in words[1:]]
            run(INGOT, *words, cwd=tmp_path, INGOT_URL=fleet.url)
        (node,) = fleet.get("nodes", fields="provision_state,driver,last_error")["nodes"]
        assert ["fleet-1"] == fleet.get("drivers/acme")["hosts"]
        assert False in strip.orders  # it was drained
        (step,) = [
            step
            for step in fleet.operation("m1", "clean")["steps"]
            if step["step"] == "drain"
        ]  # fmt: skip
    assert ("acme", "manageable", None) == (
        node["driver"], node["provision_state"], node["last_error"]
    )  # fmt: skip
    assert "done" == step["state"]
