"""Priorities of steps with the settings that override them, and equal ones in an interface."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from drivers.core.interface import Interface
from drivers.core.steps import PRIORITY_OVERRIDES, Flow
from drivers.core.target import Options

#: Step name, its priority, and the setting that gave it, if one did.
Priority = tuple[str, float, str | None]


def overridden(options: Options, flow: Flow, label: str) -> tuple[float, str] | None:
    """Return the priority that a setting in [conductor] gives `interface.step`, and the setting."""
    name = PRIORITY_OVERRIDES.get(flow)
    settings = options["conductor"].get(name, {}) if name else {}
    return (settings[label], f"[conductor]{name}") if label in settings else None


class Unmatched(NamedTuple):
    """A setting that gives a priority to a step which no driver declares for the flow."""

    setting: str  # such as "[conductor]clean_step_priority_override"
    step: str  # `interface.step` of the setting
    nearest: list[str]  # the most similar one that a driver declares; or empty


def overrides_without_step(
    types: Mapping[str, Mapping[str, Mapping[str, Interface]]], options: Options
) -> Iterator[Unmatched]:
    """
    Yield the overrides of priorities that match no declared step.

    types: hardware type -> kind -> interface name -> interface. A step of this name may still be
    listed at run time: by an agent's hardware manager, or by a driver's own method.
    """
    for flow, name in PRIORITY_OVERRIDES.items():
        labels = {
            f"{kind}.{step}"
            for kinds in types.values()
            for kind, by_name in kinds.items()
            for interface in by_name.values()
            for step in _names(interface, flow)
        }
        for label in options["conductor"].get(name, {}):
            if label not in labels:
                yield Unmatched(f"[conductor]{name}", label, get_close_matches(label, labels, 1))


def _names(interface: Interface, flow: Flow) -> set[str]:
    """Names of the steps of a flow that an interface declares, and of the agent's that it knows."""
    step_names = {step.name for step in interface.steps.values() if flow in step.priorities}
    return step_names | set(interface.priority_settings if flow is Flow.CLEAN else ())


def refuse_ties(priorities: Iterable[Priority]) -> None:
    """
    Check that no two steps of an interface have the same priority above 0.

    Raises ValueError: names the steps, and the settings.
    """
    names_by_priority: dict[float, tuple[str, str | None]] = {}
    for name, priority, setting in priorities:
        if priority > 0 and priority in names_by_priority:
            other_name, other_setting = names_by_priority[priority]
            settings_text = " and ".join(
                dict.fromkeys(
                    setting_name for setting_name in (other_setting, setting) if setting_name
                )
            )
            raise ValueError(
                f"{other_name!r} and {name!r} both have priority {priority:g}"
                + (f", by {settings_text}" if settings_text else "")
            )
        names_by_priority[priority] = name, setting
