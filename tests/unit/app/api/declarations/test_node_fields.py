"""The table of node fields agrees with the model, the resource and inspection rules."""

from app.api.declarations import node_fields
from app.api.node import node_query
from app.inspection.subject import NODE_FIELDS
from app.models import Node

COLUMNS = Node.__table__.c
COMPUTED = {*node_query.STEPS, *node_query.JOINED, "traits", "conductor"}


def test_each_field_has_one_row_and_a_column_unless_the_view_computes_it():
    names = [field.name for field in node_fields.FIELDS]
    assert len(set(names)) == len(names)
    assert COMPUTED == set(names) - set(COLUMNS.keys())


def test_fields_that_requests_set_or_filter_by_have_columns():
    names = {*node_fields.CREATED, *node_fields.CHANGED, *node_fields.FILTERS}
    assert set() == names - set(COLUMNS.keys())


def test_inspection_rules_set_fields_with_the_types_of_their_columns():
    names = {field.name for field in node_fields.FIELDS}
    assert set() == NODE_FIELDS.keys() - names
    types = {name: COLUMNS[name].type.python_type for name in NODE_FIELDS}
    assert {
        name: dict if type_ is object else type_ for name, type_ in types.items()
    } == NODE_FIELDS


def test_fields_are_shown_sorted_by_name_between_the_first_and_the_last():
    middle = node_fields.FULL[len(node_fields.HEAD) : -len(node_fields.TAIL)]
    placed = {field.name for field in node_fields.FIELDS if field.place}
    plain = [name for name in middle if name not in placed]
    assert sorted(plain) == plain
    assert middle.index("disable_power_off") + 1 == middle.index("deploy_interface")
    assert middle.index("inspection_started_at") + 1 == middle.index("inspect_interface")
