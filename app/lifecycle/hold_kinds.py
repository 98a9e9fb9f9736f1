"""Kinds of holds, and the table of their effects."""

from collections.abc import Mapping
from enum import StrEnum


class HoldKind(StrEnum):
    SCHEDULING = "scheduling"  # no new instance; the running one goes on
    HARDWARE = "hardware"  # broken or in repair: only people act on the machine
    INVESTIGATION = "investigation"  # frozen: the machine stays as it is


class Effect(StrEnum):
    """Effect of a hold on its node."""

    INSTANCES = "instances"  # no allocation gets the node, and no deployment starts
    OPERATIONS = "operations"  # no verb starts an operation, and the node is not deleted
    MACHINE = "machine"  # no request changes the power or anything else of the machine
    CORRECTION = "correction"  # power sync records the power state instead of correcting it


#: Kind -> its effects. docs/holds.md has the table.
EFFECTS: Mapping[HoldKind, frozenset[Effect]] = {
    HoldKind.SCHEDULING: frozenset({Effect.INSTANCES}),
    HoldKind.HARDWARE: frozenset({Effect.INSTANCES, Effect.OPERATIONS, Effect.CORRECTION}),
    HoldKind.INVESTIGATION: frozenset(Effect),
}


def kinds_with(effect: Effect) -> tuple[HoldKind, ...]:
    """Return the kinds of holds that have an effect."""
    return tuple(kind for kind, effects in EFFECTS.items() if effect in effects)
