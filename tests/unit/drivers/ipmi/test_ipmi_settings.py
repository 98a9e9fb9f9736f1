"""Settings of IPMI: credentials, bridges, and messages about wrong ones."""

import pytest

from drivers.core.errors import InvalidDriverInfo
from drivers.ipmi import credentials
from drivers.ipmi.credentials import Credentials
from drivers.ipmi.management import IpmiManagement
from drivers.net.networks import of_bmcs

from .conftest import DUAL, OPTIONS, SECRET, SINGLE, target


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
    ("value", "text"),
    [(12345678, "12345678"), (0, "0"), (12.5, "12.5"), (-7, "-7"), ("007", "007")],
)
def test_a_number_as_a_name_or_a_password_counts_as_its_digits(value, text):
    """OpenStack's client sends `--driver-info ipmi_password=12345678` as a number."""
    bmc = credentials.read(target(ipmi_username=value, ipmi_password=value))
    assert (text, text) == (bmc.username, bmc.password)


def test_a_kg_key_of_digits_may_be_a_number():
    bmc = credentials.read(target(ipmi_hex_kg_key=int("31" * 20), ipmi_port="6230"))
    assert (b"1" * 20, 6230) == (bmc.kg, bmc.port)


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


def test_credentials_do_not_show_their_secrets():
    text = repr(credentials.read(target(ipmi_hex_kg_key="61" * 20)))
    assert SECRET not in text
    assert "aaaa" not in text
