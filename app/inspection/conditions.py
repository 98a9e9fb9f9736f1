"""Conditions of inspection rules, by operator."""

import ipaddress
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from app.inspection.operators import Operation
from drivers.core.errors import InspectionFailed

_TRUE, _FALSE = ("yes", "true"), ("no", "false")
#: Most characters of a value that a regular expression is applied to. A machine chooses the value,
#: and an expression such as `.*a.*b.*` takes time by the square or cube of its length, during which
#: no other thread of the conductor runs.
LONGEST_VALUE = 4096


def _comparable(values: object, force_strings: object) -> list[object]:
    """Return the values in one type: as they are, as numbers, or as text."""
    if not isinstance(values, list):
        raise InspectionFailed(f"values: expected a list, not {values!r}")
    if force_strings:
        return [str(value) for value in values]
    if len({type(value) for value in values}) <= 1:
        return values
    try:
        return [float(value) if not isinstance(value, bool) else str(value) for value in values]
    except (TypeError, ValueError):
        return [str(value) for value in values]


def _pairs(holds: Callable[[object, Any], bool]) -> Callable[..., bool]:
    """Return a function that compares each value with the next one."""

    def check(values: object, force_strings: object = False) -> bool:
        comparable_values = _comparable(values, force_strings)
        try:
            return all(
                holds(value, next_value) for value, next_value in pairwise(comparable_values)
            )
        except TypeError as error:
            raise InspectionFailed(f"values cannot be compared: {error}") from error

    return check


def _is_empty(value: object) -> bool:
    return str(value) in ("", "None", "[]", "{}")


def _in_net(address: object, subnet: object) -> bool:
    try:
        return ipaddress.ip_address(str(address)) in ipaddress.ip_network(str(subnet), strict=False)
    except ValueError as error:
        raise InspectionFailed(f"in-net: {error}") from error


def _compiled(regex: object) -> re.Pattern[str]:
    try:
        return re.compile(str(regex))
    except re.error as error:
        raise InspectionFailed(f"regex: {regex!r} is not a regular expression: {error}") from error


def _matches(value: object, regex: object) -> bool:
    return _compiled(regex).fullmatch(_text(value)) is not None


def _contains(value: object, regex: object) -> bool:
    return _compiled(regex).search(_text(value)) is not None


def _text(value: object) -> str:
    text = str(value)
    if len(text) > LONGEST_VALUE:
        raise InspectionFailed(
            f"value: it has {len(text)} characters; regular expressions are applied to at most"
            f" {LONGEST_VALUE}"
        )
    return text


def _one_of(value: object, values: object = ()) -> bool:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InspectionFailed(f"values: expected a list, not {values!r}")
    return value in values or str(value) in [str(accepted_value) for accepted_value in values]


def _is_true(value: object) -> bool:
    return value.lower() in _TRUE if isinstance(value, str) else bool(value)


def _is_false(value: object) -> bool:
    return value.lower() in _FALSE if isinstance(value, str) else not value


#: Operator -> its arguments, and its function.
CONDITIONS = {
    "eq": Operation(("values",), ("force_strings",), _pairs(lambda a, b: bool(a == b))),
    "lt": Operation(("values",), ("force_strings",), _pairs(lambda a, b: bool(a < b))),
    "gt": Operation(("values",), ("force_strings",), _pairs(lambda a, b: bool(a > b))),
    "is-empty": Operation(("value",), (), _is_empty),
    "in-net": Operation(("address", "subnet"), (), _in_net),
    "matches": Operation(("value", "regex"), (), _matches),
    "contains": Operation(("value", "regex"), (), _contains),
    "one-of": Operation(("value",), ("values",), _one_of),
    "is-none": Operation(("value",), (), lambda value: value is None),
    "is-true": Operation(("value",), (), _is_true),
    "is-false": Operation(("value",), (), _is_false),
}
