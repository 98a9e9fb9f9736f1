"""Priorities of steps with the settings that override them, and equal ones in an interface."""

from collections.abc import Iterable

from drivers.core.steps import PRIORITY_OVERRIDES, Flow
from drivers.core.target import Options

#: Step name, its priority, and the setting that gave it, if one did.
Priority = tuple[str, float, str | None]


def overridden(options: Options, flow: Flow, label: str) -> tuple[float, str] | None:
    """Return the priority that a setting in [conductor] gives `interface.step`, and the setting."""
    name = PRIORITY_OVERRIDES.get(flow)
    given = options["conductor"].get(name, {}) if name else {}
    return (given[label], f"[conductor]{name}") if label in given else None


def refuse_ties(priorities: Iterable[Priority]) -> None:
    """
    Check that no two steps of an interface have the same priority above 0.

    Raises ValueError: names the steps, and the settings.
    """
    taken: dict[float, tuple[str, str | None]] = {}
    for name, priority, setting in priorities:
        if priority > 0 and priority in taken:
            other, its = taken[priority]
            by = " and ".join(dict.fromkeys(each for each in (its, setting) if each))
            raise ValueError(
                f"{other!r} and {name!r} both have priority {priority:g}"
                + (f", by {by}" if by else "")
            )
        taken[priority] = name, setting
