"""VIFs: discarded by `noop`, stored on ports and port groups by other network interfaces."""

import pytest

from app.models import Port, Portgroup
from drivers.core.interface_kinds import Network
from tests.contract.conftest import fault


class Keeping(Network):
    """A third-party network interface."""

    name = "keeping"


@pytest.fixture
def node(api):
    """A node of a driver whose network interface stores VIFs."""
    networks = api.runtime.drivers.types["fake-hardware"]["network"]
    networks["keeping"] = Keeping()
    created_node = api.node(name="n1")
    api.set(created_node["uuid"], network_interface="keeping")
    yield created_node
    del networks["keeping"]


@pytest.fixture
def ports(api, node):
    """Factory of ports: `ports(a={...}, b={...})` returns their UUIDs by name."""
    addresses = (f"52:54:00:00:00:{number:02x}" for number in range(256))

    def make(**fields_by_name):
        uuids = {}
        for name, fields in fields_by_name.items():
            body = {"node_uuid": node["uuid"], "address": next(addresses), "name": name, **fields}
            answer = api("POST", "/v1/ports", body)
            assert 201 == answer.status_code, answer.text
            uuids[name] = answer.json["uuid"]
        return uuids

    return make


def attach(api, vif="v1", **fields):
    return api("POST", "/v1/nodes/n1/vifs", {"id": vif, **fields})


def holders(api):
    """VIF -> name of its port or port group"""
    with api.runtime.reading() as session:
        places = [*session.query(Port), *session.query(Portgroup)]
        return {
            place.internal_info["tenant_vif_port_id"]: place.name
            for place in places
            if place.internal_info
        }


def test_noop_accepts_and_discards_vifs(api):
    uuid = api.node()["uuid"]
    path = f"/v1/nodes/{uuid}/vifs"

    assert 204 == api("POST", path, {"id": "v1", "colour": "red"}).status_code
    assert {"vifs": []} == api("GET", path).json
    assert 204 == api("DELETE", f"{path}/v1").status_code
    assert 400 == api("DELETE", f"{path}/two%20words").status_code
    api.set(uuid, reservation="rack-1")
    assert 409 == api("POST", path, {"id": "v1"}).status_code
    assert 409 == api("DELETE", f"{path}/v1").status_code
    assert 200 == api("GET", path).status_code


@pytest.mark.parametrize(
    ("version", "method", "body", "status"),
    [
        ("1.27", "GET", None, 404),
        ("1.27", "POST", {"id": "v1"}, 404),
        ("1.28", "POST", {"id": "v1"}, 204),
        ("1.28", "POST", {}, 400),
        ("1.28", "POST", {"id": 7}, 400),
        ("1.28", "POST", {"id": "two words"}, 400),
        ("1.66", "POST", {"id": "v1", "port_uuid": "5" * 32, "portgroup_uuid": "6" * 32}, 204),
        ("1.67", "POST", {"id": "v1", "port_uuid": 7}, 400),
        ("1.67", "POST", {"id": "v1", "port_uuid": "5" * 32}, 204),
        ("1.67", "POST", {"id": "v1", "port_uuid": "5" * 32, "portgroup_uuid": "6" * 32}, 400),
    ],
)
def test_requests_about_vifs_are_checked(api, version, method, body, status):
    path = f"/v1/nodes/{api.node()['uuid']}/vifs"

    assert status == api.at(version)(method, path, body).status_code


def test_a_vif_is_attached_once_and_detached(api, node, ports):
    uuid = ports(p1={})["p1"]

    assert 204 == attach(api).status_code
    assert {"vifs": [{"id": "v1"}]} == api("GET", "/v1/nodes/n1/vifs").json
    assert {"tenant_vif_port_id": "v1"} == api("GET", "/v1/ports/p1").json["internal_info"]
    again, another = attach(api), attach(api, "v2")
    assert (409, 400) == (again.status_code, another.status_code)
    assert f"VIF v1 is already attached to Ironic port {uuid}" in fault(again)["faultstring"]
    assert 409 == api("DELETE", f"/v1/ports/{uuid}").status_code
    assert 204 == api("DELETE", "/v1/nodes/n1/vifs/v1").status_code
    assert 400 == api("DELETE", "/v1/nodes/n1/vifs/v1").status_code
    assert {"vifs": []} == api("GET", "/v1/nodes/n1/vifs").json
    assert 204 == api("DELETE", f"/v1/ports/{uuid}").status_code


def test_a_bound_port_may_be_deleted_in_maintenance(api, node, ports):
    uuid = ports(p1={})["p1"]
    attach(api)
    api.set(node["uuid"], maintenance=True)

    assert 204 == api("DELETE", f"/v1/ports/{uuid}").status_code


def test_the_most_suitable_free_port_is_used(api, node, ports):
    """First ports on a physical network, then port groups, then PXE-enabled ports."""
    group = api("POST", "/v1/portgroups", {"node_uuid": node["uuid"], "name": "bond"}).json["uuid"]
    api("POST", "/v1/portgroups", {"node_uuid": node["uuid"], "name": "empty"})
    ports(
        quiet={"pxe_enabled": False},
        boots={},
        m1={"portgroup_uuid": group},
        m2={"portgroup_uuid": group},
        wired={"physical_network": "p1", "pxe_enabled": False},
    )
    used_ports = []
    for number in range(4):
        assert 204 == attach(api, f"v{number}").status_code
        used_ports.append(holders(api)[f"v{number}"])

    assert ["wired", "bond", "boots", "quiet"] == used_ports
    assert 400 == attach(api, "v5").status_code
    assert [{"id": f"v{number}"} for number in (3, 2, 0, 1)] == (
        api("GET", "/v1/nodes/n1/vifs").json["vifs"]
    )


@pytest.mark.parametrize(("alone", "status"), [(True, 204), (False, 400)])
def test_the_ports_of_a_group_are_used_singly_after_the_first(api, node, ports, alone, status):
    body = {"node_uuid": node["uuid"], "name": "bond", "standalone_ports_supported": alone}
    group = api("POST", "/v1/portgroups", body).json["uuid"]
    joining = [{"op": "add", "path": "/portgroup_uuid", "value": group}]
    port = ports(m1={"pxe_enabled": False})["m1"]
    attach(api)
    assert 200 == api("PATCH", f"/v1/ports/{port}", joining).status_code
    ports(m2={"portgroup_uuid": group, "pxe_enabled": False})

    assert status == attach(api, "v2").status_code
    assert ({"v1": "m1", "v2": "m2"} if alone else {"v1": "m1"}) == holders(api)


def test_a_port_may_be_requested(api, node, ports):
    group = api("POST", "/v1/portgroups", {"node_uuid": node["uuid"], "name": "bond"}).json["uuid"]
    uuids = ports(p1={}, p2={}, m1={"portgroup_uuid": group})

    assert 204 == attach(api, port_uuid=uuids["p2"]).status_code
    assert 400 == attach(api, "v2", port_uuid=uuids["p2"]).status_code
    assert 400 == attach(api, "v2", port_uuid="nonesuch").status_code
    assert 204 == attach(api, "v2", portgroup_uuid=group).status_code
    assert 400 == attach(api, "v3", portgroup_uuid=uuids["p1"]).status_code
    assert {"v1": "p2", "v2": "bond"} == holders(api)


@pytest.mark.parametrize(
    ("network", "holder", "status"),
    [("p1", "a", 204), ("p2", "b", 204), ("p3", None, 400), (None, "a", 204)],
)
def test_a_vif_is_attached_to_its_physical_network(api, node, ports, network, holder, status):
    ports(a={"physical_network": "p1"}, b={"physical_network": "p2"})
    fields = {"physical_network": network} if network else {}

    assert status == attach(api, **fields).status_code
    assert ({"v1": holder} if holder else {}) == holders(api)


@pytest.mark.parametrize("placed", [{}, {"physical_network": "p3"}])
def test_a_vif_without_a_suitable_port_is_no_conflict(api, node, ports, placed):
    """Clients treat a 409 as a VIF that is already attached."""
    ports(a={"physical_network": "p1"})
    if not placed:
        assert 204 == attach(api, "v0").status_code
    answer = attach(api, **placed)

    assert 400 == answer.status_code
    message = fault(answer)["faultstring"]
    assert message.startswith("Unable to attach VIF v1, not enough free physical ports: ")
    assert node["uuid"] in message
