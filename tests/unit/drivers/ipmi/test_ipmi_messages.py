"""Messages of IPMI: meaning of the bytes, completion codes, and repetitions."""

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, strategies

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    BadArgument,
    Busy,
    HardwareError,
    InvalidDriverInfo,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, SOFT_OFF
from drivers.core.steps import Done
from drivers.core.target import Target
from drivers.ipmi import ipmitool
from drivers.ipmi.client import Client
from drivers.ipmi.credentials import Credentials
from drivers.ipmi.intel import IntelIpmiManagement
from drivers.ipmi.management import IpmiManagement
from drivers.ipmi.vendor import IpmiVendor
from tests.unit.drivers import machines

from .conftest import OPTIONS, target


class Wire:
    """Transport that answers from a list, and records the messages."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def __call__(self, bmc, netfn, command, data, deadline):
        self.requests.append((netfn, command, *data))
        return self.answers.pop(0)


def client(wire, before_order=lambda: None, timeout=5.0) -> Client:
    return Client(Credentials("10.0.0.5"), Bmcs(), wire, timeout, before_order)


def forgetful(wire, monkeypatch, **info):
    """Management and target of a node whose BMC forgets persistent boot devices."""
    monkeypatch.setattr(ipmitool, "raw", wire)
    management = IpmiManagement()
    management.bmcs = Bmcs()
    forced = {"ipmi_client": "ipmitool", "ipmi_force_boot_device": True, **info}
    return management, target(ipmi_disable_boot_timeout=False, **forced)


def test_a_forced_boot_device_is_set_again_before_each_start_but_not_over_that_of_one_start(
    monkeypatch,
):
    wire = Wire(*[(0, b"")] * 4)
    management, node = forgetful(wire, monkeypatch)
    management.before_start(node)
    management.set_boot_device(node, "disk", persistent=True)
    management.before_start(node)
    management.set_boot_device(node, "pxe")
    management.before_start(node)
    management.before_start(node)
    disk, pxe = (0, 8, 5, 0xA0, 0x08, 0, 0, 0), (0, 8, 5, 0xA0, 0x04, 0, 0, 0)
    assert [disk, disk, pxe, disk] == wire.requests


def test_a_boot_device_that_is_not_forced_is_set_once(monkeypatch):
    wire = Wire((0, b""))
    management, node = forgetful(wire, monkeypatch, ipmi_force_boot_device="false")
    management.set_boot_device(node, "disk", persistent=True)
    management.before_start(node)
    assert [(0, 8, 5, 0xE0, 0x08, 0, 0, 0)] == wire.requests
    assert {} == node.reports


@pytest.mark.parametrize(("status", "state"), [(0x21, POWER_ON), (0x20, POWER_OFF)])
def test_the_lowest_bit_of_the_chassis_status_is_the_power(status, state):
    assert state == client(Wire((0, bytes([status, 0, 0])))).power_state()


@pytest.mark.parametrize(("state", "byte"), [(POWER_OFF, 0), (POWER_ON, 1), (SOFT_OFF, 5)])
def test_a_power_command_is_one_chassis_control_message(state, byte):
    wire = Wire((0, b""))
    client(wire).order(state)
    assert [(0, 2, byte)] == wire.requests


@pytest.mark.parametrize(
    ("code", "error"),
    [(0xC0, Busy), (0xC4, Busy), (0xD2, Busy), (0xD5, Busy), (0xC3, Unconfirmed),
     (0xCE, Unconfirmed), (0xFF, Unconfirmed), (0xCC, NotSupported), (0xD4, Refused)],
)  # fmt: skip
def test_a_power_command_is_sent_once_and_its_refusal_typed(code, error):
    wire = Wire((code, b""), (0, b""))
    with pytest.raises(error, match=f"0x{code:02x}") as raised:
        client(wire).order(POWER_ON)
    assert ([(0, 2, 1)], error) == (wire.requests, type(raised.value))


def test_a_power_command_without_an_answer_is_unconfirmed():
    def wire(*_):
        raise Unreachable("no answer")

    with pytest.raises(Unconfirmed):
        client(wire).order(POWER_ON)
    with pytest.raises(Unreachable) as raised:
        client(wire).power_state()
    assert not isinstance(raised.value, Unconfirmed)


class Chassis:
    """Chassis commands of a BMC; `codes`: of the next power commands, which have no effect."""

    def __init__(self, *codes, on=False):
        self.codes, self.on, self.orders = list(codes), on, 0

    def __call__(self, _bmc, _netfn, command, data, _deadline):
        if command == 1:
            return 0, bytes([self.on, 0, 0])
        if command != 2:  # boot flags
            return 0, b""
        self.orders += 1
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            self.on = data[0] == 1
        return code, b""


@pytest.mark.parametrize("codes", [(0xC0,), (0xD5, 0xD5), (0xD2, 0xC0, 0xD5), (0xC3,), (0xFF,)])
def test_a_power_step_goes_on_after_a_refusal_in_transition(codes, monkeypatch):
    wire = Chassis(*codes)
    monkeypatch.setattr(Client, "of", lambda *_: client(wire))
    options = {**OPTIONS, "conductor": {"power_state_change_timeout": 60}}
    node = replace(target(), options=options, driver=machines.target("ipmi").driver)
    for _ in range(20):
        outcome = node.driver.power.power_on(node)
        node = replace(node, progress=getattr(outcome, "progress", {}))
        if isinstance(outcome, Done):
            break
    assert (Done(), True, len(codes) + 1) == (outcome, wire.on, wire.orders)


def test_nothing_is_sent_when_the_lease_is_lost():
    def lost():
        raise Refused("lease lost")

    wire = Wire()
    for order in (
        lambda bmc: bmc.order(POWER_ON),
        lambda bmc: bmc.set_boot_device("pxe", persistent=False, uefi=True, keep_on_timeout=True),
    ):
        with pytest.raises(Refused, match="lease lost"):
            order(client(wire, before_order=lost))
    assert wire.requests == []


def test_a_boot_device_is_set_with_its_flags_and_without_the_timeout_of_a_minute():
    wire = Wire((0, b""), (0, b""))
    client(wire).set_boot_device("cdrom", persistent=True, uefi=True, keep_on_timeout=True)
    assert wire.requests == [(0, 8, 3, 8), (0, 8, 5, 0xE0, 0x14, 0, 0, 0)]


def test_a_bmc_with_a_fixed_timeout_still_gets_the_boot_device():
    wire = Wire((0x80, b""), (0, b""))
    client(wire).set_boot_device("pxe", persistent=False, uefi=False, keep_on_timeout=True)
    assert wire.requests[-1] == (0, 8, 5, 0x80, 0x04, 0, 0, 0)


@pytest.mark.parametrize(
    ("flags", "device", "persistent"),
    [
        ("0105 80 04", "pxe", False),
        ("0105 e0 08", "disk", True),
        ("0105 c0 18", "bios", True),
        ("0105 00 04", None, None),  # flags are not valid
        ("0185 80 04", None, None),  # the parameter is locked
        ("0105 80 00", None, None),  # no override
        ("0105 80 3c", None, None),  # floppy
    ],
)
def test_boot_flags_are_read(flags, device, persistent):
    wire = Wire((0, bytes.fromhex(flags) + bytes(3)))
    setting = client(wire).get_boot_device()
    assert (device, persistent) == (setting["boot_device"], setting["persistent"])


def test_a_message_to_a_busy_bmc_is_retried_within_the_deadline():
    wire = Wire((0xC0, b""), (0, b"\x01\x00\x00"))
    assert client(wire).power_state() == POWER_ON


def test_a_bmc_that_stays_busy_is_an_error_at_the_deadline():
    started = time.monotonic()
    with pytest.raises(Refused, match=r"0xc0 \(node busy\)"):
        client(Wire(*[(0xC0, b"")] * 9), timeout=0.7).power_state()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(("code", "error"), [(0xCC, NotSupported), (0xD4, Refused)])
def test_a_completion_code_becomes_an_error_with_its_meaning(code, error):
    with pytest.raises(error, match=f"10.0.0.5:623.*0x{code:02x}"):
        client(Wire((code, b""))).order(POWER_ON)


def test_an_answer_that_is_too_short_is_unexpected():
    with pytest.raises(Unexpected):
        client(Wire((0, b"\x01\x05"))).get_boot_device()


COMMANDS = (
    lambda bmc: bmc.power_state(),
    lambda bmc: bmc.order(POWER_ON),
    lambda bmc: bmc.get_boot_device(),
    lambda bmc: bmc.set_boot_device("pxe", persistent=True, uefi=True, keep_on_timeout=True),
    lambda bmc: bmc.inject_nmi(),
    lambda bmc: bmc.reset_bmc(warm=True),
    lambda bmc: bmc.send_raw(b"\x06\x01"),
)


@given(command=strategies.sampled_from(COMMANDS), suites_=strategies.sampled_from([(), (17, 3)]),
       answers=strategies.lists(strategies.tuples(
           strategies.sampled_from([0, 0, 0, *range(1, 256)]), strategies.binary(max_size=64)
       ), min_size=1, max_size=4))  # fmt: skip
def test_whatever_a_bmc_answers_a_command_ends_with_a_value_or_a_typed_error(
    command, suites_, answers
):
    def wire(*_):
        return answers.pop() if len(answers) > 1 else answers[0]

    it = Client(Credentials("10.0.0.5"), Bmcs(), wire, 0.01, lambda: None, suites_)
    with suppress(HardwareError):
        assert isinstance(command(it), str | dict | bytes | None)


@pytest.mark.parametrize(
    ("instance", "node", "uefi"),
    [
        ({}, {}, True),
        ({}, "cpus:4, boot_mode:bios", False),
        ("boot_mode:uefi", "boot_mode:bios", True),
    ],
)
def test_the_boot_device_is_set_with_the_boot_mode(instance, node, uefi, monkeypatch):
    wire = Wire((0, b""), (0, b""))
    monkeypatch.setattr(ipmitool, "raw", wire)
    management = IpmiManagement()
    management.bmcs = Bmcs()
    management.set_boot_device(
        Target(
            "uuid",
            "node",
            driver=None,
            driver_info={"ipmi_address": "10.0.0.5", "ipmi_client": "ipmitool"},
            instance_info={"capabilities": instance},
            properties={"capabilities": node},
            options=OPTIONS,
        ),
        "disk",
    )
    assert uefi == bool(wire.requests[-1][3] & 0x20)


def test_an_interrupt_and_resets_of_the_bmc_are_one_message_each():
    wire = Wire((0, b""), (0, b""), (0, b""))
    orders = []
    connection = client(wire, before_order=lambda: orders.append(1))
    connection.inject_nmi()
    connection.reset_bmc(warm=True)
    connection.reset_bmc(warm=False)
    assert [(0, 2, 4), (6, 3), (6, 2)] == wire.requests
    assert 3 == len(orders)


def test_a_bmc_that_does_not_answer_its_reset_is_no_error():
    def gone(*_):
        raise Unreachable("gone")

    client(gone).reset_bmc(warm=False)


def test_a_raw_message_is_sent_unchanged_and_a_refusal_is_reported():
    wire = Wire((0, b"\x01\x02"), (0xC1, b""))
    assert b"\x01\x02" == client(wire).send_raw(bytes([0x06, 0x01, 0xFF]))
    assert [(0x06, 0x01, 0xFF)] == wire.requests
    with pytest.raises(Refused, match="0xc1"):
        client(wire).send_raw(bytes([0x06, 0x99]))


@pytest.mark.parametrize("text", ["", "0x06", "0x06 0x100", "six one"])
def test_invalid_raw_bytes_are_named(text):
    with pytest.raises(InvalidDriverInfo, match="raw_bytes"):
        IpmiVendor().send_raw(target(), text)


def test_a_speed_select_profile_is_one_message_for_each_processor(monkeypatch):
    wire = Wire((0, b""), (0, b""))
    monkeypatch.setattr(ipmitool, "raw", wire)
    management = IntelIpmiManagement()
    management.bmcs = Bmcs()
    args = {"intel_speedselect_config": "0x02", "socket_count": 2}
    assert Done() == management.run(
        target(ipmi_client="ipmitool"), "configure_intel_speedselect", args
    )
    assert [(0x2C, 0x41, 4, 0, 0, 2), (0x2C, 0x41, 4, 0, 1, 2)] == wire.requests


@pytest.mark.parametrize(
    "args",
    [
        {"intel_speedselect_config": "0x03"},
        {"intel_speedselect_config": 2},
        {"intel_speedselect_config": "0x00", "socket_count": 0},
        {"intel_speedselect_config": "0x00", "socket_count": 9},
        {"intel_speedselect_config": "0x00", "socket_count": "2"},
    ],
)
def test_a_wrong_speed_select_profile_is_refused_before_a_message(args):
    with pytest.raises(BadArgument):
        IntelIpmiManagement().run(target(), "configure_intel_speedselect", args)
