"""Secrets are not shown."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.masking import HIDDEN, mask, mask_text

KEYS = st.sampled_from(["redfish_PASSWORD", "x_token", "api_key", "user", "image_url", "a"])
JSON = st.recursive(
    st.integers(0, 9) | st.text('a"\\é', max_size=3),
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
        ("image_url", "instance_info", True),
        ("image_url", "driver_info", False),
        ("configdrive", "instance_info", True),
        ("agent_secret_token", "driver_internal_info", True),
        ("api_key", "driver_info", False),
        ("redfish_username", "driver_info", False),
    ],
)
def test_a_key_says_whether_its_value_is_secret(key, document, hidden):
    assert {key: HIDDEN if hidden else "x"} == mask({key: "x"}, document)


@given(st.dictionaries(KEYS, JSON, max_size=4))
def test_text_is_masked_as_the_document_is(document):
    text = orjson.dumps(document).decode()
    masked = orjson.loads(mask_text(text, "instance_info"))

    assert mask(document, "instance_info") == masked
