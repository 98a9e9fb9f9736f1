"""
pytest plugin: run time of each ring, and CPU budgets.

A ring is a folder of tests/. `ring_budgets` in the pytest configuration has a line `RING SECONDS`
for each ring whose CPU time is limited; a run that exceeds a budget fails. Budgets are of CPU time
because the wall clock depends on the load of the machine.
"""

import os
from collections import defaultdict
from dataclasses import dataclass
from math import inf

import pytest

from tests.support import programs


@dataclass
class Ring:
    """Resources that a ring used."""

    tests: int = 0
    seconds: float = 0.0  # wall clock, summed over parallel workers
    cpu: float = 0.0  # CPU seconds of its tests and of the child processes that they waited for


def cpu_time():
    """Seconds of CPU time of this process, and of its children and programs that have ended."""
    times = os.times()
    here = times.user + times.system + times.children_user + times.children_system
    return here + programs.cpu_time()


def ring_of(nodeid):
    """The name of a test's ring, None for a test outside of tests/."""
    top, _, path = nodeid.partition("/")
    name, below, _ = path.partition("/")
    return name if top == "tests" and below else None


class Rings:
    def __init__(self, budgets):
        self.budgets = budgets
        self.rings = defaultdict(Ring)
        self._counted = cpu_time()

    def exceeded(self):
        """Names of rings whose CPU time is over their budget."""
        return [name for name, ring in self.rings.items() if ring.cpu > self.budgets.get(name, inf)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self):
        self._counted = cpu_time()  # collection belongs to no ring

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        start, self._counted = self._counted, cpu_time()
        report.cpu = self._counted - start  # pytest-xdist sends it along
        return report

    def pytest_runtest_logreport(self, report):
        if name := ring_of(report.nodeid):
            ring = self.rings[name]
            ring.tests += report.when == "call"
            ring.seconds += report.duration
            ring.cpu += getattr(report, "cpu", 0.0)  # none in the report of a crashed worker

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.OK and self.exceeded():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if not self.rings:
            return
        exceeded = self.exceeded()
        terminalreporter.section("rings")
        terminalreporter.line(f"{'ring':12} {'tests':>6} {'seconds':>8} {'CPU':>8} {'budget':>8}")
        for name, ring in sorted(self.rings.items()):
            budget = f"{self.budgets[name]:g}" if name in self.budgets else ""
            line = f"{name:12} {ring.tests:6} {ring.seconds:8.1f} {ring.cpu:8.1f} {budget:>8}"
            terminalreporter.line(line.rstrip())
        for name in exceeded:
            terminalreporter.line(
                f"{name} used more CPU time than its budget in pyproject.toml allows", red=True
            )


def pytest_addoption(parser):
    parser.addini("ring_budgets", "RING SECONDS: most CPU time of a ring", type="linelist")


def pytest_configure(config):
    lines = (line.split() for line in config.getini("ring_budgets"))
    budgets = {name: float(seconds) for name, seconds in lines}
    # a worker of pytest-xdist only measures
    worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Rings({} if worker else budgets), "rings")
