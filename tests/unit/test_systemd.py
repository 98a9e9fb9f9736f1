"""The units of systemd, checked by its own tools, without a running systemd."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from app.config.settings import Settings
from app.process import vital_signs
from tests.support.prerequisites import not_allowed
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
            assert word in {option for parameter in command.params for option in parameter.opts}
        else:
            command = command.commands[word]


def test_each_role_has_its_unit():
    roles = {name.removesuffix(".service").removeprefix("ingot-") for name in SERVICES}
    assert roles == {"api", "beat", "conductor@", "database", "files", "up"}


def test_a_role_tells_systemd_that_it_is_ready_and_that_it_works():
    common = (FOLDER / "ingot-.service.d" / "10-common.conf").read_text()
    assert "\nWatchdogSec=180\n" in common
    assert "\nWatchdogSignal=SIGTERM\n" in common, "SIGABRT would end a conductor without a drain"
    for name in SERVICES:
        kind = "oneshot" if name == "ingot-database.service" else "notify"
        assert f"\nType={kind}\n" in (FOLDER / name).read_text(), name


def test_a_silent_role_has_given_several_signs_in_the_time_of_the_watchdog():
    assert 180 >= 10 * vital_signs.REQUEST_INTERVAL
    assert 180 >= 10 * Settings().conductor.heartbeat_interval


def test_a_conductor_may_drain_for_as_long_as_it_likes_to():
    (seconds,) = re.findall(
        r"^TimeoutStopSec=(\d+)$", (FOLDER / "ingot-conductor@.service").read_text(), re.MULTILINE
    )
    assert int(seconds) >= Settings().conductor.graceful_shutdown_timeout + 10


def _run(*command, environ=None):
    process = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env=environ
    )
    assert 0 == process.returncode, process.stderr
    return process.stdout + process.stderr


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="no systemd-sysusers on this host")
def test_the_user_and_its_folders_are_made_from_the_files(tmp_path):
    """As a package would have them made, in a root of its own."""
    if os.geteuid():
        not_allowed("systemd-sysusers and systemd-tmpfiles need root")
    for name, folder in (("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")):
        target = tmp_path / "usr/lib" / folder / "ingot.conf"
        target.parent.mkdir(parents=True)
        shutil.copy(FOLDER / f"{name}.conf", target)
    (tmp_path / "etc").mkdir()
    _run("systemd-sysusers", f"--root={tmp_path}")
    (user,) = re.findall(r"^ingot:.*$", (tmp_path / "etc/passwd").read_text(), re.MULTILINE)
    assert "/var/lib/ingot" == user.split(":")[5]
    settings = tmp_path / "etc/ingot/ingot.toml"
    _run("systemd-tmpfiles", f"--root={tmp_path}", "--create")
    settings.write_text("")
    settings.chmod(0o666)
    _run("systemd-tmpfiles", f"--root={tmp_path}", "--create")
    group = int(user.split(":")[3])
    assert (0o640, group) == (stat.S_IMODE(settings.stat().st_mode), settings.stat().st_gid)
    assert 0o750 == stat.S_IMODE(settings.parent.stat().st_mode)
