"""The nodes of the service, as far as fleet files describe them, and their documents in a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.cli.fields import Kind
from app.cli.fleet_file.entry import (
    DOCUMENTS,
    KINDS,
    OF_INSTANCE,
    PORT_KINDS,
    is_masked,
)
from app.cli.rest import Api
from app.cli.terminal.output import Document
from app.text.masking import is_secret

#: Key of the address of a BMC -> further keys that tell two machines behind it apart, and their
#: default values.
BMCS: Mapping[str, Mapping[str, str]] = {
    "redfish_address": {"redfish_system_id": ""},
    "ipmi_address": {"ipmi_port": "623", "ipmi_target_channel": "", "ipmi_target_address": ""},
}
#: Flags that are false unless they are set.
_UNSET = ("protected", "retired", "disable_power_off", "is_smartnic")


@dataclass
class Fleet:
    """All nodes, in one reading."""

    nodes: dict[str, Document] = field(default_factory=dict)  # by UUID
    by_name: dict[str, str] = field(default_factory=dict)  # name -> UUID
    ports: dict[str, dict[str, Document]] = field(default_factory=dict)  # UUID -> address -> port
    by_address: dict[str, str] = field(default_factory=dict)  # MAC address -> UUID of its node
    by_bmc: dict[tuple[str, ...], str] = field(default_factory=dict)

    @classmethod
    def read(cls, api: Api) -> "Fleet":
        """Read the nodes and their ports, page by page. Raises Failure."""
        fleet = cls()
        fields = ",".join((*KINDS, "traits", "provision_state"))
        for node in api.every("nodes", fields=fields, include_children=True):
            fleet.nodes[node["uuid"]] = node
            if node["name"]:
                fleet.by_name[node["name"]] = node["uuid"]
            bmc = bmc_of(node.get("driver_info") or {})
            if bmc and not node.get("parent_node"):
                fleet.by_bmc.setdefault(bmc, node["uuid"])
        for port in api.every("ports", fields=",".join((*PORT_KINDS, "node_uuid"))):
            fleet.ports.setdefault(port["node_uuid"], {})[port["address"]] = port
            fleet.by_address[port["address"]] = port["node_uuid"]
        return fleet

    def find(self, values: Document) -> Document | None:
        """Return the node of an entry, by its UUID, else by its name."""
        uuid = values.get("uuid") or self.by_name.get(values.get("name") or "")
        return self.nodes.get(uuid or "")

    def name_of(self, uuid: str) -> str:
        return self.nodes[uuid]["name"] or uuid

    def uuid_of(self, ident: str) -> str:
        """Return the UUID for a name; a UUID, and the name of a node to come, as it is."""
        return self.by_name.get(ident, ident)


def bmc_of(driver_info: Document) -> tuple[str, ...] | None:
    """Return the identity of a machine by its BMC: its address, and a part of it."""
    for key, further_keys in BMCS.items():
        if isinstance(address := driver_info.get(key), str) and address:
            place = address.partition("://")[2] or address
            parts = (str(driver_info.get(name) or usual) for name, usual in further_keys.items())
            return key, place.rstrip("/").lower(), *(part.rstrip("/") for part in parts)
    return None


class Exporter:
    """
    Describes nodes as the machines of a fleet file.

    secrets: path of a value that was left out -> the number of its nodes.
    """

    def __init__(self, api: Api, fleet: Fleet) -> None:
        self._api, self._fleet = api, fleet
        self._defaults: dict[str, Document] = {}
        self.secrets: dict[str, int] = {}

    def machine(self, node: Document) -> Document:
        """Return the fields of a node that are set, without secrets and those of its instance."""
        defaults = self._defaults_of(node["driver"])
        machine: Document = {"name": node["name"]} if node["name"] else {"uuid": node["uuid"]}
        for name, kind in KINDS.items():
            value = node.get(name)
            if name in (*machine, "uuid", *OF_INSTANCE) or not _is_set(name, value):
                continue
            if name.endswith("_interface") and value == defaults.get(f"default_{name}"):
                continue
            if name == "parent_node" and value in self._fleet.nodes:
                value = self._fleet.name_of(value)
            if kind in (Kind.PAIRS, Kind.JSON):
                value = self._readable(name, value)
            if _is_set(name, value):
                machine[name] = value
        if node["traits"]:
            machine["traits"] = sorted(node["traits"])
        ports = self._fleet.ports.get(node["uuid"], {})
        if ports:
            machine["ports"] = [_port(ports[address]) for address in sorted(ports)]
        return machine

    def _readable(self, name: str, document: Any) -> Document:
        """Return a document without its masked values."""
        readable = {}
        for key, value in document.items():
            if name in DOCUMENTS and (is_secret(key) or has_mask(value)):
                path = f"{name}.{key}"
                self.secrets[path] = self.secrets.get(path, 0) + 1
            else:
                readable[key] = value
        return readable

    def _defaults_of(self, driver: str) -> Document:
        if not self._defaults:
            drivers = self._api.get("drivers", detail=True)["drivers"]
            self._defaults = {item["name"]: item for item in drivers}
        return self._defaults.get(driver, {})


def _port(port: Document) -> Document:
    fields = {
        name: value
        for name in PORT_KINDS
        if name not in ("uuid", "address") and _is_set(name, value := port.get(name))
    }
    if fields.get("pxe_enabled"):  # as every port, unless it says otherwise
        del fields["pxe_enabled"]
    return {"address": port["address"], **fields}


def _is_set(name: str, value: object) -> bool:
    return value not in (None, "", {}, []) and not (value is False and name in _UNSET)


def has_mask(value: object) -> bool:
    """Whether the API has masked any part of a value."""
    if isinstance(value, dict):
        return any(is_secret(key) or has_mask(inner) for key, inner in value.items())
    if isinstance(value, list):
        return any(map(has_mask, value))
    return is_masked(value)


def identities(values: Document) -> Iterable[tuple[str, str, Any]]:
    """
    Yield (field, text, key) of the values that no two machines share.

    A child node may have the BMC of its parent.
    """
    for name in ("name", "uuid"):
        if values.get(name):
            yield name, values[name], values[name]
    for port in values.get("ports") or ():
        if port.get("address"):
            yield "ports", port["address"], port["address"]
    bmc = bmc_of(values.get("driver_info") or {})
    if bmc and not values.get("parent_node"):
        yield f"driver_info.{bmc[0]}", " ".join(filter(None, bmc[1:])), bmc
