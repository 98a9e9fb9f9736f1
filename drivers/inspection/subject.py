"""
What an inspection works on: a copy of the node, its ports and its traits, and what was found.

Hooks and rules change the copy and nothing else; what came of it is written in one transaction,
with the outcome of the step. So an inspection that is interrupted is simply done again.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from drivers.core.target import Material

Document = dict[str, Any]

#: Fields of a node that rules may set, beside its interfaces -> their type; all may be removed.
NODE_FIELDS: Mapping[str, type] = {
    "automated_clean": bool, "boot_mode": str, "conductor_group": str, "description": str,
    "disable_power_off": bool, "driver": str, "driver_info": dict, "extra": dict,
    "instance_info": dict, "lessee": str, "maintenance": bool, "maintenance_reason": str,
    "name": str, "network_data": dict, "owner": str, "properties": dict, "resource_class": str,
    "retired": bool, "retired_reason": str, "secure_boot": bool, "shard": str,
}  # fmt: skip
#: The same of a port.
PORT_FIELDS: Mapping[str, type] = {
    "address": str, "category": str, "description": str, "extra": dict, "is_smartnic": bool,
    "local_link_connection": dict, "name": str, "physical_network": str, "pxe_enabled": bool,
    "vendor": str,
}  # fmt: skip


@dataclass(slots=True)
class Subject:
    """
    The copy. plugin_data: what else the agent sent, and what hooks and rules add to it.

    ports: those that the node is to have; a new one has a UUID already, for rules to name it.
    before: the inventory of the inspection before, if there was one.
    """

    node: Document
    ports: list[Document]
    traits: list[str]
    inventory: Document
    plugin_data: Document
    before: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls, material: Material, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]
    ) -> "Subject":
        return cls(
            deepcopy(dict(material.node)),
            [deepcopy(dict(port)) for port in material.ports],
            list(material.traits),
            deepcopy(dict(inventory)),
            deepcopy(dict(plugin_data)),
            material.before,
        )

    def port(self, ident: str) -> Document | None:
        """The port with a UUID or an address, if there is one."""
        for port in self.ports:
            if ident.lower() in (port["uuid"], port["address"]):
                return port
        return None

    def add_port(self, address: str, **fields: Any) -> Document:
        port = {"uuid": str(uuid4()), "address": address, "extra": {}, **fields}
        self.ports.append(port)
        return port

    def set_property(self, name: str, value: Any) -> None:
        self.node["properties"] = {**self.node.get("properties", {}), name: value}

    def set_capabilities(self, **changes: str | None) -> None:
        """Change `properties/capabilities`, "name:value,..."; None removes one."""
        text = str(self.node.get("properties", {}).get("capabilities") or "")
        known: dict[str, str | None] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition(":")
            known[name.strip()] = value.strip()
        kept = {name: value for name, value in (known | changes).items() if value is not None}
        self.set_property("capabilities", ",".join(f"{name}:{kept[name]}" for name in kept))


@dataclass(frozen=True, slots=True)
class Findings:
    """
    What came of an inspection.

    node: the fields that have changed. ports: all that the node is to have, where that has changed;
    likewise traits. None: as they were.
    """

    node: Mapping[str, Any]
    ports: Sequence[Mapping[str, Any]] | None
    traits: Sequence[str] | None
    inventory: Mapping[str, Any] | None
    plugin_data: Mapping[str, Any]


def findings(material: Material, subject: Subject) -> Findings:
    """What is different now."""
    changed = {
        name: value for name, value in subject.node.items() if value != material.node.get(name)
    }
    ports = [dict(port) for port in material.ports]
    return Findings(
        changed,
        subject.ports if subject.ports != ports else None,
        subject.traits if subject.traits != list(material.traits) else None,
        subject.inventory,
        # the ramdisk's logs are large, and of no use to who asks for the inventory
        {name: value for name, value in subject.plugin_data.items() if name != "logs"},
    )
