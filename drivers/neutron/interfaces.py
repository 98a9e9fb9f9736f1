"""
Network interfaces `flat` and `neutron`.

`flat`: machines stay in one network; Neutron gives them addresses and boot files. `neutron`:
Neutron's mechanism drivers switch machines between the networks of their agents and those of the
tenant.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from drivers.core.errors import HardwareError, InvalidDriverInfo, Unexpected
from drivers.core.kinds.agent_networks import AgentNetworks
from drivers.core.steps import AWAITED, Done, Failed, Outcome, Wait
from drivers.core.target import Target
from drivers.core.vif_places import AGENT_VIFS, is_wired
from drivers.neutron import agent_ports, places, settled, vifs
from drivers.neutron.places import Place

if TYPE_CHECKING:
    from drivers.neutron.service import NetworkService

_GROUP = "neutron"
#: Key of the progress: the ports are set up, and the delay of the settings runs.
_DELAYED = "delayed"
#: Purposes for which the agent of `flat` has ports of its own.
_OWN_OF_FLAT = ("cleaning", "inspection")
#: Seconds between two reads of a port while a client waits, and of the client's time for the rest.
_LOOK, _SPARE = 1.0, 10.0


def unusable_networks(options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield (setting, reason) for each network of the settings [neutron] that Neutron lacks."""
    from drivers.neutron.service import connect  # imports openstacksdk's parts, which take long

    for setting in (f"{purpose}_network" for purpose in AGENT_VIFS):
        if not options[setting]:
            continue
        try:
            connect(options).network(str(options[setting]), f"[neutron]{setting}")
        except HardwareError as error:
            yield setting, str(error)


class NeutronNetwork(AgentNetworks):
    """Common part of both interfaces: VIFs, and the networks of the agent."""

    opt_in = True  # they need the settings [neutron], and openstacksdk
    group = _GROUP
    remote_vifs = True
    #: Purposes whose network validation requires.
    required: Sequence[str] = ("cleaning",)
    #: Whether Neutron configures the switch ports.
    switches = False

    def validate(self, target: Target) -> None:
        settings = target.options[_GROUP]
        if not (settings["auth_url"] or settings["endpoint_override"]):
            raise InvalidDriverInfo(
                f"network_interface {self.name} needs the setting [neutron]auth_url, or"
                " [neutron]endpoint_override with [neutron]auth_type none"
            )
        for purpose in self.required:
            self.network_for(target, purpose)

    def join(self, target: Target, purpose: str) -> Outcome:
        service = _service(target)
        if not target.progress:
            network = service.network(*self.network_for(target, purpose))
            if self.switches:
                vifs.unbind_switched(target, service)
            groups = target.options[_GROUP][f"{purpose}_network_security_groups"]
            fields = {"security_groups": list(groups)} if groups and self.switches else {}
            ports = agent_ports.create(target, service, purpose, network["id"], fields)
        else:
            ports = target.progress.get("ports", [])
        return self._settled(target, service, ports)

    def leave(self, target: Target, purpose: str) -> Outcome:
        agent_ports.remove(target, _service(target))
        return Done()

    def _settled(self, target: Target, service: "NetworkService", ports: Sequence[str]) -> Outcome:
        """Wait until the ports work; here: until Neutron has set them up for DHCP."""
        return self._delayed(target, Done({"ports": list(ports)}))

    def _delayed(self, target: Target, outcome: Outcome) -> Outcome:
        """Wait for `[neutron]port_setup_delay` after the ports are set up."""
        delay = float(target.options[_GROUP]["port_setup_delay"])
        if not delay or not isinstance(outcome, Done) or target.progress.get(_DELAYED):
            return outcome
        waits_for = "DHCP servers, to learn the ports ([neutron]port_setup_delay)"
        return Wait({**outcome.result, _DELAYED: True, AWAITED: waits_for}, poll_after=delay)

    # VIFs of the tenant

    def unconfigure_tenant_networks(self, target: Target) -> Outcome:
        if any(places.tenants(target)):
            vifs.unbind_all(target, _service(target))
        return Done()

    def vif_networks(self, target: Target, vif: str, project: str | None) -> list[str]:
        return vifs.physical_networks(_service(target), vif, project)

    def plug_vif(self, target: Target, vif: str) -> None:
        """
        Give a VIF the machine's address, and connect it if the machine is deployed.

        Else only its host is set, so that nothing else takes it: the deployment connects it.
        """
        service, place = _service(target), places.of_vif(target, vif)
        if target.provision_state != "active":
            vifs.bind(target, service, vif, place, profile={})
            return
        self._bind(target, service, vif, place)
        self._await(target, service, vif)

    def unplug_vif(self, target: Target, vif: str) -> None:
        vifs.unbind(target, _service(target), vif, places.of_vif(target, vif))

    def _bind(self, target: Target, service: "NetworkService", vif: str, place: Place) -> None:
        """Connect a VIF."""
        raise NotImplementedError

    def _await(self, target: Target, service: "NetworkService", vif: str) -> None:
        """Wait until Neutron has connected a VIF of a deployed machine."""


class Flat(NeutronNetwork):
    """
    The machine stays in one network, which is the tenant's.

    While it is deployed, serviced or rescued, its agent uses the ports of the tenant.
    """

    name = "flat"

    def validate_rescue(self, target: Target) -> None:
        """Check nothing: the agent uses the ports of the tenant."""

    def join(self, target: Target, purpose: str) -> Outcome:
        is_own = purpose in _OWN_OF_FLAT
        return super().join(target, purpose) if is_own else self._use_tenants(target)

    def leave(self, target: Target, purpose: str) -> Outcome:
        if purpose in _OWN_OF_FLAT:
            return super().leave(target, purpose)
        return self.unconfigure_tenant_networks(target)

    def configure_tenant_networks(self, target: Target) -> Outcome:
        service = _service(target) if any(places.tenants(target)) else None
        for vif, place in places.tenants(target):
            assert service is not None
            self._bind(target, service, vif, place)
        return Done({"ports": [vif for vif, _ in places.tenants(target)]})

    def _use_tenants(self, target: Target) -> Outcome:
        """Lead the machine to its agent by the ports of the tenant."""
        options, tenants = agent_ports.boot_options(target), list(places.tenants(target))
        if options and not tenants:
            return Failed(
                "The node has no VIF, so there is no port in Neutron that could lead the machine to"
                " its agent: attach a VIF, or set [dhcp]dhcp_provider to none if the site's DHCP"
                " server does"
            )
        if not tenants:
            return Done({"networks": "unchanged: the node has no VIF"})
        if not target.progress:
            service = _service(target)
            agent_ports.remove(target, service)
            for vif, place in tenants:
                vifs.bind(target, service, vif, place, options=options)
        return self._delayed(target, Done({"ports": [vif for vif, _ in tenants]}))

    def _bind(self, target: Target, service: "NetworkService", vif: str, place: Place) -> None:
        vifs.bind(target, service, vif, place)


class Neutron(NeutronNetwork):
    """Neutron connects the machine to the network that each phase of its life needs."""

    name = "neutron"
    required = ("cleaning", "provisioning")
    switches = True
    needs_links = True
    properties = NeutronNetwork.properties | {
        "fail_on_binding_failure": "false: a port that Neutron does not connect is no failure",
    }

    def validate(self, target: Target) -> None:
        super().validate(target)
        if target.disable_power_off:
            raise InvalidDriverInfo(
                "disable_power_off: network_interface neutron switches networks while the machine"
                " is off; use network_interface flat"
            )
        for nic in target.nics:
            if nic.is_smartnic:
                raise InvalidDriverInfo(
                    f"port {nic.uuid} is a smart NIC (is_smartnic): network_interface neutron"
                    " cannot connect it, as its own agent would have to run while the machine is"
                    " off; use network_interface flat, or remove the port"
                )
        if target.nics and not any(map(is_wired, target.nics)):
            raise InvalidDriverInfo(
                "local_link_connection: no port of the node has one, so Neutron does not know the"
                " switch port to configure; give switch_id and port_id, or let an inspection find"
                " them by LLDP"
            )
        settled.is_required(target)

    def configure_tenant_networks(self, target: Target) -> Outcome:
        tenants = list(places.tenants(target))
        if not tenants:
            return Done({"networks": "none: the node has no VIF"})
        service = _service(target)
        if not target.progress:
            for vif, place in tenants:
                self._bind(target, service, vif, place)
        return self._settled(target, service, [vif for vif, _ in tenants])

    def _settled(self, target: Target, service: "NetworkService", ports: Sequence[str]) -> Outcome:
        if target.progress.get(_DELAYED):
            return Done({"ports": list(ports)})
        return self._delayed(target, settled.settled(target, service, ports))

    def _bind(self, target: Target, service: "NetworkService", vif: str, place: Place) -> None:
        profile: dict[str, object] = places.profile(target, place)
        vifs.bind(target, service, vif, place, profile=profile)

    def _await(self, target: Target, service: "NetworkService", vif: str) -> None:
        end = time.monotonic() + float(target.options["api"]["call_timeout"]) - _SPARE
        while True:
            outcome = settled.settled(target, service, [vif])
            if isinstance(outcome, Failed):
                raise HardwareError(outcome.reason)
            if not isinstance(outcome, Wait):
                return
            if time.monotonic() + _LOOK > end:
                raise Unexpected(f"Neutron has not connected port {vif} in time; it is still DOWN")
            time.sleep(_LOOK)


def _service(target: Target) -> "NetworkService":
    from drivers.neutron.service import connect  # imports openstacksdk's parts, which take long

    return connect(target.options[_GROUP])
