"""
Settings of faults: names and values, profiles, and files of them.

A setting is a field of `Faults`, the name of a rude fault (`drivers.simulator.rude`), or `profile`:
names of prepared settings. Settings are given for all machines or for one; settings of one
machine take precedence. A rude fault is set to true, to the share of the requests that it concerns,
or to an object of `share`, `times` (most occurrences; 0: no limit) and the options in its row.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from drivers.simulator.faults import Faults
from drivers.simulator.rude.profiles import PROFILES
from drivers.simulator.rude.row import Row
from drivers.simulator.rude.table import ROWS

Settings = Mapping[str, Any]


class BadFault(ValueError):
    """There is no such fault, or its value is invalid; the message names it."""


def expanded(settings: Settings, profiles: Mapping[str, Settings] = PROFILES) -> dict[str, object]:
    """
    Return settings with the contents of their profiles (a name or a list) in place of `profile`.

    Raises BadFault: there is no such profile.
    """
    names = settings.get("profile", [])
    merged: dict[str, Any] = {}
    for name in [names] if isinstance(names, str) else names:
        if name not in profiles:
            raise BadFault(f"profile: {name!r} is none of {', '.join(sorted(profiles))}")
        merged |= expanded(profiles[name], profiles)
    return merged | {name: value for name, value in settings.items() if name != "profile"}


def merge(*layers: Settings) -> Faults:
    """Merge the checked settings of a machine: later layers take precedence."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer)
    rude = {name: _options(row, merged.pop(name)) for name, row in ROWS.items() if merged.get(name)}
    return Faults(**{name: merged[name] for name in merged.keys() - ROWS.keys()}, rude=rude)


def shown(faults: Faults) -> dict[str, object]:
    """Return the settings that give these faults."""
    settings: dict[str, Any] = asdict(faults)
    rude: dict[str, object] = settings.pop("rude")
    return settings | rude


def check(settings: Settings) -> None:
    """
    Raise BadFault unless each setting is a fault with a valid value (None stands for the default).
    """
    for name, value in settings.items():
        if name not in KINDS and name not in ROWS:
            known_names = ", ".join(sorted([*KINDS, *ROWS]))
            raise BadFault(f"unknown fault {name!r}; known: {known_names}")
        if value is None:
            continue
        if name in ROWS:
            _check_rude(ROWS[name], value)
        else:
            KINDS[name](name, value)


def read(path: Path, machines: int) -> tuple[dict[str, object], dict[int, dict[str, object]]]:
    """
    Read a file of faults; return the settings for all machines, and those by number of machine.

    The file is TOML: `[all]`, `[machines.N]` or `[machines."N-M"]`, `[profiles.NAME]`.

    Raises BadFault: names the file and the entry.
    """
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadFault(f"{path}: {error}") from None
    try:
        return _parsed(document, machines)
    except BadFault as error:
        raise BadFault(f"{path}: {error}") from None


def _parsed(
    document: Settings, machines: int
) -> tuple[dict[str, object], dict[int, dict[str, object]]]:
    if unknown_sections := sorted(document.keys() - {"all", "machines", "profiles"}):
        raise BadFault(f"[{unknown_sections[0]}] is none of [all], [machines.N], [profiles.NAME]")
    profiles = {**PROFILES, **_table("profiles", document.get("profiles", {}))}
    for_all = _settings("all", document.get("all", {}), profiles)
    for_one: dict[int, dict[str, object]] = {}
    for numbers, section in _table("machines", document.get("machines", {})).items():
        settings = _settings(f"machines.{numbers}", section, profiles)
        for number in _numbers(numbers, machines):
            for_one[number] = for_one.get(number, {}) | settings
    return for_all, for_one


def _table(name: str, value: object) -> Settings:
    if not isinstance(value, dict):
        raise BadFault(f"[{name}]: a table, not {value!r}")
    return value


def _settings(name: str, section: object, profiles: Mapping[str, Settings]) -> dict[str, object]:
    try:
        settings = expanded(_table(name, section), profiles)
        check(settings)
    except BadFault as error:
        raise BadFault(f"[{name}] {error}") from None
    return settings


def _numbers(text: str, machines: int) -> Iterator[int]:
    """Yield the numbers of machines in "3" or "0-7". Raises BadFault."""
    first_number, _, last_number = text.partition("-")
    if not first_number.isdigit() or not (last_number or first_number).isdigit():
        raise BadFault(f"[machines.{text}]: a number such as 3, or a range such as 0-7")
    numbers = range(int(first_number), int(last_number or first_number) + 1)
    if not numbers or numbers[-1] >= machines:
        raise BadFault(f"[machines.{text}]: the machines are 0-{machines - 1}")
    yield from numbers


# Rude faults


def _options(row: Row, value: object) -> dict[str, object]:
    """Return all options of a rude fault from its checked value."""
    options = value if isinstance(value, Mapping) else {"share": 1.0 if value is True else value}
    return {"share": 1.0, "times": 0, **row.defaults, **options}


def _check_rude(row: Row, value: object) -> None:
    if isinstance(value, bool):
        return
    if not isinstance(value, Mapping):
        _rate(row.name, value)
        return
    known_options = {"share": 1.0, "times": 0, **row.defaults}
    for name, option in value.items():
        if name not in known_options:
            raise BadFault(
                f"{row.name}: unknown option {name!r}; known: {', '.join(known_options)}"
            )
        _check_option(f"{row.name}.{name}", known_options[name], option)
    _rate(f"{row.name}.share", value.get("share", 1.0))


def _check_option(name: str, default: object, value: object) -> None:
    """Check that an option has the type of its default value."""
    kinds = ((bool, _flag), (int | float, _number), (str, _text), (list, _texts))
    check_kind = next(check_kind for kind, check_kind in kinds if isinstance(default, kind))
    check_kind(name, value)


# Fields of `Faults`


def _flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise BadFault(f"{name}: true or false, not {value!r}")


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise BadFault(f"{name}: a number from 0 up, not {value!r}")


def _rate(name: str, value: Any) -> None:
    _number(name, value)
    if value > 1:
        raise BadFault(f"{name}: a share between 0 and 1, not {value!r}")


def _text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadFault(f"{name}: a text, not {value!r}")


def _durations(name: str, value: object) -> None:
    for seconds in value.values() if isinstance(value, Mapping) else [value]:
        _number(name, seconds)


def _reasons(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise BadFault(f"{name}: an object of step and reason, not {value!r}")
    for reason in value.values():
        _text(name, reason)


def _results(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise BadFault(f"{name}: an object of step and return value, not {value!r}")


def _texts(name: str, value: object) -> None:
    if not isinstance(value, list | tuple):
        raise BadFault(f"{name}: a list of texts, not {value!r}")
    for text in value:
        _text(name, text)


def _steps(name: str, value: object) -> None:
    if not isinstance(value, Mapping) or not set(value) <= {"clean", "deploy", "service"}:
        raise BadFault(f"{name}: lists of steps under clean, deploy, service, not {value!r}")
    for step_list in value.values():
        for step in step_list if isinstance(step_list, list) else [None]:
            if not isinstance(step, dict) or not {"interface", "step", "priority"} <= set(step):
                raise BadFault(f"{name}: a step has interface, step and priority, not {step!r}")


KINDS = {
    **{entry.name: _number for entry in fields(Faults) if entry.type in (float, "float")},
    **{entry.name: _flag for entry in fields(Faults) if entry.type in (bool, "bool")},
    **{entry.name: _text for entry in fields(Faults) if entry.type in (str, "str")},
    "error_rate": _rate,
    "drop_rate": _rate,
    "step_seconds": _durations,
    "step_fails": _reasons,
    "step_results": _results,
    "steps": _steps,
    "lacks": _texts,
}
