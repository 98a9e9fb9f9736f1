"""Reading of malformed JSON and of errors in any form."""

import gzip

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.core.errors import Unexpected
from drivers.redfish.transport import bodies
from drivers.redfish.transport.bodies import MalformedDocument

NAME = "BMC http://192.0.2.1"


@pytest.mark.parametrize(
    ("body", "document"),
    [
        (b"", {}), (b" \r\n", {}), (b'{"a": 1}\x00', {"a": 1}), (b'{"a": "b\x00c"}', {"a": "bc"}),
        (b'{"a": "\xff"}', {"a": "\ufffd"}), (rb'{"a": "\ud800"}', {"a": "\ufffd"}),
        (rb'{"\udc00": "\ud83d\ude00"}', {"\ufffd": "\U0001f600"}), (rb'{"a": "\u0000"}', {"a": ""}),
        (rb'{"a": "\\u0000"}', {"a": r"\u0000"}), (b'{"a": "b\x01\n"}', {"a": "b\x01\n"}),
        (b'{"a": [NaN, Infinity, -Infinity, 1e999, -1e999]}', {"a": [None] * 5}),
        (b'{"a": [18446744073709551615, -9223372036854775808, NaN]}', {"a": [2**64 - 1, -(2**63), None]}),
        (b'{"a": [18446744073709551616, NaN]}', {"a": [2.0**64, None]}),
        (b'{"a": [%s, %s, NaN]}' % (b"9" * 30, b"9" * 5000), {"a": [1e30, None, None]}),
    ],
)  # fmt: skip
def test_a_document_holds_what_databases_and_clients_can(body, document):
    assert document == bodies.parsed(NAME, body)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(encoding):
    text = bodies.unpacked(NAME, {}, '{"a": "\u00e4"}'.encode(encoding))
    assert {"a": "\u00e4"} == bodies.parsed(NAME, text)


@given(
    st.binary(max_size=60)
    | st.text(max_size=40).map(lambda text: f'["{text}"]'.encode("utf-8", "surrogatepass"))
)
def test_any_body_is_storable_or_malformed(body):
    try:
        document = bodies.parsed(NAME, body)
    except MalformedDocument:
        return
    assert b"\\u0000" not in orjson.dumps(document)


@given(st.integers(400, 599), st.text(max_size=20), st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["error", "message", "code", "@Message.ExtendedInfo", "Message", "x"]), inner),
    max_leaves=8,
).map(orjson.dumps))  # fmt: skip
def test_any_error_has_the_form_of_dsp0266(status, reason, body):
    error = bodies.error_of(NAME, status, reason, body)
    assert isinstance(error["message"], str)
    assert isinstance(error["code"], str)
    assert all(isinstance(item, dict) for item in error["@Message.ExtendedInfo"])


def test_the_words_of_an_error_have_a_largest_length():
    page = b"<html><script>" + b"x" * 9000 + b"</script>" + b"no " * 9000
    assert 1000 >= len(bodies.error_of(NAME, 500, "", page)["message"])


@pytest.mark.parametrize("parts", [1, 3])
def test_a_stream_is_unpacked_up_to_the_limit_only(parts, monkeypatch):
    monkeypatch.setattr(bodies, "LONGEST", 100)
    assert b" " * 90 == bodies.unpacked(NAME, {}, gzip.compress(b" " * 30) * 3)
    with pytest.raises(Unexpected, match="more than"):
        bodies.unpacked(NAME, {}, gzip.compress(b" " * 60) * (parts + 1))
    assert 101 == len(bodies._inflated(gzip.compress(b" " * 10_000), 31))
