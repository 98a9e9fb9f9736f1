"""The documents of BMCs over the API: callers, paths, audit records."""

import pytest

from drivers.simulator.simulator import running

from .conftest import fault
from .direct_calls import DirectCalls

PATH = "/v1/nodes/n1/bmc/documents"
ROOT = "/redfish/v1/"
#: Interfaces that the test does not use.
OTHERS = {
    "boot": "redfish-virtual-media", "console": "no-console", "deploy": "direct",
    "firmware": "no-firmware", "inspect": "redfish", "network": "noop", "raid": "no-raid",
    "rescue": "no-rescue", "storage": "noop", "vendor": "no-vendor",
}  # fmt: skip


@pytest.fixture
def node(api):
    with running(machines=1) as simulator:
        api.runtime.calls = DirectCalls(api.runtime)
        info = simulator.machines[0].driver_info()
        interfaces = {f"{kind}_interface": "redfish" for kind in ("bios", "power", "management")}
        other_interfaces = {f"{kind}_interface": name for kind, name in OTHERS.items()}
        yield api.node(
            name="n1", driver="redfish", driver_info=info, **interfaces, **other_interfaces
        )
        api.runtime.calls = None


def test_documents_are_read_as_they_are(api, node):
    answer = api("POST", PATH, {"paths": [ROOT, "/redfish/v1/Nothing"]})
    assert 200 == answer.status_code
    root, missing = answer.json["answers"]
    assert (ROOT, 200, "utf-8") == (root["path"], root["status"], root["encoding"])
    assert '"Vendor":"Simulated"' in root["body"]
    assert 404 == missing["status"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "paths"),
        ({"paths": []}, "a list of 1 to 32 paths is expected"),
        ({"paths": [ROOT] * 33}, "a list of 1 to 32 paths is expected"),
        ({"paths": ROOT}, "paths"),
        ({"paths": [7]}, "paths"),
        ({"paths": ["/etc/passwd"]}, "paths: '/etc/passwd' is no path below /redfish"),
        ({"paths": [ROOT], "method": "POST"}, "method"),
    ],
)
def test_a_wrong_request_is_refused_with_the_field(api, node, body, words):
    answer = api("POST", PATH, body)
    assert 400 == answer.status_code
    assert words in fault(answer)["faultstring"]


def test_every_request_is_recorded_for_the_audit(api, node):
    api("POST", PATH, {"paths": [ROOT]})
    (record,) = [
        record for record in api("GET", "/v1/audit").json["audit"] if "bmc" in record["action"]
    ]
    assert (node["uuid"], "success", 200) == (
        record["target"],
        record["outcome"],
        record["status"],
    )
