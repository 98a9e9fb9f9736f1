"""Power by webhooks: requests, and what hostile or broken receivers answer."""

import time
from dataclasses import replace

import pytest

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    Busy,
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT
from drivers.core.steps import Done, Wait
from drivers.net.signed import LONGEST, SIGNATURE, signature
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import new_registry, target, with_option

SECRET = "a secret of the plug"


class Plug(Handler):
    """A smart plug: POST /on and /off, GET /state."""

    def do_GET(self):
        self._answer(b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.server.answers:
            self.server.power = self.path[1:]
        self._answer(body)

    def _answer(self, body):
        self.server.request_log.append((self.command, self.path, body, self.headers[SIGNATURE]))
        answer = self.server.answers.get(self.path)
        if answer is None:
            answer = (200, {"power": self.server.power})
        if callable(answer):
            answer(self)
        else:
            self.answer(*answer)


@pytest.fixture
def plug():
    with serving(Plug, answers={}, request_log=[], power="off") as server:
        yield server


def node(plug, options=None, **info):
    urls = {f"webhook_power_{name}_url": f"{plug.url}/{name}" for name in ("on", "off", "state")}
    return target(
        "manual-management",
        {"power": "webhook"},
        registry=new_registry(Bmcs(trip_after=1000)),
        driver_info={**urls, "webhook_power_secret": SECRET, **info},
        options=with_option("webhooks", timeout=1.0) if options is None else options,
    )


def test_a_machine_is_switched_and_its_state_is_read(plug):
    machine = node(plug)
    power = machine.driver.power
    power.validate(machine)
    assert POWER_OFF == power.get_power_state(machine)
    assert Done() == power.power_on(machine)
    assert ("on", POWER_ON) == (plug.power, machine.reports["power_state"])
    off = power.change(machine, REBOOT)
    assert ("off", Wait) == (plug.power, type(off))
    assert Done() == power.change(replace(machine, progress=off.progress), REBOOT)
    assert "on" == plug.power
    assert ["/on", "/off", "/on"] == [path for verb, path, *_ in plug.request_log if verb == "POST"]


def test_requests_are_signed_as_webhooks_are(plug):
    machine = node(plug)
    machine.driver.power.order(machine, POWER_ON)
    machine.driver.power.get_power_state(machine)
    for _, _, body, header in plug.request_log:
        seconds = int(header.partition(",")[0].removeprefix("t="))
        assert abs(time.time() - seconds) < 60
        assert signature([SECRET], seconds, body) == header
        assert signature(["another secret of it"], seconds, body) != header
    _, path, body, _ = plug.request_log[0]
    assert "/on" == path
    expected = f'{{"node":"{machine.uuid}","name":"n0","power":"on"}}'
    assert expected == body.decode()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("webhook_power_on_url", None, "is required"),
        ("webhook_power_off_url", "", "is required"),
        ("webhook_power_state_url", "ftp://plug/state", "no http or https URL"),
        ("webhook_power_state_url", "http://plug/a b", "space"),
        ("webhook_power_on_url", "http://user:hush@plug/on", "without a user and a password"),
        ("webhook_power_off_url", "http://[bad", "no http or https URL"),
        ("webhook_power_secret", None, "is required"),
        ("webhook_power_secret", "short", "16 to 255 characters"),
        ("webhook_power_secret", ["x" * 20], "16 to 255 characters"),
        ("webhook_power_secret", "x" * 256, "16 to 255 characters"),
    ],
)
def test_a_wrong_key_is_named(plug, name, value, words):
    machine = node(plug, **{name: value})
    with pytest.raises(InvalidDriverInfo, match=rf"driver_info/{name}.*{words}"):
        machine.driver.power.validate(machine)


def test_errors_show_neither_secret_nor_query(plug):
    plug.answers["/state"] = (404, {})
    machine = node(plug, webhook_power_state_url=f"{plug.url}/state?token=hush")
    plug.answers["/state?token=hush"] = (404, {})
    with pytest.raises(Refused) as raised:
        machine.driver.power.get_power_state(machine)
    assert "hush" not in str(raised.value)
    short = node(plug, webhook_power_secret="hush hush")
    with pytest.raises(InvalidDriverInfo) as raised:
        short.driver.power.validate(short)
    assert "hush" not in str(raised.value)


def test_digits_as_a_secret_may_be_a_number(plug):
    machine = node(plug, webhook_power_secret=10**17)
    machine.driver.power.validate(machine)
    machine.driver.power.get_power_state(machine)
    header = plug.request_log[0][3]
    assert signature([str(10**17)], int(header.partition(",")[0][2:]), b"") == header


def test_denied_networks_are_refused_before_a_request(plug):
    options = with_option("conductor", fetch_denied_networks=("127.0.0.0/8",))
    machine = node(plug, options=options)
    with pytest.raises(InvalidDriverInfo, match="fetch_denied_networks"):
        machine.driver.power.validate(machine)
    by_name = node(
        plug,
        options=options,
        webhook_power_state_url=plug.url.replace("127.0.0.1", "localhost"),
    )
    with pytest.raises(InvalidDriverInfo, match=r"webhook_power_state_url.*fetch_denied_networks"):
        by_name.driver.power.get_power_state(by_name)
    assert [] == plug.request_log


BAD_STATES = [
    b"", b"on", b'"on"', b"[]", b'{"power": "On"}', b'{"power": true}', b'{"power": "power on"}',
    b'{"state": "on"}', b'{"power": ["on"]}', b'{"power": null}', b"\xff\xfe", b"{" * 5000,
    b'{"power": "on"} trailing', b'{"power": NaN}',
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_STATES)
def test_a_state_in_any_other_form_is_unexpected(plug, body):
    plug.answers["/state"] = (200, body)
    machine = node(plug)
    with pytest.raises(Unexpected):
        machine.driver.power.get_power_state(machine)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (204, Unexpected), (301, Refused), (400, Refused), (401, LoginRefused), (403, LoginRefused),
        (404, Refused), (409, Busy), (429, Busy), (503, Busy), (500, Unexpected),
    ],
)  # fmt: skip
def test_a_state_with_another_status_is_no_state(plug, status, error):
    plug.answers["/state"] = (status, b'{"power": "on"}' if status != 204 else b"")
    machine = node(plug)
    with pytest.raises(HardwareError) as raised:
        machine.driver.power.get_power_state(machine)
    assert error is type(raised.value)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (302, Refused), (400, Refused), (401, LoginRefused), (404, Refused), (409, Busy),
        (429, Busy), (503, Busy), (500, Unconfirmed), (502, Unconfirmed),
    ],
)  # fmt: skip
def test_an_order_with_another_status_is_refused_or_unconfirmed(plug, status, error):
    plug.answers["/on"] = (status, b"")
    machine = node(plug)
    with pytest.raises(HardwareError) as raised:
        machine.driver.power.order(machine, POWER_ON)
    assert error is type(raised.value)
    assert 1 == len(plug.request_log)


def test_redirects_are_not_followed(plug):
    with serving(Plug, answers={}, request_log=[], power="on") as other:
        moved = {"Location": f"{other.url}/state"}
        plug.answers |= {"/state": (307, b"", moved), "/on": (307, b"", moved)}
        machine = node(plug)
        for call in (
            lambda: machine.driver.power.get_power_state(machine),
            lambda: machine.driver.power.order(machine, POWER_ON),
        ):
            with pytest.raises(HardwareError):
                call()
        assert [] == other.request_log
    moved = {"Location": f"{plug.url}/elsewhere"}
    plug.answers |= {"/state": (307, b"", moved), "/on": (307, b"", moved)}
    machine = node(plug)
    with pytest.raises(Refused, match="redirects are not followed"):
        machine.driver.power.get_power_state(machine)
    with pytest.raises(Refused, match="redirects are not followed"):
        machine.driver.power.order(machine, POWER_ON)
    assert "/elsewhere" not in [path for _, path, *_ in plug.request_log]


def test_an_answer_is_limited_in_size_and_time(plug):
    machine = node(plug)
    plug.answers["/state"] = (200, b" " * (LONGEST + 1))
    with pytest.raises(Unexpected, match="more than"):
        machine.driver.power.get_power_state(machine)

    def slow(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(3000):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return
            time.sleep(0.1)

    plug.answers["/state"] = slow
    began = time.monotonic()
    with pytest.raises(Unreachable):
        machine.driver.power.get_power_state(machine)
    assert time.monotonic() - began < 60  # the answer takes five minutes


def test_an_order_whose_answer_is_lost_is_unconfirmed_and_one_that_was_not_sent_is_not(plug):
    machine = node(plug)
    plug.answers["/off"] = lambda handler: handler.connection.close()
    with pytest.raises(Unconfirmed):
        machine.driver.power.order(machine, POWER_OFF)
    plug.answers["/state"] = lambda handler: handler.connection.close()
    with pytest.raises(Unreachable) as raised:
        machine.driver.power.get_power_state(machine)
    assert Unreachable is type(raised.value)
    closed = node(plug, webhook_power_off_url="http://127.0.0.1:9/off")
    with pytest.raises(Unreachable) as raised:
        closed.driver.power.order(closed, POWER_OFF)
    assert Unreachable is type(raised.value)


def test_a_read_that_is_lost_is_sent_once_more_and_an_order_is_not(plug):
    machine = node(plug)
    losses = [lambda handler: handler.connection.close()]

    def lose_one(handler):
        answer = losses.pop() if losses else lambda it: it.answer(200, {"power": "on"})
        answer(handler)

    plug.answers["/state"] = lose_one
    assert POWER_ON == machine.driver.power.get_power_state(machine)
    assert ["/state"] * 2 == [path for _, path, *_ in plug.request_log]
    plug.answers["/off"] = lambda handler: handler.connection.close()
    with pytest.raises(Unconfirmed):
        machine.driver.power.order(machine, POWER_OFF)
    assert ["/off"] == [path for verb, path, *_ in plug.request_log if verb == "POST"]


def test_a_hard_reset_is_not_one_request(plug):
    machine = node(plug)
    with pytest.raises(NotSupported):
        machine.driver.power.order(machine, REBOOT)
    assert [] == plug.request_log
