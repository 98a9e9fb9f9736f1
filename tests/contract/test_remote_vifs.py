"""VIFs that a conductor connects, over HTTP."""

import pytest

from app.engine import vif_calls
from drivers.core.errors import InvalidDriverInfo, Refused, Unreachable
from drivers.core.interface_kinds import Network
from tests.contract.conftest import fault

from .direct_calls import DirectCalls

MAC = "52:54:00:00:00:01"


class Remote(Network):
    """A network interface whose VIFs conductors connect; errors: of the next calls, by method."""

    name = "remote"
    remote_vifs = True

    def __init__(self):
        self.calls, self.errors = [], {}

    def _called(self, method, vif):
        self.calls.append((method, vif))
        if error := self.errors.pop(method, None):
            raise error

    def vif_networks(self, target, vif, project):
        self._called("networks", vif)
        return ["rack1"]

    def plug_vif(self, target, vif):
        assert vif == target.nics[0].internal_info["tenant_vif_port_id"]
        self._called("plug", vif)

    def unplug_vif(self, target, vif):
        self._called("unplug", vif)


#: One for all tests: drivers of nodes are kept, and the application is that of all tests.
INTERFACE = Remote()


@pytest.fixture
def remote(api):
    networks = api.runtime.drivers.types["fake-hardware"]["network"]
    networks["remote"] = interface = INTERFACE
    interface.calls, interface.errors = [], {}
    api.runtime.calls = DirectCalls(api.runtime)
    node = api.node(name="n1")
    api.set(node["uuid"], network_interface="remote")
    port = {"node_uuid": node["uuid"], "address": MAC, "name": "p1", "physical_network": "rack1"}
    assert 201 == api("POST", "/v1/ports", port).status_code
    interface.uuid = node["uuid"]
    yield interface
    del networks["remote"]
    api.runtime.calls = None


def attach(api, **headers):
    return api("POST", "/v1/nodes/n1/vifs", {"id": "v1"}, **headers)


def info(api):
    return api("GET", "/v1/ports/p1").json["internal_info"]


def test_a_conductor_connects_and_disconnects_a_vif(api, remote):
    assert 204 == attach(api).status_code
    assert [("networks", "v1"), ("plug", "v1")] == remote.calls
    assert {"tenant_vif_port_id": "v1"} == info(api)
    assert 409 == attach(api).status_code
    assert 204 == api("DELETE", "/v1/nodes/n1/vifs/v1").status_code
    assert ("unplug", "v1") == remote.calls[-1]
    assert {} == info(api)
    assert 400 == api("DELETE", "/v1/nodes/n1/vifs/v1").status_code


@pytest.mark.parametrize(
    ("method", "error", "status"),
    [
        ("networks", InvalidDriverInfo("no such port"), 400),
        ("networks", Unreachable("no answer"), 504),
        ("plug", InvalidDriverInfo("taken elsewhere"), 400),
        ("plug", Refused("MacAddressInUse"), 502),
        ("plug", Unreachable("no answer"), 504),
    ],
)
def test_an_error_attaches_nothing_and_is_no_conflict(api, remote, method, error, status):
    remote.errors[method] = error
    answer = attach(api)
    assert status == answer.status_code
    assert str(error) in fault(answer)["faultstring"]
    assert {} == info(api)
    assert 204 == attach(api).status_code


def test_a_vif_that_may_be_connected_stays_and_the_request_is_repeated(api, remote):
    remote.errors = {"plug": Unreachable("no answer"), "unplug": Unreachable("no answer")}
    assert 504 == attach(api).status_code
    assert {"tenant_vif_port_id": "v1", "vif_is_connecting": True} == info(api)
    assert {"vifs": [{"id": "v1"}]} == api("GET", "/v1/nodes/n1/vifs").json
    assert 204 == attach(api).status_code
    assert {"tenant_vif_port_id": "v1"} == info(api)


def test_a_vif_that_is_not_disconnected_stays_attached(api, remote):
    attach(api)
    remote.errors["unplug"] = Unreachable("no answer")
    assert 504 == api("DELETE", "/v1/nodes/n1/vifs/v1").status_code
    assert {"tenant_vif_port_id": "v1"} == info(api)


@pytest.mark.parametrize("header", ["Idempotency-Key", "If-Match"])
def test_a_header_without_effect_is_refused(api, remote, header):
    assert 400 == attach(api, **{header: '"k"'}).status_code
    assert [] == remote.calls


def test_a_locked_node_gets_no_vif(api, remote):
    api.set(remote.uuid, reservation="rack-1")
    assert 409 == attach(api).status_code
    assert {} == info(api)
    assert ("plug", "v1") not in remote.calls


def test_the_address_of_a_port_with_a_vif_is_kept(api, remote):
    attach(api)
    patch = [{"op": "replace", "path": "/address", "value": "52:54:00:00:00:99"}]
    answer = api("PATCH", "/v1/ports/p1", patch)
    assert 409 == answer.status_code
    assert "address: VIF v1" in fault(answer)["faultstring"]
    api("DELETE", "/v1/nodes/n1/vifs/v1")
    assert 200 == api("PATCH", "/v1/ports/p1", patch).status_code


def test_each_request_has_one_record_for_the_audit(api, remote):
    remote.errors["plug"] = Refused("no")
    attach(api)
    attach(api)
    with api.runtime.read_connection() as connection:
        rows = connection.exec_driver_sql(
            "SELECT outcome, status FROM audit WHERE action = 'create/node/vif' ORDER BY id"
        ).all()
    assert [("failure", 502), ("success", 204)] == [tuple(row) for row in rows]


def test_a_detachment_during_an_attachment_is_kept(api, remote, monkeypatch):
    """The VIF is connected, and detached before that is recorded."""
    complete = vif_calls.vifs.complete

    def detached(session, node, vif):
        vif_calls.vifs.detach(session, node, vif)
        complete(session, node, vif)

    monkeypatch.setattr(vif_calls.vifs, "complete", detached)
    assert 204 == attach(api).status_code
    assert {} == info(api)
