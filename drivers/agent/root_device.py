"""
Hints for disks: `root_device` of an instance or a node, and `properties/skip_block_devices`.

The agent compares them with its disks; the hints for the root device only when it writes an image,
after the machine was booted and maybe cleaned. It would be the first to object to a malformed hint,
so hints are checked by its rules before (ironic-python-agent, device_hints.py).
"""

import re
from collections.abc import Mapping

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target

#: Hint -> type of its values. `size` is in GiB.
HINTS: Mapping[str, type] = {
    "by_path": str,
    "hctl": str,
    "model": str,
    "name": str,
    "rotational": bool,
    "serial": str,
    "size": int,
    "tran": str,
    "vendor": str,
    "wwn": str,
    "wwn_vendor_extension": str,
    "wwn_with_extension": str,
}
_NUMERIC = ("=", "==", "!=", "<", "<=", ">", ">=")
_TEXTUAL = ("s==", "s!=", "s<", "s<=", "s>", "s>=")
#: Operators that may precede the value of a hint, by its type.
OPERATORS: Mapping[type, tuple[str, ...]] = {
    int: (*_NUMERIC, "<or>"),
    str: (*_TEXTUAL, "<in>", "<all-in>", "<or>", *_NUMERIC),
}
_EXPRESSION = re.compile(r"(?P<operator><[^<>=\s]*>|s?[=!<>~]+)?\s*(?P<value>.*)", re.DOTALL)
_BOOLEANS = ("1", "t", "true", "on", "y", "yes", "0", "f", "false", "off", "n", "no")


def validate(target: Target) -> None:
    """
    Check the hints of the instance and the node.

    Raises InvalidDriverInfo: names the hint.
    """
    for group, info in (
        ("instance_info", target.instance_info),
        ("properties", target.properties),
    ):
        if info.get("root_device"):
            check(info["root_device"], f"{group}/root_device")
    skipped = target.properties.get("skip_block_devices") or []
    group = "properties/skip_block_devices"
    if not isinstance(skipped, list):
        raise InvalidDriverInfo(f"{group} must be a list of objects with hints")
    for number, hints in enumerate(skipped):
        if not (isinstance(hints, Mapping) and isinstance(hints.get("volume_name"), str)):
            check(hints, f"{group}/{number}")


def check(hints: object, path: str) -> None:
    """
    Check the hints for one disk. path: the field, for errors.

    Raises InvalidDriverInfo: names the hint.
    """
    if not isinstance(hints, Mapping) or not hints:
        raise InvalidDriverInfo(f"{path} must be an object with hints: {', '.join(HINTS)}")
    for name, expression in hints.items():
        if name not in HINTS:
            raise InvalidDriverInfo(
                f"{path}: unknown hint {name!r:.80}; the hints are {', '.join(HINTS)}"
            )
        problem = _CHECKS[HINTS[name]](expression)
        if problem:
            raise InvalidDriverInfo(f"{path}/{name}: {expression!r:.80} {problem}")


def _of_boolean(expression: object) -> str | None:
    if str(expression).strip().lower() in _BOOLEANS:
        return None
    return "is neither true nor false"


def _of_number(expression: object) -> str | None:
    if isinstance(expression, bool) or not isinstance(expression, int | str):
        return "is not a whole number, alone or after an operator"
    operator, values, problem = _split(str(expression), int)
    if problem is None and not all(re.fullmatch(r"\+?0*[1-9][0-9]*", value) for value in values):
        suffix = f" after {operator}" if operator else ""
        return f"has no whole number above 0{suffix}"
    return problem


def _of_text(expression: object) -> str | None:
    if not isinstance(expression, str):
        return "is not a text"
    operator, values, problem = _split(expression, str)
    if problem is None and operator in _NUMERIC and not all(map(_is_number, values)):
        return f"has no number after {operator}; texts are compared by {', '.join(_TEXTUAL)}"
    return problem


def _split(expression: str, kind: type) -> tuple[str | None, list[str], str | None]:
    """Return the operator and the values of an expression, and what is wrong with it."""
    match = _EXPRESSION.fullmatch(expression.strip().lower())  # as the agent reads it
    assert match is not None  # it matches every text
    operator, value = match["operator"], match["value"].strip()
    if operator is not None and operator not in OPERATORS[kind]:
        return operator, [], f"has an unknown operator; it may be {', '.join(OPERATORS[kind])}"
    values = [part.strip() for part in value.split(operator)] if operator == "<or>" else [value]
    if not all(values):
        return operator, values, "has no value"
    return operator, values, None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text) is not None


_CHECKS = {bool: _of_boolean, int: _of_number, str: _of_text}
