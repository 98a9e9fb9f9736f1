"""
Print the keys of a node's fields that Ironic reads: `python -m tests.compare.node_keys DIRECTORY`.

Finds literal keys: arguments of `get`, `pop` and `setdefault`, subscripts, comparisons with `in`,
and tables of properties. Keys that are put together at run time are not found.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

#: Variable or attribute -> field of the node.
FIELDS: Mapping[str, str] = {
    "driver_info": "driver_info", "d_info": "driver_info", "instance_info": "instance_info",
    "i_info": "instance_info", "properties": "properties", "capabilities": "capabilities",
}  # fmt: skip
_METHODS = ("get", "pop", "setdefault")


def keys(source: str) -> Iterator[tuple[str, str]]:
    """Yield (field, key) of each read in a module; keys of tables have the field driver_info."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=owner, attr=method),
                args=[ast.Constant(value=str(key)), *_],
            ) if method in _METHODS:
                pass
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))):
                pass
            case ast.Compare(
                left=ast.Constant(value=str(key)), ops=[ast.In() | ast.NotIn()], comparators=[owner]
            ):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=listed)) if (
                "PROPERTIES" in name
            ):
                for element in listed:
                    if isinstance(element, ast.Constant) and isinstance(element.value, str):
                        yield "driver_info", element.value
                continue
            case _:
                continue
        field = FIELDS.get(_name(owner))
        if field:
            yield field, key


def _name(owner: ast.expr) -> str:
    """Return the last name of an expression; that of `a.get("b")` is `b`."""
    match owner:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
        case ast.BoolOp(values=[first, *_]):
            return _name(first)
    return ""


def main(directory: str) -> None:
    table = defaultdict(set)
    for path in Path(directory).rglob("*.py"):
        if "tests" not in path.parts:
            for field, key in keys(path.read_text()):
                table[field].add(key)
    for field, names in sorted(table.items()):
        print(f"{field}: {' '.join(sorted(names))}")


if __name__ == "__main__":
    main(sys.argv[1])
