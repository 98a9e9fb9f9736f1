"""Plan of a fleet file: the comparison of its entries with the nodes of the service."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.cli.fields import Kind, change
from app.cli.fleet_file.entry import KINDS, PORT_KINDS, UPDATE_ONLY, Entry
from app.cli.fleet_file.fleet_nodes import Fleet, has_mask, identities
from app.cli.rest import Api
from app.cli.terminal.errors import Failure
from app.cli.terminal.output import Document
from app.text.masking import HIDDEN, is_secret, mask

#: Fields that machines have in the file and not in the document of their node.
APART = ("ports", "traits", "uuid")


class Action(StrEnum):
    """Action of a plan for one machine."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    NOTHING = "nothing"
    REFUSE = "refuse"


@dataclass
class Change:
    """A change of a field. patch: of the node or port, as JSON Patch."""

    field: str
    patch: Document
    old: Any = None
    new: Any = None
    secret: bool = False  # the service alone knows whether it differs
    removes: bool = False

    def __str__(self) -> str:
        if self.secret:
            return f"{self.field}: {HIDDEN} (a secret)"
        if self.removes:
            return f"{self.field}: {_shown(self.old)} -> removed"
        return f"{self.field}: {_shown(self.old)} -> {_shown(self.new)}"


@dataclass
class PortChange:
    """A change of the ports of a machine: a new port, changed fields of one, or its removal."""

    address: str
    body: Document = field(default_factory=dict)  # of a new port
    uuid: str = ""  # of an existing port
    changes: list[Change] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.uuid:
            return f"port {self.address}: new"
        if not self.changes:
            return f"port {self.address}: removed"
        return f"port {self.address}: {', '.join(map(str, self.changes))}"


@dataclass
class Machine:
    """A machine of a plan, and the requests that it needs."""

    label: str  # name of the node
    place: str  # in the file; empty: it is not in the file
    node: Document | None = None  # as the service has it
    values: Document = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    ports: list[PortChange] = field(default_factory=list)
    traits: list[str] | None = None  # None: as they are
    problems: list[str] = field(default_factory=list)
    is_pruned: bool = False
    #: Name or UUID of its parent node, if the file has the parent, too.
    parent: str = ""

    @property
    def action(self) -> Action:
        if self.problems:
            return Action.REFUSE
        if self.is_pruned:
            return Action.DELETE
        if self.node is None:
            return Action.CREATE
        return Action.CHANGE if self.lines() else Action.NOTHING

    @property
    def has_new_secrets(self) -> bool:
        """Whether secrets of an existing node change."""
        return self.node is not None and any(item.secret for item in self.changes)

    @property
    def loses_ports(self) -> bool:
        return any(port.uuid and not port.changes for port in self.ports)

    def body(self) -> Document:
        """Return the body of the creation."""
        return {
            name: self.values[name]
            for name in KINDS
            if name not in UPDATE_ONLY and self.values.get(name) not in (None, "")
        }

    def later_patch(self) -> list[Document]:
        """Return the patch that follows the creation."""
        return [
            change("add", name, value=self.values[name])
            for name in UPDATE_ONLY
            if self.values.get(name) not in (None, "", False)
        ]

    def lines(self) -> list[str]:
        """Describe the differences, without secrets."""
        if self.is_pruned:
            return []
        if self.node is None:
            return [*_described(self.values)]
        traits = []
        if self.traits is not None:
            old, new = (", ".join(names) or "none" for names in (self.node["traits"], self.traits))
            traits = [f"traits: {old} -> {new}"]
        return [*map(str, self.changes), *map(str, self.ports), *traits]


def compare(entries: Sequence[Entry], fleet: Fleet, *, prune_ports: bool = False) -> list[Machine]:
    """
    Compare the entries of a file with the nodes of the service.

    prune_ports: ports that an entry with `ports` does not name are removed.
    """
    machines = []
    for entry in entries:
        node = None if entry.problems else fleet.find(entry.values)
        machines.append(
            Machine(entry.label, entry.place, node, entry.values, problems=[*entry.problems])
        )
    _check_uniqueness([machine for machine in machines if not machine.problems])
    for machine in machines:
        if not machine.problems:
            _check_collisions(machine, fleet)
            if machine.node is None and not machine.values.get("driver"):
                machine.problems.append("driver: is required for a new node")
    sound = [machine for machine in machines if not machine.problems]
    labels = {ident for machine in sound for ident in (machine.label, machine.values.get("uuid"))}
    for machine in sound:
        parent = machine.values.get("parent_node")
        machine.parent = parent if parent and parent in labels else ""
        if machine.node is not None:
            _compare(machine, machine.node, fleet, prune_ports=prune_ports)
    return machines


def surplus(machines: Sequence[Machine], fleet: Fleet, uuids: Sequence[str]) -> list[Machine]:
    """Return the deletions of the nodes in `uuids` that the file does not have, children first."""
    kept_uuids = {machine.node["uuid"] for machine in machines if machine.node}
    deletions = [
        Machine(fleet.name_of(uuid), "", fleet.nodes[uuid], is_pruned=True)
        for uuid in uuids
        if uuid not in kept_uuids
    ]
    return sorted(deletions, key=lambda machine: not (machine.node or {}).get("parent_node"))


def _check_uniqueness(machines: Sequence[Machine]) -> None:
    """Note two entries with one name, UUID, MAC address or BMC: neither is applied."""
    by_identity: dict[object, Machine] = {}
    for machine in machines:
        own_identities = set()
        for name, text, key in identities(machine.values):
            other = by_identity.setdefault((name, key), machine)
            if other is machine and (name, key) in own_identities:
                machine.problems.append(f"{name}: {text} is there twice")
            elif other is not machine:
                machine.problems.append(f"{name}: {text} is that of {other.place}, too")
                other.problems.append(f"{name}: {text} is that of {machine.place}, too")
            own_identities.add((name, key))


def _check_collisions(machine: Machine, fleet: Fleet) -> None:
    """Note what belongs to another node of the service: a file renames and moves nothing."""
    own_uuid = machine.node["uuid"] if machine.node else None
    owners = {"name": fleet.by_name, "ports": fleet.by_address}
    for name, text, key in identities(machine.values):
        owner = owners.get(name, fleet.by_bmc).get(key) if name != "uuid" else None
        if owner in (None, own_uuid):
            continue
        other = fleet.name_of(str(owner))
        hint = (
            f"; to rename it: ingot node set {other} --name {machine.label}"
            if machine.node is None
            else ""
        )
        machine.problems.append(f"{name}: {text} is that of node {other}{hint}")


def _compare(machine: Machine, node: Document, fleet: Fleet, *, prune_ports: bool) -> None:
    for name, kind in KINDS.items():
        if name in machine.values and name not in APART:
            old, new = node.get(name), machine.values[name]
            if name == "parent_node" and new and fleet.uuid_of(new) == old:
                continue
            machine.changes += differences(name, kind, old, new)
    if "traits" in machine.values:
        traits = sorted(set(machine.values["traits"]))
        if traits != sorted(node["traits"]):
            machine.traits = traits
    if "ports" in machine.values:
        ports = fleet.ports.get(node["uuid"], {})
        for port in machine.values["ports"]:
            machine.ports += _compare_port(port, ports.get(port["address"]))
        if prune_ports:
            addresses = {port["address"] for port in machine.values["ports"]}
            machine.ports += [
                PortChange(address, uuid=ports[address]["uuid"])
                for address in sorted(ports.keys() - addresses)
            ]


def new_port(port: Document) -> PortChange:
    fields = {name: value for name, value in port.items() if value is not None}
    return PortChange(port["address"], body=fields)


def _compare_port(port: Document, old_port: Document | None) -> Iterator[PortChange]:
    if old_port is None:
        yield new_port(port)
        return
    changes = [
        difference
        for name, value in port.items()
        if name not in ("address", "uuid")
        for difference in differences(name, PORT_KINDS[name], old_port.get(name), value)
    ]
    if changes:
        yield PortChange(port["address"], uuid=old_port["uuid"], changes=changes)


def differences(name: str, kind: Kind, old: Any, new: Any) -> Iterator[Change]:
    """Yield the changes that turn a field into its value in the file: of a document, key by key."""
    if kind is Kind.PAIRS and new is not None:
        old_document = old or {}
        for key, value in new.items():
            path, patch = f"{name}.{key}", change("add", name, key, value=value)
            if value is None:
                if key in old_document:
                    removal = change("remove", name, key)
                    yield Change(path, removal, old=_hidden(old_document, key), removes=True)
            elif (
                is_secret(key)
                or has_mask(old_document.get(key))
                or has_mask(old_document.get("content"))
            ):
                yield Change(path, patch, secret=True)
            elif old_document.get(key) != value or type(old_document[key]) is not type(value):
                yield Change(path, patch, old_document.get(key), value)
    elif new in (None, ""):
        if old not in (None, "", False, {}):
            yield Change(name, change("remove", name), old, removes=True)
    elif old != new:
        yield Change(name, change("add", name, value=new), old, new)


def _hidden(document: Document, key: str) -> object:
    return HIDDEN if is_secret(key) else document[key]


def _described(values: Document) -> Iterator[str]:
    """Yield a line for each value of a new machine."""
    for name, value in values.items():
        if name == "name" or value in (None, ""):
            continue
        if name == "ports":
            yield f"ports: {', '.join(port['address'] for port in value)}"
        elif KINDS.get(name) is Kind.PAIRS:
            for key, inner in value.items():
                text = f"{HIDDEN} (a secret)" if is_secret(key) else _shown(inner)
                yield f"{name}.{key}: {text}"
        else:
            yield f"{name}: {_shown(value)}"


def _shown(value: object) -> str:
    if value is None or value == "":
        return "none"
    masked_value = mask(value)
    return masked_value if isinstance(value, str) else json.dumps(masked_value, ensure_ascii=False)


def rehearse(api: Api, machine: Machine) -> None:
    """
    Ask the service for its verdict about a machine, and which of its secrets differ.

    Nothing changes. A refusal becomes a problem of the machine. New ports are not rehearsed, as
    their node may be new, too.
    """
    try:
        match machine.action:
            case Action.CREATE:
                body = machine.body()
                if machine.parent:  # it may be new, too
                    del body["parent_node"]
                api.request("POST", "nodes", query={"dry_run": True}, body=body)
            case Action.CHANGE if machine.changes:
                assert machine.node
                patch = [
                    item.patch for item in machine.changes
                    if not (machine.parent and item.field == "parent_node")
                ]  # fmt: skip
                answer = api.request(
                    "PATCH", "nodes", machine.node["uuid"], query={"dry_run": True}, body=patch
                )
                changed_names = answer.json()["changed"]
                machine.changes = [
                    item for item in machine.changes
                    if not item.secret or item.field.replace(".", "/", 1) in changed_names
                ]  # fmt: skip
            case Action.DELETE:
                assert machine.node
                api.request("DELETE", "nodes", machine.node["uuid"], query={"dry_run": True})
    except Failure as failure:
        machine.problems.append(str(failure))
