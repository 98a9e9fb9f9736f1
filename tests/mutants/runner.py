"""Run the tests of mutants, in parallel copies of the tree."""

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.table import Mutant
from tests.mutants.tree import Result, Tree
from tests.support import specs_page

#: Seconds for the tests of a mutant.
LIMIT = 600

KILLED, SURVIVED = "killed", "SURVIVED"
BAD = "BAD MUTANT"  # no test ran: import or set-up fails with it
FAILS_WITHOUT = "FAILS WITHOUT A MUTANT"
NOT_RUN = "not run"  # a program that the tests need is missing here


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    word: str
    detail: str = ""
    seconds: float = 0.0

    @property
    def acceptable(self) -> bool:
        return self.word in (KILLED, NOT_RUN)


def judge(tree: Tree, mutant: Mutant, tests: list[str], without: Result) -> Verdict:
    """
    Run the tests with the mutant.

    tests: their paths; without: result of the tests without a mutant. A test that fails kills the
    mutant; an error in collection or set-up does not, because it says nothing about the demand.
    """
    if broken := (without.failed | without.errors) & set(tests):
        return Verdict(mutant, FAILS_WITHOUT, ", ".join(sorted(broken)))
    usable = [test for test in tests if test in without.passed]
    if not usable:
        return Verdict(mutant, NOT_RUN)
    begun = time.monotonic()
    with tree.with_mutant(mutant):
        databases = ("-m", "") if mutant.postgresql else ()
        result = tree.test(usable, "-x", *databases, limit=LIMIT)
    if result.failed:
        word, detail = KILLED, min(result.failed)
    elif result.status is None:
        word, detail = KILLED, "time limit"
    elif result.errors or not result.passed:
        word, detail = BAD, "\n".join(result.output.splitlines()[-15:])
    else:
        word, detail = SURVIVED, ", ".join(usable)
    return Verdict(mutant, word, detail, time.monotonic() - begun)


def run(mutants: list[Mutant], jobs: int = 1) -> Iterator[Verdict]:
    """Run the tests of all mutants without a mutant first; then each mutant with its tests."""
    files = specs_page.files()

    def paths(mutant: Mutant) -> list[str]:
        names = (test.split("::") for test in mutant.tests)
        return [f"{files[short]}::{test}" for short, test in names]

    with tempfile.TemporaryDirectory(prefix="ingot-mutants-") as folder:
        trees: SimpleQueue[Tree] = SimpleQueue()
        first_tree, *other_trees = (Tree.copied(Path(folder) / f"tree-{n}") for n in range(jobs))
        tests = sorted({path for mutant in mutants for path in paths(mutant)})
        parallel = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
        without = first_tree.test(tests, *parallel, limit=LIMIT + 30 * len(tests))
        if without.status is None or not without.passed | without.failed | without.errors:
            raise RuntimeError(f"the tests do not run without a mutant:\n{without.output[-2000:]}")
        for tree in (first_tree, *other_trees):
            trees.put(tree)

        def verdict_on(mutant: Mutant) -> Verdict:
            tree = trees.get()
            try:
                return judge(tree, mutant, paths(mutant), without)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(verdict_on, mutants)
