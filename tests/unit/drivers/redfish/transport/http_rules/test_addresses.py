"""Addresses of BMCs with a path, and any answer to a request of the power state."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.core.errors import HardwareError
from drivers.redfish.transport import http_rules
from tests.support.rude_bmc import ROOT, SESSIONS, SYSTEM, rude_bmc

from .conftest import both, by_sushy, by_sweep, node, only, packed

# Addresses


@both
@pytest.mark.parametrize("path", ["/redfish/v1", "/redfish/", "/"])
def test_an_address_may_have_the_path_of_the_service_root(bmc, read, path):
    assert "power on" == read(node(bmc, redfish_address=bmc.url + path, redfish_system_id=None))


@both
@pytest.mark.parametrize("auth", ["basic", "session"])
def test_a_bmc_may_be_behind_a_prefix(bmc, read, auth):
    text = json.dumps(bmc.documents).replace("/redfish/v1", "/rack7/bmc3/redfish/v1")
    bmc.documents = json.loads(text)
    sessions = f"/rack7/bmc3{SESSIONS}"
    bmc.rule = only(sessions, (201, {"X-Auth-Token": "t", "Location": f"{sessions}/1"}, {}), "POST")
    address = f"{bmc.url}/rack7/bmc3/redfish/v1"
    assert "power on" == read(
        node(bmc, redfish_address=address, redfish_system_id=None, redfish_auth_type=auth)
    )
    assert all(path.startswith("/rack7/bmc3/redfish/v1") for _, path in bmc.requests())


STATUSES = [*range(200, 209), *range(300, 309), *range(400, 430), 451, *range(500, 512), 999]
HEADERS = st.dictionaries(
    st.sampled_from(["Location", "Content-Encoding", "Content-Type", "Retry-After", "ETag", "Date",
                     "Set-Cookie", "WWW-Authenticate", "Connection", "Transfer-Encoding"]),
    st.sampled_from(["", "x", "/", "//", "/redfish/v1/", "http://192.0.2.1/", "http://[", "gzip",
                     "deflate", "br", "application/zip", "0", "1e400", "nan", "Thu, 01 Jan 1970",
                     "close", "keep-alive", "chunked", '"e"', "W/", "\xff"]),
    max_size=3,
)  # fmt: skip
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([
        b"", b"{}", b"[]", b"null", b"NaN", b'{"Members": 5, "Members@odata.nextLink": "/x"}',
        b'{"Members": [], "@odata.nextLink": "?"}', b'{"error": {"@Message.ExtendedInfo": 5}}',
        b'{"@odata.id": "//"}', b'{"@odata.id": "http://["}', b"\x1f\x8b", packed(b"[1]"),
        b'{"Systems": {"@odata.id": 5}}', b'{"PowerState": [], "Boot": 5, "//": {"target": "//x"}}',
    ]),
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile():
    with rude_bmc() as server:
        yield server


# Any answer


@pytest.mark.parametrize("read", [by_sushy, by_sweep])
@pytest.mark.parametrize("path", [ROOT, SYSTEM])
def test_any_answer_is_a_power_state_or_a_typed_error(hostile, monkeypatch, read, path):
    monkeypatch.setattr(http_rules, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(http_rules, "LONGEST_WAIT", 0.0)

    @settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=60,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(STATUSES), HEADERS, BODIES)
    def try_(status, headers, body):
        hostile.request_log.clear()
        hostile.rule = only(path, (status, headers, body))
        with suppress(HardwareError):
            state = read(node(hostile, 1.0))
            assert state in {"power on", "power off", None}, "None: an unsettled state"
        assert 40 > len(hostile.request_log)

    try_()
