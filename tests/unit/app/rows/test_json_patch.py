"""JSON patches."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Invalid
from app.rows import json_patch

DOCUMENTS = st.dictionaries(
    st.text("ab", min_size=1, max_size=2), st.integers() | st.lists(st.integers(), max_size=3)
)


def change(document, *changes):
    parsed = json_patch.parse(list(changes), document.keys(), escapes=True)
    return json_patch.apply(document, parsed)


def test_changes_are_applied_in_order():
    result = change(
        {"extra": {"a": 1}, "name": "n"},
        {"op": "add", "path": "/extra/b", "value": {"c": 1}},
        {"op": "replace", "path": "/extra/b/c", "value": 2},
        {"op": "remove", "path": "/extra/a"},
        {"op": "remove", "path": "/name"},
    )

    assert {"extra": {"b": {"c": 2}}, "name": None} == result


def test_escaped_paths_address_any_key():
    result = change({"extra": {}}, {"op": "add", "path": "/extra/a~1b~0c d", "value": 1})

    assert {"extra": {"a/b~c d": 1}} == result


@given(DOCUMENTS, st.sampled_from(["add", "replace", "remove"]), st.text("ab/~01-", max_size=6))
def test_the_document_itself_is_never_changed(extra, op, path):
    document = {"extra": {**extra}}
    with suppress(Invalid):
        change(document, {"op": op, "path": f"/extra/{path}", "value": [1]})

    assert {"extra": extra} == document


@pytest.mark.parametrize("index", ["3", "-1", "x", "٣", "99999999999"])
def test_a_missing_index_is_refused(index):
    with pytest.raises(Invalid):
        change({"steps": [1, 2]}, {"op": "replace", "path": f"/steps/{index}", "value": 1})
