"""
Fleet files as YAML and JSON: a document `nodes`, or the list in it alone.

YAML is read with the types of its version 1.2: by those of 1.1, as PyYAML has them, the MAC address
52:54:00:12:34:56 is a number to the base of 60, `no` is false, and 0815 is a number.
"""

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import yaml

from app.cli.fleet_file.entry import Entry
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # libyaml may be missing
    """Loader of YAML 1.2's core types, which refuses a key that a document has twice."""

    yaml_implicit_resolvers: dict[str, object] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> object:
        keys = set()
        for key_node, _ in node.value:
            if key_node.tag != "tag:yaml.org,2002:merge":
                key = key_node.value
                if key in keys:
                    raise yaml.constructor.ConstructorError(
                        problem=f"{key!r} is there twice", problem_mark=key_node.start_mark
                    )
                keys.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes each text which YAML 1.1 or 1.2 would take for something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    """Represent a text; line ends beyond ASCII are only read back from quotation marks."""
    style = '"' if set(text) & {"\x85", "\u2028", "\u2029"} else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
for _tag, _pattern, _first_characters in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):  # fmt: skip
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first_characters)
        )


def read_yaml(text: str) -> list[Entry]:
    """Read the machines of a YAML document; their places are lines. Raises Usage."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            document = loader.construct_document(root) if root else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise Usage(f"{line}this is not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise Usage(f"this is not YAML: {' '.join(str(error).split())}") from error
    machines = _machines(document)
    lines = [node.start_mark.line + 1 for node in _list_node(root)]
    return [_entry(f"line {line}", machine) for line, machine in zip(lines, machines, strict=True)]


def _list_node(root: Any) -> list[Any]:
    """Return the nodes of the list of machines."""
    if isinstance(root, yaml.MappingNode):
        root = next(value for key, value in root.value if key.value == "nodes")
    return list(root.value)


def read_json(text: str) -> list[Entry]:
    """Read the machines of a JSON document; their places are numbers. Raises Usage."""
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=refuse_constant)
    except ValueError as error:
        raise Usage(f"this is not JSON: {error}") from error
    return [
        _entry(f"node {number}", machine) for number, machine in enumerate(_machines(document), 1)
    ]


def _unique(members: list[tuple[str, object]]) -> Document:
    document = dict(members)
    if len(document) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice in a document")
    return document


def refuse_constant(word: str) -> object:
    """Raise ValueError for NaN and the infinities, which Python takes for JSON."""
    raise ValueError(f"{word} is no value")


def _machines(document: object) -> list[object]:
    """Return the list of machines. Raises Usage."""
    if isinstance(document, dict):
        for name in document.keys() - {"nodes"}:
            hint = " (nodes?)" if get_close_matches(str(name), ["nodes"]) else ""
            raise Usage(f"{name}: is no part of a fleet file, which has nodes only{hint}")
        document = document.get("nodes")
    if not isinstance(document, list):
        raise Usage("a fleet file has a list of nodes: `nodes:` and below it `- name: ...`")
    return document


def _entry(place: str, machine: object) -> Entry:
    if not isinstance(machine, dict):
        return Entry(place, {}, ["a document of fields is expected"])
    return Entry(place, {str(name): value for name, value in machine.items()})


def write_yaml(machines: Iterable[Document]) -> str:
    return yaml.dump(
        {"nodes": list(machines)}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6
    )


def write_json(machines: Iterable[Document]) -> str:
    return json.dumps({"nodes": list(machines)}, indent=2) + "\n"
