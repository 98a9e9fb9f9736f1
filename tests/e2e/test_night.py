"""The night of docs/night.md with few machines, as `make night` runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JOBS = ("enrol", "verify", "accept", "update", "clean", "deploy", "give back", "prove")
TIMEOUT = 1800


@pytest.mark.slow
def test_sixty_machines_pass_through_a_night(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "tests.night", "--machines", "60", "--pace", "0.2", "--wave", "50%"],
        cwd=ROOT,
        # settings of a running service must not reach the night
        env={**os.environ, "TMPDIR": str(tmp_path), "INGOT_API_PORT": "1"},
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert 0 == ended.returncode, ended.stdout[-4000:] + ended.stderr
    rows = re.findall(r"^\| ([a-z ]+?) \| (\d+) \|", ended.stdout, re.MULTILINE)
    assert [*JOBS, "all"] == [name for name, _ in rows]
    assert all(int(commands) > 0 for _, commands in rows)
    assert [] == list(tmp_path.iterdir())
