"""
A node's life with network interface switch: operations, crashes, comparison, and `why`. The switch
is one of this process, with the commands of Cisco IOS.
"""

from contextlib import contextmanager
from copy import deepcopy
from itertools import pairwise

import pytest

from app.inventory.connectivity import networks
from app.models import Node, Port
from app.process import kill_points
from app.reports import why
from drivers.builtin import HARDWARE_TYPES, INTERFACES
from drivers.core.errors import Unreachable
from drivers.core.registry import load
from drivers.switch import sessions
from tests.integration import crash_harness
from tests.integration.harness import Acme, Harness
from tests.integration.test_neutron import drive
from tests.support import switch_cli
from tests.unit.drivers.machines import image_server, scripted_agent
from workers.periodic import switch_ports

#: For tests of the commands to the switch, which no database changes.
on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

LINK = {"switch_id": "0c:c4:7a:00:00:01", "port_id": "Gi1/0/7"}
SWITCH = {
    "name": "leaf-1", "switch_id": "0c:c4:7a:00:00:01", "device_type": "cisco_ios",
    "address": "192.0.2.7", "username": "ingot", "password": "p", "host_key": "ssh-ed25519 A",
    "ports": ["Gi1/0/*"],
}  # fmt: skip
OFF, CLEANING, TENANT = "no network", "VLAN 100", "VLAN 200"


@pytest.fixture
def device(monkeypatch):
    device = switch_cli.IosSwitch("Gi1/0/7", "Gi1/0/8")

    @contextmanager
    def opened(switch, _options):
        if device.fail_after is not None:
            raise Unreachable(f"Switch {switch.name} did not answer")
        device._mode = "exec"
        yield switch_cli.DirectSession(switch, sessions.DIALECTS["cisco_ios"], device)

    monkeypatch.setattr(sessions, "opened", opened)
    return device


@pytest.fixture
def harness(inside, device):
    inside.environ |= {
        "INGOT_SWITCH_CLEANING_NETWORK": "cleaning",
        "INGOT_SWITCH_PROVISIONING_NETWORK": "provisioning",
        "INGOT_CONDUCTOR_STEP_ATTEMPTS": "1",
        "INGOT_AGENT_REQUIRE_TLS": "false",
        "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRIES": "0",
    }
    view = inside.another()
    with view.runtime.transaction() as session:
        networks.create_switch(session, SWITCH)
        for name, vlan, owner in (
            ("cleaning", 100, None),
            ("provisioning", 101, None),
            ("red", 200, "p"),
        ):
            networks.create(session, {"name": name, "vlan": vlan, "owner": owner})
    with scripted_agent() as agent, image_server() as images:
        images.files["/disk.raw"] = bytes(512)
        harness = Harness(view, agent)
        harness.image = {"image_source": f"{images.url}/disk.raw", "image_checksum": "a" * 64}
        view.runtime.drivers = load_networks()
        harness.conductor = view.conductor("c-1")
        for flow in ("clean", "deploy", "service"):
            harness.offer(flow)
        yield harness
    view.close()


def load_networks():
    return load([*HARDWARE_TYPES, Acme], enabled_interfaces={"network": INTERFACES["network"]})


def node_of(harness, state="available", switch_port="Gi1/0/7", **info):
    """A node with one wired port, which has a VIF."""
    node = harness.with_agent(
        state, network_interface="switch", power_state="power off", instance_info=harness.image
    )
    with harness.inside.runtime.transaction() as session:
        port = session.query(Port).filter_by(node_id=node).one()
        port.local_link_connection = LINK | {"port_id": switch_port}
        port.address = f"52:54:00:00:00:{node:02x}"
        port.internal_info = {"tenant_vif_port_id": "red", **info}
    return node


def info_of(harness, node):
    with harness.inside.runtime.reading() as session:
        return session.query(Port).filter_by(node_id=node).one().internal_info


def mode_of(device):
    mode, device._mode = device._mode, "exec"
    read = sessions.DIALECTS["cisco_ios"].read(
        type("Session", (), {"show": staticmethod(device.execute)}), ["Gi1/0/7"]
    )
    device._mode = mode
    return str(read["Gi1/0/7"])


def finish(harness, node):
    """Let the agent finish its commands, and polls be due, until the operation ends."""
    return drive(harness, node)


def test_a_life_cycle_at_a_switch(harness, device):
    node = node_of(harness)
    harness.do(node, "active")
    assert "VLAN 101" == mode_of(device)
    assert "provisioning_vif_port_id" in info_of(harness, node)
    assert "active" == finish(harness, node)
    assert TENANT == mode_of(device)
    assert {"tenant_vif_port_id", "switch_port"} == info_of(harness, node).keys()
    harness.do(node, "deleted")
    assert CLEANING == mode_of(device)
    assert "available" == finish(harness, node)
    assert OFF == mode_of(device)
    assert {"switch_port"} == info_of(harness, node).keys()


@on_sqlite
def test_a_tear_down_that_cannot_disconnect_the_tenant_does_not_clean(harness, device):
    node = node_of(harness)
    harness.do(node, "active")
    finish(harness, node)
    device.fail_after = 0
    assert "error" == harness.do(node, "deleted")
    assert "leaf-1 did not answer" in harness.inside.read(node).last_error
    device.fail_after = None
    assert TENANT == mode_of(device)
    assert "red" == info_of(harness, node)["tenant_vif_port_id"]
    harness.do(node, "deleted")
    assert CLEANING == mode_of(device)
    assert "available" == finish(harness, node)


@on_sqlite
def test_a_conductor_that_dies_after_any_step_leaves_no_port_in_a_wrong_network(
    harness, device, monkeypatch
):
    """The commands of the step are sent, and its outcome is not recorded; another one repeats it."""
    inside = harness.inside
    with crash_harness.opened(inside, harness.agent, monkeypatch) as crashing:
        inside.runtime.drivers, crashing.image = load_networks(), harness.image
        commands = commands_at(crashing, device, monkeypatch)
        life(crashing, device, None, None)
        for verb, counts in deepcopy(commands).items():
            for nth, (old_count, new_count) in enumerate(pairwise([counts[0], *counts]), 1):
                if new_count != old_count:  # the step has changed the port
                    died = crash_harness.Interruption(crash_harness.CONDUCTOR, "acted", nth, False)
                    life(crashing, device, verb, died)


def commands_at(crashing, device, monkeypatch):
    """verb -> number of commands to the switch after each step of the first life"""
    commands, reach = {}, crashing.reach

    def counted(point, kind="any"):
        if point == "acted" and crashing.interruption is None:
            commands.setdefault(kind, []).append(len(device.commands))
        reach(point, kind)

    monkeypatch.setattr(kill_points, "reach", counted)
    return commands


def life(crashing, device, interrupted, interruption):
    """Deploy a node and tear it down."""
    node = node_of(crashing)
    for verb, state, mode in (("active", "active", TENANT), ("deleted", "available", OFF)):
        crashing.begin(interruption if verb == interrupted else None)
        crashing.ask(node, verb)
        crashing.drive()
        assert crashing.interrupted == (verb == interrupted)
        assert state == crashing.state(node), (interruption, crashing.inside.read(node).last_error)
        assert mode == mode_of(device), (verb, interruption)
    crashing.inside.change(Port, port_id(crashing, node), local_link_connection={})


def port_id(harness, node):
    with harness.inside.runtime.reading() as session:
        return session.query(Port).filter_by(node_id=node).one().id


# Changes by others


def idle_node(harness, **options):
    """An active node whose port is in its network."""
    node = node_of(harness, **options)
    harness.do(node, "active")
    assert "active" == finish(harness, node)
    return node


def summary_of(harness, node):
    with harness.inside.runtime.reading() as session:
        return why.explain(session, harness.inside.read(node)).summary


def compare(harness):
    return switch_ports.check(harness.inside.runtime, "c-1")


def test_a_change_by_others_is_told_until_it_is_undone(harness, device):
    node = idle_node(harness)
    assert {"agree": 1, "differ": 0, "unread": 0} == compare(harness)
    device.interfaces["Gi1/0/7"][:] = ["switchport mode access", "switchport access vlan 100"]
    assert {"agree": 0, "differ": 1, "unread": 0} == compare(harness)
    drift = "leaf-1 Gi1/0/7 has VLAN 100, and VLAN 200 (network red) was ordered"
    assert drift == info_of(harness, node)["switch_drift"]
    assert drift in summary_of(harness, node)
    device.interfaces["Gi1/0/7"][:] = ["switchport mode access", "switchport access vlan 200"]
    compare(harness)
    assert "switch_drift" not in info_of(harness, node)
    assert "leaf-1" not in summary_of(harness, node)


@on_sqlite
def test_an_order_that_came_in_between_is_not_compared(harness, device, monkeypatch):
    """The switch is read, then another order is given, then the comparison is recorded."""
    node = idle_node(harness)
    device.interfaces["Gi1/0/7"][:] = ["switchport mode access", "switchport access vlan 100"]
    read = switch_ports.switch_ports.read

    def and_then_ordered(*arguments):
        modes = read(*arguments)
        info = info_of(harness, node)
        newer = {**info["switch_port"], "network": "blue"}
        harness.inside.change(
            Port, port_id(harness, node), internal_info={**info, "switch_port": newer}
        )
        return modes

    monkeypatch.setattr(switch_ports.switch_ports, "read", and_then_ordered)
    compare(harness)
    assert "switch_drift" not in info_of(harness, node)


@on_sqlite
def test_a_node_at_work_and_those_of_others_are_not_compared(harness, device):
    node = idle_node(harness)
    device.interfaces["Gi1/0/7"][:] = []
    assert {"agree": 0, "differ": 0, "unread": 0} == switch_ports.check(
        harness.inside.runtime, "c-2"
    )
    harness.inside.change(Node, node, reservation="c-1")
    assert {"agree": 0, "differ": 0, "unread": 0} == compare(harness)


@on_sqlite
def test_a_port_that_the_switch_has_no_more_hides_no_change_of_another(harness, device):
    """A line card with one of the ports was removed."""
    removed, changed = (idle_node(harness, switch_port=f"Gi1/0/{port}") for port in (7, 8))
    del device.interfaces["Gi1/0/7"]
    device.interfaces["Gi1/0/8"][:] = ["switchport mode access", "switchport access vlan 100"]
    assert {"agree": 0, "differ": 2, "unread": 0} == compare(harness)
    drift = "leaf-1 Gi1/0/7 has no such port, and VLAN 200 (network red) was ordered"
    assert drift == info_of(harness, removed)["switch_drift"]
    assert "leaf-1 Gi1/0/8 has VLAN 100" in info_of(harness, changed)["switch_drift"]


@on_sqlite
def test_a_switch_that_is_away_tells_nothing_about_its_ports(harness, device):
    node = idle_node(harness)
    device.fail_after = 0
    assert {"agree": 0, "differ": 0, "unread": 1} == compare(harness)
    assert "switch_drift" not in info_of(harness, node)
