"""
Diffs whose hunks name a place of the syntax instead of lines beside the change.

    +++ app/lifecycle/flows.py
    @@ before FLOWS
    +RESTART = ProvisionFlow(name="restart")
    @@ FLOWS
    +RESTART
    @@ class Verbs.TABLE["deploy"]
    +restart=True

The lines of a hunk are added at the end of its place: of the body of a class or function (of its
attributes, if they are some), of the entries of a table, of the arguments of a call, of the lines of a text. Places within others are
joined by dots; `[key]` is an entry of a table. `imports` is the place after the last import. A hunk without a place is a new file. So two additions at the same
place do not depend on each other, and none on the names beside it.
"""

import ast
import re

_HUNK = re.compile(r"^@@ ?(.*)\n((?:[ +].*\n|\n)*)", re.MULTILINE)


def change(text, diff):
    """Return a text after the hunks of a diff. Raises ValueError: there is no such place."""
    if not diff.startswith("@@"):
        if text:
            raise ValueError("the file exists: name a place")
        return _added(diff)
    hunks = _HUNK.findall(diff)
    if "".join(f"@@ {place}\n{lines}" for place, lines in hunks) != diff:
        raise ValueError(f"not hunks of places and added lines:\n{diff}")
    for place, lines in hunks:
        text = _extended(text, place.strip(), _added(lines))
    return text


def _added(lines):
    if any(line[0] != "+" for line in lines.splitlines()):
        raise ValueError(f"lines are only added, not changed or removed:\n{lines}")
    return "".join(f"{line[1:]}\n" for line in lines.splitlines())


def _extended(text, place, lines):
    tree = ast.parse(text)
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))

    def insert(offset, added):
        data = text.encode()
        return (data[:offset] + added.encode() + data[offset:]).decode()

    if place == "imports":
        (*_, last_import) = [
            node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        return insert(starts[last_import.end_lineno], lines)
    if place.startswith("before "):
        statement = _statement(tree, _bare(place.removeprefix("before ")))
        decorators = [decorator.lineno for decorator in getattr(statement, "decorator_list", ())]
        return insert(starts[_above(text, min([statement.lineno, *decorators]))], lines)
    node = _node(tree, place)
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return insert(starts[_last_line(node, lines)], lines)
    closing = starts[node.end_lineno - 1] + node.end_col_offset
    if (ast.get_source_segment(text, node) or "").endswith('"""'):
        return insert(closing - 3, lines)
    parts = _parts(node)
    closing -= 1
    last_part = max(parts, key=lambda part: (part.end_lineno, part.end_col_offset), default=None)
    if last_part is None:
        return insert(closing, lines.strip().rstrip(","))
    if last_part.end_lineno < node.end_lineno:  # the bracket has a line of its own
        return insert(starts[node.end_lineno - 1], lines)
    end = starts[last_part.end_lineno - 1] + last_part.end_col_offset
    return insert(end, f", {lines.strip().rstrip(',')}")


def _last_line(node, lines):
    """Return the line after which a body is extended: attributes follow the last attribute."""
    attributes = [part for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign)]
    first_line = next(line for line in lines.splitlines() if line.strip()).lstrip()
    if first_line.startswith(("def ", "@")) or not attributes or isinstance(node, ast.FunctionDef):
        return node.end_lineno
    return attributes[-1].end_lineno


def _above(text, number):
    """Return the number of lines above a statement and the comments that belong to it."""
    lines = text.splitlines()
    above = number - 1
    while above and lines[above - 1].startswith("#:"):
        above -= 1
    return above


def _statement(tree, place):
    *folders, name = place.split(".")
    body = tree.body
    for folder in folders:
        body = next(node for node in body if getattr(node, "name", None) == folder).body
    for node in body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        names = [getattr(target, "id", None) for target in targets]
        if getattr(node, "name", None) == name or name in names:
            return node
    raise ValueError(f"there is no {place}")


def _bare(place):
    return re.sub(r"\b(class|def) ", "", place)


def _node(tree, place):
    """Return the node of a place. Raises ValueError."""
    place = _bare(place)
    name, key = place, None
    if place.endswith("]"):
        name, _, key = place[:-1].partition("[")
    statement = _statement(tree, name)
    node = getattr(statement, "value", statement)
    if key is None:
        return node
    keys = [] if not isinstance(node, ast.Dict) else node.keys
    values = [
        value for entry, value in zip(keys, getattr(node, "values", ()), strict=True)
        if entry is not None and ast.unparse(entry) == ast.unparse(ast.parse(key, mode="eval"))
    ]  # fmt: skip
    if len(values) != 1:
        raise ValueError(f"there is no {place}")
    return values[0]


def _parts(node):
    if isinstance(node, ast.Dict):
        return node.values
    if isinstance(node, ast.Call):
        return [*node.args, *node.keywords]
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return node.elts
    raise ValueError(f"nothing can be added to {ast.unparse(node)[:60]}")
