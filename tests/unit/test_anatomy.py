"""Measures that are kept: names of variables, and the seam of drivers. See `tests/anatomy.py`."""

import ast
import json

import pytest

from tests import anatomy


def module(text):
    path = anatomy.ROOT / "app" / "engine" / "example.py"
    return anatomy.Module(path, ast.parse(text), text)


def test_no_package_gains_bindings_without_a_noun():
    bindings = anatomy.bindings_without_noun(anatomy.modules(anatomy.NAMED))
    recorded_counts = json.loads(anatomy.FROZEN.read_text())
    additions = [
        f"{package}: at most {recorded_counts.get(package, 0)} of\n  " + "\n  ".join(places)
        for package, places in bindings.items()
        if len(places) > recorded_counts.get(package, 0)
    ]
    assert not additions, "name these values by their nouns (docs/style.md, 13):\n" + "\n".join(
        additions
    )


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "def method(found): ...",
        "for found in (): ...",
        "[found for found in ()]",
        "with open('file') as found: ...",
        "(found, port) = 1, 2",
        "if found := 1: ...",
        "lambda found: 1",
        "port.found = 1",
    ],
)
def test_each_kind_of_binding_is_counted(text):
    assert anatomy.bindings_without_noun([module(text)]) == {
        "app/engine": ["app/engine/example.py:1: found"]
    }


def test_a_name_that_is_read_and_a_noun_are_not_counted():
    text = "port = found\nport = port.found\nfound_ports = []\ncall(found=1)"
    assert anatomy.bindings_without_noun([module(text)]) == {}


def test_app_and_workers_use_drivers_by_the_seam_alone():
    assert [] == anatomy.imports_past_seam(anatomy.modules(("app", "workers")))


@pytest.mark.parametrize(
    "text",
    ["from drivers.redfish import sweep", "import drivers.agent", "from drivers import boot"],
)
def test_an_import_past_the_seam_is_named(text):
    assert 1 == len(anatomy.imports_past_seam([module(text)]))


@pytest.mark.parametrize(
    "text",
    [
        "from drivers.core.steps import Flow",
        "from drivers.net import fetch",
        "import drivers.builtin.x",
    ],
)
def test_an_import_within_the_seam_is_not_named(text):
    assert [] == anatomy.imports_past_seam([module(text)])
