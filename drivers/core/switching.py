"""
Networks and switches of the service, for the network interface that configures switch ports itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class VlanNetwork:
    """A network: the VLANs that a switch port of it carries."""

    uuid: str
    name: str
    vlan: int | None  # untagged; None: only tagged ones
    tagged_vlans: tuple[int, ...] = ()
    physical_network: str | None = None  # None: of any
    owner: str | None = None  # project that may use it
    public: bool = False  # every project may use it

    @property
    def is_for_tenants(self) -> bool:
        """Whether projects may use it; the others are for agents."""
        return self.public or self.owner is not None

    def may_be_used_by(self, project: str | None) -> bool:
        """Whether a project may attach it to its nodes. project: None: of any project."""
        return project is None or self.public or self.owner == project


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch, and the login of the service."""

    uuid: str
    name: str
    switch_id: str  # MAC address of the switch, as LLDP tells it
    device_type: str  # name of a dialect in `drivers.switch.dialects`
    address: str
    port: int
    username: str
    host_key: str  # public key of the switch, as in a line of known_hosts without its hosts
    ports: tuple[str, ...]  # patterns of the switch ports that the service may configure
    saves: bool = True  # whether each change is saved for the switch's next start
    password: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    enable_password: str | None = field(default=None, repr=False)


class SwitchedNetworks:
    """The networks and switches of the service. This one has none; the service has another one."""

    def network(self, ident: str) -> VlanNetwork | None:
        """Return a network by UUID or name; None: there is none."""
        return None

    def switch(self, link: Mapping[str, Any]) -> Switch | None:
        """
        Return the switch of a `local_link_connection`: by `switch_id`, else by name in
        `switch_info`.

        Raises InvalidDriverInfo: one of its secrets cannot be decrypted.
        """
        return None

    def claims(self, link: Mapping[str, object]) -> list[str]:
        """Name the other nodes that have a port at the same switch port."""
        return []

    def lag_claims(self, switch: Switch, lag: int) -> list[str]:
        """Name the other port groups with the same number of a LAG at a switch."""
        return []
