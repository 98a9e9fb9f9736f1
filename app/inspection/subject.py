"""
Subject of an inspection: a copy of the node, its ports and traits, and the collected data.

Hooks and rules change only the copy. The changes are written in one transaction, with the outcome
of the step, so an interrupted inspection can be repeated.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from drivers.core import capabilities
from drivers.core.errors import InspectionFailed
from drivers.core.target import Material, Options

Document = dict[str, Any]

#: Node fields, other than the interfaces, that rules may set or remove -> type.
NODE_FIELDS: Mapping[str, type] = {
    "automated_clean": bool, "boot_mode": str, "conductor_group": str, "description": str,
    "disable_power_off": bool, "driver": str, "driver_info": dict, "extra": dict,
    "instance_info": dict, "lessee": str, "maintenance": bool, "maintenance_reason": str,
    "name": str, "network_data": dict, "owner": str, "properties": dict, "resource_class": str,
    "retired": bool, "retired_reason": str, "secure_boot": bool, "shard": str,
}  # fmt: skip
#: Port fields that rules may set or remove -> type.
PORT_FIELDS: Mapping[str, type] = {
    "address": str, "category": str, "description": str, "extra": dict, "is_smartnic": bool,
    "local_link_connection": dict, "name": str, "physical_network": str, "pxe_enabled": bool,
    "vendor": str,
}  # fmt: skip


@dataclass(slots=True)
class Subject:
    """Copy of a node and the data of its inspection."""

    node: Document
    ports: list[Document]  # new ports have a UUID already, for rules
    traits: list[str]
    inventory: Document
    plugin_data: Document  # data of the agent's other collectors, and of hooks and rules
    before: Mapping[str, Any] | None = None  # inventory of the previous inspection
    options: Options = field(default_factory=dict)  # settings
    #: whether the inventory may lack any fact: that of a BMC, which is no program of ours
    partial: bool = False

    @classmethod
    def of(
        cls,
        material: Material,
        inventory: Mapping[str, Any],
        plugin_data: Mapping[str, Any],
        options: Options | None = None,
        *,
        partial: bool = False,
    ) -> "Subject":
        return cls(
            deepcopy(dict(material.node)),
            [deepcopy(dict(port)) for port in material.ports],
            list(material.traits),
            deepcopy(dict(inventory)),
            deepcopy(dict(plugin_data)),
            material.before,
            options or {},
            partial,
        )

    def missing(self, fact: str) -> None:
        """
        Note in `plugin_data` that the inventory lacks a fact.

        Raises InspectionFailed: the inventory has to be complete.
        """
        if not self.partial:
            raise InspectionFailed(f"the inventory {fact}")
        self.plugin_data["missing_facts"] = [*self.plugin_data.get("missing_facts", ()), fact]

    def port(self, ident: str) -> Document | None:
        """Return the port with a UUID or MAC address, if there is one."""
        for port in self.ports:
            if ident.lower() in (port["uuid"], port["address"]):
                return port
        return None

    def add_port(self, address: str, **fields: object) -> Document:
        port = {"uuid": str(uuid4()), "address": address, "extra": {}, **fields}
        self.ports.append(port)
        return port

    def set_property(self, name: str, value: object) -> None:
        """Set a property, unless the value is None."""
        if value is None:
            return
        self.node["properties"] = {**self.node.get("properties", {}), name: value}

    def set_capabilities(self, **changes: str | None) -> None:
        """
        Change `properties/capabilities`. None removes a capability.

        Raises InvalidDriverInfo: the field is malformed, before or after the change.
        """
        field = "properties/capabilities"
        current_capabilities = capabilities.parsed(
            self.node.get("properties", {}).get("capabilities"), field
        )
        new_capabilities = {
            name: value
            for name, value in (current_capabilities | changes).items()
            if value is not None
        }
        self.set_property("capabilities", capabilities.written(new_capabilities, field))


@dataclass(frozen=True, slots=True)
class Findings:
    """Changes by an inspection; a field that is None stays unchanged."""

    node: Mapping[str, Any]  # changed fields only
    ports: Sequence[Mapping[str, Any]] | None  # all ports of the node
    traits: Sequence[str] | None
    inventory: Mapping[str, Any] | None
    plugin_data: Mapping[str, Any]
    partial: bool = False  # the inventory is that of a BMC


def findings(material: Material, subject: Subject) -> Findings:
    """Return the differences between the material and the subject."""
    changed_fields = {
        name: value for name, value in subject.node.items() if value != material.node.get(name)
    }
    ports = [dict(port) for port in material.ports]
    return Findings(
        changed_fields,
        subject.ports if subject.ports != ports else None,
        subject.traits if subject.traits != list(material.traits) else None,
        subject.inventory,
        # the ramdisk's logs are large, and no part of the inventory
        {name: value for name, value in subject.plugin_data.items() if name != "logs"},
        subject.partial,
    )
