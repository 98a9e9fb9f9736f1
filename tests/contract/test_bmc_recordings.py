"""Recordings of operations over the API: the switch, its values, audit records."""

import pytest

from app.engine.records import bmc_recordings
from app.models import BmcExchanges, Node
from drivers.core.recording.traffic import answered

from .conftest import fault
from .test_bmc_documents import OTHERS

PATH = "/v1/nodes/n1/bmc/recording"
EXCHANGE = answered("GET", "https://bmc/redfish/v1/", None, (200, {"Allow": "GET"}, b"{}"), str)


@pytest.fixture
def node(api):
    info = {"redfish_address": "https://192.0.2.1"}
    return api.node(name="n1", driver="redfish", driver_info=info, **interfaces("redfish"))


def interfaces(name, **other_interfaces):
    names = {**OTHERS, "power": name, "management": name, "bios": "redfish", **other_interfaces}
    return {f"{kind}_interface": interface for kind, interface in names.items()}


def test_a_recording_is_switched_on_shown_and_off(api, node):
    assert {"until": None, "left_out": 0, "exchanges": []} == api("GET", PATH).json
    started = api("PUT", PATH, {"minutes": 5})
    assert 200 == started.status_code
    assert started.json["until"] == api("GET", PATH).json["until"]
    operation = "2c683317-1ef8-4645-b76b-321ffa501c0a"
    with api.runtime.transaction() as session:
        session.add(
            BmcExchanges(
                node_id=session.query(Node.id).scalar(), operation=operation, step="power.reboot",
                size=2, left_out=3, exchanges=[EXCHANGE],
            )
        )  # fmt: skip
    answer = api("GET", PATH).json
    assert [{"operation": operation, "step": "power.reboot", **EXCHANGE}] == answer["exchanges"]
    assert 3 == answer["left_out"]
    assert 204 == api("DELETE", PATH).status_code
    assert {"until": None, "left_out": 0, "exchanges": []} == api("GET", PATH).json


def test_a_new_recording_begins_empty(api, node):
    api("PUT", PATH, {})
    with api.runtime.transaction() as session:
        session.add(
            BmcExchanges(
                node_id=session.query(Node.id).scalar(), operation="", step="", size=2, left_out=0,
                exchanges=[EXCHANGE],
            )
        )  # fmt: skip
    api("PUT", PATH, {})
    assert [] == api("GET", PATH).json["exchanges"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"minutes": 0}, "minutes: 0: 1 to 1440 minutes are expected"),
        ({"minutes": 1441}, "minutes: 1441: 1 to 1440 minutes are expected"),
        ({"minutes": "5"}, "minutes"),
        ({"minutes": 1.5}, "minutes"),
        ({"hours": 1}, "hours"),
    ],
)
def test_a_wrong_request_is_refused_with_the_field(api, node, body, words):
    answer = api("PUT", PATH, body)
    assert 400 == answer.status_code
    assert words in fault(answer)["faultstring"]
    assert bmc_recordings.SWITCH not in api("GET", "/v1/nodes/n1").json["driver_internal_info"]


@pytest.mark.parametrize(
    ("driver", "names"),
    [
        ("ipmi", interfaces("ipmitool", bios="no-bios", boot="ipxe", inspect="agent")),
        ("fake-hardware", {}),
    ],
)
def test_a_node_whose_interfaces_record_nothing_is_refused(api, driver, names):
    api.node(name="n1", driver=driver, driver_info={"ipmi_address": "192.0.2.1"}, **names)
    answer = api("PUT", PATH, {})
    assert 400 == answer.status_code
    assert "no interface redfish" in fault(answer)["faultstring"]


def test_the_switch_has_audit_records(api, node):
    api("PUT", PATH, {})
    api("DELETE", PATH)
    records = [
        (record["action"], record["target"], record["outcome"])
        for record in api("GET", "/v1/audit").json["audit"]
        if "bmc" in record["action"]
    ]
    assert {("update/node/bmc/recording", node["uuid"], "success"),
            ("delete/node/bmc/recording", node["uuid"], "success")} == {*records}  # fmt: skip


def test_a_node_with_a_recording_is_deleted_with_it(api, node):
    api("PUT", PATH, {})
    with api.runtime.transaction() as session:
        session.add(
            BmcExchanges(
                node_id=session.query(Node.id).scalar(), operation="", step="", size=2, left_out=0,
                exchanges=[EXCHANGE],
            )
        )  # fmt: skip
    assert 204 == api("DELETE", "/v1/nodes/n1").status_code
