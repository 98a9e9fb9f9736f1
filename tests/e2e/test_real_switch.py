"""Network interface switch with a real Open vSwitch, behind a real sshd, that forwards packets."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest

from drivers.core.errors import Refused
from drivers.core.steps import Done
from drivers.core.switching import Switch
from drivers.core.target import Nic, NicGroup
from drivers.switch import sessions
from tests.e2e import real_switch
from tests.support import pings
from tests.unit.drivers.machines import new_registry
from tests.unit.drivers.switch.conftest import Known, new_machine, told, with_vif

pytestmark = pytest.mark.slow

HOSTS = {name: f"10.201.0.{at}" for at, name in enumerate(("m1", "m2", "red", "blue", "clean"), 1)}
VLANS = {"red": 200, "blue": 300, "clean": 100}
#: Ports of a machine with a bond.
BOND = ("b1", "b2")


class Site:
    """A switch with hosts in namespaces: two machines, and a server in each of three networks."""

    def __init__(self, scope, folder):
        self.folder, self._scope, self._suffix = folder, scope, os.getpid() % 100_000
        for name, address in HOSTS.items():
            self._add_host(name, address)
        for name in BOND:
            self._add_link(name)
        ports = [self.port(name) for name in (*HOSTS, *BOND)]
        real_switch.start_switch(scope, folder, interfaces=ports)
        for name, vlan in VLANS.items():
            real_switch.vsctl(folder, "set", "port", self.port(name), f"tag={vlan}")
        ssh = real_switch.start_sshd(scope, folder)
        self.switch = Switch(
            uuid="ovs", name="leaf-1", switch_id="0c:c4:7a:00:00:01", device_type="ovs_linux",
            address="127.0.0.1", port=ssh, username="root",
            host_key=" ".join((folder / "host.pub").read_text().split()[:2]),
            private_key=(folder / "key").read_text(),
            ports=tuple(self.port(name) for name in ("m1", "m2", *BOND)),
        )  # fmt: skip

    def port(self, name):
        """Name of a host's port at the switch."""
        return f"sw{self._suffix}{name}"

    def _namespace(self, name):
        return f"ingot-{self._suffix}-{name}"

    def _add_link(self, name):
        ip(
            "link",
            "add",
            self.port(name),
            "type",
            "veth",
            "peer",
            "name",
            f"pe{self._suffix}{name}",
        )
        self._scope.callback(ip, "link", "del", self.port(name))
        ip("link", "set", self.port(name), "up")

    def _add_host(self, name, address):
        namespace, peer = self._namespace(name), f"pe{self._suffix}{name}"
        ip("netns", "add", namespace)
        self._scope.callback(ip, "netns", "del", namespace)
        self._add_link(name)
        ip("link", "set", peer, "netns", namespace)
        ip("-n", namespace, "address", "add", f"{address}/24", "dev", peer)
        ip("-n", namespace, "link", "set", peer, "up")

    def pinging(self, scope, name, targets):
        """Start to send pings from a host to others; return the process."""
        command = ["ip", "netns", "exec", self._namespace(name), sys.executable, pings.__file__]
        addresses = [HOSTS[target] for target in targets]
        process = subprocess.Popen(
            [*command, *addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        scope.callback(process.wait, 30)
        scope.callback(process.kill)
        return process

    def field(self, port, column):
        return real_switch.vsctl(self.folder, "get", "port", port, column).strip()


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    real_switch.require()
    with ExitStack() as scope:
        yield Site(scope, tmp_path_factory.mktemp("switch"))


@pytest.fixture
def machine_at(site):
    registry = new_registry()

    def make(name, vif=None, **fields):
        link = {"switch_id": site.switch.switch_id, "port_id": site.port(name)}
        nic = Nic(name, f"52:54:00:00:00:{len(name):02x}", local_link_connection=link)
        nics = (with_vif(nic, vif) if vif else nic,)
        return new_machine(registry, Known(site.switch), **{"nics": nics, **fields})

    return make


def run(it, method):
    outcome = it.driver.network.run(it, method, {})
    assert isinstance(outcome, Done), outcome
    return told(it)


def test_packets_of_tenants_and_of_agents_do_not_cross(site, machine_at):
    """Two tenants and a network for cleaning, while a machine goes from one to the other."""
    first_machine, second_machine = machine_at("m1", "red"), machine_at("m2", "blue")
    run(first_machine, "unconfigure_tenant_networks")
    run(second_machine, "unconfigure_tenant_networks")
    reach = {
        "m1": {"red": True, "clean": True, "blue": False, "m2": False},
        "m2": {"blue": True, "red": False, "clean": False, "m1": False},
        "red": {"clean": False, "blue": False, "m2": False},
        "clean": {"red": False, "blue": False, "m2": False},
    }
    with ExitStack() as scope:
        senders = {name: site.pinging(scope, name, targets) for name, targets in reach.items()}
        second_machine = run(second_machine, "configure_tenant_networks")
        assert HOSTS["blue"] == senders["m2"].stdout.readline().strip()
        first_machine = run(first_machine, "configure_tenant_networks")
        assert HOSTS["red"] == senders["m1"].stdout.readline().strip()
        first_machine = run(first_machine, "unconfigure_tenant_networks")
        first_machine = run(first_machine, "add_cleaning_network")
        assert HOSTS["clean"] == senders["m1"].stdout.readline().strip()
        for _ in range(3):  # without the steps in between, as after a crash
            first_machine = run(first_machine, "configure_tenant_networks")
            first_machine = run(first_machine, "add_cleaning_network")
        first_machine = run(first_machine, "remove_cleaning_network")
        counts = {}
        for name, sender in senders.items():
            lines, _ = sender.communicate(timeout=30)
            counts[name] = json.loads(lines.splitlines()[-1])
    answered = {
        name: {target: counts[name][HOSTS[target]] > 0 for target in targets}
        for name, targets in reach.items()
    }
    assert reach == answered, counts


def test_a_port_without_a_network_carries_nothing(site, machine_at):
    it = run(machine_at("m1"), "add_cleaning_network")
    run(it, "remove_cleaning_network")
    assert ("trunk", "[4095]", "[]") == tuple(
        site.field(site.port("m1"), column) for column in ("vlan_mode", "trunks", "tag")
    )


def test_a_trunk(site, machine_at):
    it = run(machine_at("m1", "trunk"), "configure_tenant_networks")
    assert ("native-untagged", "[30, 31, 210]", "200") == tuple(
        site.field(site.port("m1"), column) for column in ("vlan_mode", "trunks", "tag")
    )
    (port,) = it.driver.network.inspect_switch_ports(it)
    assert port["agrees"]
    real_switch.vsctl(site.folder, "set", "port", site.port("m1"), "tag=300")
    (port,) = it.driver.network.inspect_switch_ports(it)
    assert "VLAN 300, tagged VLANs 30-31,210" == port["actual"]
    it.driver.network.restore_switch_ports(it)
    assert "200" == site.field(site.port("m1"), "tag")
    run(it, "unconfigure_tenant_networks")


def test_a_lag_is_made_changed_and_dissolved(site, machine_at):
    links = [
        Nic(
            name, f"52:54:00:00:01:0{at}", group="g1",
            local_link_connection={"switch_id": site.switch.switch_id, "port_id": site.port(name)},
        )
        for at, name in enumerate(BOND)
    ]  # fmt: skip
    group = NicGroup("g1", None, None, "802.3ad", {"switch_lag": 10})
    it = machine_at("b1", nics=tuple(links), nic_groups=(with_vif(group, "red"),))
    it = run(it, "configure_tenant_networks")
    assert ("200", "active") == (site.field("lag10", "tag"), site.field("lag10", "lacp"))
    it = run(replace(it, nic_groups=(with_vif(group, "blue"),)), "configure_tenant_networks")
    assert "300" == site.field("lag10", "tag")
    it = run(it, "add_cleaning_network")
    assert "lag10" not in real_switch.vsctl(site.folder, "list-ports", real_switch.BRIDGE).split()
    assert ["100", "100"] == [site.field(site.port(name), "tag") for name in BOND]
    it = run(it, "configure_tenant_networks")
    assert "300" == site.field("lag10", "tag")
    run(it, "unconfigure_tenant_networks")
    assert ["trunk", "trunk"] == [site.field(site.port(name), "vlan_mode") for name in BOND]


def test_a_name_of_no_port_sends_nothing_to_the_shell(site):
    with pytest.raises(Refused, match="ovs-vsctl: no row"):
        sessions.run(
            site.switch,
            {"connect_timeout": 20, "command_timeout": 20},
            lambda session: session.configure(["ovs-vsctl --timeout=20 set port 'no; id' tag=1"]),
        )
