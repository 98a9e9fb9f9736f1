"""Reading a BMC's documents for a recording, against the simulator."""

import pytest

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Unreachable,
)
from drivers.redfish import recording
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import new_registry, target

V1 = "/redfish/v1"


@pytest.fixture
def sim():
    with running(machines=1) as simulator:
        yield simulator


def read(sim, *paths, registry=None, **info):
    registry = registry or new_registry(Bmcs(trip_after=1000))
    node = target("redfish", registry=registry, driver_info=sim.machines[0].driver_info() | info)
    return node.driver.management.read_documents(node, list(paths))


def test_answers_are_given_as_they_are(sim):
    sim.set_faults(0, not_utf8=True)
    (answer, missing) = read(sim, f"{V1}/Chassis", f"{V1}/Nothing?a=b")
    assert (200, "latin-1", f"{V1}/Chassis") == (
        answer["status"],
        answer["encoding"],
        answer["path"],
    )
    assert '"Description":"Simulated \xe9\xff"' in answer["body"]
    assert (404, "utf-8") == (missing["status"], missing["encoding"])
    assert "There is no resource" in missing["body"]
    assert {"Content-Type": "application/json"} == missing["headers"]


def test_no_order_is_sent(sim):
    sim.machines[0].log.clear()
    read(sim, "/redfish", f"{V1}/", sim.machines[0].system_id)
    assert [] == list(sim.machines[0].log)


def test_an_ended_session_is_opened_again(sim):
    registry = new_registry(Bmcs(trip_after=1000))
    read(sim, f"{V1}/Chassis", registry=registry)
    sim.machines[0].sessions.clear()
    (answer,) = read(sim, f"{V1}/Chassis", registry=registry)
    assert 200 == answer["status"]
    assert 1 == len(sim.machines[0].sessions)


@pytest.mark.parametrize(
    "path", ["/etc", "http://elsewhere/redfish", "/redfish/../x", "/redfish/a\r\nb", 7]
)
def test_only_documents_of_the_bmc_are_read(sim, path):
    with pytest.raises(InvalidDriverInfo, match="paths: "):
        read(sim, f"{V1}/", path)


def test_a_call_ends_before_its_limits_with_the_answers_so_far(sim, monkeypatch):
    monkeypatch.setattr(recording, "SIZE", 1)
    assert [f"{V1}/"] == [answer["path"] for answer in read(sim, f"{V1}/", f"{V1}/Chassis")]
    monkeypatch.setattr(recording, "SIZE", 1 << 20)
    monkeypatch.setattr(recording, "SECONDS", 0)
    assert [f"{V1}/"] == [answer["path"] for answer in read(sim, f"{V1}/", f"{V1}/Chassis")]


def test_an_answer_that_is_refused_is_an_entry_without_a_status(sim):
    registry = new_registry(Bmcs(trip_after=1000))
    read(sim, f"{V1}/", registry=registry)
    sim.set_faults(0, gzip_bomb={"times": 1})
    refused, answer = read(sim, f"{V1}/Chassis", f"{V1}/Managers", registry=registry)
    assert (0, {}, 200) == (refused["status"], refused["headers"], answer["status"])
    assert "compressed" in refused["body"] or "MiB" in refused["body"]


def test_a_silent_bmc_and_a_wrong_password_are_errors(sim):
    with pytest.raises(LoginRefused):
        read(sim, f"{V1}/Chassis", redfish_password="wrong")
    sim.set_faults(0, bmc_dead=True)
    with pytest.raises(Unreachable):
        read(sim, f"{V1}/", f"{V1}/Chassis")


def test_other_management_interfaces_have_nothing_to_record():
    node = target("ipmi", driver_info={"ipmi_address": "192.0.2.1"})
    with pytest.raises(NotSupported, match="has no documents to record"):
        node.driver.management.read_documents(node, [f"{V1}/"])
    assert issubclass(NotSupported, HardwareError)


def test_a_redirect_is_recorded_and_not_followed(sim):
    registry = new_registry(Bmcs(trip_after=1000))
    read(sim, f"{V1}/", registry=registry)
    sim.set_faults(0, redirect_absolute=True)
    (answer,) = read(sim, f"{V1}/Chassis", registry=registry)
    place = f"{sim.machines[0].redfish_address}{V1}/Chassis/"
    assert (302, {"Location": place}) == (answer["status"], answer["headers"])
