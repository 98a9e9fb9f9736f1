"""
Rules of HTTP with a BMC, each fed to both readers: sushy (orders) and the power sweep.

The BMC is a server on a socket. `docs/redfish.md` has the rules as a table.
"""

import base64
import gzip
import json
import re
import ssl
import time
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import pytest
import sushy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    Busy,
    HardwareError,
    LoginRefused,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.redfish.transport import client, http_rules, navigation, peer
from drivers.redfish.transport.http_rules import Failure, Request, conversation
from drivers.redfish.transport.peer import Peer
from tests.support.ports import free_port
from tests.support.rude_bmc import (
    RESET,
    ROOT,
    SESSIONS,
    SILENCE,
    SYSTEM,
    SYSTEMS,
    link,
    rude_bmc,
)
from tests.support.tls import certificate
from tests.unit.drivers.documents import sweep_of
from tests.unit.drivers.machines import OPTIONS, new_registry, target

#: Without the time, as tests are named after the bytes.
packed = partial(gzip.compress, mtime=0)


def node(bmc, seconds=5.0, **info):
    options = {
        **OPTIONS,
        "redfish": {**OPTIONS["redfish"], "connect_timeout": seconds, "read_timeout": seconds},
    }
    info = {
        "redfish_address": bmc.url, "redfish_username": bmc.user, "redfish_password": bmc.password,
        "redfish_auth_type": "basic", "redfish_system_id": SYSTEM, **info,
    }  # fmt: skip
    registry = new_registry(Bmcs(trip_after=10_000))
    return target("redfish", registry=registry, driver_info=info, options=options)


def by_sushy(it):
    return it.driver.power.get_power_state(it)


def by_sweep(it):
    answer = sweep_of(it)
    if isinstance(answer, HardwareError):
        raise answer
    return answer


both = pytest.mark.parametrize("read", [by_sushy, by_sweep])


@pytest.fixture
def bmc():
    with rude_bmc() as server:
        yield server


@pytest.fixture
def other():
    """Another server on the same host, at another port."""
    with rude_bmc() as server:
        yield server


def only(path, answer, method="GET"):
    """A rule that answers one path with `answer`, as it is or made by a function of the handler."""

    def rule(handler):
        if handler.command != method or handler.path.rstrip("/") != path:
            return None
        return answer(handler) if callable(answer) else answer

    return rule


def in_turn(path, *answers, method="GET"):
    """A rule that answers one path with each of `answers`, and then politely."""
    left = list(answers)
    return only(path, lambda _handler: left.pop(0) if left else None, method)


# Redirects


def redirecting(status, location):
    """Redirect each path without a slash at its end; {path} is the path, {url} the address."""

    def rule(handler):
        if handler.path.endswith("/"):
            return None
        url = f"http://{handler.headers['Host']}"
        return status, {"Location": location.format(path=handler.path, url=url)}, b""

    return rule


@both
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["{path}/", "{url}{path}/", "//127.0.0.1:{path}/", "1/"])
def test_redirects_within_the_address_are_followed(bmc, read, status, location):
    place = bmc.url.removeprefix("http://")
    location = location.replace("//127.0.0.1:", f"//{place}").replace(
        "{url}", "HTTP://" + place.upper()
    )
    bmc.rule = (
        only(SYSTEM, (status, {"Location": f"{SYSTEM[:-1]}{location}"}, b""))
        if location == "x"
        else redirecting(status, location)
    )
    assert "power on" == read(node(bmc))


@both
def test_redirects_to_the_path_without_a_slash_are_followed(bmc, read):
    slash = f"{SYSTEM}/"
    bmc.rule = lambda handler: (308, {"Location": SYSTEM}, b"") if handler.path == slash else None
    assert "power on" == read(node(bmc, redfish_system_id=slash))
    assert ("GET", SYSTEM) in bmc.requests()


@both
def test_the_body_of_a_redirect_does_not_matter(bmc, read):
    headers = {"Location": f"{SYSTEM}/", "Content-Encoding": "br"}
    bmc.rule = lambda handler: (308, headers, b"\xff") if handler.path == SYSTEM else None
    assert "power on" == read(node(bmc))


@both
@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{own}", "u:p@127.0.0.1:{port}"])
def test_a_redirect_to_another_address_is_refused_with_both(bmc, other, read, host):
    place = host.format(port=other.url.rpartition(":")[2], own=bmc.url.rpartition(":")[2])
    bmc.rule = only(SYSTEM, (307, {"Location": f"http://{place}{SYSTEM}"}, b""))
    with pytest.raises(Unexpected) as raised:
        read(node(bmc))
    assert bmc.url in str(raised.value)
    assert place in str(raised.value)
    assert [] == other.asked


@both
@pytest.mark.parametrize("ways", [{SYSTEM: SYSTEM}, {SYSTEM: f"{SYSTEM}/a", f"{SYSTEM}/a": SYSTEM}])
def test_a_circle_of_redirects_is_named(bmc, read, ways):
    bmc.rule = lambda handler: (
        (302, {"Location": ways[handler.path]}, b"") if handler.path in ways else None
    )
    with pytest.raises(Unexpected, match=r"in a circle: .* -> "):
        read(node(bmc))
    assert 10 > len(bmc.asked)


@both
def test_redirects_without_end_are_given_up(bmc, read):
    bmc.rule = lambda handler: (
        (302, {"Location": f"{handler.path}x"}, b"") if handler.path.startswith(SYSTEM) else None
    )
    with pytest.raises(Unexpected, match="redirects too often"):
        read(node(bmc))
    assert 10 > len(bmc.asked)


@both
@pytest.mark.parametrize("answer", [(304, {}, b""), (302, {}, b""), (300, {"Location": "/x"}, b"")])
def test_a_redirect_without_an_address_is_no_document(bmc, read, answer):
    bmc.rule = only(SYSTEM, answer)
    with pytest.raises(Unexpected, match=f"answered {answer[0]}"):
        read(node(bmc))


@both
def test_a_redirect_from_http_to_https_of_the_same_host_is_followed_and_never_back(
    tmp_path, bmc, read, monkeypatch
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    paths = certificate(tmp_path, "bmc")
    context.load_cert_chain(*paths)
    with rude_bmc(tls=context) as secure:
        ports = {
            each.url.partition(":")[0]: int(each.url.rpartition(":")[2]) for each in (bmc, secure)
        }
        monkeypatch.setattr(peer, "PORTS", ports)
        peer._place.cache_clear()
        bmc.rule = lambda handler: (301, {"Location": secure.url + handler.path}, b"")
        trusting = {"redfish_verify_ca": str(paths[0])}
        assert "power on" == read(node(bmc, **trusting))
        secure.rule, bmc.rule = (
            lambda handler: (301, {"Location": bmc.url + handler.path}, b""),
            None,
        )
        bmc.asked.clear()
        with pytest.raises(Unexpected, match="to another address"):
            read(node(secure, **trusting))
        assert [] == bmc.asked
    peer._place.cache_clear()


def test_a_login_is_redirected_with_its_body(bmc):
    for status in (301, 302, 307, 308):
        bmc.rule = redirecting(status, "{path}/")
        bmc.asked.clear()
        assert "power on" == by_sushy(node(bmc, redfish_auth_type="session"))
        assert ("POST", f"{SESSIONS}/") in bmc.requests("POST")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_order_is_redirected_with_method_and_body(bmc, status):
    bmc.rule = (
        only(RESET, (status, {"Location": f"{RESET}/"}, b""), "POST")
        if status != 301
        else redirecting(301, "{path}/")
    )
    rule = bmc.rule
    bmc.rule = lambda handler: None if handler.path.endswith("/") else rule(handler)
    it = node(bmc)
    it.driver.power.order(it, "power off")
    assert ("POST", f"{RESET}/", {"ResetType": "ForceOff"}) == bmc.orders()[-1]
    assert 2 == len(bmc.orders())


def test_303_leads_to_the_result_of_an_order(bmc):
    bmc.rule = only(RESET, (303, {"Location": SYSTEM}, b""), "POST")
    it = node(bmc)
    it.driver.power.order(it, "power off")
    assert [("POST", RESET)] == bmc.requests("POST")
    assert ("GET", SYSTEM) == bmc.requests()[-1]
    bmc.rule = only(RESET, (303, {"Location": "/gone"}, b""), "POST")
    with pytest.raises(Unconfirmed, match=f"^POST {RESET} was ordered, not confirmed"):
        it.driver.power.order(it, "power off")


def test_302_of_an_order_to_another_resource_leaves_the_order_unconfirmed(bmc):
    bmc.rule = only(RESET, (302, {"Location": f"{SYSTEM}/other"}, b""), "POST")
    it = node(bmc)
    with pytest.raises(Unconfirmed, match="was ordered, not confirmed"):
        it.driver.power.order(it, "power off")
    assert 1 == len(bmc.orders())


def test_an_order_that_leads_to_another_address_is_not_given(bmc, other):
    bmc.rule = only(RESET, (308, {"Location": f"{other.url}{RESET}"}, b""), "POST")
    it = node(bmc)
    with pytest.raises(Unexpected, match="was not ordered") as raised:
        it.driver.power.order(it, "power off")
    assert not isinstance(raised.value, Unconfirmed)
    assert [] == other.asked


# Documents


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


# Errors


@both
@pytest.mark.parametrize("status", [400, 404, 405, 409, 410, 415, 418])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><head><title>x</title></head><h1>the BMC says no</h1></html>", "the BMC says no"),
        (b'["the BMC says no"]', "the BMC says no"),
        (b"the BMC says no", "the BMC says no"),
        (b'{"error": "the BMC says no"}', "the BMC says no"),
        (b'{"Message": "the BMC says no"}', "the BMC says no"),
        (b'{"error": {"message": null, "@Message.ExtendedInfo": {"Message": "the BMC says no"}}}',
         "the BMC says no"),
        (b'{"error": {"@Message.ExtendedInfo": [null, 5, {"Message": "the BMC says no"}]}}',
         "the BMC says no"),
        (b'{"error": {"code": 5, "message": ["the BMC says no"]}}', "the BMC says no"),
        (b"", ""), (b"null", ""), (b"[]", ""), (b'{"error": null}', ""), (b"\xff\x00", ""),
        (packed(b"x" * (6 << 20)), ""),
    ],
)  # fmt: skip
def test_an_error_of_any_form_keeps_its_status_and_words(bmc, read, status, body, words):
    bmc.rule = only(SYSTEM, (status, {}, body))
    with pytest.raises(Refused) as raised:
        read(node(bmc))
    assert not raised.value.retryable
    assert words in str(raised.value)
    if status != 404:
        assert str(status) in str(raised.value)


@both
def test_an_error_does_not_show_the_password(bmc, read):
    bmc.rule = only(SYSTEM, (400, {}, {"error": {"message": f"bad {bmc.password}"}}))
    with pytest.raises(Refused) as raised:
        read(node(bmc))
    assert bmc.password not in str(raised.value)


@both
@pytest.mark.parametrize(
    ("status", "headers", "body", "error"),
    [
        (401, {}, b"", LoginRefused), (403, {}, b"[]", LoginRefused), (500, {}, b"<p>", Unexpected),
        (503, {}, b"", Busy), (429, {}, b"", Busy), (503, {"Retry-After": "86400"}, b"", Busy),
        (400, {}, {"error": {"@Message.ExtendedInfo": [
            {"MessageId": "iLO.2.14.UnableToModifyDuringSystemPOST"}]}}, Busy),
    ],
)  # fmt: skip
def test_a_status_has_its_type_of_error(bmc, read, status, headers, body, error):
    bmc.rule = only(SYSTEM, (status, headers, body))
    with pytest.raises(HardwareError) as raised:
        read(node(bmc))
    assert error is type(raised.value)


def date_in(seconds):
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@both
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["1", "0", "1.5", "-5", "date"])
def test_a_busy_bmc_is_waited_for(bmc, read, status, after):
    after = date_in(1) if after == "date" else after
    bmc.rule = in_turn(SYSTEM, *[(status, {"Retry-After": after}, b"")] * 2)
    began = time.monotonic()
    assert "power on" == read(node(bmc))
    least = 2.0 if after in {"1", "1.5"} else 0.3
    assert least <= time.monotonic() - began


def test_a_busy_bmc_is_waited_for_with_an_order(bmc):
    bmc.rule = in_turn(RESET, (503, {"Retry-After": "1"}, b""), method="POST")
    it = node(bmc)
    it.driver.power.order(it, "power off")
    assert 2 == len(bmc.orders())


def test_an_order_that_a_busy_bmc_refuses_is_not_repeated_without_its_word(bmc):
    bmc.rule = only(RESET, (503, {}, b""), "POST")
    it = node(bmc)
    with pytest.raises(Busy):
        it.driver.power.order(it, "power off")
    assert 1 == len(bmc.orders())


def test_not_modified_is_no_answer_to_an_order(bmc):
    bmc.rule = only(RESET, (304, {}, b""), "POST")
    it = node(bmc)
    with pytest.raises(Unconfirmed, match="was ordered, not confirmed"):
        it.driver.power.order(it, "power off")
    assert 1 == len(bmc.orders())


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_does_not_know_of_an_order(bmc, status):
    bmc.rule = only(RESET, (status, {}, b""), "POST")
    it = node(bmc)
    with pytest.raises(Unconfirmed, match="was ordered, not confirmed"):
        it.driver.power.order(it, "power off")
    assert 1 == len(bmc.orders())


# Lost answers


@both
@pytest.mark.parametrize("losses", [1, 2])
def test_a_read_is_repeated(bmc, read, losses):
    bmc.rule = in_turn(SYSTEM, *[SILENCE] * losses)
    assert "power on" == read(node(bmc))
    bmc.rule = in_turn(SYSTEM, (500, {}, b""))
    assert "power on" == read(node(bmc))


@both
def test_a_read_is_repeated_a_few_times_only(bmc, read):
    bmc.rule = only(SYSTEM, SILENCE)
    with pytest.raises(Unreachable, match="did not answer"):
        read(node(bmc))
    # aiohttp itself sends each of them once more when the connection was closed
    assert (6 if read is by_sweep else 3) == bmc.requests().count(("GET", SYSTEM))
    bmc.asked.clear()
    bmc.rule = only(SYSTEM, (500, {}, b""))
    with pytest.raises(Unexpected):
        read(node(bmc))
    assert 2 == bmc.requests().count(("GET", SYSTEM))


@both
def test_a_bmc_that_is_not_there_is_not_asked_again(read, bmc):
    bmc.url = f"http://127.0.0.1:{free_port()}"
    pauses = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", pauses.append)
        with pytest.raises(Unreachable) as raised:
            read(node(bmc))
    assert not isinstance(raised.value, Unconfirmed)
    assert not any(pauses), "a pause before another request"


def hanging(_handler):
    time.sleep(1.5)
    return SILENCE


@pytest.mark.parametrize(
    "answer",
    [
        SILENCE,
        hanging,
        (200, {"Content-Encoding": "br"}, b"x"),
        (202, {}, packed(b"{")[:-9]),
    ],
    ids=["closed", "late", "encoded", "broken"],
)
def test_an_order_whose_answer_is_lost_is_given_once_and_unconfirmed(bmc, answer):
    it = node(bmc, 0.5)
    assert "power on" == by_sushy(it)
    bmc.rule = only(RESET, answer, "POST")
    with pytest.raises(Unconfirmed, match=rf"^POST {RESET} was ordered, not confirmed: BMC "):
        it.driver.power.order(it, "power off")
    assert 1 == len(bmc.orders())


def test_an_order_that_was_not_sent_says_so(bmc, monkeypatch):
    it = node(bmc)
    with client.turn(it, it.driver.power.bmcs) as connection:
        system = connection.system(fresh=False)
    # of the same BMC, which has stopped to listen
    address = f"http://127.0.0.1:{free_port()}"
    adapter = system._conn._session.get_adapter(bmc.url)
    monkeypatch.setattr(adapter, "_peer", Peer(address))
    system._conn._url = address
    with pytest.raises(Unreachable, match=rf"^POST {RESET} was not ordered: BMC ") as raised:
        it.driver.power.order(it, "power off")
    assert not isinstance(raised.value, Unconfirmed)
    assert [] == bmc.orders()


def test_a_read_that_is_lost_after_an_order_leaves_the_order_unconfirmed(bmc):
    it = node(bmc)

    def order_and_look():
        with client.turn(it, it.driver.power.bmcs) as connection:
            connection.system(fresh=True).reset_system(sushy.ResetType.FORCE_OFF)
            bmc.rule = only(SYSTEM, SILENCE)
            connection.system(fresh=True)

    with pytest.raises(Unconfirmed, match="was ordered, not confirmed"):
        order_and_look()
    with pytest.raises(Unreachable) as raised:  # the next command has given no order
        by_sushy(it)
    assert not isinstance(raised.value, Unconfirmed)


@both
@pytest.mark.parametrize("keeps", [False, True])
def test_each_request_has_a_connection_of_its_own(bmc, read, keeps):
    """The BMC closes connections without a word about it, or keeps them and says nothing."""
    bmc.keeps = keeps
    for _ in range(10):
        it = node(bmc)
        assert "power on" == read(it)
        it.driver.power.order(it, "power off")
    assert {"close"} == {headers["Connection"] for *_, headers, _ in bmc.asked}
    assert len(set(bmc.clients)) == len(bmc.clients)
    assert 10 == len(bmc.orders())


# If-Match


def demanding(tag, missing=428, wrong=412):
    """A rule that takes a PATCH with this If-Match only (None: without)."""

    def rule(handler):
        sent = handler.headers.get("If-Match")
        if handler.command != "PATCH" or sent == tag:
            return None
        return (missing if sent is None else wrong), {}, b""

    return rule


@pytest.mark.parametrize(
    ("header", "in_document", "right"),
    [
        (None, '"7"', '"7"'), (None, 'W/"7"', 'W/"7"'), (None, 'W/"7"', '"7"'), (None, "7", '"7"'),
        ('"8"', '"7"', '"8"'), ('W/"8"', None, '"8"'), ('"8"', None, None), (None, None, "*"),
        (None, 7, "*"), ('"8"', '"8"', None),
    ],
)  # fmt: skip
def test_the_present_etag_is_sent_with_an_order(bmc, header, in_document, right):
    document = {**bmc.documents[SYSTEM], "@odata.etag": in_document}
    headers = {"ETag": header} if header else {}
    demand = demanding(right)
    bmc.rule = lambda handler: (
        (200, headers, document)
        if (handler.command, handler.path) == ("GET", SYSTEM)
        else demand(handler)
    )
    it = node(bmc)
    with client.turn(it, it.driver.power.bmcs) as connection:
        connection.set_boot(target="Pxe", enabled="Once")
    assert 4 >= len(bmc.orders())


def test_an_etag_that_is_never_right_ends(bmc):
    bmc.rule = demanding("no such tag")
    it = node(bmc)
    with pytest.raises(Refused, match=r"412|428"):
        it.driver.management.set_boot_device(it, "pxe")
    assert 4 >= len(bmc.orders())


# Credentials


@pytest.mark.parametrize(
    "password", ["Pässwörd", "pass€word", "日本", "a:b\r\nX-Evil: 1", 0, 123, "0"]
)
@both
def test_basic_credentials_are_utf8(bmc, read, password):
    bmc.user = "ädmin"
    assert "power on" == read(node(bmc, redfish_password=password))
    for _, _, headers, _ in bmc.asked:
        if header := headers.get("Authorization"):
            sent = base64.b64decode(header.removeprefix("Basic ")).decode()
            assert f"ädmin:{password}" == sent
        assert "X-Evil" not in headers
    assert any("Authorization" in headers for _, _, headers, _ in bmc.asked)


@both
@pytest.mark.parametrize("password", ["Pässwörd", "pass€word", 0])
def test_a_session_takes_any_password(bmc, read, password):
    bmc.password = str(password)
    assert "power on" == read(node(bmc, redfish_password=password, redfish_auth_type="session"))


@pytest.mark.parametrize("name", [1001, 0])
def test_a_user_may_be_a_number(bmc, name):
    bmc.user = str(name)
    assert "power on" == by_sushy(node(bmc, redfish_username=name, redfish_auth_type="session"))


def test_a_process_logs_out_at_its_end_and_not_for_long(bmc, other):
    it, slow = (node(each, redfish_auth_type="session") for each in (bmc, other))
    bmcs = slow.driver.power.bmcs = it.driver.power.bmcs
    assert "power on" == by_sushy(it) == by_sushy(slow)
    other.rule = lambda handler: hanging(handler) if handler.command == "DELETE" else None
    began = time.monotonic()
    bmcs.log_out(0.5)
    assert 1.4 > time.monotonic() - began
    assert [("DELETE", f"{SESSIONS}/1")] == bmc.requests("DELETE") == other.requests("DELETE")
    assert "power on" == by_sushy(it), "the next command logs in again"
    bmc.asked.clear()
    bmc.rule = lambda handler: (401, {}, b"") if handler.command == "DELETE" else None
    bmcs.log_out(0.5)
    assert [] == bmc.requests("POST"), "no login to log out"


# Pages


def paged(bmc, path, members, size, key="Members@odata.nextLink", link_of="{path}?$skip={at}"):
    """Serve a collection in pages; {at} is the number of members before."""
    count = -(-len(members) // size)

    def rule(handler):
        place, _, query = handler.path.partition("?")
        if handler.command != "GET" or place.rstrip("/") != path:
            return None
        at = int(query.rpartition("=")[2] or 0)
        page = {"@odata.id": path, "Name": "c", "Members": members[at : at + size]}
        if at + size < len(members):
            page[key] = link_of.format(path=path, at=at + size, url=bmc.url)
        assert count
        return 200, {}, page

    return rule


FORMS = [
    ("Members@odata.nextLink", "{path}?$skip={at}"), ("@odata.nextLink", "{path}?$skip={at}"),
    ("Members@odata.nextLink", "{url}{path}?$skip={at}"), ("Members@odata.nextLink", "?$skip={at}"),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("count", "size"), [(5, 2), (4, 2), (1, 1), (120, 50)])
def test_a_collection_is_read_to_its_last_page(bmc, form, count, size):
    path = f"{SYSTEM}/EthernetInterfaces"
    bmc.documents[SYSTEM]["EthernetInterfaces"] = link(path)
    paths = [f"{path}/{number}" for number in range(count)]
    for each in paths:
        bmc.documents[each] = {
            "@odata.id": each,
            "Id": each,
            "Name": "NIC",
            "MACAddress": "52:54:00:00:00:01",
        }
    bmc.rule = paged(bmc, path, [link(each) for each in paths], size, *form)
    it = node(bmc)
    with client.turn(it, it.driver.power.bmcs) as connection:
        system = connection.system(fresh=True)
        assert paths == [
            each.path for each in navigation.members(connection, system, "ethernet_interfaces")
        ]


@both
@pytest.mark.parametrize("form", FORMS)
def test_the_second_page_counts_for_the_number_of_systems(bmc, read, form):
    second = f"{SYSTEMS}/2"
    bmc.documents[second] = {**bmc.documents[SYSTEM], "@odata.id": second}
    bmc.rule = paged(bmc, SYSTEMS, [link(SYSTEM), link(second)], 1, *form)
    with pytest.raises(Unexpected, match="exactly one system"):
        read(node(bmc, redfish_system_id=None))
    bmc.rule = paged(bmc, SYSTEMS, [link(SYSTEM)], 1, *form)
    assert "power on" == read(node(bmc, redfish_system_id=None))


def test_lists_inside_a_document_are_completed(bmc):
    bmc.documents[SYSTEM]["Storage"] = {
        "Members": [{"Id": "1", "Drives": [link("/a")], "Drives@odata.nextLink": "/p2"}],
        "Members@odata.nextLink": "/p3",
    }
    bmc.documents["/p2"] = {"Drives": [link("/b")]}
    bmc.documents["/p3"] = {"Members": [{"Id": "2", "Drives": [], "Drives@odata.nextLink": "/p4"}]}
    bmc.documents["/p4"] = {"Drives": [link("/c")]}
    it = node(bmc)
    with client.turn(it, it.driver.power.bmcs) as connection:
        storage = connection.system(fresh=True).json["Storage"]
    assert [[link("/a"), link("/b")], [link("/c")]] == [
        each["Drives"] for each in storage["Members"]
    ]


@both
@pytest.mark.parametrize(
    "page",
    [
        (404, {}, b""), (500, {}, b""), (200, {}, b"<html>"), (200, {}, {"Members": None}),
        (200, {}, {"Members": [], "Members@odata.nextLink": f"{SYSTEMS}?p"}),
        (200, {}, {"Members": [], "Members@odata.nextLink": SYSTEMS}),
        (200, {}, {"Members": [], "Members@odata.nextLink": 5}),
        (200, {}, {"Members": [], "Members@odata.nextLink": "http://192.0.2.1/x"}),
    ],
)  # fmt: skip
def test_a_collection_without_one_of_its_pages_is_no_collection(bmc, read, page):
    first = {"Members": [link(SYSTEM)], "Members@odata.nextLink": f"{SYSTEMS}?p"}
    bmc.rule = lambda handler: (
        page
        if handler.path == f"{SYSTEMS}?p"
        else (200, {}, first)
        if handler.path == SYSTEMS
        else None
    )
    with pytest.raises(Unexpected):
        read(node(bmc, redfish_system_id=None))
    assert 20 > len(bmc.asked)


#: Code that makes a connection to a BMC, or reads pages -> the modules that may have it.
DOORS = {
    r"\bSushy\(|Connector\)?:|\.Session\(": {"connector.py"},
    r"ClientSession\(": {"sweep.py"},
    r"nextLink|\$skip|\$top": {"pages.py"},
}


@pytest.mark.parametrize("pattern", DOORS)
def test_no_code_reads_a_collection_beside_the_rules(pattern):
    """Collections are completed before sushy or the sweep see them: a page is never alone."""
    folder = Path(http_rules.__file__).parents[1]
    modules = {path.name for path in folder.rglob("*.py") if re.search(pattern, path.read_text())}
    assert modules <= DOORS[pattern]
    assert modules


# Addresses


@both
@pytest.mark.parametrize("path", ["/redfish/v1", "/redfish/", "/"])
def test_an_address_may_have_the_path_of_the_service_root(bmc, read, path):
    assert "power on" == read(node(bmc, redfish_address=bmc.url + path, redfish_system_id=None))


@both
@pytest.mark.parametrize("auth", ["basic", "session"])
def test_a_bmc_may_be_behind_a_prefix(bmc, read, auth):
    text = json.dumps(bmc.documents).replace("/redfish/v1", "/rack7/bmc3/redfish/v1")
    bmc.documents = json.loads(text)
    sessions = f"/rack7/bmc3{SESSIONS}"
    bmc.rule = only(sessions, (201, {"X-Auth-Token": "t", "Location": f"{sessions}/1"}, {}), "POST")
    address = f"{bmc.url}/rack7/bmc3/redfish/v1"
    assert "power on" == read(
        node(bmc, redfish_address=address, redfish_system_id=None, redfish_auth_type=auth)
    )
    assert all(path.startswith("/rack7/bmc3/redfish/v1") for _, path in bmc.requests())


# Any answer

STATUSES = [*range(200, 209), *range(300, 309), *range(400, 430), 451, *range(500, 512), 999]
HEADERS = st.dictionaries(
    st.sampled_from(["Location", "Content-Encoding", "Content-Type", "Retry-After", "ETag", "Date",
                     "Set-Cookie", "WWW-Authenticate", "Connection", "Transfer-Encoding"]),
    st.sampled_from(["", "x", "/", "//", "/redfish/v1/", "http://192.0.2.1/", "http://[", "gzip",
                     "deflate", "br", "application/zip", "0", "1e400", "nan", "Thu, 01 Jan 1970",
                     "close", "keep-alive", "chunked", '"e"', "W/", "\xff"]),
    max_size=3,
)  # fmt: skip
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([
        b"", b"{}", b"[]", b"null", b"NaN", b'{"Members": 5, "Members@odata.nextLink": "/x"}',
        b'{"Members": [], "@odata.nextLink": "?"}', b'{"error": {"@Message.ExtendedInfo": 5}}',
        b'{"@odata.id": "//"}', b'{"@odata.id": "http://["}', b"\x1f\x8b", packed(b"[1]"),
        b'{"Systems": {"@odata.id": 5}}', b'{"PowerState": [], "Boot": 5, "//": {"target": "//x"}}',
    ]),
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile():
    with rude_bmc() as server:
        yield server


@pytest.mark.parametrize("read", [by_sushy, by_sweep])
@pytest.mark.parametrize("path", [ROOT, SYSTEM])
def test_any_answer_is_a_power_state_or_a_typed_error(hostile, monkeypatch, read, path):
    monkeypatch.setattr(http_rules, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(http_rules, "LONGEST_WAIT", 0.0)

    @settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=60,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(STATUSES), HEADERS, BODIES)
    def try_(status, headers, body):
        hostile.asked.clear()
        hostile.rule = only(path, (status, headers, body))
        with suppress(HardwareError):
            state = read(node(hostile, 1.0))
            assert state in {"power on", "power off", None}, "None: an unsettled state"
        assert 40 > len(hostile.asked)

    try_()


ORDER = Request("POST", f"http://bmc{RESET}")


@pytest.mark.parametrize(
    ("request_", "sent", "sendings", "error"),
    [
        (Request("GET", "http://bmc/x"), True, 3, Unreachable),
        (Request("GET", "http://bmc/x"), False, 3, Unreachable),
        (ORDER, False, 3, Unreachable),
        (ORDER, True, 1, Unconfirmed),
        (Request("PATCH", "http://bmc/x"), True, 1, Unconfirmed),
        (Request("DELETE", "http://bmc/x"), True, 1, Unconfirmed),
        (Request("POST", f"http://bmc{SESSIONS}/"), True, 3, Unreachable),
        (Request("DELETE", f"http://bmc{SESSIONS}/1"), True, 3, Unreachable),
    ],
)
def test_only_what_was_not_sent_or_changes_nothing_is_sent_again(request_, sent, sendings, error):
    talk = conversation(Peer("http://bmc"), request_, time.monotonic() + 60)
    next(talk)
    failure = Failure("broke off", sent=sent, repeats=2)
    for _ in range(sendings - 1):
        talk.throw(failure)
    with pytest.raises(Unreachable) as raised:
        talk.throw(failure)
    assert error is type(raised.value)


def test_a_late_command_repeats_nothing():
    talk = conversation(Peer("http://bmc"), Request("GET", "http://bmc/x"), time.monotonic())
    next(talk)
    with pytest.raises(Unreachable):
        talk.throw(Failure("broke off", sent=False, repeats=2))


# Subscriptions

EVENTS = f"{ROOT}/EventService"
SUBSCRIPTIONS = f"{EVENTS}/Subscriptions"
HERE = "https://192.0.2.1/events"


def with_events(bmc, *, headers=(), content=b"", status=201, creates=1):
    """Give a BMC an event service that answers a new subscription in this way."""
    old = {"Id": "0", "Name": "s", "Destination": HERE, "Context": "", "Protocol": "Redfish"}
    bmc.documents[ROOT]["EventService"] = link(EVENTS)
    bmc.documents[EVENTS] = {
        "Id": "E", "Name": "E", "ServiceEnabled": True, "Actions": {"#EventService.SubmitTestEvent": {"target": "/x"}}, "EventTypesForSubscription": ["Alert"],
        "Subscriptions": link(SUBSCRIPTIONS),
    }  # fmt: skip
    bmc.documents[SUBSCRIPTIONS] = {"Name": "c", "Members": [link(f"{SUBSCRIPTIONS}/0")]}
    bmc.documents[f"{SUBSCRIPTIONS}/0"] = old

    def create(_handler):
        for number in range(1, creates + 1):
            path = f"{SUBSCRIPTIONS}/{number}"
            bmc.documents[SUBSCRIPTIONS]["Members"].append(link(path))
            bmc.documents[path] = {**old, "Id": str(number)}
        return status, dict(headers), content

    bmc.rule = only(SUBSCRIPTIONS, create, "POST")


@pytest.mark.parametrize(
    "answer",
    [
        {"headers": {"Location": f"{SUBSCRIPTIONS}/1"}},
        {"headers": {"Location": f"{SUBSCRIPTIONS}/1"}, "status": 204},
        {"content": {"@odata.id": f"{SUBSCRIPTIONS}/1"}},
        {}, {"status": 204}, {"status": 200, "content": {"Message": "Success"}},
    ],
)  # fmt: skip
def test_a_new_subscription_is_found_without_the_word_of_its_bmc(bmc, answer):
    with_events(bmc, **answer)
    it = node(bmc)
    created = it.driver.vendor.call(it, "create_subscription", {"Destination": HERE})
    assert "1" == created["Id"]
    assert 1 == len(bmc.orders())


@pytest.mark.parametrize("creates", [0, 2])
def test_a_subscription_that_cannot_be_told_is_unconfirmed(bmc, creates):
    with_events(bmc, creates=creates)
    it = node(bmc)
    with pytest.raises(Unconfirmed, match=f"lists {creates} new ones to {HERE}"):
        it.driver.vendor.call(it, "create_subscription", {"Destination": HERE})
