"""Each place that sets the lessee of a node asks the quota of the project."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[4]
#: Functions that set the lessee of a node, or ask the quota -> whether they ask.
PLACES = {
    "app/engine/provisioning.py _new_lessee": True,
    "app/engine/provisioning.py _keep_arguments": False,  # of the intent, from `_new_lessee`
    "app/engine/provision_state.py _wipe_instance": False,  # it ends the lease
    "app/engine/records/inspection_findings.py _write_node": True,
    "app/inventory/nodes.py create": True,
    "app/inventory/nodes.py change": True,
}
#: Calls that set fields of a node by their names.
BY_NAME = (
    "setattr(node, key, value)", "row_changes.change(session, node,", "row_changes.make(Node,",
)  # fmt: skip


def functions():
    for folder in ("app", "workers"):
        for path in (ROOT / folder).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef):
                    yield f"{path.relative_to(ROOT).as_posix()} {function.name}", function


def sets_lessee(function):
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == "lessee"
        and isinstance(part.ctx, ast.Store)
        for part in ast.walk(function)
    ) or any(call in ast.unparse(function) for call in BY_NAME)


def asks(function):
    return "quotas.check(" in ast.unparse(function)


def test_each_place_that_sets_the_lessee_of_a_node_asks_the_quota():
    places = {
        place: asks(function)
        for place, function in functions()
        if sets_lessee(function) or asks(function)
    }
    assert PLACES == places
