"""Every key that Ironic reads is read, refused by validation, or listed in the documentation."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from drivers.core.errors import InvalidDriverInfo
from drivers.core.unread_keys import REFUSALS
from tests.compare.node_keys import keys
from tests.unit.drivers.machines import target
from tests.unit.drivers.node_keys import READ, UNREAD

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)
READS = [(field, key, path) for field, key_paths in READ.items() for key, path in key_paths.items()]
REFUSED = {(refusal.place, refusal.key) for refusal in REFUSALS}


@cache
def constants(path: str) -> frozenset[str]:
    """Texts in the code of a module, without its docstrings."""
    tree = ast.parse((ROOT / path).read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return frozenset(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    )


def listed() -> set[tuple[str, str]]:
    """Return (field, key) of the rows of the documentation."""
    section = PAGE.partition("## Keys of a node\n")[2].partition("\n## ")[0]
    return {
        (field, key)
        for field, names, _ in ROW.findall(section)
        for key in re.findall(r"`(\w+)`", names)
    }


@pytest.mark.parametrize(("field", "key", "path"), READS)
def test_a_key_is_read_by_its_module(field, key, path):
    assert key in constants(path)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: f"{refusal.place}/{refusal.key}")
def test_a_refused_key_is_named_by_validation_with_the_reason(refusal):
    def validated(value):
        node = target("fake-hardware", **{refusal.place: {refusal.key: value}})
        node.driver.validate(refusal.kind, node)

    with pytest.raises(InvalidDriverInfo) as raised:
        validated("a value")
    assert f"{refusal.place}/{refusal.key}: {refusal.reason}" == str(raised.value)
    for value in (None, "", *refusal.accepted, *map(str.upper, refusal.accepted)):
        validated(value)


def test_a_refused_key_is_refused_by_no_other_interface():
    node = target("fake-hardware", driver_info={"pxe_template": "x"})
    for kind in node.driver.by_kind:
        if kind != "boot":
            node.driver.validate(kind, node)


def test_every_other_key_is_refused_or_listed_and_none_is_both():
    unread = {(field, key) for field, names in UNREAD.items() for key in names.split()}
    assert unread == REFUSED | listed()
    assert not REFUSED & listed()
    assert not unread & {(field, key) for field, key, _ in READS}


def test_reads_of_ironic_are_found_in_its_source():
    source = """
OPTIONAL_PROPERTIES = {"in_a_table": "text"}
node.driver_info.get("by_get"); d_info["by_subscript"]; "by_in" in instance_info
node.instance_info.get("capabilities", {}).get("nested"); (node.properties or {}).get("after_or")
other.get("no key"); driver_info.get(built)
"""
    assert {
        ("driver_info", "in_a_table"), ("driver_info", "by_get"), ("driver_info", "by_subscript"),
        ("instance_info", "by_in"), ("instance_info", "capabilities"), ("capabilities", "nested"),
        ("properties", "after_or"),
    } == set(keys(source))  # fmt: skip
