"""Requests with ETags, and credentials of all forms."""

import base64
import time

import pytest

from drivers.core.errors import Refused
from drivers.redfish.transport import client
from tests.support.rude_bmc import SESSIONS, SYSTEM

from .conftest import both, by_sushy, hanging, node


def demanding(tag, missing=428, wrong=412):
    """A rule that takes a PATCH with this If-Match only (None: without)."""

    def rule(handler):
        etag = handler.headers.get("If-Match")
        if handler.command != "PATCH" or etag == tag:
            return None
        return (missing if etag is None else wrong), {}, b""

    return rule


# If-Match


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
    for _, _, headers, _ in bmc.request_log:
        if header := headers.get("Authorization"):
            credentials = base64.b64decode(header.removeprefix("Basic ")).decode()
            assert f"ädmin:{password}" == credentials
        assert "X-Evil" not in headers
    assert any("Authorization" in headers for _, _, headers, _ in bmc.request_log)


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
    it, slow = (node(server, redfish_auth_type="session") for server in (bmc, other))
    bmcs = slow.driver.power.bmcs = it.driver.power.bmcs
    assert "power on" == by_sushy(it) == by_sushy(slow)
    other.rule = lambda handler: hanging(handler) if handler.command == "DELETE" else None
    began = time.monotonic()
    bmcs.log_out(0.5)
    assert 1.4 > time.monotonic() - began
    assert [("DELETE", f"{SESSIONS}/1")] == bmc.requests("DELETE") == other.requests("DELETE")
    assert "power on" == by_sushy(it), "the next command logs in again"
    bmc.request_log.clear()
    bmc.rule = lambda handler: (401, {}, b"") if handler.command == "DELETE" else None
    bmcs.log_out(0.5)
    assert [] == bmc.requests("POST"), "no login to log out"
