"""
What a node's `driver` stands for: a hardware type, and the interfaces that the node uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from drivers.core import listed
from drivers.core.interface import Interface
from drivers.core.kinds import (
    KINDS,
    Bios,
    Boot,
    Console,
    Deploy,
    Firmware,
    Inspect,
    Management,
    Network,
    Power,
    Raid,
    Rescue,
    Storage,
    Vendor,
)
from drivers.core.steps import Flow, Step
from drivers.core.target import Target


class HardwareType:
    """One value of `node.driver`, and the interfaces that nodes of that driver may use."""

    name: ClassVar[str]
    interfaces: ClassVar[Mapping[str, Sequence[type[Interface]]]]


@dataclass(frozen=True, slots=True)
class Driver:
    """The interfaces that one node uses: a field for each kind."""

    hardware_type: str
    bios: Bios
    boot: Boot
    console: Console
    deploy: Deploy
    firmware: Firmware
    inspect: Inspect
    management: Management
    network: Network
    power: Power
    raid: Raid
    rescue: Rescue
    storage: Storage
    vendor: Vendor

    @property
    def by_kind(self) -> dict[str, Interface]:
        """Its interfaces, for code that is given the name of a kind."""
        return {kind: getattr(self, kind) for kind in KINDS}

    def steps(self, flow: Flow, target: Target | None = None) -> list[Step]:
        """
        Every step of a flow that the interfaces offer themselves, unsorted.

        Raises InvalidDriverInfo for an interface whose own listing makes no sense.
        """
        return [
            step for each in self.by_kind.values() for step in listed.offered(each, target, flow)
        ]
