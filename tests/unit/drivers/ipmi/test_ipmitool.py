"""Calls of ipmitool: arguments, errors, and cipher suites."""

import shutil
import subprocess

import pytest

from drivers.core.bmc import Bmcs
from drivers.core.errors import LoginRefused, Unreachable
from drivers.core.interface_kinds import POWER_OFF, POWER_ON
from drivers.ipmi import credentials, ipmitool, suites
from drivers.ipmi.client import Client
from drivers.ipmi.credentials import Credentials
from tests.support import debian
from tests.support.prerequisites import not_run

from .conftest import DUAL, SECRET, SINGLE, target


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


@pytest.mark.parametrize("is_empty", [False, True])
def test_ipmitool_reads_the_small_registry_of_enterprise_numbers(monkeypatch, tmp_path, is_empty):
    program = debian.provide(lambda: shutil.which("ipmitool"), "ipmitool")
    if program is None:
        not_run("ipmitool")
    if is_empty:  # it refuses one without any entry
        registry = next(path for path in ipmitool._HOME.rglob("*") if path.is_file())
        copy = tmp_path / registry.relative_to(ipmitool._HOME)
        copy.parent.mkdir(parents=True)
        copy.touch()
        monkeypatch.setattr(ipmitool, "_HOME", tmp_path)
    command = [program, "-I", "lanplus", "-H", "127.0.0.1", "-N", "1", "-R", "1", "sel"]
    environment = ipmitool.environment(Credentials("127.0.0.1", password=SECRET))
    output = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=60
    )
    assert is_empty == ("OEM info dictionary" in output.stderr)


class Picky:
    """Transport to a BMC with an error for each given cipher suite; others are accepted."""

    def __init__(self, **answers):
        self.answers = {int(name.removeprefix("suite_")): error for name, error in answers.items()}
        self.requests = []

    def __call__(self, bmc, netfn, command, data, deadline):
        self.requests.append((bmc.cipher_suite, netfn, command))
        if bmc.cipher_suite in self.answers:
            raise self.answers[bmc.cipher_suite]
        return 0, b"\x01\x00\x00"


def negotiating(wire, candidates=(17, 3, 2)) -> Client:
    return Client(Credentials("10.0.0.5"), Bmcs(), wire, 5.0, lambda: None, candidates)


def test_cipher_suites_are_tried_in_order_by_a_query_and_the_accepted_one_is_kept():
    wire = Picky(suite_17=LoginRefused("No Cipher suite match"), suite_3=Unreachable("silence"))
    it = negotiating(wire)
    it.order(POWER_OFF)
    it.order(POWER_ON)
    assert [(17, 6, 1), (3, 6, 1), (2, 6, 1), (2, 0, 2), (2, 0, 2)] == wire.requests
    wire.answers = {2: Unreachable("it restarts")}
    with pytest.raises(Unreachable):
        it.power_state()
    assert POWER_ON == it.power_state()
    assert [17, 17] == [suite for suite, *_ in wire.requests[-2:]]


def test_wrong_credentials_are_tried_with_one_cipher_suite():
    wire = Picky(suite_17=LoginRefused("RAKP 2 HMAC is invalid"))
    with pytest.raises(LoginRefused, match="RAKP"):
        negotiating(wire).power_state()
    assert [(17, 6, 1)] == wire.requests


@pytest.mark.parametrize(
    ("bmc", "candidates"),
    [
        (Credentials("h", client="ipmitool"), (17, 8, 3)),
        (Credentials("h", client="pyghmi"), (17, 3)),
        (Credentials("h", client="ipmitool", cipher_suite=3), ()),
    ],
)
def test_the_last_of_the_listed_cipher_suites_is_tried_first(bmc, candidates):
    assert candidates == suites.candidates(bmc, ("3", "8", "17"))
