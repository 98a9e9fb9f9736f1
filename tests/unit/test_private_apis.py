"""Private members of libraries: each of docs/private-apis.md exists, and each use of one is listed."""

import inspect
import re
from functools import reduce
from importlib import import_module

import pytest

from tests.support.fleet import ROOT

PAGE = (ROOT / "docs" / "private-apis.md").read_text()
ROWS = re.findall(r"^\| ([\w.-]+) \| `([\w.]+)` \| .* \| `(tests/[\w/.]+)` \|$", PAGE, re.MULTILINE)


def member(path):
    """Return the member of a dotted path whose first parts are modules."""
    parts = path.split(".")
    for number in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:number]))
        except ImportError:
            continue
        *parents, name = parts[number:]
        parent = reduce(getattr, parents, module)
        if not hasattr(parent, name) and f"self.{name} = " in inspect.getsource(parent):
            return name  # of the instances
        return getattr(parent, name)
    raise ImportError(path)


@pytest.mark.parametrize(("library", "path", "test"), ROWS)
def test_a_private_member_is_there(library, path, test):
    try:
        member(path)
    except (AttributeError, ImportError) as error:
        pytest.fail(f"{library} has no {path} any more: {error}. See docs/private-apis.md")
    assert (ROOT / test).exists()


def test_the_page_has_rows():
    assert len(ROWS) == PAGE.count("\n| ") - 2


def test_a_missing_member_is_noticed():
    with pytest.raises(AttributeError):
        member("flask.Flask.no_such_member")
