"""The context of a request is passed on: one module holds it, and few ask for it."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[5]
HOLDER = "app/api/request/context.py"
#: Modules whose functions Flask, flask-smorest or webargs call without a context.
CALLED_BY_FLASK = {
    "app/server/application.py", "app/api/request/error_handlers.py", "app/api/request/parsing.py",
    "app/api/request/routes.py", "app/api/web/root.py",
}  # fmt: skip

#: Modules that read pages without a scope: of one node or rollout that the caller sees, or of rows
#: without a project.
WITHOUT_SCOPE = {
    "app/api/fleet/audit.py", "app/api/fleet/conductors.py", "app/api/fleet/rollouts.py",
    "app/api/node/records/benchmarks.py", "app/api/node/records/history.py",
    "app/api/node/records/sanitation.py", "app/api/resource/baselines.py",
}  # fmt: skip


def importers(module, names):
    """Modules of the product that import one of the names."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in ("app", "workers", "drivers")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module == module
        and names & {alias.name for alias in node.names}
    }


def test_nothing_hides_in_the_globals_of_flask_but_the_context():
    assert {HOLDER} == importers("flask", {"g", "current_app"})
    assert set() == importers("flask.globals", {"app_ctx", "g", "current_app"})
    assigned = [
        node.attr
        for node in ast.walk(ast.parse((ROOT / HOLDER).read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "g"
    ]
    assert {"context"} == set(assigned)


def test_only_what_flask_calls_asks_for_the_current_context():
    assert CALLED_BY_FLASK == importers("app.api.request.context", {"current"})


def test_other_lists_are_read_with_a_scope():
    assert {"app/api/request/paging.py", *WITHOUT_SCOPE} == importers(
        "app.rows.keyset_pages", {"fetch"}
    )
