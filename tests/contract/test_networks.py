"""/v1/networks, /v1/switches and /v1/nodes/N/switch_ports, with a switch of this process."""

from contextlib import contextmanager

import pytest
from sqlalchemy import select

from app.engine import vif_calls
from app.models import Port, Switch
from drivers.switch import sessions
from drivers.switch.interfaces import Switch as Interface
from tests.contract.conftest import fault
from tests.support import switch_cli

from .direct_calls import DirectCalls

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Q2yGq0oR0rmbcuyHk0bLrV0R4t8UO3zJp3y1a0yNq"
SWITCH = {
    "name": "leaf-1", "switch_id": "0C:C4:7A:00:00:01", "device_type": "cisco_ios",
    "address": "192.0.2.7", "username": "ingot", "password": "a-secret-password",
    "host_key": KEY, "ports": ["Gi1/0/*"],
}  # fmt: skip
LINK = {"switch_id": "0c:c4:7a:00:00:01", "port_id": "Gi1/0/7"}
MAC = "52:54:00:00:00:01"
SETTINGS = ("cleaning_network", "provisioning_network")


def network(api, name, vlan=None, **fields):
    return api("POST", "/v1/networks", {"name": name, **({"vlan": vlan} if vlan else {}), **fields})


def patch(api, path, **fields):
    changes = [
        {"op": "replace", "path": f"/{name}", "value": value} for name, value in fields.items()
    ]
    return api("PATCH", path, changes)


@BOTH
def test_a_network_is_created_shown_listed_changed_and_deleted(api):
    answer = network(api, "red", 200, tagged_vlans=[30, 31], owner="p-red", description="of red")
    created_network = answer.json
    path = f"/v1/networks/{created_network['uuid']}"
    assert (201, f"http://localhost{path}") == (answer.status_code, answer.location)
    assert {"vlan": 200, "tagged_vlans": [30, 31], "owner": "p-red", "public": False} == {
        name: created_network[name] for name in ("vlan", "tagged_vlans", "owner", "public")
    }
    assert created_network == api("GET", path).json == api("GET", "/v1/networks/red").json
    (listed,) = api("GET", "/v1/networks").json["networks"]
    assert {"uuid", "name", "vlan", "owner", "public", "links"} == set(listed)
    assert [] == api("GET", "/v1/networks?owner=other").json["networks"]
    assert 201 == patch(api, "/v1/networks/red", vlan=201).json["vlan"]
    assert (
        api("PATCH", path, [{"op": "remove", "path": "/description"}]).json["description"] is None
    )
    assert (204, 404) == (api("DELETE", path).status_code, api("GET", path).status_code)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vlan": 0}, "vlan"), ({"vlan": 4095}, "vlan"), ({"vlan": "100"}, "vlan"),
        ({"vlan": True}, "vlan"), ({"vlan": 1.5}, "vlan"), ({}, "vlan, tagged_vlans"),
        ({"tagged_vlans": [0]}, "tagged_vlans"), ({"tagged_vlans": 5}, "tagged_vlans"),
        ({"vlan": 5, "tagged_vlans": [5]}, "tagged_vlans"), ({"vlan": 5, "owner": "p", "public": True}, "owner, public"),
        ({"vlan": 5, "name": "a b"}, "name"), ({"vlan": 5, "nonsense": 1}, "nonsense"),
    ],
)  # fmt: skip
def test_a_wrong_network_is_refused(api, fields, message):
    answer = api("POST", "/v1/networks", {"name": "red", **fields})
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]
    assert [] == api("GET", "/v1/networks").json["networks"]


def test_tenants_share_no_vlan_with_others_or_with_agents(api):
    network(api, "cleaning", 100)
    network(api, "red", 200, owner="p-red")
    for fields in (
        {"vlan": 100, "owner": "p-blue"}, {"vlan": 200, "owner": "p-blue"}, {"vlan": 200},
        {"vlan": 300, "tagged_vlans": [100], "owner": "p-blue"},
        {"vlan": 100, "public": True}, {"vlan": 200, "public": True},
        {"vlan": 200, "owner": "p-blue", "physical_network": "rack1"},
    ):  # fmt: skip
        refused = api("POST", "/v1/networks", {"name": "blue", **fields})
        assert 409 == refused.status_code, fields
        assert "machines would be in one network" in fault(refused)["faultstring"]
    assert 201 == network(api, "trunk", 210, tagged_vlans=[200], owner="p-red").status_code
    assert 201 == network(api, "provisioning", 100).status_code
    assert 409 == patch(api, "/v1/networks/red", owner="p-blue").status_code
    assert "p-red" == api("GET", "/v1/networks/red").json["owner"]
    rack1 = network(api, "r1", 400, owner="p-red", physical_network="rack1")
    rack2 = network(api, "r2", 400, owner="p-blue", physical_network="rack2")
    assert (201, 201) == (rack1.status_code, rack2.status_code)


@BOTH
def test_a_switch_shows_no_secret(api):
    answer = api("POST", "/v1/switches", SWITCH)
    assert 201 == answer.status_code, answer.text
    shown_text = (
        api("GET", "/v1/switches/leaf-1").text + api("GET", "/v1/switches?detail=true").text
    )
    assert "password" not in answer.text + shown_text
    assert "0c:c4:7a:00:00:01" == answer.json["switch_id"]
    changed = patch(api, "/v1/switches/leaf-1", password="another-password")
    assert 200 == changed.status_code
    assert "another" not in changed.text
    with api.runtime.reading() as session:
        assert "another-password" == session.scalar(select(Switch.password))
    assert 204 == api("DELETE", "/v1/switches/leaf-1").status_code


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"host_key": "ssh-ed25519 AAAA"}, "host_key"), ({"host_key": f"leaf {KEY}"}, "host_key"),
        ({"host_key": f"{KEY}\nssh-rsa AAAA"}, "host_key"), ({"device_type": "juniper"}, "device_type"),
        ({"ports": []}, "ports"), ({"ports": [""]}, "ports"), ({"ports": None}, "ports"),
        ({"switch_id": "leaf"}, "switch_id"), ({"port": 0}, "port"), ({"port": "22"}, "port"),
        ({"password": None}, "password, private_key"), ({"address": ""}, "address"),
    ],
)  # fmt: skip
def test_a_wrong_switch_is_refused(api, fields, message):
    answer = api("POST", "/v1/switches", SWITCH | fields)
    assert 400 == answer.status_code, answer.text
    assert message in fault(answer)["faultstring"]


def test_two_switches_have_two_addresses(api):
    api("POST", "/v1/switches", SWITCH)
    assert 409 == api("POST", "/v1/switches", SWITCH | {"name": "leaf-2"}).status_code


#: One for all tests: drivers of nodes are kept.
INTERFACE = Interface()


@pytest.fixture
def device(monkeypatch):
    device = switch_cli.IosSwitch("Gi1/0/7", "Gi1/0/8")

    @contextmanager
    def opened(switch, _options):
        device._mode = "exec"
        yield switch_cli.DirectSession(switch, sessions.DIALECTS[switch.device_type], device)

    monkeypatch.setattr(sessions, "opened", opened)
    return device


@pytest.fixture
def node(api, device):
    """An active node with a port at Gi1/0/7, with networks for agents and of two projects."""
    api.runtime.drivers.types["fake-hardware"]["network"]["switch"] = INTERFACE
    api.runtime.calls = DirectCalls(api.runtime)
    assert 201 == api("POST", "/v1/switches", SWITCH).status_code
    for name, vlan, owner in (
        ("cleaning_network", 100, None), ("provisioning_network", 101, None),
        ("red", 200, "p-red"), ("blue", 300, "p-blue"),
    ):  # fmt: skip
        assert 201 == network(api, name, vlan, owner=owner).status_code
    node = api.node(name="n1", driver_info={name: name for name in SETTINGS})
    api.set(node["uuid"], network_interface="switch", provision_state="active")
    add_port(api, node, MAC, LINK)
    yield node
    del api.runtime.drivers.types["fake-hardware"]["network"]["switch"]
    api.runtime.calls = None


def add_port(api, node, address, link, **fields):
    body = {"node_uuid": node["uuid"], "address": address, "local_link_connection": link, **fields}
    answer = api("POST", "/v1/ports", body)
    assert 201 == answer.status_code, answer.text
    return answer.json


def attach(api, name):
    return api("POST", "/v1/nodes/n1/vifs", {"id": name})


def port_info(api):
    with api.runtime.reading() as session:
        return session.scalar(select(Port.internal_info).where(Port.address == MAC))


def test_a_vif_is_a_network(api, node, device):
    assert 204 == attach(api, "red").status_code
    assert "switchport access vlan 200" in device.interfaces["Gi1/0/7"]
    assert "shutdown" not in device.interfaces["Gi1/0/7"]
    assert [{"id": "red"}] == api("GET", "/v1/nodes/n1/vifs").json["vifs"]
    assert "vif_is_connecting" not in port_info(api)
    assert 204 == api("DELETE", "/v1/nodes/n1/vifs/red").status_code
    assert "shutdown" in device.interfaces["Gi1/0/7"]
    assert {"switch_port"} == port_info(api).keys()


@pytest.mark.parametrize("ident", ["cleaning_network", "nonesuch"])
def test_a_vif_that_is_no_network_of_tenants_is_refused(api, node, device, ident):
    refused = attach(api, ident)
    assert 400 == refused.status_code
    assert ident in fault(refused)["faultstring"]
    assert ({}, []) == (port_info(api), device.commands)


def test_a_project_attaches_its_networks_only(api, node, device):
    for ident, project, works in (("red", "p-red", True), ("blue", "p-red", False)):
        if works:
            vif_calls.attach(api.runtime, "n1", {"id": ident}, project)
            vif_calls.detach(api.runtime, "n1", ident)
            continue
        with pytest.raises(Exception, match="there is no network 'blue'"):
            vif_calls.attach(api.runtime, "n1", {"id": ident}, project)


@BOTH
def test_a_network_in_use_is_kept(api, node, device):
    attach(api, "red")
    uuid = api("GET", "/v1/networks/red").json["uuid"]
    for answer in (
        api("DELETE", "/v1/networks/red"), patch(api, f"/v1/networks/{uuid}", vlan=201),
        patch(api, f"/v1/networks/{uuid}", owner="p-blue"), patch(api, f"/v1/networks/{uuid}", name="rot"),
        api("DELETE", "/v1/switches/leaf-1"),
    ):  # fmt: skip
        assert 409 == answer.status_code, answer.text
        assert "network red" in fault(answer)["faultstring"]
    assert 200 == patch(api, f"/v1/networks/{uuid}", description="of red").status_code
    api("DELETE", "/v1/nodes/n1/vifs/red")
    assert 204 == api("DELETE", "/v1/networks/red").status_code
    assert 204 == api("DELETE", "/v1/switches/leaf-1").status_code


def test_switch_ports_are_shown_and_restored(api, node, device):
    attach(api, "red")
    device.interfaces["Gi1/0/7"][:] = ["switchport mode access", "switchport access vlan 300"]
    (port,) = api("GET", "/v1/nodes/n1/switch_ports").json["switch_ports"]
    assert ("VLAN 200", "VLAN 300", False) == (port["ordered"], port["actual"], port["agrees"])
    (rehearsed,) = api("GET", "/v1/nodes/n1/switch_ports?network=blue").json["switch_ports"]
    assert rehearsed["agrees"]
    restored = api("POST", "/v1/nodes/n1/switch_ports/restore")
    assert (200, ["leaf-1 Gi1/0/7: VLAN 200"]) == (restored.status_code, restored.json["restored"])
    (port,) = api("GET", "/v1/nodes/n1/switch_ports").json["switch_ports"]
    assert port["agrees"]


@pytest.mark.parametrize("path", ["", "/restore"])
def test_other_network_interfaces_have_no_switch_ports(api, node, path):
    api.set(node["uuid"], network_interface="noop")
    answer = api("POST" if path else "GET", f"/v1/nodes/n1/switch_ports{path}")
    assert 400 == answer.status_code
    assert "noop configures no switch ports" in fault(answer)["faultstring"]


@BOTH
def test_two_nodes_at_one_switch_port_are_refused(api, node, device):
    other = api.node(name="n2")
    add_port(
        api,
        other,
        "52:54:00:00:00:02",
        {"switch_info": "leaf-1", "port_id": "Gi1/0/7", "switch_id": "0c:c4:7a:00:00:99"},
    )
    refused = attach(api, "red")
    assert 400 == refused.status_code
    assert "node n2 has a port at leaf-1 Gi1/0/7, too" in fault(refused)["faultstring"]
    assert [] == device.commands
