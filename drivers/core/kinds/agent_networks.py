"""Network interfaces that put a machine into networks of the settings while its agent runs."""

from typing import ClassVar

from drivers.core.errors import InvalidDriverInfo
from drivers.core.kinds.network import Network
from drivers.core.steps import Done, Outcome
from drivers.core.target import Target


class AgentNetworks(Network):
    """
    Base class: a network for each purpose of an agent, such as cleaning or provisioning.

    `driver_info` of a node, else the settings, have the name or UUID of the network for a purpose
    under `PURPOSE_network`. A machine without one for inspections stays where it is.
    """

    #: group of the settings
    group: ClassVar[str]
    properties = {
        "cleaning_network": "Name or UUID of the network for cleaning",
        "provisioning_network": "Name or UUID of the network for provisioning",
        "rescuing_network": "Name or UUID of the network for rescuing",
        "servicing_network": "Name or UUID of the network for servicing",
        "inspection_network": "Name or UUID of the network for inspection",
    }

    def join(self, target: Target, purpose: str) -> Outcome:
        """Connect the machine to the network of its agent, and to no other one."""
        raise NotImplementedError

    def leave(self, target: Target, purpose: str) -> Outcome:
        """Disconnect the machine from the network of its agent."""
        raise NotImplementedError

    def network_for(self, target: Target, purpose: str) -> tuple[str, str]:
        """
        Return name or UUID of the network for a purpose, and the field that has it.

        Raises InvalidDriverInfo: there is none.
        """
        name, ident = f"{purpose}_network", self._ident(target, purpose)
        if not ident:
            raise InvalidDriverInfo(
                f"network_interface {self.name} needs the setting [{self.group}]{name}, or"
                f" driver_info/{name} of the node"
            )
        in_node = name in target.driver_info
        return ident, f"driver_info/{name}" if in_node else f"[{self.group}]{name}"

    def validate_rescue(self, target: Target) -> None:
        self.network_for(target, "rescuing")

    def add_cleaning_network(self, target: Target) -> Outcome:
        return self.join(target, "cleaning")

    def remove_cleaning_network(self, target: Target) -> Outcome:
        return self.leave(target, "cleaning")

    def add_provisioning_network(self, target: Target) -> Outcome:
        return self.join(target, "provisioning")

    def remove_provisioning_network(self, target: Target) -> Outcome:
        return self.leave(target, "provisioning")

    def add_servicing_network(self, target: Target) -> Outcome:
        return self.join(target, "servicing")

    def remove_servicing_network(self, target: Target) -> Outcome:
        return self.leave(target, "servicing")

    def add_rescuing_network(self, target: Target) -> Outcome:
        return self.join(target, "rescuing")

    def remove_rescuing_network(self, target: Target) -> Outcome:
        return self.leave(target, "rescuing")

    def add_inspection_network(self, target: Target) -> Outcome:
        if not self._ident(target, "inspection"):
            return Done({"networks": f"unchanged: no [{self.group}]inspection_network is set"})
        return self.join(target, "inspection")

    def remove_inspection_network(self, target: Target) -> Outcome:
        return self.leave(target, "inspection") if self._ident(target, "inspection") else Done()

    def _ident(self, target: Target, purpose: str) -> str:
        return str(target.option(self.group, f"{purpose}_network") or "")
