"""The units of systemd, checked by its own tools, without a running systemd."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from workers import cli

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "compose" / "systemd"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
#: Most exposure of a unit by `systemd-analyze security`: 0 (none) to 100.
MOST_EXPOSURE = 20

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="no systemd-analyze on this host"
)


@pytest.fixture(scope="module")
def units(tmp_path_factory):
    """A copy of the units whose commands exist on this host."""
    folder = tmp_path_factory.mktemp("units")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace("/opt/ingot/bin/ingot", sys.executable))
    return folder


def _analyze(units, *words):
    return subprocess.run(
        ["systemd-analyze", *words], check=False, capture_output=True, text=True, timeout=60,
        env={"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


@needs_systemd
@pytest.mark.parametrize("name", ["ingot.target", *SERVICES])
def test_systemd_accepts_each_unit(units, name):
    name = name.replace("@.", "@rack1.")
    verification = _analyze(units, "verify", "--man=no", "--recursive-errors=no", units / name)
    assert (0, "") == (verification.returncode, verification.stderr)


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_each_unit_is_confined(units, name):
    name = name.replace("@.", "@rack1.")
    security = _analyze(
        units, "security", "--offline=yes", f"--threshold={MOST_EXPOSURE}", "--no-pager", name
    )
    assert 0 == security.returncode, security.stdout + security.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_the_command_of_each_unit_is_one_of_ours(name):
    command = typer.main.get_command(cli.app)
    (line,) = re.findall(
        r"^ExecStart=/opt/ingot/bin/ingot (.+)$", (FOLDER / name).read_text(), re.MULTILINE
    )
    words = [word for word in line.split() if not word.startswith(("%", "/"))]
    for word in words:
        if word.startswith("-"):
            assert word in {option for known in command.params for option in known.opts}
        else:
            command = command.commands[word]


def test_each_role_has_its_unit():
    roles = {name.removesuffix(".service").removeprefix("ingot-") for name in SERVICES}
    assert roles == {"api", "beat", "conductor@", "database", "files", "up"}
