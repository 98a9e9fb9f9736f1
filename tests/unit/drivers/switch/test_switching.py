"""Switch ports in the phases of a machine's life, at a switch with the commands of Cisco IOS."""

from dataclasses import replace

import pytest

from drivers.core.errors import InvalidDriverInfo, LeaseLost, Unreachable, WithoutEffect
from drivers.core.target import NicGroup
from drivers.switch import sessions, wiring
from drivers.switch.port_modes import DISCONNECTED, PortMode, numbers, ranges
from tests.unit.drivers.switch.conftest import FIRST, SECOND, Known, run, told, with_vif


def mode_of(device, port):
    return sessions.DIALECTS["cisco_ios"].read(
        type("S", (), {"show": staticmethod(device.execute)}), [port]
    )[port]


def vlans(device):
    device._mode = "exec"
    return [str(mode_of(device, port)) for port in ("Gi1/0/7", "Gi1/0/8")]


def test_the_switch_follows_the_life_of_a_machine(device, direct, machine):
    it = machine(nics=(with_vif(FIRST, "red"), with_vif(SECOND, "trunk")))
    off = ["no network", "no network"]
    for method, expected in (
        ("add_inspection_network", ["VLAN 104", "no network"]),
        ("remove_inspection_network", off),
        ("add_cleaning_network", ["VLAN 100", "no network"]),
        ("remove_cleaning_network", off),
        ("add_provisioning_network", ["VLAN 101", "no network"]),
        ("remove_provisioning_network", off),
        ("configure_tenant_networks", ["VLAN 200", "VLAN 200, tagged VLANs 30-31,210"]),
        ("add_servicing_network", ["VLAN 103", "no network"]),
        ("remove_servicing_network", off),
        ("add_rescuing_network", ["VLAN 102", "no network"]),
        ("remove_rescuing_network", off),
        ("configure_tenant_networks", ["VLAN 200", "VLAN 200, tagged VLANs 30-31,210"]),
        ("unconfigure_tenant_networks", off),
    ):
        it = run(it, method)
        assert expected == vlans(device), method
        agent = {
            key for nic in it.nics for key in nic.internal_info if key.endswith("_vif_port_id")
        }
        joined = {f"{method[4:-8]}_vif_port_id"} if method.startswith("add_") else set()
        assert joined | {"tenant_vif_port_id"} == agent, method


def test_the_order_is_in_the_report(device, direct, machine):
    it = run(machine(), "add_cleaning_network")
    assert {
        "switch": "leaf-1", "port": "Gi1/0/7", "network": "cleaning",
        "mode": PortMode(100).document(),
    } == it.nics[0].internal_info[wiring.ORDERED]  # fmt: skip
    assert DISCONNECTED == wiring.ordered_mode(it.nics[1])
    assert device.saved == 1


def test_a_port_that_is_right_is_left_alone(device, direct, machine):
    it = run(machine(), "add_cleaning_network")
    count = len(device.commands)
    run(it, "add_cleaning_network")
    assert (count, 1) == (len(device.commands), device.saved)
    run(replace(it, resumed=True), "add_cleaning_network")
    assert (count, 2) == (len(device.commands), device.saved), "the dead one may not have saved"


def test_ports_of_a_machine_cost_one_session(device, direct, machine):
    run(machine(switch_add_all_ports=True), "add_cleaning_network")
    assert 1 == direct.opened


def test_no_command_leads_frames_into_another_network(device, direct, machine):
    """After each command, a port carries nothing, its old network, or its new one."""
    trunk = machine(nics=(with_vif(FIRST, "trunk"), SECOND))
    access = machine(nics=(with_vif(FIRST, "blue"), SECOND))
    for old_machine, new_machine in ((trunk, access), (access, trunk)):
        run(old_machine, "configure_tenant_networks")
        old, modes = mode_of(device, "Gi1/0/7"), []

        def watch(modes=modes):
            mode, device._mode = device._mode, "exec"
            modes.append(mode_of(device, "Gi1/0/7"))
            device._mode = mode

        device.watch = watch
        run(new_machine, "configure_tenant_networks")
        device.watch = lambda: None
        new = mode_of(device, "Gi1/0/7")
        assert old != new
        assert {old, new} == {mode for mode in modes if mode.up}
        run(new_machine, "unconfigure_tenant_networks")


@pytest.mark.parametrize(
    ("method", "nics"),
    [
        ("add_cleaning_network", (FIRST, SECOND)),
        ("configure_tenant_networks", (with_vif(FIRST, "trunk"), with_vif(SECOND, "red"))),
    ],
)
def test_an_order_that_dies_after_any_command_is_given_again(device, direct, machine, method, nics):
    whole = machine(nics=(with_vif(FIRST, "blue"), SECOND))
    run(whole, "configure_tenant_networks")
    configuration = {name: [*lines] for name, lines in device.interfaces.items()}
    it, start = machine(nics=nics), len(device.commands)
    run(it, method)
    count, expected = len(device.commands) - start, vlans(device)
    assert count >= 6
    for died_after in range(count):
        device.interfaces = {name: [*lines] for name, lines in configuration.items()}
        device.commands.clear()
        device.fail_after = died_after
        with pytest.raises(Unreachable):
            it.driver.network.run(it, method, {})
        device.fail_after = None
        run(replace(it, resumed=True), method)
        assert expected == vlans(device), died_after


def test_a_lost_lease_sends_nothing_more(device, direct, machine):
    def lost():
        raise LeaseLost("another conductor")

    it = machine(before_order=lost)
    with pytest.raises(LeaseLost):
        it.driver.network.add_cleaning_network(it)
    assert [] == device.commands


def test_a_switch_that_does_not_obey_is_no_success(device, direct, machine):
    device.watch = lambda: device.interfaces.update({"Gi1/0/7": ["switchport access vlan 1"]})
    it = machine()
    with pytest.raises(WithoutEffect, match="leaf-1 has accepted the commands for port Gi1/0/7"):
        it.driver.network.add_cleaning_network(it)
    assert {} == it.reports


def lag_of(mode="802.3ad", vif="red", **properties):
    group = NicGroup("g1", "bond0", None, mode, {"switch_lag": 10, **properties})
    return with_vif(group, vif)


def test_a_port_group_is_a_lag_of_the_tenant_only(device, direct, machine):
    members = tuple(replace(nic, group="g1") for nic in (FIRST, SECOND))
    it = machine(nics=members, nic_groups=(lag_of(),))
    it = run(it, "configure_tenant_networks")
    assert ["VLAN 200, LAG 10"] * 2 == vlans(device)
    assert "channel-group 10 mode active" in device.interfaces["Gi1/0/8"]
    it = run(it, "add_rescuing_network")
    assert ["VLAN 102", "no network"] == vlans(device), "an agent uses no LAG"
    it = run(it, "configure_tenant_networks")
    it = run(replace(it, nic_groups=(lag_of(vif="trunk"),)), "configure_tenant_networks")
    assert ["VLAN 200, tagged VLANs 30-31,210, LAG 10"] * 2 == vlans(device)


def test_a_lag_that_dies_after_any_command_is_made_again(device, direct, machine):
    members = tuple(replace(nic, group="g1") for nic in (FIRST, SECOND))
    it = machine(nics=members, nic_groups=(lag_of(),))
    run(it, "configure_tenant_networks")
    count = len(device.commands)
    for died_after in range(count):
        device.interfaces = {name: [] for name in ("Gi1/0/7", "Gi1/0/8")}
        device.commands.clear()
        device.fail_after = died_after
        with pytest.raises(Unreachable):
            it.driver.network.run(it, "configure_tenant_networks", {})
        device.fail_after = None
        run(it, "configure_tenant_networks")
        assert ["VLAN 200, LAG 10"] * 2 == vlans(device), died_after


def test_a_bond_without_lacp_is_no_lag(device, direct, machine):
    members = tuple(replace(nic, group="g1") for nic in (FIRST, SECOND))
    run(machine(nics=members, nic_groups=(lag_of("active-backup"),)), "configure_tenant_networks")
    assert ["VLAN 200"] * 2 == vlans(device)


@pytest.mark.parametrize(
    ("group", "networks", "message"),
    [
        (lag_of(switch_lag=None), Known(), "needs the number of a LAG"),
        (lag_of(switch_lag="10"), Known(), "needs the number of a LAG"),
        (lag_of(switch_lag=0), Known(), "needs the number of a LAG"),
        (lag_of(), Known(lag_claims=["g1", "g2"]), "port group g2 has LAG 10 of switch leaf-1"),
    ],
)
def test_a_lag_that_cannot_be_is_refused(machine, group, networks, message):
    members = tuple(replace(nic, group="g1") for nic in (FIRST, SECOND))
    it = machine(nics=members, nic_groups=(group,), networks=networks)
    with pytest.raises(InvalidDriverInfo, match=message):
        it.driver.network.validate(it)


def test_a_vif_of_a_deployed_machine_is_connected_at_once(device, direct, machine):
    it = machine(nics=(with_vif(FIRST, "red"), SECOND), provision_state="active")
    it.driver.network.plug_vif(it, "red")
    assert "VLAN 200" == vlans(device)[0]
    it = told(it)
    it.driver.network.unplug_vif(it, "red")
    assert "no network" == vlans(device)[0]


def test_a_vif_of_an_idle_machine_is_connected_by_the_deployment(device, direct, machine):
    it = machine(nics=(with_vif(FIRST, "red"), SECOND), provision_state="available")
    it.driver.network.plug_vif(it, "red")
    it.driver.network.unplug_vif(it, "red")
    assert [] == device.commands


def test_switch_ports_are_compared_and_restored(device, direct, machine):
    it = machine(nics=(with_vif(FIRST, "red"), SECOND), provision_state="active")
    it = run(it, "configure_tenant_networks")
    count = len(device.commands)
    first_port, second_port = it.driver.network.inspect_switch_ports(it)
    assert first_port == {
        "port_uuid": "p1", "switch": "leaf-1", "port_id": "Gi1/0/7", "ordered": "VLAN 200",
        "actual": "VLAN 200", "agrees": True, "commands": [],
    }  # fmt: skip
    device.interfaces["Gi1/0/7"][:] = ["switchport mode access", "switchport access vlan 100"]
    first_port, second_port = it.driver.network.inspect_switch_ports(it)
    assert ("VLAN 200", "VLAN 100", False) == (
        first_port["ordered"],
        first_port["actual"],
        first_port["agrees"],
    )
    assert "switchport access vlan 200" in first_port["commands"]
    assert second_port["agrees"]
    rehearsed, _ = it.driver.network.inspect_switch_ports(it, network="blue")
    assert "switchport access vlan 300" in rehearsed["commands"]
    assert count == len(device.commands), "nothing is sent"
    assert [
        "leaf-1 Gi1/0/7: VLAN 200",
        "leaf-1 Gi1/0/8: no network",
    ] == it.driver.network.restore_switch_ports(it)
    assert "VLAN 200" == vlans(device)[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"switch_cleaning_network": None}, r"needs the setting \[switch\]cleaning_network"),
        ({"switch_cleaning_network": "none"}, r"\[switch\]cleaning_network: there is no network 'none'"),
        ({"switch_provisioning_network": "red"}, "network red is one of tenants"),
        ({"driver_info": {"cleaning_network": "blue"}}, "driver_info/cleaning_network: network blue is one of tenants"),
        ({"disable_power_off": True}, "disable_power_off: network_interface switch"),
        ({"nics": (replace(FIRST, is_smartnic=True),)}, "port p1 is a smart NIC"),
        ({"nics": (replace(FIRST, local_link_connection={}),)}, "no port of the node has one"),
        ({"nics": (replace(FIRST, local_link_connection={"switch_id": "0c:c4:7a:00:00:02", "port_id": "Gi1/0/7"}),)}, "no switch at /v1/switches"),
        ({"nics": (replace(FIRST, local_link_connection={**FIRST.local_link_connection, "port_id": "Te1/1/1"}),)}, "none of the ports of switch leaf-1"),
        ({"nics": (replace(FIRST, local_link_connection={**FIRST.local_link_connection, "port_id": "Gi1/0/7\nno shutdown"}),)}, "is not the name of a switch port"),
        ({"nics": (replace(FIRST, local_link_connection={**FIRST.local_link_connection, "port_id": "Gi1/0/7; rm"}),)}, "is not the name of a switch port"),
        ({"networks": Known(claims=["node n1"])}, "node n1 has a port at leaf-1 Gi1/0/7, too"),
        ({"nics": (with_vif(FIRST, "gone"),)}, "there is no network 'gone'"),
        ({"nics": (with_vif(FIRST, "cleaning"),)}, "network cleaning is none of tenants"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(machine, fields, message):
    it = machine(**fields)
    with pytest.raises(InvalidDriverInfo, match=message):
        it.driver.network.validate(it)


def test_a_good_machine_is_valid(machine, device):
    it = machine()
    it.driver.network.validate(it)
    it.driver.network.validate_rescue(it)
    assert [] == device.commands


def test_projects_attach_their_networks_only(machine):
    network = machine().driver.network
    it = machine()
    assert [] == network.vif_networks(it, "red", "project-red")
    assert [] == network.vif_networks(it, "red", None)
    for ident, project in (("red", "project-blue"), ("gone", None), ("red", "")):
        with pytest.raises(InvalidDriverInfo, match="there is no network"):
            network.vif_networks(it, ident, project)
    with pytest.raises(InvalidDriverInfo, match="none of tenants"):
        network.vif_networks(it, "cleaning", None)


def test_lists_of_vlans_are_written_as_switches_do():
    assert "1,3-5,9" == ranges([9, 4, 3, 5, 1, 3])
    assert {1, 3, 4, 5, 9} == numbers("1,3-5,9")
    assert set() == numbers("")
