"""The comparison with Ironic: rules of differences, and the list of known ones."""

import pytest

from tests.compare import comparison, known
from tests.compare.asks import Raw, Unknown, filled, get, post
from tests.compare.comparison import Difference, differences
from tests.compare.report import Finding, Report
from tests.compare.tables import TABLES

NODE = "0b7c2f4e-1111-4222-8333-444455556666"


def answer(body=b"", status=200, base="http://127.0.0.1:1", variables=None, **headers):
    return comparison.answer(status, headers, body, base, variables or {})


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (b'{"a": "http://127.0.0.1:1/v1"}', b'{"a": "http://127.0.0.1:2/v1"}'),
        (b'{"a": "2026-01-01T00:00:00.000001+00:00"}', b'{"a": "2027-02-02T03:04:05.600000+00:00"}'),
        (b'{"last_error": "no"}', b'{"last_error": "never"}'),
        (b'{"driver_internal_info": {"a": 1}}', b'{"driver_internal_info": {"b": 2}}'),
        (b'{"error_message": "{\\"faultcode\\": \\"Client\\", \\"faultstring\\": \\"is x\\", \\"debuginfo\\": null}"}',
         b'{"error_message": "{\\"faultcode\\": \\"Client\\", \\"faultstring\\": \\"a: is x y\\", \\"debuginfo\\": null}"}'),
        (b'[{"uuid": "0b7c2f4e-1111-4222-8333-000000000000"}]', b"[]"),
        (b'{"next": "http://127.0.0.1:1/v1/a?limit=1&x=%20"}',
         b'{"next": "http://127.0.0.1:2/v1/a?x=+&limit=1"}'),
    ],
)  # fmt: skip
def test_expected_differences_do_not_count(theirs, ours):
    assert [] == differences(answer(theirs), answer(ours, base="http://127.0.0.1:2"))


@pytest.mark.parametrize(
    ("theirs", "ours", "difference"),
    [
        (b'{"a": 1}', b'{"a": "1"}', Difference("a", "1", '"1"')),
        (b'{"a": 1}', b"{}", Difference("a", "1", "absent")),
        (b'{"a": {"b": [{"c": 1}]}}', b'{"a": {"b": [{"c": 2}]}}', Difference("a.b[].c", "1", "2")),
        (b"[1]", b"[1, 2]", Difference("body", "[1]", "[1, 2]")),
        (b'{"a": true}', b'{"a": 1}', Difference("a", "true", "1")),
        (b'[{"a": 1, "b": 2, "c": 3}]', b'[{"a": 1, "c": 3, "b": 2}]',
         Difference("order of []", '["b", "c"]', '["c", "b"]')),
        (b'{"error_message": "{\\"faultcode\\": \\"Client\\", \\"faultstring\\": \\"is x\\", \\"debuginfo\\": null}"}',
         b'{"error_message": "{\\"faultcode\\": \\"Client\\", \\"faultstring\\": \\"is y\\", \\"debuginfo\\": null}"}',
         Difference("words", '"is x"', '"is y"')),
        (b'{"last_error": null}', b'{"last_error": "no"}', Difference("last_error", "null", '"no"')),
        (b'{"t": "2026-01-01T00:00:00+00:00"}', b'{"t": "2026-01-01T00:00:00"}',
         Difference("t", '"<time+00:00>"', '"<time>"')),
        (b'{"next": "http://127.0.0.1:1/a?limit=1"}', b'{"next": "http://127.0.0.1:1/a?limit=2"}',
         Difference("next.limit", '"1"', '"2"')),
        (b'{"error_message": "{\\"faultcode\\": \\"Client\\", \\"faultstring\\": \\"\\", \\"debuginfo\\": null}"}',
         b'{"error_message": {"faultcode": "Client"}}',
         Difference("error", '"handler Client"', '"not encoded"')),
    ],
)  # fmt: skip
def test_fields_types_values_and_the_shapes_of_errors_count(theirs, ours, difference):
    assert [difference] == differences(answer(theirs), answer(ours))


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("Schema error for node: 5 is not of type 'string' (name)", "Schema error for node: 6 is not of type 'string', 'null'", True),
        ("name: 5 is not of type 'string'", "Schema error for node: 5 is not of type 'string'", False),
        ("Node a, of rack b, could not be found", "Node a could not be found", False),
        ("a node B could not be found", "Node B could not be found.", True),
        ("could not be found: Node b", "Node 0b7c2f4e-1111 could not be found", False),
        ("Couldn't apply patch '{'op': 'x'}'. Reason: can't remove 'a'", "Couldn't apply patch '{'op': 'y', 'v': \"z\"}'. Reason: can't remove 'prop'", True),
        ("Cannot patch /a. Only the following can be updated: b", "Cannot patch /a. Only the following can be updated: b, c", True),
        ("it is reserved", "The word is reserved. Reserved words are: a, b", False),
        ("anything", "", True),
        ("", "", True),
    ],
)  # fmt: skip
def test_an_error_must_contain_the_words_of_the_other_in_their_order(text, words, says):
    assert says is comparison.says(text, words)


def test_the_status_and_headers_count():
    assert [Difference("status", "200", "404")] == differences(answer(b"1"), answer(b"2", 404))
    assert [Difference("header location", "<base>/a", "absent")] == differences(
        answer(Location="http://127.0.0.1:1/a", Date="now"), answer()
    )


def test_methods_that_every_route_supports_do_not_count():
    assert [] == differences(answer(Allow="GET"), answer(Allow="OPTIONS, GET, HEAD"))
    assert [Difference("header allow", "GET", "GET, PUT")] == differences(
        answer(Allow="GET"), answer(Allow="PUT, GET")
    )


def test_a_missing_item_of_a_list_counts():
    theirs = answer(f'[{{"uuid": "{NODE}"}}]'.encode(), variables={"node": NODE})
    assert [Difference("body", '["{node}"]', "[]")] == differences(theirs, answer(b"[]"))


def test_variables_are_filled_in_and_a_missing_one_is_named():
    assert {"a": ["/x/1"], "{free.text}": 2} == filled(
        {"a": ["/x/{n}"], "{free.text}": 2}, {"n": "1"}
    )
    with pytest.raises(Unknown, match="other"):
        filled("/v1/nodes/{other}", {})


def test_a_label_describes_the_whole_request():
    assert "GET /v1/nodes @1.8 #again" == get("/v1/nodes", at="1.8", note="again").label
    assert "POST /v1/nodes b'{' (text/plain)" == post("/v1/nodes", Raw(b"{", "text/plain")).label


ROWS = r"""
## Additions

| request | part | Ironic | Ingot | reason |
| --- | --- | --- | --- | --- |
| `GET *` | `header etag` | `absent` | `*` | a tag |
| `* {"a": "x\|y"}` | `status` | `500` | `4*` | clear |

## Elsewhere

| request | part | Ironic | Ingot | reason |
| --- | --- | --- | --- | --- |
| `*` | `*` | `*` | `*` | not a reason |
"""


def test_known_differences_are_those_under_the_headings_of_reasons():
    tag, status = known.read(ROWS)
    assert tag.covers("GET /v1", Difference("header etag", "absent", '"1"'))
    assert not tag.covers("PUT /v1", Difference("header etag", "absent", '"1"'))
    assert not tag.covers("GET /v1", Difference("header etag", '"1"', "absent"))
    assert status.covers('POST /v1 {"a": "x|y"}', Difference("status", "500", "400"))


def test_a_row_without_a_reason_is_unreadable():
    with pytest.raises(known.Unreadable):
        known.read("## Additions\n| `GET *` | `status` | `1` | `2` | |")


def test_a_report_shows_unlisted_differences_and_unused_entries():
    report = Report(known.read(ROWS))
    tag, other = Difference("header etag", "absent", "x"), Difference("a", "1", "2")
    report.add(Finding("t", "GET /v1", []))
    report.add(Finding("t", "GET /v1", [tag]))
    report.add(Finding("t", "GET /v1/nodes", [tag, other]))
    assert (
        "3 requests: 2 answered alike but for headers that Ingot adds, 0 differ with a reason, 1"
        " without; 0 are errors in other words" == report.summary()
    )
    assert ["== t", "GET /v1/nodes", "    a: Ironic 1, Ingot 2"] == list(report.lines())
    assert ['* {"a": "x|y"}'] == [entry.request for entry in report.stale]


def test_the_page_of_known_differences_can_be_read():
    assert known.read(known.PAGE.read_text())


@pytest.mark.parametrize("name", TABLES)
def test_a_table_saves_each_value_before_it_uses_it(name):
    saved = {}
    for ask in TABLES[name]:
        filled([ask.path, None if isinstance(ask.body, Raw) else ask.body], saved)
        saved |= dict.fromkeys(ask.save, "x")
        filled(ask.settle, saved)
