"""Modes of switch ports: the VLANs that a port carries, in one form for orders and readings."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from drivers.core.switching import VlanNetwork


@dataclass(frozen=True, slots=True)
class PortMode:
    """
    The VLANs of a switch port.

    `other` describes a configuration that this service never orders, so that it equals no order.
    """

    vlan: int | None = None  # untagged; None: no untagged frames
    tagged: tuple[int, ...] = ()  # in ascending order; empty: an access port
    lag: int | None = None  # number of the link aggregation group that the port is a member of
    up: bool = True
    other: str = ""

    def __str__(self) -> str:
        if self.other:
            return self.other
        if self == DISCONNECTED:
            return "no network"
        parts = [f"VLAN {self.vlan}"] if self.vlan is not None else []
        parts += [f"tagged VLANs {ranges(self.tagged)}"] if self.tagged else []
        parts += [f"LAG {self.lag}"] if self.lag is not None else []
        parts += [] if self.up else ["shut down"]
        return ", ".join(parts) or "no VLAN"

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {**asdict(self), "tagged": list(self.tagged)}


#: A port without a network: no frame passes.
DISCONNECTED = PortMode(up=False)

#: A port that the switch does not have, such as one of a line card that was removed.
ABSENT = PortMode(other="no such port", up=False)


def from_document(document: Mapping[str, Any]) -> PortMode:
    """Return the mode of a document that `PortMode.document` has made."""
    return PortMode(**{**document, "tagged": tuple(document["tagged"])})


def of_network(network: VlanNetwork, lag: int | None = None) -> PortMode:
    """Return the mode of a port in a network. lag: number of the LAG that it is a member of."""
    return PortMode(network.vlan, tuple(sorted(network.tagged_vlans)), lag)


def ranges(vlans: Iterable[int]) -> str:
    """Write VLANs as switches do: `20,30-32`."""
    parts: list[list[int]] = []
    for vlan in sorted(set(vlans)):
        if parts and vlan == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], vlan]
        else:
            parts.append([vlan, vlan])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def numbers(text: str) -> set[int]:
    """
    Read VLANs as switches write them.

    Raises ValueError: it is no list of VLANs.
    """
    vlans: set[int] = set()
    for part in filter(None, re.split(r"[,\s]+", text)):
        low, _, high = part.partition("-")
        vlans.update(range(int(low), int(high or low) + 1))
    return vlans
