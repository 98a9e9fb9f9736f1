"""Schemas of the arguments of steps."""

import pytest

from drivers.core.errors import BadArgument
from drivers.core.schema import mismatch
from tests.unit.drivers.machines import target

PAIRS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "level": {"type": "integer", "minimum": 1, "maximum": 9},
        },
    },
}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ([], None),
        ([{"name": "a", "level": 2, "more": 1}], None),
        ("x", "settings must be of type array, not str"),
        ([1], "settings/0 must be of type object, not int"),
        ([{"name": "a"}, {}], "settings/1 lacks name"),
        ([{"name": 1}], "settings/0/name must be of type string, not int"),
        ([{"name": "a", "level": True}], "settings/0/level must be of type integer, not bool"),
        ([{"name": "a", "level": 0}], "settings/0/level must be at least 1, not 0"),
        ([{"name": "a", "level": 10}], "settings/0/level must be at most 9, not 10"),
    ],
)
def test_a_wrong_value_is_reported_with_its_path(value, wrong):
    assert wrong == mismatch(value, PAIRS, "settings")


def test_a_value_outside_of_an_enum_is_refused():
    schema = {"type": ["string", "null"], "enum": ["raid1", None]}
    assert None is mismatch("raid1", schema, "level")
    assert None is mismatch(None, schema, "level")
    assert "level must be one of raid1, None, not 'raid9'" == mismatch("raid9", schema, "level")


def test_a_step_with_an_invalid_argument_is_not_run():
    node = target()
    step = {"step": "apply_configuration", "args": {"settings": [{"name": "boot"}]}}
    with pytest.raises(BadArgument, match=r"bios\.apply_configuration: settings/0 lacks value"):
        node.driver.bios.execute_clean_step(node, step)
