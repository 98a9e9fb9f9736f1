"""The table of holds: each kind and its effects."""

import pytest

from app.lifecycle.hold_kinds import EFFECTS, Effect, HoldKind, kinds_with
from app.models import Hold

#: Kind -> its effects, as docs/holds.md states them.
STATED = {
    "scheduling": {"instances"},
    "hardware": {"instances", "operations", "correction"},
    "investigation": {"instances", "operations", "machine", "correction"},
}


def test_each_kind_has_the_stated_effects():
    assert STATED == {kind: set(effects) for kind, effects in EFFECTS.items()}
    assert set(HoldKind) == set(EFFECTS)


@pytest.mark.parametrize("effect", Effect)
def test_kinds_are_found_by_their_effect(effect):
    stated = {kind for kind, effects in STATED.items() if effect in effects}
    assert stated == set(kinds_with(effect))
    assert stated, "an effect that no kind has"


def test_kinds_fit_into_their_columns():
    assert max(map(len, HoldKind)) <= Hold.__table__.c.kind.type.length
