"""IPMI: meaning of the bytes, and messages about wrong settings."""

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
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, SOFT_OFF
from drivers.core.steps import Done
from drivers.core.target import Target
from drivers.ipmi import credentials, ipmitool, suites
from drivers.ipmi.client import Client
from drivers.ipmi.credentials import Credentials
from drivers.ipmi.intel import IntelIpmiManagement
from drivers.ipmi.management import IpmiManagement
from drivers.ipmi.vendor import IpmiVendor
from drivers.net.networks import of_bmcs
from tests.unit.drivers import machines

OPTIONS = {
    "ipmi": {
        "client": "pyghmi",
        "command_timeout": 5,
        "disable_boot_timeout": True,
        "cipher_suite_versions": (),
        "min_command_interval": 0,
    },
    "bmc": {"allowed_networks": (), "denied_networks": ("192.0.2.0/24",)},
    "deploy": {"default_boot_mode": "uefi"},
}
SECRET = "correct horse"


def target(**driver_info) -> Target:
    info = {"ipmi_address": "10.0.0.5", "ipmi_password": SECRET, **driver_info}
    return Target("uuid", "node", driver=None, driver_info=info, options=OPTIONS)


class Wire:
    """Transport that answers from a list, and records the messages."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent = []

    def __call__(self, bmc, netfn, command, data, deadline):
        self.sent.append((netfn, command, *data))
        return self.answers.pop(0)


def client(wire, before_order=lambda: None, timeout=5.0) -> Client:
    return Client(Credentials("10.0.0.5"), Bmcs(), wire, timeout, before_order)


def test_credentials_are_read_with_their_defaults():
    reach = of_bmcs(OPTIONS, "ipmi_address")
    expected = Credentials("10.0.0.5", 623, "", SECRET, reach=reach)
    assert expected == credentials.read(target())


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("ipmi_address", "", "required"),
        ("ipmi_port", "70000", "from 1 to 65535"),
        ("ipmi_port", "impi", "from 1 to 65535"),
        ("ipmi_username", "a name of 17 byte", "at most 16 bytes"),
        ("ipmi_password", "a password of 21 byte", "at most 20 bytes"),
        ("ipmi_priv_level", "ROOT", "CALLBACK, USER, OPERATOR, ADMINISTRATOR"),
        ("ipmi_cipher_suite", "8", "ipmi_client = ipmitool"),
        ("ipmi_cipher_suite", -1, "from 0 to 255"),
        ("ipmi_hex_kg_key", "00ff", "40 hexadecimal digits"),
        ("ipmi_protocol_version", "3.0", "2.0, 1.5"),
        ("ipmi_client", "freeipmi", "pyghmi, ipmitool"),
        ("ipmi_password", 10**20, "at most 20 bytes"),
        ("ipmi_password", True, "must be a string"),
        ("ipmi_username", 10**16, "at most 16 bytes"),
        ("ipmi_username", ["root"], "must be a string"),
        ("ipmi_hex_kg_key", 1234, "40 hexadecimal digits"),
        ("ipmi_bridging", "triple", "no, single, dual"),
        ("ipmi_bridging", "single", "ipmi_client = ipmitool"),
        ("ipmi_force_boot_device", "perhaps", "true or false"),
        ("ipmi_disable_boot_timeout", "perhaps", "true or false"),
    ],
)
def test_a_wrong_setting_is_named_with_the_accepted_values(field, value, right):
    with pytest.raises(InvalidDriverInfo) as raised:
        IpmiManagement().validate(target(**{field: value}))
    assert f"driver_info/{field}" in str(raised.value)
    assert right in str(raised.value)
    if field == "ipmi_password":
        assert str(value) not in str(raised.value)


@pytest.mark.parametrize(
    ("sent", "text"),
    [(12345678, "12345678"), (0, "0"), (12.5, "12.5"), (-7, "-7"), ("007", "007")],
)
def test_a_number_as_a_name_or_a_password_counts_as_its_digits(sent, text):
    """OpenStack's client sends `--driver-info ipmi_password=12345678` as a number."""
    bmc = credentials.read(target(ipmi_username=sent, ipmi_password=sent))
    assert (text, text) == (bmc.username, bmc.password)


def test_a_kg_key_of_digits_may_be_a_number():
    bmc = credentials.read(target(ipmi_hex_kg_key=int("31" * 20), ipmi_port="6230"))
    assert (b"1" * 20, 6230) == (bmc.kg, bmc.port)


SINGLE = {
    "ipmi_client": "ipmitool",
    "ipmi_bridging": "single",
    "ipmi_target_channel": 7,
    "ipmi_target_address": "0x82",
}
DUAL = {**SINGLE, "ipmi_bridging": "dual", "ipmi_transit_channel": "0", "ipmi_transit_address": 36}


@pytest.mark.parametrize(
    ("info", "arguments"),
    [
        (SINGLE, "-b 0x07 -t 0x82"),
        ({**SINGLE, "ipmi_local_address": "0x20"}, "-m 0x20 -b 0x07 -t 0x82"),
        (DUAL, "-B 0x00 -T 0x24 -b 0x07 -t 0x82"),
        ({**DUAL, "ipmi_bridging": "single"}, "-b 0x07 -t 0x82"),
        ({**DUAL, "ipmi_bridging": "no"}, ""),
    ],
)
def test_requests_are_bridged_by_ipmitool(info, arguments):
    line = " ".join(ipmitool.options(credentials.read(target(**info))))
    assert line.endswith(f"-E {arguments}".strip())


@pytest.mark.parametrize(
    ("info", "field"),
    [
        ({**SINGLE, "ipmi_target_address": None}, "ipmi_target_address is required"),
        ({**DUAL, "ipmi_transit_channel": None}, "ipmi_transit_channel is required"),
        ({**SINGLE, "ipmi_target_channel": 256}, "ipmi_target_channel: must be a number from 0"),
        ({**DUAL, "ipmi_transit_address": "82h"}, "ipmi_transit_address: must be a number from 0"),
        ({**SINGLE, "ipmi_local_address": True}, "ipmi_local_address: must be a number from 0"),
    ],
)
def test_a_missing_or_wrong_part_of_a_bridge_is_named(info, field):
    with pytest.raises(InvalidDriverInfo, match=f"driver_info/{field}"):
        credentials.read(target(**info))


def test_cipher_suites_of_ipmi_1_5_are_refused():
    with pytest.raises(InvalidDriverInfo, match="ipmi_cipher_suite"):
        credentials.read(target(ipmi_protocol_version="1.5", ipmi_cipher_suite=3))


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
    assert [disk, disk, pxe, disk] == wire.sent


def test_a_boot_device_that_is_not_forced_is_set_once(monkeypatch):
    wire = Wire((0, b""))
    management, node = forgetful(wire, monkeypatch, ipmi_force_boot_device="false")
    management.set_boot_device(node, "disk", persistent=True)
    management.before_start(node)
    assert [(0, 8, 5, 0xE0, 0x08, 0, 0, 0)] == wire.sent
    assert {} == node.reports


def test_credentials_do_not_show_their_secrets():
    shown = repr(credentials.read(target(ipmi_hex_kg_key="61" * 20)))
    assert SECRET not in shown
    assert "aaaa" not in shown


@pytest.mark.parametrize(("status", "state"), [(0x21, POWER_ON), (0x20, POWER_OFF)])
def test_the_lowest_bit_of_the_chassis_status_is_the_power(status, state):
    assert state == client(Wire((0, bytes([status, 0, 0])))).power_state()


@pytest.mark.parametrize(("state", "byte"), [(POWER_OFF, 0), (POWER_ON, 1), (SOFT_OFF, 5)])
def test_a_power_command_is_one_chassis_control_message(state, byte):
    wire = Wire((0, b""))
    client(wire).order(state)
    assert [(0, 2, byte)] == wire.sent


@pytest.mark.parametrize(
    ("code", "error"),
    [(0xC0, Busy), (0xC4, Busy), (0xD2, Busy), (0xD5, Busy), (0xC3, Unconfirmed),
     (0xCE, Unconfirmed), (0xFF, Unconfirmed), (0xCC, NotSupported), (0xD4, Refused)],
)  # fmt: skip
def test_a_power_command_is_sent_once_and_its_refusal_typed(code, error):
    wire = Wire((code, b""), (0, b""))
    with pytest.raises(error, match=f"0x{code:02x}") as raised:
        client(wire).order(POWER_ON)
    assert ([(0, 2, 1)], error) == (wire.sent, type(raised.value))


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
    assert wire.sent == []


def test_a_boot_device_is_set_with_its_flags_and_without_the_timeout_of_a_minute():
    wire = Wire((0, b""), (0, b""))
    client(wire).set_boot_device("cdrom", persistent=True, uefi=True, keep_on_timeout=True)
    assert wire.sent == [(0, 8, 3, 8), (0, 8, 5, 0xE0, 0x14, 0, 0, 0)]


def test_a_bmc_with_a_fixed_timeout_still_gets_the_boot_device():
    wire = Wire((0x80, b""), (0, b""))
    client(wire).set_boot_device("pxe", persistent=False, uefi=False, keep_on_timeout=True)
    assert wire.sent[-1] == (0, 8, 5, 0x80, 0x04, 0, 0, 0)


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
    found = client(wire).get_boot_device()
    assert (device, persistent) == (found["boot_device"], found["persistent"])


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
    assert uefi == bool(wire.sent[-1][3] & 0x20)


@pytest.mark.parametrize(
    ("stderr", "error", "message"),
    [
        (
            "> RAKP 2 HMAC is invalid\nError: Unable to establish",
            LoginRefused,
            "RAKP 2 HMAC is invalid",
        ),
        (
            "RAKP 2 message indicates an error : unauthorized name\n",
            LoginRefused,
            "RAKP 2 message indicates an error : unauthorized name",
        ),
        (
            "Error in open session response message : no matching cipher suite\n",
            LoginRefused,
            "no matching cipher suite",
        ),
        (
            "Error in open session response message : insufficient resources for session\n",
            Unreachable,
            "insufficient resources",
        ),
        (
            "Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Unreachable,
            "Unable to establish",
        ),
        (f"Error: what is {SECRET}?", Unreachable, r"what is \*\*\*\*\*\*\?"),
    ],
)
def test_an_error_message_of_ipmitool_becomes_an_error(stderr, error, message):
    with pytest.raises(error, match=message):
        ipmitool._failure(Credentials("10.0.0.5", password=SECRET), stderr)


def test_the_arguments_of_ipmitool_carry_no_secret():
    bmc = credentials.read(target(ipmi_hex_kg_key="61" * 20, ipmi_priv_level="OPERATOR"))
    line = " ".join(ipmitool.options(bmc))
    assert SECRET not in line
    assert "a" * 20 not in line
    environment = ipmitool.environment(bmc)
    assert (environment["IPMI_PASSWORD"], environment["IPMI_KGKEY"]) == (SECRET, "a" * 20)


def test_an_interrupt_and_resets_of_the_bmc_are_one_message_each():
    wire = Wire((0, b""), (0, b""), (0, b""))
    orders = []
    asked = client(wire, before_order=lambda: orders.append(1))
    asked.inject_nmi()
    asked.reset_bmc(warm=True)
    asked.reset_bmc(warm=False)
    assert [(0, 2, 4), (6, 3), (6, 2)] == wire.sent
    assert 3 == len(orders)


def test_a_bmc_that_does_not_answer_its_reset_is_no_error():
    def gone(*_):
        raise Unreachable("gone")

    client(gone).reset_bmc(warm=False)


def test_a_raw_message_is_sent_unchanged_and_a_refusal_is_reported():
    wire = Wire((0, b"\x01\x02"), (0xC1, b""))
    assert b"\x01\x02" == client(wire).send_raw(bytes([0x06, 0x01, 0xFF]))
    assert [(0x06, 0x01, 0xFF)] == wire.sent
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
    assert [(0x2C, 0x41, 4, 0, 0, 2), (0x2C, 0x41, 4, 0, 1, 2)] == wire.sent


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


class Picky:
    """Transport to a BMC with an error for each given cipher suite; others are accepted."""

    def __init__(self, **answers):
        self.answers = {int(name.removeprefix("suite_")): error for name, error in answers.items()}
        self.sent = []

    def __call__(self, bmc, netfn, command, data, deadline):
        self.sent.append((bmc.cipher_suite, netfn, command))
        if bmc.cipher_suite in self.answers:
            raise self.answers[bmc.cipher_suite]
        return 0, b"\x01\x00\x00"


def negotiating(wire, tried=(17, 3, 2)) -> Client:
    return Client(Credentials("10.0.0.5"), Bmcs(), wire, 5.0, lambda: None, tried)


def test_cipher_suites_are_tried_in_order_by_a_query_and_the_accepted_one_is_kept():
    wire = Picky(suite_17=LoginRefused("No Cipher suite match"), suite_3=Unreachable("silence"))
    it = negotiating(wire)
    it.order(POWER_OFF)
    it.order(POWER_ON)
    assert [(17, 6, 1), (3, 6, 1), (2, 6, 1), (2, 0, 2), (2, 0, 2)] == wire.sent
    wire.answers = {2: Unreachable("it restarts")}
    with pytest.raises(Unreachable):
        it.power_state()
    assert POWER_ON == it.power_state()
    assert [17, 17] == [suite for suite, *_ in wire.sent[-2:]]


def test_wrong_credentials_are_tried_with_one_cipher_suite():
    wire = Picky(suite_17=LoginRefused("RAKP 2 HMAC is invalid"))
    with pytest.raises(LoginRefused, match="RAKP"):
        negotiating(wire).power_state()
    assert [(17, 6, 1)] == wire.sent


@pytest.mark.parametrize(
    ("bmc", "tried"),
    [
        (Credentials("h", client="ipmitool"), (17, 8, 3)),
        (Credentials("h", client="pyghmi"), (17, 3)),
        (Credentials("h", client="ipmitool", cipher_suite=3), ()),
    ],
)
def test_the_last_of_the_listed_cipher_suites_is_tried_first(bmc, tried):
    assert tried == suites.candidates(bmc, ("3", "8", "17"))
