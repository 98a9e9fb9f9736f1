"""Operations that no conductor drives, for the reconciler."""

import pytest

from workers.conductor import claims
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

#: Contact with the database long enough to declare conductors dead.
TRUSTED = Contact(timeout=0)


def reconcile(inside, contact=TRUSTED):
    """Run one pass; return its counters that are not zero."""
    inside.runtime.cache.clear()
    return {counter: n for counter, n in reconciler.reconcile(inside.runtime, contact).items() if n}


def claim(inside, claimant, name):
    operation = inside.operation(name)
    attempt = claims.claim(claimant, name, operation.fence, operation.cursor)
    assert attempt
    return attempt


@pytest.fixture
def cleaning(inside):
    """A conductor, c-1, and a node with a newly requested clean: (node, operation)"""
    inside.claimant = inside.conductor("c-1")
    node = inside.node("manageable")
    return node, inside.request(node, "provide")


@pytest.fixture
def meanwhile(inside, monkeypatch):
    """Function that sets a change of a row, made between the search of a pass and its actions."""
    changes = []

    def reach(point, *_):
        if point == "decided":
            kind, which, columns = changes.pop()
            inside.change(kind, which, **columns)

    monkeypatch.setattr(reconciler.kill_points, "reach", reach)
    return lambda kind, which, **columns: changes.append((kind, which, columns))
