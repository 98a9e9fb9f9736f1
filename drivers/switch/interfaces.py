"""
Network interface `switch`: the service itself configures the switch ports of machines.

In each phase, all switch ports of a machine get their modes: some are in the network of the phase,
the others in none. So an agent is never beside a tenant, and a tenant's machine is never in a
network of agents.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.kinds.agent_networks import AgentNetworks
from drivers.core.steps import Done, Outcome
from drivers.core.switching import VlanNetwork
from drivers.core.target import Nic, NicGroup, Target
from drivers.core.vif_places import AGENT_VIFS, TENANT_VIF
from drivers.switch import port_modes, wiring
from drivers.switch.port_modes import DISCONNECTED, PortMode
from drivers.switch.wiring import GROUP

#: Key of `properties` of a port group: number of its LAG at the switch.
LAG = "switch_lag"
_LACP = ("802.3ad", "4")
_HIGHEST_LAG = 4096


class Switch(AgentNetworks):
    """The service configures the switch ports of machines, over SSH."""

    name = "switch"
    opt_in = True  # it needs switches, networks, the settings [switch], and netmiko
    remote_vifs = True
    needs_links = True
    group = GROUP

    def validate(self, target: Target) -> None:
        if target.disable_power_off:
            raise InvalidDriverInfo(
                "disable_power_off: network_interface switch puts the machine into networks of"
                " agents while it is off; else its tenant's system would run there"
            )
        for nic in target.nics:
            if nic.is_smartnic:
                raise InvalidDriverInfo(
                    f"port {nic.uuid} is a smart NIC (is_smartnic): network_interface switch cannot"
                    " connect it; use network_interface noop, or remove the port"
                )
        if target.nics and not wiring.places(target):
            raise InvalidDriverInfo(
                "local_link_connection: no port of the node has one; give switch_id and port_id, or"
                " let an inspection find them by LLDP"
            )
        for purpose in ("cleaning", "provisioning"):
            self._agent_network(target, purpose)
        _modes_of_tenant(target)

    def validate_rescue(self, target: Target) -> None:
        self._agent_network(target, "rescuing")

    # networks of the agent

    def join(self, target: Target, purpose: str) -> Outcome:
        network = self._agent_network(target, purpose)
        nics = _agent_nics(target)
        if not nics:
            raise InvalidDriverInfo(
                "the node has no port with pxe_enabled and local_link_connection that could be in"
                f" the network for {purpose}"
            )
        modes = dict.fromkeys((nic.uuid for nic in nics), port_modes.of_network(network))
        networks = dict.fromkeys(modes, network.name)
        summaries = wiring.order(target, _of_all(target, modes), networks)
        for nic in target.nics:
            key = AGENT_VIFS[purpose]
            joined = {key: network.uuid} if nic.uuid in modes else {}
            target.report(
                port_internal_info={nic.uuid: {**dict.fromkeys(AGENT_VIFS.values()), **joined}}
            )
        return Done({"ports": summaries})

    def leave(self, target: Target, purpose: str) -> Outcome:
        return _disconnect(target)

    def _agent_network(self, target: Target, purpose: str) -> VlanNetwork:
        """
        Return the network for a purpose.

        Raises InvalidDriverInfo: none is named, it does not exist, or tenants may use it.
        """
        ident, source = self.network_for(target, purpose)
        network = target.switched_networks.network(ident)
        if network is None:
            raise InvalidDriverInfo(f"{source}: {_unknown(ident)}")
        if network.is_for_tenants:
            raise InvalidDriverInfo(
                f"{source}: network {network.name} is one of tenants (owner or public is set), and"
                " no agent may run beside them"
            )
        return network

    # VIFs of the tenant: networks

    def configure_tenant_networks(self, target: Target) -> Outcome:
        modes, networks = _modes_of_tenant(target)
        return Done({"ports": wiring.order(target, _of_all(target, modes), networks)})

    def unconfigure_tenant_networks(self, target: Target) -> Outcome:
        return _disconnect(target)

    def vif_networks(self, target: Target, vif: str, project: str | None) -> list[str]:
        network = _of_tenant(target, vif)
        if not network.may_be_used_by(project):
            raise InvalidDriverInfo(_unknown(vif))
        return [network.physical_network] if network.physical_network else []

    def plug_vif(self, target: Target, vif: str) -> None:
        """Connect a network's ports of a deployed machine; others are connected by a deployment."""
        _of_tenant(target, vif)
        modes, networks = _modes_of_tenant(target, vif)
        for nic in target.nics:
            if nic.uuid in modes:
                wiring.place(target, nic)  # refuses a wrong switch port before it is needed
        if target.provision_state == "active":
            wiring.order(target, modes, networks)

    def unplug_vif(self, target: Target, vif: str) -> None:
        """
        Disconnect the ports of a VIF.

        Of a deployed machine also those that are not known to be in the network: the conductor that
        connected them may have died before it could say so.
        """
        deployed = target.provision_state == "active"
        modes = {
            nic.uuid: DISCONNECTED
            for ident, nics, _ in _vifs(target)
            for nic in nics
            if ident == vif and (_network_at(nic) == vif or (deployed and not _network_at(nic)))
        }
        wiring.order(target, modes, {})

    # switch ports

    def inspect_switch_ports(
        self, target: Target, network: str | None = None
    ) -> list[dict[str, object]]:
        """
        Compare the switch ports of the machine with the last orders, and change nothing.

        network: name or UUID; compare with an order for this network instead.
        """
        modes = None
        if network is not None:
            vlan_network = target.switched_networks.network(network)
            if vlan_network is None:
                raise InvalidDriverInfo(_unknown(network))
            modes = dict.fromkeys(
                (nic.uuid for nic in target.nics), port_modes.of_network(vlan_network)
            )
        return wiring.inspected(target, modes)

    def restore_switch_ports(self, target: Target) -> list[str]:
        """Give the switch ports of the machine their last orders again; return them in words."""
        modes, networks = {}, {}
        for nic in target.nics:
            mode = wiring.ordered_mode(nic)
            if mode is not None:
                modes[nic.uuid] = mode
                if network := nic.internal_info[wiring.ORDERED].get("network"):
                    networks[nic.uuid] = network
        return wiring.order(target, modes, networks)


def _disconnect(target: Target) -> Outcome:
    """Connect the machine to no network."""
    summaries = wiring.order(target, _of_all(target, {}), {})
    for nic in target.nics:
        target.report(port_internal_info={nic.uuid: dict.fromkeys(AGENT_VIFS.values())})
    return Done({"ports": summaries})


def _of_all(target: Target, modes: Mapping[str, PortMode]) -> dict[str, PortMode]:
    """Return modes of all wired ports of the machine: those without one are in no network."""
    return {
        nic.uuid: modes.get(nic.uuid, DISCONNECTED)
        for nic in target.nics
        if nic.local_link_connection
    }


def _agent_nics(target: Target) -> list[Nic]:
    """Return the wired ports of the machine that its agent gets: all, or those that boot."""
    wired_nics = [nic for nic in target.nics if nic.local_link_connection]
    boots_from_network = target.driver.boot.has("dhcp_options")
    if target.options[GROUP]["add_all_ports"] or not boots_from_network:
        return wired_nics
    return [nic for nic in wired_nics if nic.pxe_enabled]


def _modes_of_tenant(
    target: Target, vif: str | None = None
) -> tuple[dict[str, PortMode], dict[str, str]]:
    """
    Return modes and networks of the machine's ports, by the VIFs of the tenant.

    vif: of this one alone.

    Raises InvalidDriverInfo: there is no such network, or a LAG cannot be made.
    """
    modes: dict[str, PortMode] = {}
    networks: dict[str, str] = {}
    for ident, nics, group in _vifs(target):
        if vif in (None, ident):
            network = _of_tenant(target, ident)
            lag = _lag(target, group, nics) if group is not None else None
            modes |= dict.fromkeys((nic.uuid for nic in nics), port_modes.of_network(network, lag))
            networks |= dict.fromkeys((nic.uuid for nic in nics), ident)
    return modes, networks


def _vifs(target: Target) -> Iterator[tuple[str, Sequence[Nic], NicGroup | None]]:
    """Yield each VIF with its ports of the machine; and the port group, if that has the VIF."""
    for nic in target.nics:
        if vif := nic.internal_info.get(TENANT_VIF):
            yield str(vif), (nic,), None
    for group in target.nic_groups:
        if vif := group.internal_info.get(TENANT_VIF):
            yield str(vif), [nic for nic in target.nics if nic.group == group.uuid], group


def _network_at(nic: Nic) -> str | None:
    """Return the network that was ordered last for a port; None: none was."""
    ordered: Mapping[str, Any] = nic.internal_info.get(wiring.ORDERED) or {}
    return ordered.get("network")


def _lag(target: Target, group: NicGroup, members: Sequence[Nic]) -> int | None:
    """
    Return the number of the LAG of a port group; None: its mode needs none.

    Raises InvalidDriverInfo: it has none, another group has the same, or the members are at several
        switches.
    """
    if group.mode not in _LACP:
        return None
    number = group.properties.get(LAG)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _HIGHEST_LAG:
        raise InvalidDriverInfo(
            f"properties/{LAG} of port group {group.uuid}: mode {group.mode} needs the number of a"
            f" LAG of the switch, from 1 to {_HIGHEST_LAG}, and not {number!r}"
        )
    switches = {item.uuid: item for nic in members for item in [wiring.place(target, nic).switch]}
    if len(switches) > 1:
        names = ", ".join(sorted(switch.name for switch in switches.values()))
        raise InvalidDriverInfo(
            f"port group {group.uuid}: its ports are at several switches ({names}); a LAG of"
            " several switches is not supported, use mode active-backup"
        )
    for switch in switches.values():
        claims = [
            claim
            for claim in target.switched_networks.lag_claims(switch, number)
            if claim != group.uuid
        ]
        if claims:
            raise InvalidDriverInfo(
                f"properties/{LAG} of port group {group.uuid}: port group {claims[0]} has LAG"
                f" {number} of switch {switch.name}"
            )
    return number


def _of_tenant(target: Target, ident: str) -> VlanNetwork:
    """Return the network of a VIF. Raises InvalidDriverInfo: tenants have no such network."""
    network = target.switched_networks.network(ident)
    if network is None:
        raise InvalidDriverInfo(_unknown(ident))
    if not network.is_for_tenants:
        raise InvalidDriverInfo(
            f"network {network.name} is none of tenants: neither owner nor public is set"
        )
    return network


def _unknown(ident: str) -> str:
    return f"there is no network {ident!r} at /v1/networks"
