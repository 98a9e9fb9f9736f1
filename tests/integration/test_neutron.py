"""
A node's life with network interfaces flat and neutron: operations, calls and events, against a
little Neutron.
"""

from copy import deepcopy
from itertools import pairwise

import pytest

from app.engine import rpc, vif_calls, vif_events
from app.errors import Conflict, Invalid, NodeLocked
from app.models import Node, Operation, OperationState, Port
from app.process import kill_points
from drivers.builtin import HARDWARE_TYPES, INTERFACES
from drivers.core.registry import load
from drivers.neutron import service
from tests.integration import crash_harness
from tests.integration.harness import Acme, Harness
from tests.support import neutron as support
from tests.support.inside import AlwaysGiven
from tests.unit.drivers.machines import image_server, scripted_agent
from workers.conductor.rpc_server import CallHandler

#: For tests of the requests to Neutron, which no database changes.
on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

LINK = {"switch_id": "0c:c4:7a:00:00:01", "port_id": "Eth1/7"}
NETWORKS = {
    f"INGOT_NEUTRON_{name.upper()}_NETWORK": name for name in support.NETWORKS if name != "tenant"
}


@pytest.fixture
def neutron():
    with support.serving() as server:
        yield server
    service._connect.cache_clear()


@pytest.fixture
def harness(inside, neutron, monkeypatch):
    inside.environ |= {
        "INGOT_NEUTRON_AUTH_TYPE": "none",
        "INGOT_NEUTRON_ENDPOINT_OVERRIDE": neutron.url,
        "INGOT_NEUTRON_RETRIES": "0",
        "INGOT_CONDUCTOR_STEP_ATTEMPTS": "1",
        "INGOT_CONDUCTOR_NODE_LOCKED_RETRY_ATTEMPTS": "1",
        "INGOT_AGENT_REQUIRE_TLS": "false",
        "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRIES": "0",
        **NETWORKS,
    }
    view = inside.another()
    with scripted_agent() as agent, image_server() as images:
        images.files["/disk.raw"] = bytes(512)
        harness = Harness(view, agent)
        harness.image = {"image_source": f"{images.url}/disk.raw", "image_checksum": "a" * 64}
        view.runtime.drivers = load_networks()
        harness.conductor = view.conductor("c-1")
        for flow in ("clean", "deploy", "service"):
            harness.offer(flow)
        harness.calls = Calls(CallHandler(view.runtime, "c-1", AlwaysGiven()))
        view.runtime.calls = harness.calls
        yield harness
    view.close()


class Calls:
    """Calls that a conductor answers at once."""

    def __init__(self, handler):
        self.handler, self.answers = handler, {}

    def post(self, conductor, key, document, seconds):
        self.answers[key] = self.handler.answer(document, seconds)

    def receive(self, key, seconds):
        return self.answers.pop(key)


def node_of(harness, network="neutron", state="available", **columns):
    """A node with one wired port."""
    columns = {"instance_info": harness.image, **columns}
    node = harness.with_agent(state, network_interface=network, power_state="power off", **columns)
    with harness.inside.runtime.transaction() as session:
        port = session.query(Port).filter_by(node_id=node).one()
        port.local_link_connection, port.address = LINK, f"52:54:00:00:00:{node:02x}"
    return node


def attach(harness, node, vif, project=None, **fields):
    vif_calls.attach(
        harness.inside.runtime, harness.inside.read(node).uuid, {"id": vif, **fields}, project
    )


def detach(harness, node, vif):
    vif_calls.detach(harness.inside.runtime, harness.inside.read(node).uuid, vif)


def info_of(harness, node):
    with harness.inside.runtime.reading() as session:
        return session.query(Port).filter_by(node_id=node).one().internal_info


def waiting(harness, node):
    with harness.inside.runtime.reading() as session:
        return (
            session.query(Operation)
            .filter_by(node_id=node, state=OperationState.WAITING)
            .one_or_none()
        )


def drive(harness, node):
    """Let polls be due, and the agent finish its commands, until the operation ends."""
    while (operation := waiting(harness, node)) is not None:
        if operation.wake_at is not None:
            harness.poll(node)
            continue
        if harness.agent.commands and harness.agent.commands[-1]["command_status"] == "RUNNING":
            name, params = harness.agent.received[-1]
            if "step" in params:
                harness.agent.finish_step(name.partition(".")[0])
            else:
                harness.agent.finish({})
        harness.call(node)
    return harness.state(node)


def state_of(neutron, vif):
    """Network, host and status of a port."""
    port = neutron.ports[vif]
    return port["binding:host_id"], port["status"], bool(port["binding:profile"])


@pytest.mark.parametrize("network", ["flat", "neutron"])
def test_a_life_cycle_on_the_networks_of_neutron(harness, neutron, network):
    node, vif = node_of(harness, network), neutron.add_port()
    uuid = harness.inside.read(node).uuid
    attach(harness, node, vif)
    assert {"tenant_vif_port_id": vif} == info_of(harness, node)
    assert (uuid, f"52:54:00:00:00:{node:02x}") == (
        neutron.ports[vif]["binding:host_id"],
        neutron.ports[vif]["mac_address"],
    )
    harness.do(node, "active")
    agents = neutron.on("provisioning")
    assert len(agents) == (network == "neutron")
    if agents:
        assert agents[0]["id"] == info_of(harness, node)["provisioning_vif_port_id"]
        assert ("", "DOWN", False) == state_of(neutron, vif)
    assert "active" == drive(harness, node)
    assert {vif} == neutron.ports.keys()
    assert (uuid, "ACTIVE", network == "neutron") == state_of(neutron, vif)
    assert {"tenant_vif_port_id": vif} == info_of(harness, node)

    harness.do(node, "deleted")
    assert 1 == len(neutron.on("cleaning"))
    assert "" == neutron.ports[vif]["binding:host_id"]
    assert "available" == drive(harness, node)
    assert {vif} == neutron.ports.keys()
    assert {} == info_of(harness, node)


def test_a_tear_down_that_cannot_disconnect_the_tenant_does_not_clean(harness, neutron):
    node, vif = node_of(harness), neutron.add_port()
    attach(harness, node, vif)
    harness.do(node, "active")
    drive(harness, node)
    neutron.fail("PUT", vif, 500)
    assert "error" == harness.do(node, "deleted")
    assert "Neutron answered 500 for port" in harness.inside.read(node).last_error
    assert [] == neutron.on("cleaning")
    assert {"tenant_vif_port_id": vif} == info_of(harness, node)
    harness.do(node, "deleted")
    assert ("", 1) == (neutron.ports[vif]["binding:host_id"], len(neutron.on("cleaning")))
    assert "available" == drive(harness, node)
    assert {} == info_of(harness, node)


@on_sqlite
def test_a_failed_clean_leaves_no_port(harness, neutron):
    node = node_of(harness, state="manageable")
    neutron.binds = "binding_failed"
    assert "clean failed" == harness.do(node, "provide")
    assert "binding_failed" in harness.inside.read(node).last_error
    assert ({}, {}) == (neutron.ports, info_of(harness, node))


def test_an_event_of_neutron_ends_the_wait_for_a_port(harness, neutron):
    node = node_of(harness, state="manageable")
    neutron.binds = "DOWN"
    harness.do(node, "provide")
    (port,) = neutron.ports.values()
    assert "to connect port" in harness.steps(node)[harness.last(node).cursor].progress["waits_for"]
    event = {
        "event": "network.bind_port", "port_id": port["id"], "mac_address": port["mac_address"].upper(),
        "status": "ACTIVE",
    }  # fmt: skip
    neutron.binds = port["status"] = "ACTIVE"
    for other in ({"status": "DOWN"}, {"event": "network.unbind_port"}, {"port_id": "another"},
                  {"mac_address": "52:54:00:ff:ff:ff"}):  # fmt: skip
        vif_events.resume_waiting(harness.inside.runtime, [{**event, **other}])
        assert [] == harness.inside.messages
    vif_events.resume_waiting(harness.inside.runtime, [event])
    harness.run()
    assert "network.add_cleaning_network" in [
        row.label for row in harness.steps(node) if row.state == "done"
    ]
    vif_events.resume_waiting(harness.inside.runtime, [event])  # late: nothing waits for it
    assert [] == harness.inside.messages
    drive(harness, node)


@on_sqlite
def test_an_unrescue_after_a_failed_rescue_brings_the_tenants_networks_back(harness, neutron):
    node, vif = node_of(harness, rescue_interface="agent"), neutron.add_port()
    attach(harness, node, vif)
    harness.do(node, "active")
    drive(harness, node)
    neutron.fail("POST", "/ports", 500)
    assert "rescue failed" == harness.do(node, "rescue", rescue_password="x")
    assert ("", "DOWN", False) == state_of(neutron, vif)
    assert "active" == harness.do(node, "unrescue")
    assert "ACTIVE" == neutron.ports[vif]["status"]


# VIFs


def test_a_vif_is_connected_to_a_running_machine_and_disconnected(harness, neutron):
    node, vif = node_of(harness, state="active"), neutron.add_port()
    attach(harness, node, vif)
    assert (harness.inside.read(node).uuid, "ACTIVE", True) == state_of(neutron, vif)
    with pytest.raises(Conflict, match="already attached"):
        attach(harness, node, vif)
    detach(harness, node, vif)
    assert ("", "DOWN", False) == state_of(neutron, vif)
    assert {} == info_of(harness, node)
    with pytest.raises(Invalid, match="not attached"):
        detach(harness, node, vif)


@on_sqlite
@pytest.mark.parametrize("state", ["active", "available"])
@pytest.mark.parametrize("fault", [500, 409, "lost"])
def test_a_vif_that_cannot_be_connected_is_not_attached(harness, neutron, state, fault):
    node, vif = node_of(harness, state=state), neutron.add_port()
    neutron.fail("PUT", vif, fault)
    with pytest.raises(rpc.RemoteError) as raised:
        attach(harness, node, vif)
    assert raised.value.status in (502, 504)
    assert {} == info_of(harness, node)
    assert ("", "DOWN", False) == state_of(neutron, vif)


@on_sqlite
def test_a_failed_binding_is_no_attachment(harness, neutron):
    node, vif = node_of(harness, state="active"), neutron.add_port()
    neutron.binds = "binding_failed"
    with pytest.raises(rpc.RemoteError, match="binding_failed"):
        attach(harness, node, vif)
    assert ({}, "") == (info_of(harness, node), neutron.ports[vif]["binding:host_id"])


@on_sqlite
def test_a_vif_that_can_neither_be_connected_nor_disconnected_stays_recorded(harness, neutron):
    """It may be connected: a repeated request goes on with it, and so does a detachment."""
    node, vif = node_of(harness, state="active"), neutron.add_port()
    neutron.fail("PUT", vif, 500, times=2)
    neutron.ports[vif]["binding:host_id"] = harness.inside.read(node).uuid
    with pytest.raises(rpc.RemoteError):
        attach(harness, node, vif)
    assert {"tenant_vif_port_id": vif, "vif_is_connecting": True} == info_of(harness, node)
    attach(harness, node, vif)
    assert {"tenant_vif_port_id": vif} == info_of(harness, node)
    assert "ACTIVE" == neutron.ports[vif]["status"]


@on_sqlite
def test_a_request_that_died_is_repeated(harness, neutron, monkeypatch):
    """The API dies after the VIF is recorded, or after it is connected."""
    for at in ("plug_vif", "complete"):
        node, vif = node_of(harness, state="active"), neutron.add_port()
        with monkeypatch.context() as patch:
            if at == "complete":
                patch.setattr(vif_calls.vifs, "complete", dies)
            else:
                call = rpc.call
                patch.setattr(
                    vif_calls.rpc, "call",
                    lambda *args, call=call, **more: dies() if "plug_vif" in args else call(*args, **more),
                )  # fmt: skip
            with pytest.raises(Death):
                attach(harness, node, vif)
        assert info_of(harness, node)["vif_is_connecting"]
        attach(harness, node, vif)
        assert {"tenant_vif_port_id": vif} == info_of(harness, node)
        assert (harness.inside.read(node).uuid, "ACTIVE", True) == state_of(neutron, vif)


class Death(BaseException):
    """End of a process."""


def dies(*_args, **_more):
    raise Death


@on_sqlite
@pytest.mark.parametrize(
    ("project", "fields", "allowed"),
    [
        (None, {}, True),
        ("mine", {"project_id": "mine"}, True),
        ("mine", {"project_id": "other"}, False),
        ("", {"project_id": "other"}, False),
        ("admin", {"project_id": "other"}, True),  # of the network
    ],
)
def test_a_project_attaches_its_own_vifs(harness, neutron, project, fields, allowed):
    node, vif = node_of(harness), neutron.add_port(**fields)
    if allowed:
        attach(harness, node, vif, project)
        return
    with pytest.raises(rpc.RemoteError, match="Neutron has no such port") as raised:
        attach(harness, node, vif, project)
    assert (400, {}) == (raised.value.status, info_of(harness, node))


@on_sqlite
@pytest.mark.parametrize(
    ("network", "error"),
    [
        ({"provider:physical_network": "rack1"}, None),
        ({"provider:physical_network": "rack2"}, "physical network rack2"),
        ({"segments": [{"provider:physical_network": "rack1"}, {"provider:physical_network": "rack2"}]}, None),
        ({"segments": [{"provider:physical_network": "rack3"}, {"provider:physical_network": "rack2"}]}, "rack2, rack3"),
        ({"provider:physical_network": None}, None),
    ],
)  # fmt: skip
def test_a_vif_needs_a_port_on_its_physical_network(harness, neutron, network, error):
    node, vif = node_of(harness), neutron.add_port()
    with harness.inside.runtime.transaction() as session:
        session.query(Port).filter_by(node_id=node).one().physical_network = "rack1"
    neutron.networks[neutron.id_of("tenant")] |= network
    neutron.subnets["s"] = {"id": "s", "segment_id": None}
    if error is None:
        attach(harness, node, vif)
        return
    with pytest.raises(Invalid, match=error):
        attach(harness, node, vif)


@on_sqlite
def test_the_segment_of_a_fixed_address_counts(harness, neutron):
    node, vif = node_of(harness), neutron.add_port()
    with harness.inside.runtime.transaction() as session:
        session.query(Port).filter_by(node_id=node).one().physical_network = "rack1"
    neutron.networks[neutron.id_of("tenant")]["segments"] = [
        {"provider:physical_network": "rack1"}, {"provider:physical_network": "rack2"},
    ]  # fmt: skip
    neutron.subnets["s"] = {"id": "s", "segment_id": "g2"}
    neutron.segments["g2"] = {
        "id": "g2",
        "provider:physical_network": "rack2",
        "physical_network": "rack2",
    }
    with pytest.raises(Invalid, match="physical network rack2"):
        attach(harness, node, vif)


@on_sqlite
@pytest.mark.parametrize("wiring", [{"local_link_connection": {}}, {"is_smartnic": True}])
def test_a_vif_needs_a_switch_port_that_is_known(harness, neutron, wiring):
    for network in ("neutron", "flat"):
        node, vif = node_of(harness, network), neutron.add_port()
        with harness.inside.runtime.transaction() as session:
            port = session.query(Port).filter_by(node_id=node).one()
            for name, value in wiring.items():
                setattr(port, name, value)
        if network == "flat":
            attach(harness, node, vif)
            continue
        with pytest.raises(Invalid, match="free port or port group with local_link_connection"):
            attach(harness, node, vif)


@on_sqlite
@pytest.mark.parametrize("vif", ["nonesuch", "subport"])
def test_a_vif_must_be_a_port_of_its_own(harness, neutron, vif):
    node = node_of(harness)
    if vif == "subport":
        vif = neutron.add_port(device_owner="trunk:subport")
    with pytest.raises(rpc.RemoteError) as raised:
        attach(harness, node, vif)
    assert 400 == raised.value.status
    assert {} == info_of(harness, node)


@on_sqlite
def test_a_locked_node_gets_no_vif(harness, neutron):
    node, vif = node_of(harness), neutron.add_port()
    harness.inside.change(Node, node, reservation="c-1")
    with pytest.raises(NodeLocked):
        attach(harness, node, vif)
    with pytest.raises(NodeLocked):
        detach(harness, node, vif)
    assert [] == neutron.orders()


# Crashes


@on_sqlite
@pytest.mark.parametrize("pause", [False, True])
def test_a_conductor_that_dies_or_stalls_after_any_step_leaves_no_orphan(
    harness, neutron, monkeypatch, pause
):
    """The requests of the step are sent, and its outcome is not recorded; another one repeats it."""
    inside, plain = harness.inside, load_networks()
    with crash_harness.opened(inside, harness.agent, monkeypatch) as crashing:
        inside.runtime.drivers, crashing.image = plain, harness.image
        requests = requests_at(crashing, neutron, monkeypatch)
        life(crashing, neutron, None, None)
        for verb, counts in deepcopy(requests).items():
            for nth, (old_count, new_count) in enumerate(pairwise([0, *counts]), 1):
                if new_count == old_count:
                    continue  # the step has not asked Neutron
                interruption = crash_harness.Interruption(
                    crash_harness.CONDUCTOR, "acted", nth, pause
                )
                life(crashing, neutron, verb, interruption)


def requests_at(crashing, neutron, monkeypatch):
    """verb -> number of requests to Neutron after each step of the first life"""
    requests, reach = {}, crashing.reach

    def counted(point, kind="any"):
        if point == "acted" and crashing.interruption is None:
            requests.setdefault(kind, []).append(len(neutron.requests))
        reach(point, kind)

    monkeypatch.setattr(kill_points, "reach", counted)
    return requests


def load_networks():
    return load([*HARDWARE_TYPES, Acme], enabled_interfaces={"network": INTERFACES["network"]})


def life(crashing, neutron, interrupted, interruption):
    """Deploy a node and tear it down."""
    neutron.ports.clear()
    neutron.requests.clear()
    node, vif = node_of(crashing), neutron.add_port()
    with crashing.runtime.transaction() as session:
        port = session.query(Port).filter_by(node_id=node).one()
        port.internal_info = {"tenant_vif_port_id": vif}
    for verb, state in (("active", "active"), ("deleted", "available")):
        crashing.begin(interruption if verb == interrupted else None)
        crashing.ask(node, verb)
        crashing.drive()
        assert crashing.interrupted == (verb == interrupted)
        assert state == crashing.state(node), (
            verb,
            interruption,
            crashing.inside.read(node).last_error,
        )
        assert {vif} == neutron.ports.keys(), (verb, interruption)
    assert ({}, "") == (info_of(crashing, node), neutron.ports[vif]["binding:host_id"])
