"""
Hardware types (values of a node's `driver`), and the interfaces that a node uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from drivers.core import overridden_steps, unread_keys
from drivers.core.interface import Interface
from drivers.core.interface_kinds import (
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
    """A value of `node.driver`, and the interfaces that its nodes may use."""

    name: ClassVar[str]
    interfaces: ClassVar[Mapping[str, Sequence[type[Interface]]]]  # by kind, the default first


@dataclass(frozen=True, slots=True)
class Driver:
    """The interfaces of one node, a field for each kind."""

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
        """The interfaces by name of their kind."""
        return {kind: getattr(self, kind) for kind in KINDS}

    def validate(self, kind: str, target: Target) -> None:
        """
        Check the node's settings for one interface; send nothing to the machine.

        Raises InvalidDriverInfo: names the field.
        """
        unread_keys.refuse_unread(target, kind)
        self.by_kind[kind].validate(target)

    def steps(self, flow: Flow, target: Target | None = None) -> list[Step]:
        """
        Return the steps of a flow that the interfaces offer, unsorted; without the agent's steps.

        Raises InvalidDriverInfo: the step list of an interface is malformed.
        """
        return [
            step
            for interface in self.by_kind.values()
            for step in overridden_steps.offered(interface, target, flow)
        ]


def interfaces_of(target: Target) -> Driver:
    """Return all interfaces of a node, for callers that are no interface of it."""
    assert isinstance(target.driver, Driver)
    return target.driver
