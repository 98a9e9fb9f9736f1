"""An entry of a fleet file: the fields of one machine, as the file has them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from app.cli.fields import Kind
from app.cli.node_commands.node_fields import FIELDS
from app.cli.resource_table import PORT
from app.cli.terminal.output import Document
from app.text.masking import HIDDEN

#: Field of a node -> its type. The ports and traits of a node are two more fields of an entry.
KINDS: Mapping[str, Kind] = {"uuid": Kind.TEXT} | {item.name: item.kind for item in FIELDS.all}
DOCUMENTS = tuple(name for name, kind in KINDS.items() if kind is Kind.PAIRS)
NAMES = (*KINDS, "ports", "traits")
#: Fields that a deployment sets: an export leaves them out, so that no file undoes a deployment.
OF_INSTANCE = ("instance_info", "instance_uuid", "instance_name")
#: Fields that can be set on an existing node only.
UPDATE_ONLY = FIELDS.update_only
#: Field of a port -> its type.
PORT_KINDS: Mapping[str, Kind] = {"uuid": Kind.TEXT} | {
    item.name: item.kind for item in PORT.fields.all if item.name not in PORT.fields.creation_only
}
#: Fields that the API keeps in lower case.
_LOWER = ("uuid", "chassis_uuid", "instance_uuid", "conductor_group")


@dataclass
class Entry:
    """One machine of a file. problems: sentences why it cannot be applied."""

    place: str  # in the file: "line 7"
    values: Document = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    #: Field -> name of its column in a spreadsheet, where it is another one.
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name, else its UUID, else its place."""
        return str(self.values.get("name") or self.values.get("uuid") or self.place)

    def check(self) -> None:
        """Note wrong names and types of fields, and bring addresses into the form of the API."""
        for name, value in list(self.values.items()):
            if name == "ports" and value is not None:
                self.values[name] = self._checked_ports(value)
            elif problem := _problem_of_field(name, value):
                self.problems.append(problem)
        if not self.problems and not (self.values.get("name") or self.values.get("uuid")):
            self.problems.append("name: is required, or uuid")
        self.problems += [f"{path}: {problem}" for path, problem in _masked(self.values)]
        for name in _LOWER:
            if isinstance(value := self.values.get(name), str):
                self.values[name] = value.lower()

    def located(self, problem: str) -> str:
        """Name the column of the field that a problem begins with."""
        column = self.columns.get(problem.partition(": ")[0])
        return f"column {column!r}, {problem}" if column else problem

    def _checked_ports(self, ports: object) -> list[Document]:
        if not isinstance(ports, list):
            self.problems.append("ports: a list of MAC addresses, or of ports, is expected")
            return []
        return [self._checked_port({"address": port} if isinstance(port, str) else port)
                for port in ports]  # fmt: skip

    def _checked_port(self, port: object) -> Document:
        if not isinstance(port, dict):
            self.problems.append("ports: each is a MAC address, or a document with address")
            return {}
        for name, value in port.items():
            if name not in PORT_KINDS:
                self.problems.append(f"ports: {unknown_field(name, PORT_KINDS)}")
            elif problem := _problem_of(name, PORT_KINDS[name], value):
                self.problems.append(f"ports: {problem}")
        address = mac_of(str(port.get("address") or ""))
        if address is None:
            text = port.get("address")
            self.problems.append(f"ports: {text!r} is no MAC address, as 52:54:00:12:34:56")
            return port
        return {**port, "address": address, **_lower_link(port)}


def _problem_of_field(name: str, value: object) -> str | None:
    if name not in NAMES:
        return unknown_field(name)
    if name in KINDS:
        return _problem_of(name, KINDS[name], value)
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return None if is_list else f"{name}: a list is expected"


def unknown_field(name: object, names: Mapping[str, Kind] | tuple[str, ...] = NAMES) -> str:
    """Return the sentence about a field that does not exist, with the nearest one that does."""
    text = str(name)
    head, dot, _ = text.partition(".")
    if dot and head in names:
        documents = ", ".join(DOCUMENTS)
        return f"{text}: only {documents} have keys"
    nearest = get_close_matches(head.lower(), tuple(names), 1)
    return f"{text}: there is no such field" + (f"; the nearest is {nearest[0]}" if nearest else "")


def problem_of_path(path: str) -> str | None:
    """Return the sentence about a field, or a key of a document, if there is no such."""
    head, dot, key = path.partition(".")
    is_field = (head in DOCUMENTS and bool(key)) if dot else head in NAMES
    return None if is_field else unknown_field(path)


def mac_of(text: str) -> str | None:
    """Return a MAC address with colons, in lower case; None: the text is none."""
    digits = text.strip().lower()
    for mark in ":-.":
        digits = digits.replace(mark, "")
    if len(digits) != 12 or not set(digits) <= set("0123456789abcdef"):
        return None
    return ":".join(digits[index : index + 2] for index in range(0, 12, 2))


def _lower_link(port: Document) -> Document:
    """Return the link of a port with its switch as the API keeps it, if it has one."""
    link = port.get("local_link_connection")
    if not (isinstance(link, dict) and isinstance(switch := link.get("switch_id"), str)):
        return {}
    return {"local_link_connection": {**link, "switch_id": switch.lower()}}


def _problem_of(name: str, kind: Kind, value: object) -> str | None:
    match kind:
        case _ if value is None:
            return None
        case Kind.FLAG if not isinstance(value, bool):
            return f"{name}: {value!r} is neither true nor false"
        case Kind.PAIRS | Kind.JSON if not isinstance(value, dict):
            return f"{name}: a document of keys and values is expected"
        case Kind.TEXT if not isinstance(value, str):
            return f"{name}: a text is expected, not {value!r}; quote it"
    return None


def _masked(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of values that the API has masked or redacted."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _masked(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _masked(inner, path)
    elif is_masked(value):
        yield path, "is masked, and would overwrite the secret: leave it out, or give the secret"


def is_masked(value: object) -> bool:
    """Whether the API shows this text in place of a secret."""
    return isinstance(value, str) and (HIDDEN in value or value.startswith("** Redacted"))
