"""The pytest plugin that reports the run time of each ring of tests."""

import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUSY = """\
import time

def test_busy():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
"""
IDLE = """\
import time

def test_idle():
    time.sleep(0.3)
"""
CHILD = """\
import subprocess, sys
BUSY = "import time\\nwhile time.process_time() < 0.3: pass"

def test_child():
    subprocess.run([sys.executable, "-c", BUSY], check=True)
"""


@pytest.fixture
def suite(tmp_path):
    """A project with two rings: run(*options) -> its exit status and its lines."""
    for name, text in {
        "unit/test_busy": BUSY,
        "unit/test_child": CHILD,
        "e2e/test_idle": IDLE,
    }.items():
        path = tmp_path / "tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-p", "tests.support.rings", *options, "tests"]
        process = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60,
            env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip
        return process.returncode, process.stdout.splitlines()

    return run


def figures(lines):
    """ring -> (tests, seconds, CPU)"""
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("ring ")) + 1 :]
    rows = [line.split() for line in takewhile(lambda line: line[12:13] == " ", table)]
    return {row[0]: (int(row[1]), float(row[2]), float(row[3])) for row in rows}


def test_a_run_reports_tests_seconds_and_cpu_time_of_each_ring(suite):
    status, lines = suite("-o", "ring_budgets=unit 60\nmodel 60")

    assert 0 == status, lines
    check(figures(lines))


def test_a_run_in_parallel_fails_if_a_ring_exceeds_its_cpu_budget(suite):
    status, lines = suite("-o", "ring_budgets=unit 0.1", "-p", "xdist", "-n", "2")

    assert 1 == status, lines
    assert "unit used more CPU time than its budget in pyproject.toml allows" in lines
    check(figures(lines))


def check(totals):
    assert {"unit", "e2e"} == set(totals)
    assert (2, 1) == (totals["unit"][0], totals["e2e"][0])
    assert totals["unit"][2] >= 0.5, "the CPU time of a child process counts"
    assert totals["e2e"][1] >= 0.3 > totals["e2e"][2], "sleep is no CPU time"
