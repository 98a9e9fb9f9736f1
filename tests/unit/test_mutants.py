"""The mutants of tests/mutants, and the program that runs them."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from tests.mutants import runner, table
from tests.mutants.table import Mutant
from tests.mutants.tree import Tree
from tests.support import specs_page

ROOT = Path(__file__).parents[2]
MUTANTS = table.load()
DEMANDS = specs_page.demands()

# A project as small as can be: one module, one file of tests.
PRODUCT = """\
def double(number):
    return number * 2
"""
TESTS = """\
import time

import pytest

import product


@pytest.fixture
def six():
    assert product.double(3) == 6
    return product.double(3)


def test_double():
    assert product.double(3) == 6


def test_type():
    assert isinstance(product.double(3), int)


def test_with_a_fixture(six):
    assert six


def test_that_fails():
    assert product.double(3) == 7


def test_that_cannot_run():
    pytest.skip("no program")


def test_that_may_wait():
    while product.double(3) != 6:  # 9 with the mutant
        time.sleep(0.1)
"""
MUTANT = Mutant(
    spec="doubles", id="triple", demand="a number is doubled", file="product.py",
    what="number * 2", instead="number * 3", tests=("product::test_double",),
)  # fmt: skip


#: Time for all tests of a mutant here: one of them may not end.
LIMIT = 15


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A tree with one module and its tests; and the result of its tests without a mutant."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "tests").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = postgresql\npythonpath = .\n")
    (folder / "product.py").write_text(PRODUCT)
    (folder / "tests/test_product.py").write_text(TESTS)
    tree = Tree(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to load
        patch.setattr(runner, "LIMIT", LIMIT)
        yield tree, tree.test(["tests/test_product.py"], limit=60)


def verdict(project, *names, **change):
    """Verdict on a mutant of the project with these tests: (word, detail)"""
    tree, without = project
    tests = [f"tests/test_product.py::{name}" for name in names]
    judgement = runner.judge(tree, replace(MUTANT, **change), tests, without)
    return judgement.word, judgement.detail


def test_every_demand_has_a_mutant():
    assert [] == [(demand.spec, demand.text) for demand in DEMANDS if not demand.mutants]


def test_every_mutant_belongs_to_the_demand_that_names_it_and_runs_tests_of_that_demand():
    assert [] == [
        key for key, times in Counter(mutant.id for mutant in MUTANTS).items() if times > 1
    ]
    triples = {(demand.spec, demand.text, key) for demand in DEMANDS for key in demand.mutants}
    assert triples == {(mutant.spec, mutant.demand, mutant.id) for mutant in MUTANTS}
    cited = {(demand.spec, demand.text): set(demand.tests) for demand in DEMANDS}
    for mutant in MUTANTS:
        assert mutant.tests, mutant.id
        assert set(mutant.tests) <= cited[mutant.spec, mutant.demand], mutant.id


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_changes_one_place_and_compiles(mutant):
    text = (ROOT / mutant.file).read_text()
    changed = mutant.applied(text)
    assert text != changed
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")


def test_a_mutant_brings_in_no_undefined_name(tmp_path):
    """A NameError kills a mutant without a test of its demand."""
    for mutant in MUTANTS:
        if mutant.file.endswith(".py"):
            path = tmp_path / mutant.spec / f"{mutant.id}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(mutant.applied((ROOT / mutant.file).read_text()))
    assert "" == undefined_names(tmp_path)


def undefined_names(folder):
    """Return ruff's complaints about names without a definition: path:line:column: message"""
    command = [
        sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet",
        "--select", "F821", "--output-format", "concise", ".",
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_an_undefined_name_is_found_by_its_mutant(tmp_path):
    (tmp_path / "triple.py").write_text(PRODUCT.replace("number * 2", "numbers * 3"))
    assert "triple.py:2:12: F821 Undefined name `numbers`\n" == undefined_names(tmp_path)


@pytest.mark.parametrize("text", ["number * 4", "number"])
def test_a_text_that_occurs_not_once_is_refused_with_the_mutant_and_the_file(text):
    message = r"mutant triple: [02] times in product\.py: .*tests/mutants/doubles\.toml"
    with pytest.raises(ValueError, match=message):
        replace(MUTANT, what=text).applied(PRODUCT)


def test_successive_days_cover_all_mutants_and_each_day_has_its_own():
    mutants = [replace(MUTANT, id=f"m{n:02}") for n in range(45)]
    days = [table.sample(mutants, 20, date(2026, 5, day)) for day in (1, 2, 3)]
    assert [15, 15, 15] == [len(day) for day in days]
    assert mutants == sorted(
        (mutant for day in days for mutant in day), key=lambda mutant: mutant.id
    )
    assert mutants[:3] == table.sample(mutants[:3], 20)


def test_a_test_that_fails_kills_the_mutant_and_the_file_is_restored(project):
    assert (runner.KILLED, "tests/test_product.py::test_double") == verdict(project, "test_double")
    tree, without = project
    assert PRODUCT == (tree.folder / "product.py").read_text()
    assert without.passed == tree.test(["tests/test_product.py"], limit=60).passed


def test_tests_that_pass_let_the_mutant_survive(project):
    assert runner.SURVIVED == verdict(project, "test_type")[0]


def test_a_mutant_that_breaks_the_import_is_killed_by_no_test(project):
    word, detail = verdict(project, "test_double", instead="number *")
    assert runner.BAD == word
    assert "SyntaxError" in detail


def test_a_mutant_that_breaks_only_the_setup_of_a_test_is_killed_by_no_test(project):
    assert runner.BAD == verdict(project, "test_with_a_fixture")[0]


def test_a_test_that_fails_without_the_mutant_is_named(project):
    outcome = verdict(project, "test_double", "test_that_fails")
    assert (runner.FAILS_WITHOUT, "tests/test_product.py::test_that_fails") == outcome


def test_a_mutant_whose_tests_cannot_run_here_is_neither_killed_nor_a_survivor(project):
    assert (runner.NOT_RUN, "") == verdict(project, "test_that_cannot_run")


def test_a_test_that_does_not_end_kills_the_mutant_at_the_time_limit(project):
    assert (runner.KILLED, "time limit") == verdict(project, "test_that_may_wait")
