"""Documents of BMCs: encodings, compression, links."""

import gzip
import json
import zlib

import pytest

from drivers.core.errors import Refused, Unexpected
from drivers.redfish.transport import client, peer
from tests.support.rude_bmc import ROOT, SYSTEM, SYSTEMS, link

from .conftest import both, node, only, packed


@both
@pytest.mark.parametrize(
    "body",
    [
        lambda text: text.replace(b'"SN1"', b'"SN\xff\xfe"'),
        lambda text: text.replace(b'"SN1"', b'"S\x01\x1f\tN"'),
        lambda text: text.replace(b'"SN1"', b'"S\x00N"'),
        lambda text: text.replace(b'"SN1"', rb'"\ud800 \udc00 \u0000"'),
        lambda text: text.replace(b'"SN1"', b"NaN"),
        lambda text: text.replace(b'"SN1"', b"[Infinity, -Infinity, 1e999, -1e999]"),
        lambda text: text.replace(b'"SN1"', b"1" * 5000),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.decode().encode("utf-16"),
        lambda text: text + b"\x00",
        lambda text: b"\r\n " + text + b"\n",
    ],
    ids=["latin", "control", "nul", "surrogates", "nan", "infinity", "long", "bom", "utf-16", "end", "space"],
)  # fmt: skip
def test_a_document_is_read_as_it_was_meant(bmc, read, body):
    bmc.rule = only(SYSTEM, lambda _handler: (200, {}, body(bmc.system())))
    assert "power on" == read(node(bmc))


@both
@pytest.mark.parametrize(
    "body", [b"<html>", b"{", b"[]", b'"On"', b"null", b"[" * 100_000, b'{"a": 1} {"b": 2}']
)
def test_what_is_no_document_is_a_malformed_one(bmc, read, body):
    bmc.rule = only(SYSTEM, (200, {}, body))
    with pytest.raises(Unexpected, match="did not send a JSON"):
        read(node(bmc))


def chunked(content):
    """gzip of two members, as some servers append them."""
    return packed(content[:10]) + packed(content[10:])


def raw_deflate(content):
    return zlib.compress(content)[2:-4]


@both
@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", packed), ("GZIP", chunked), ("x-gzip", gzip.compress), ("", gzip.compress),
        ("deflate", zlib.compress), ("deflate", raw_deflate), ("gzip", bytes), ("identity", bytes),
    ],
)  # fmt: skip
def test_a_compressed_document_is_unpacked(bmc, read, encoding, pack):
    headers = {"Content-Encoding": encoding} if encoding else {}
    bmc.rule = only(SYSTEM, lambda _handler: (200, headers, pack(bmc.system())))
    assert "power on" == read(node(bmc))


@both
@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [
        ("br", b"x", "compressed as 'br'"),
        ("gzip", packed(b"{}")[:-9], "malformed compressed"),
        ("gzip", packed(b" " * (5 << 20)), "more than 4 MiB"),
        ("deflate", zlib.compress(b" " * (5 << 20)), "more than 4 MiB"),
        ("gzip", packed(b"[" + b"0," * 300_000 + b"0]"), "more than 200000 values"),
    ],
)
def test_a_compressed_document_has_limits(bmc, read, encoding, body, words):
    bmc.rule = only(SYSTEM, (200, {"Content-Encoding": encoding}, body))
    with pytest.raises(Unexpected, match=words):
        read(node(bmc))


@both
def test_identity_that_is_not_acceptable_is_asked_again_with_gzip(bmc, read):
    def rule(handler):
        if handler.headers["Accept-Encoding"] != "gzip":
            return 406, {}, b""
        content = json.dumps(bmc.polite(handler, b"")[2]).encode()
        return 200, {"Content-Encoding": "gzip"}, packed(content)

    bmc.rule = rule
    assert "power on" == read(node(bmc))
    bmc.rule = lambda _handler: (406, {}, {"error": {"message": "never"}})
    with pytest.raises(Refused, match="406: never"):
        read(node(bmc))


@both
@pytest.mark.parametrize("spelling", ["{url}", "HTTP://{place}", "//{place}", "https://{other}"])
def test_links_with_another_spelling_of_the_address_are_paths(bmc, read, spelling, monkeypatch):
    place = bmc.url.removeprefix("http://")
    port = int(place.rpartition(":")[2])
    monkeypatch.setattr(peer, "PORTS", {"http": port, "https": 443})
    peer._place.cache_clear()
    url = spelling.format(url=bmc.url, place=place, other="127.0.0.1")
    bmc.documents[SYSTEMS]["Members"] = [link(url + SYSTEM)]
    bmc.documents[ROOT]["Systems"] = link(url + SYSTEMS)
    bmc.documents[SYSTEM]["@odata.id"] = url + SYSTEM
    it = node(bmc, redfish_system_id=None)
    assert "power on" == read(it)
    assert SYSTEM == client.connection(it.driver.power.bmcs.get(bmc.url), client.access(it)).path
    peer._place.cache_clear()
