"""Order of firmware versions, as far as it does not depend on the vendor."""

import pytest

from app.baselines.facts import Facts
from app.baselines.rules import parse
from app.baselines.version_order import compare, is_ordered

#: Older, newer.
ORDERED = [
    ("7.9", "7.10"), ("7.10.50", "7.10.50.1"), ("1", "2"), ("2.9", "10"), ("01.01.10", "1.2"),
    ("v2.68", "2.72"), ("U32 v2.68 (07/14/2022)", "U32 v2.72 (01/02/2022)"),
    ("iLO 5 v2.65", "iLO 5 v2.72"), ("TEI392O-3.00", "tei392o-3.01"), ("3.4a", "3.4b"),
    ("3.4b", "3.5a"), ("22.31.1014 (MT_0000000359)", "22.32.1010 (MT_0000000359)"),
    ("8" * 255, "9" * 255),
]  # fmt: skip
EQUAL = [
    ("7.10", "7.10.0"), ("7.10", "07.010"), ("V2.1", "2.1.0"), ("3.4A", "3.4a"), ("7.10", "7-10"),
    ("U32 v2.68", "u32 v2.68"), (" 7.10 ", "7.10"), ("7.10", "7.10.00.0"),
]  # fmt: skip
UNORDERED = [
    ("1.0rc1", "1.0"), ("1.0-beta", "1.0"), ("3.4", "3.4a"), ("U32 v2.68", "U46 v1.20"),
    ("N/A", "7.10"), ("unknown", "other"), ("٣.1", "3.1"), ("7.1½", "7.1"), ("0x1A", "0x1B"),
    ("1.0.x", "1.0.y"), ("...", "0"),
]  # fmt: skip


@pytest.mark.parametrize(("older", "newer"), ORDERED)
def test_an_older_version_is_below_a_newer_one(older, newer):
    assert compare(older, newer) < 0 < compare(newer, older)
    assert [True, False] == [meets(version, ">=", newer) for version in (newer, older)]
    assert [True, False] == [meets(version, "<=", older) for version in (older, newer)]


@pytest.mark.parametrize(("version", "other"), EQUAL)
def test_equal_versions_may_be_written_in_several_ways(version, other):
    assert 0 == compare(version, other) == compare(other, version)
    assert meets(version, ">=", other.strip())
    assert meets(version, "<=", other.strip())


@pytest.mark.parametrize(("version", "other"), UNORDERED)
def test_versions_whose_order_depends_on_the_vendor_have_none(version, other):
    assert compare(version, other) is None
    assert compare(other, version) is None


@pytest.mark.parametrize(
    ("actual", "expected"),
    [*UNORDERED, *((text, "7.10") for text in ("", None, 7, "\x1b", "...", "x7y"))],
)
def test_a_version_without_an_order_complies_with_no_bound(actual, expected):
    if is_ordered(expected):
        assert [False, False] == [meets(actual, operator, expected) for operator in (">=", "<=")]


def meets(actual, operator, expected):
    rule = parse({"field": "firmware.bmc", "operator": operator, "value": expected})
    return rule.difference(Facts(firmware={"bmc": actual})) is None
