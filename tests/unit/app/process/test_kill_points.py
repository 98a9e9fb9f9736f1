"""Kill points fire at the armed point, process and kind of operation, and nowhere else."""

import os
import signal
import subprocess
import sys
import time

import pytest

from app.process import kill_points

SCRIPT = """
from app.process import kill_points
kill_points.arm([{entry!r}], "c-1")
kill_points.reach("received")
kill_points.reach("claimed", "clean")
print("alive", flush=True)
"""


@pytest.fixture(autouse=True)
def disarmed():
    yield
    kill_points.arm([], "nobody")


@pytest.fixture
def paused(monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


@pytest.mark.parametrize(
    ("entry", "fires"),
    [
        ("claimed=pause-1.5", True),
        ("any:claimed=pause-1.5", True),
        ("c-1:claimed=pause-1.5", True),
        ("c-1:claimed:clean=pause-1.5", True),
        ("c-1:claimed:any=pause-1.5", True),
        ("c-2:claimed=pause-1.5", False),
        ("c-1:claimed:active=pause-1.5", False),
        ("c-1:acted:clean=pause-1.5", False),
    ],
)
def test_an_entry_fires_for_its_process_point_and_kind(entry, fires, paused):
    kill_points.arm([entry], "c-1")
    kill_points.reach("claimed", "clean")
    assert ([1.5] if fires else []) == paused


def test_arming_replaces_earlier_entries(paused):
    kill_points.arm(["claimed=pause-1"], "c-1")
    kill_points.arm([], "c-1")
    kill_points.reach("claimed")
    assert [] == paused


def test_an_unknown_point_is_named():
    with pytest.raises(ValueError, match=r"'claimd'.*claimed"):
        kill_points.arm(["c-1:claimd=die"], "c-1")


@pytest.mark.parametrize(
    ("entry", "status", "output"),
    [("claimed:clean=die", -signal.SIGKILL, ""), ("c-2:claimed=die", 0, "alive\n")],
)
def test_die_kills_the_process_at_that_point(entry, status, output):
    # an entry of two parts has process and point: a kind needs all three
    entry = f"any:{entry}" if entry.startswith("claimed") else entry
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(entry=entry)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (status, output) == (ran.returncode, ran.stdout)


def test_an_entry_with_a_file_fires_once_and_only_if_its_directory_exists(tmp_path):
    mark = tmp_path / "later" / "mark"
    command = [sys.executable, "-c", SCRIPT.format(entry=f"claimed=die-{mark}")]
    statuses = [subprocess.run(command, capture_output=True, check=False).returncode]
    mark.parent.mkdir()
    statuses += [
        subprocess.run(command, capture_output=True, check=False).returncode for _ in range(2)
    ]
    assert [0, -signal.SIGKILL, 0] == statuses


def test_stop_suspends_the_process_until_it_is_continued():
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(entry="claimed=stop")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert ("alive\n", None) == process.communicate(timeout=30)
        assert 0 == process.returncode
    finally:
        process.kill()
        process.wait()
