"""No failure without a trace: a handler of all exceptions logs, counts or returns an outcome."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROAD = {"Exception", "BaseException"}
#: Methods that log, and that count.
TRACES = {"critical", "error", "exception", "info", "print_exc", "warning", "add", "observe"}
#: Handlers that leave no trace -> why they need none.
REASONS = {
    "app/api/agent/heartbeat_fast_path.py:take": "_note_defect logs and counts it",
    "app/api/agent/heartbeat_fast_path.py:_record": "_note_defect logs and counts it",
    "app/api/agent/heartbeat_fast_path.py:_decode": "_note_defect logs and counts it",
    "app/server/gateway.py:close": "granian's own errors: the client is gone already",
    "app/identity/oidc_provider.py:_read_keys": "keys of kinds that it does not know are left out, as RFC 7517 demands",
    "workers/conductor/life.py:_run": "_stop logs it",
    "workers/conductor/results.py:_shown": "a typed outcome: the text says that there is none",
    "workers/conductor/results.py:_message": "a typed outcome: the text says that there is none",
}


def handlers(source):
    """Yield (function, its handler of all exceptions) of a module."""
    tree = ast.parse(source)
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    owners = {}
    for function in functions:  # the innermost one is walked last
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and is_broad(node.type):
                owners[node] = function.name
            if (
                isinstance(node, ast.Call)
                and name_of(node.func) == "suppress"
                and any(map(is_broad, node.args))
            ):
                owners[node] = function.name
    yield from ((name, node) for node, name in owners.items())


def name_of(node):
    return getattr(node, "id", None) or getattr(node, "attr", None)


def is_broad(caught):
    """Whether a clause catches all exceptions, alone or in a tuple."""
    if caught is None:
        return True
    return any(name_of(element) in BROAD for element in getattr(caught, "elts", [caught]))


def leaves_a_trace(handler):
    """Whether it logs, counts or raises, or uses the exception: in its result, for a message."""
    if not isinstance(handler, ast.ExceptHandler):
        return False  # suppress
    inside = [node for statement in handler.body for node in ast.walk(statement)]
    return any(
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Call) and name_of(node.func) in TRACES)
        or (isinstance(node, ast.Name) and node.id == handler.name)
        for node in inside
    )


def silent(source, path):
    return {f"{path}:{name}" for name, handler in handlers(source) if not leaves_a_trace(handler)}


def test_every_handler_of_all_exceptions_leaves_a_trace():
    silent_handlers = set()
    for folder in ("app", "workers", "drivers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            silent_handlers |= silent(path.read_text(), str(path.relative_to(ROOT)))
    assert set(REASONS) == silent_handlers


@pytest.mark.parametrize(
    ("body", "is_silent"),
    [
        ("except Exception:\n  pass", True),
        ("except:\n  return None", True),
        ("except (KeyError, BaseException):\n  x = 1", True),
        ("except Exception as error:\n  return None", True),
        ("except Exception as error:\n  return Failed(error)", False),
        ("except builtins.Exception:\n  logger.exception('x')", False),
        ("except Exception:\n  raise", False),
        ("except KeyError:\n  pass", False),
    ],
)
def test_a_handler_without_a_trace_is_found(body, is_silent):
    lines = "\n ".join(f"try:\n  work()\n{body}".split("\n"))
    assert is_silent == bool(silent(f"def act():\n {lines}", "a"))


def test_a_suppression_of_all_exceptions_is_found():
    assert {"a:act"} == silent("def act():\n with suppress(OSError, Exception):\n  work()", "a")
