"""Masking of secrets in documents and texts."""

import re
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.policy.masking import mask_text
from app.config.description import masked
from app.db.master_keys import Master
from app.db.sealing import Keyring
from app.text.masking import HIDDEN, addresses_in, mask, texts_in
from drivers.redfish.transport.access import access
from tests.unit.drivers.machines import target

#: A URL with credentials -> the URL that callers see.
URLS = {
    "https://root:calvin@192.0.2.1:8443/redfish": "https://root:******@192.0.2.1:8443/redfish",
    "https://ghp_TOKEN@host/x": "https://******@host/x",
    "ftp://u:p@ss@host/x": "ftp://u:******@host/x",
    "https://u:p/w@host/x": "https://******",
    "https://u:p?w@host/x": "https://******",
    "http://h/i?X-Amz-Signature=ab&X-Amz-Date=1": "http://h/i?X-Amz-Signature=******&X-Amz-Date=1",
    "http://h/i?temp_url_sig=ab&temp_url_expires=1": "http://h/i?temp_url_sig=******&temp_url_expires=1",
    "http://h/i?AWSAccessKeyId=a&Signature=b#x": "http://h/i?AWSAccessKeyId=******&Signature=******#******",
    "quiet inst.ks=http://h/ks?token=ab ro": "quiet inst.ks=http://h/ks?token=****** ro",
}  # fmt: skip
#: URLs without credentials, and texts that are none.
OPEN = (
    "http://[2001:db8::1]:80/i?a=b", "oci://registry:5000/image@sha256:00", "who@example.org?key=1",
    "http://h/i?monkey=1&format=qcow2", "https://host/@scope/x", "http://${net0/ip}:80/a",
)  # fmt: skip
KEYS = st.sampled_from(["redfish_PASSWORD", "x_token", "api_key", "user", "image_url", "a"])
JSON = st.recursive(
    st.integers(0, 9) | st.text('a"\\é', max_size=3) | st.sampled_from([*URLS, *OPEN]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("key", "document", "hidden"),
    [
        ("redfish_password", "driver_info", True),
        ("IPMI_Password", "driver_info", True),
        ("snmp_auth_key", "driver_info", True),
        ("snmp_auth_key", "extra", False),
        ("ipmi_hex_kg_key", "driver_info", True),
        ("image_url", "instance_info", True),
        ("image_url", "driver_info", False),
        ("configdrive", "instance_info", True),
        ("agent_secret_token", "driver_internal_info", True),
        ("api_key", "driver_info", False),
        ("redfish_username", "driver_info", False),
    ],
)
def test_a_value_is_masked_by_its_key(key, document, hidden):
    assert {key: HIDDEN if hidden else "x"} == mask({key: "x"}, document)


@given(st.dictionaries(KEYS, JSON, max_size=4))
def test_text_is_masked_as_the_document_is(document):
    text = orjson.dumps(document).decode()
    masked = orjson.loads(mask_text(text, "instance_info"))

    assert mask(document, "instance_info") == masked


class Unopened(Keyring):
    """Refuses to open secrets."""

    def unseal_at(self, text, place, path=()):
        raise AssertionError


def test_sealed_documents_are_masked_as_open_ones_and_masked_values_are_not_opened():
    master = Master(b"k" * 32)
    rows = [master.new_data_key()]
    keyring, unopened = (kind([master], lambda: rows) for kind in (Keyring, Unopened))
    for document in (
        {"password": "x", "a": 1},
        {"password": {"b": 1}, "list": [{"x_token": "t"}]},
    ):
        text = keyring.dumps(document, "t.c:1")
        assert mask(document) == orjson.loads(mask_text(text, "x", keyring=unopened))
    document = {"image": [*URLS], "image_url": "shown here", "password": "x"}
    text = keyring.dumps(document, "t.c:1")
    assert mask(document, "x") == orjson.loads(mask_text(text, "x", keyring=keyring, place="t.c:1"))
    assert document == orjson.loads(
        mask_text(text, "x", keyring=keyring, is_shown=True, place="t.c:1")
    )
    flat = {"image": next(iter(URLS)), "password": "x"}
    assert mask(flat) == orjson.loads(
        mask_text(keyring.dumps(flat, "t.c:1"), "x", keyring=keyring, place="t.c:1")
    )


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://evil#tok=SECRET", "https://evil#******"),
        ("https://h/p?a=1#access_token=SECRET&b=2", "https://h/p?a=1#******"),
        ("https://h/p#SECRET", "https://h/p#******"),
        ("https://u:SECRET@h/p#x", "https://u:******@h/p#******"),
        ("https://h/p#", "https://h/p#"),
        ("see https://h/#SECRET, and this", "see https://h/#****** and this"),
    ],
)
def test_fragments_of_urls_are_masked(url, masked):
    assert [masked] == mask([url])
    assert {"a": masked} == orjson.loads(mask_text(orjson.dumps({"a": url}).decode(), "x"))


@pytest.mark.parametrize("url", URLS)
def test_credentials_in_urls_are_masked(url):
    assert {"a": [URLS[url]]} == mask({"a": [url]})
    assert {"a": URLS[url]} == orjson.loads(mask_text(orjson.dumps({"a": url}).decode(), "x"))


@pytest.mark.parametrize("text", OPEN)
def test_a_text_without_credentials_is_not_masked(text):
    assert {"a": text} == mask({"a": text})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("secret", HIDDEN),
        ("", ""),
        ("postgresql://ingot:pw@h/db", "postgresql://ingot:******@h/db"),
        ("postgresql://ingot:pw@h/db?password=QPW", "postgresql://ingot:******@h/db?password=******"),
        ("redis://h:1/0?password=QPW2", "redis://h:1/0?password=******"),
        ("amqp://u:p/w@h/", "amqp://******"),
        ("amqp://u:12/w@h/", HIDDEN),  # the user may be a host, and its password a port and path
        ("amqp://u:p#w@h/", "amqp://******"),
        ("rediss://h:1/0", "rediss://h:1/0"),
    ],
)  # fmt: skip
def test_a_secret_setting_is_shown_without_its_credentials(value, text):
    assert text == masked(value)


def test_addresses_of_a_bmc_are_found_as_errors_name_them():
    info = {"redfish_address": "https://192.0.2.1:8443/", "ipmi_address": "bmc1", "mac": "x"}
    assert ["https://192.0.2.1:8443", "192.0.2.1:8443", "192.0.2.1", "bmc1"] == addresses_in(info)


@pytest.mark.parametrize("address", [
    "https://BMC-7.internal:8443/redfish/v1", "BMC-7.internal:8443/rack/7", "bmc-7.internal/",
    "https://[2001:DB8::7]:8443/redfish", "2001:db8::7",
])  # fmt: skip
def test_addresses_are_found_as_drivers_normalise_them(address):
    normalised = access(target("redfish", driver_info={"redfish_address": address}))
    text = f"BMC {normalised.address} (at {urlsplit(normalised.address).hostname}) is not reachable"
    for value in texts_in({"redfish_address": address}):
        text = text.replace(value, HIDDEN)
    assert not re.search("bmc-|2001", text.lower()), text


def test_a_text_is_found_as_python_quotes_it():
    texts = texts_in({"redfish_system_id": "a\\b\n'c'\"d\""})
    assert repr("a\\b\n'c'\"d\"")[1:-1] in texts
