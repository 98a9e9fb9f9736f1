"""Errors of BMCs: words, types, and busy BMCs."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from drivers.core.errors import Busy, HardwareError, LoginRefused, Refused, Unconfirmed, Unexpected
from tests.support.rude_bmc import RESET, SYSTEM

from .conftest import both, in_turn, node, only, packed


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
@pytest.mark.parametrize("delay", ["1", "0", "1.5", "-5", "date"])
def test_a_busy_bmc_is_waited_for(bmc, read, status, delay):
    delay = date_in(1) if delay == "date" else delay
    bmc.rule = in_turn(SYSTEM, *[(status, {"Retry-After": delay}, b"")] * 2)
    began = time.monotonic()
    assert "power on" == read(node(bmc))
    least = 2.0 if delay in {"1", "1.5"} else 0.3
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
