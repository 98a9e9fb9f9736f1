"""
Ports and port groups as places of VIFs, the ports of a network service.

Used by the network interfaces for a node's `Nic`s, and by the service for its rows.
"""

from collections.abc import Mapping
from typing import Any, Protocol

#: Key of `internal_info` of a port or port group, with the tenant's VIF.
TENANT_VIF = "tenant_vif_port_id"
#: Purpose of a network of agents -> key of `internal_info` with the agent's VIF.
AGENT_VIFS: Mapping[str, str] = {
    purpose: f"{purpose}_vif_port_id"
    for purpose in ("cleaning", "provisioning", "rescuing", "servicing", "inspection")
}
#: Key of `extra` with the client ID of an InfiniBand port.
CLIENT_ID = "client-id"


class NetworkPort(Protocol):
    """A network port of a machine."""

    @property
    def local_link_connection(self) -> Mapping[str, Any]: ...
    @property
    def extra(self) -> Mapping[str, Any]: ...


def is_wired(port: NetworkPort) -> bool:
    """Whether the switch port is known; the client ID stands for the one of an InfiniBand port."""
    return bool(port.local_link_connection or port.extra.get(CLIENT_ID))
