"""The network interface: it connects a machine to the network that a flow needs."""

from collections.abc import Mapping
from typing import ClassVar

from drivers.core.conditions import AS_FOUND, Condition, Conditions, conditions
from drivers.core.errors import NotSupported
from drivers.core.interface import Interface
from drivers.core.steps import Done, Outcome
from drivers.core.target import Target


class Network(Interface):
    """Connect the machine to the network that a flow needs."""

    kind = "network"
    #: whether attached VIFs are recorded on the node's ports
    keeps_vifs: ClassVar[bool] = True
    #: whether a conductor attaches and detaches VIFs, by `vif_networks`, `plug_vif`, `unplug_vif`
    remote_vifs: ClassVar[bool] = False
    #: whether a VIF needs a port whose switch port is known, and that is no smart NIC
    needs_links: ClassVar[bool] = False

    def conditions_of(self, target: Target, method: str) -> Conditions:
        """Return what a frame step needs and leaves; one that does nothing leaves all as it was."""
        return super().conditions_of(target, method) if self.has(method) else AS_FOUND

    def physical_networks(self, vif: Mapping[str, object]) -> frozenset[str]:
        """
        Return the physical networks of a VIF; empty if any will do. Sends no request.

        vif: `id`, and other keys that the client gave.
        """
        network_name = vif.get("physical_network")
        return frozenset([network_name] if isinstance(network_name, str) else ())

    def vif_networks(self, target: Target, vif: str, project: str | None) -> list[str]:
        """
        Return the physical networks of a VIF; empty if any will do. Requests may be sent.

        project: of the caller, who may attach VIFs of the project; None: all.

        Raises InvalidDriverInfo: there is no such VIF that the caller may attach.
        """
        return []

    def plug_vif(self, target: Target, vif: str) -> None:
        """Connect a VIF that is recorded on a port or port group of the node."""

    def unplug_vif(self, target: Target, vif: str) -> None:
        """Disconnect a VIF that is recorded on a port or port group of the node."""

    def inspect_switch_ports(
        self, target: Target, network: str | None = None
    ) -> list[dict[str, object]]:
        """
        Compare the switch ports of the machine with the last orders, and change nothing.

        network: name or UUID; compare with an order for this network instead.

        Returns for each wired port {port_uuid, switch, port_id, ordered, actual, agrees, commands};
        commands: those that would give the port the ordered mode.
        """
        raise NotSupported(f"network_interface {self.name} configures no switch ports itself")

    def restore_switch_ports(self, target: Target) -> list[str]:
        """Give the switch ports of the machine their last orders again; return them in words."""
        raise NotSupported(f"network_interface {self.name} configures no switch ports itself")

    def validate_rescue(self, target: Target) -> None:
        """Check the settings that only a rescue needs. Raises InvalidDriverInfo."""

    @conditions(leaves=[Condition.SERVICE_NETWORK])
    def add_cleaning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_cleaning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    @conditions(leaves=[Condition.SERVICE_NETWORK])
    def add_provisioning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_provisioning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    @conditions(leaves=[Condition.SERVICE_NETWORK])
    def add_servicing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_servicing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    @conditions(leaves=[Condition.SERVICE_NETWORK])
    def add_rescuing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_rescuing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    @conditions(leaves=[Condition.SERVICE_NETWORK])
    def add_inspection_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_inspection_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    @conditions(leaves=[Condition.TENANT_NETWORKS])
    def configure_tenant_networks(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def unconfigure_tenant_networks(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()
