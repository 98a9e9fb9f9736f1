"""A copy of the tree in which tests are run, with and without a mutant."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.mutants.table import Mutant
from tests.support.tree_copy import copy_tree

#: Seconds for one test; a mutant may make it wait for ever.
TEST_LIMIT = 150


@dataclass(frozen=True)
class Result:
    """passed and the other fields: tests as pytest names them, without parameters."""

    passed: frozenset[str]
    failed: frozenset[str]
    errors: frozenset[str]  # in collection, set-up or tear-down
    status: int | None  # exit status of pytest, None after the time limit
    output: str


@dataclass
class Tree:
    """A copy of the tree in which tests are run, by one thread at a time."""

    folder: Path
    _changes: Iterator[int] = field(default_factory=lambda: count(1))

    @classmethod
    def copied(cls, folder: Path) -> "Tree":
        copy_tree(folder)
        return cls(folder)

    @contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.file
        text, times = path.read_text(), path.stat()
        path.write_text(mutant.applied(text))
        # cached byte code is valid for a time of change in seconds and a size
        moment = int(times.st_mtime) + next(self._changes)
        os.utime(path, (moment, moment))
        try:
            yield
        finally:
            path.write_text(text)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def test(self, tests: Iterable[str], *options: str, limit: float) -> Result:
        """Run these tests, and end the processes that they leave in their process group."""
        with tempfile.TemporaryDirectory() as folder:
            report, log = Path(folder) / "junit.xml", Path(folder) / "output"
            command = [
                sys.executable, "-m", "pytest", "-q", "-m", "not postgresql",
                "-p", "no:cacheprovider", "-o", f"timeout={min(limit, TEST_LIMIT)}",
                f"--junitxml={report}", *options, *tests,
            ]  # fmt: skip
            environ = {**os.environ, "PYTHONPATH": str(self.folder)}
            with log.open("w") as output:
                process = subprocess.Popen(
                    command, cwd=self.folder, env=environ, start_new_session=True,
                    stdout=output, stderr=subprocess.STDOUT,
                )  # fmt: skip
                try:
                    status = process.wait(limit)
                except subprocess.TimeoutExpired:
                    status = None
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            return _result(report, status, log.read_text())


def _result(report: Path, status: int | None, output: str) -> Result:
    kinds: dict[str, set[str]] = {"passed": set(), "failure": set(), "error": set()}
    cases = ET.parse(report).iter("testcase") if report.exists() else ()
    for case in cases:
        module, name = case.get("classname", ""), case.get("name", "")
        test = f"{module.replace('.', '/')}.py::{name.partition('[')[0]}"
        outcomes = {child.tag for child in case} & {"failure", "error", "skipped"}
        for kind in outcomes or {"passed"}:
            kinds.setdefault(kind, set()).add(test)
    return Result(
        passed=frozenset(kinds["passed"] - kinds["failure"] - kinds["error"]),
        failed=frozenset(kinds["failure"]),
        errors=frozenset(kinds["error"]),
        status=status,
        output=output,
    )
