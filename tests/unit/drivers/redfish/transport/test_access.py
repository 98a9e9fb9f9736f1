"""Address and login of a BMC in driver_info: each form that operators write."""

import pytest

from drivers.core.errors import InvalidDriverInfo
from drivers.redfish.transport.access import access
from tests.unit.drivers.machines import target


def accessed(**info):
    return access(target("redfish", driver_info=info))


@pytest.mark.parametrize(
    ("address", "url", "root"),
    [
        ("https://192.0.2.10", "https://192.0.2.10", "/redfish/v1/"),
        ("192.0.2.10", "https://192.0.2.10", "/redfish/v1/"),
        ("bmc.example.org:8443", "https://bmc.example.org:8443", "/redfish/v1/"),
        ("HTTP://BMC.example.org/", "http://bmc.example.org", "/redfish/v1/"),
        ("https://192.0.2.10/redfish/v1", "https://192.0.2.10", "/redfish/v1/"),
        ("https://192.0.2.10/redfish/v1//", "https://192.0.2.10", "/redfish/v1/"),
        ("192.0.2.10/redfish/", "https://192.0.2.10", "/redfish/v1/"),
        ("https://gateway/rack7/bmc3", "https://gateway", "/rack7/bmc3/"),
        ("https://gateway/bmc3/redfish/v1/", "https://gateway", "/bmc3/redfish/v1/"),
        ("2001:db8::1", "https://[2001:db8::1]", "/redfish/v1/"),
        ("2001:db8::1/redfish/v1", "https://[2001:db8::1]", "/redfish/v1/"),
        ("2001:DB8::1", "https://[2001:db8::1]", "/redfish/v1/"),
        ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443", "/redfish/v1/"),
        ("http://[2001:db8::1]/redfish/v1", "http://[2001:db8::1]", "/redfish/v1/"),
    ],
)
def test_an_address_may_lack_its_scheme_and_have_a_path(address, url, root):
    bmc = accessed(redfish_address=address)
    assert (url, root) == (bmc.address, bmc.root)


@pytest.mark.parametrize(
    "address",
    [
        "", "/redfish/v1", "https://", "ftp://bmc", "file:///etc/passwd", "https://bmc:99999", "bmc:x",
        "bmc:0", "https://bmc?x", "https://bmc#x", "https://bmc/a b", "https://bmc/../x", "bmc name",
        "bmc\r\nHost: x", "https://[2001:db8::1", "2001:db8::1::2", "[::1]x", "https://-", "bmc/\x00",
        5, True, None, ["https://bmc"], {"url": "https://bmc"},
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_by_its_field(address):
    with pytest.raises(InvalidDriverInfo, match="driver_info/redfish_address"):
        accessed(redfish_address=address)


def test_a_password_in_an_address_is_refused_and_not_shown():
    with pytest.raises(InvalidDriverInfo, match="driver_info/redfish_address") as raised:
        accessed(redfish_address="https://admin:SECRET@bmc")
    assert "SECRET" not in str(raised.value)


def test_bmcs_behind_one_gateway_take_turns_of_their_own():
    keys = {accessed(redfish_address=f"https://gateway/{path}").key for path in ("", "a", "b")}
    assert 3 == len(keys)
    assert 1 == len({accessed(redfish_address=f"https://b{p}").key for p in ("", "/redfish/v1/")})


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1001, "1001"), ("0", "0"), (1.5, "1.5"), ("ä€", "ä€")]
)
def test_numbers_are_texts_of_credentials(value, text):
    bmc = accessed(redfish_address="bmc", redfish_username=value, redfish_password=value)
    assert (text, text) == (bmc.username, bmc.password)


@pytest.mark.parametrize("field", ["redfish_username", "redfish_password"])
@pytest.mark.parametrize("value", [True, False, ["a"], {"a": 1}])
def test_credentials_of_other_types_are_refused_by_their_field(field, value):
    info = {"redfish_address": "bmc", "redfish_username": "a", field: value}
    with pytest.raises(InvalidDriverInfo, match=f"driver_info/{field}"):
        accessed(**info)


def test_basic_authentication_has_no_user_with_a_colon():
    info = {"redfish_address": "bmc", "redfish_username": "a:b", "redfish_password": "c"}
    with pytest.raises(InvalidDriverInfo, match="driver_info/redfish_username"):
        accessed(**info, redfish_auth_type="basic")
    assert "a:b" == accessed(**info, redfish_auth_type="session").username


@pytest.mark.parametrize(
    ("password", "masked"),
    [("secret", "BMC 10.0.0.1 said ******"), ("0", "BMC 10.0.0.1 said secret"), ("1", "BMC 10.0.0.1 said secret")],
)  # fmt: skip
def test_a_short_password_is_masked_only_where_it_stands_alone(password, masked):
    bmc = accessed(redfish_address="bmc", redfish_username="a", redfish_password=password)
    assert masked == bmc.mask("BMC 10.0.0.1 said secret")
    assert "no ****** here" == bmc.mask(f"no {password} here")
