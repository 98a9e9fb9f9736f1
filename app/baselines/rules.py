"""
Rules of a baseline: rows of field, operator and value, and their comparison with facts.

    {"field": "disks.from_gb.3800", "operator": ">=", "value": 8}
    {"field": "firmware.bmc", "operator": "in", "value": ["7.10.50", "7.10.70"]}
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from app.baselines import facts, version_order
from app.baselines.facts import Fact, Facts
from app.inventory.benchmarks import finite, is_name

#: Most rules of a baseline, values of a list, wildcards of a pattern.
MOST_RULES, MOST_VALUES, MOST_WILDCARDS = 200, 20, 4
#: Most characters of a field: those of a BIOS setting's name, and of `firmware.`.
LONGEST_FIELD = 300


class Operator(StrEnum):
    """Sign of a rule."""

    EQUAL = "="
    AT_LEAST = ">="
    AT_MOST = "<="
    IN = "in"  # any of a list
    MATCHES = "matches"  # `*` stands for any characters


class Kind(StrEnum):
    """Type of a fact."""

    NUMBER = "number"
    TEXT = "text"
    MEASURE = "measured number"  # of a benchmark
    VERSION = "version"  # a text with an order, see `app.baselines.version_order`


#: Kind of a fact -> its operators.
OPERATORS: Mapping[Kind, Sequence[Operator]] = {
    Kind.NUMBER: (Operator.EQUAL, Operator.AT_LEAST, Operator.AT_MOST, Operator.IN),
    Kind.TEXT: (Operator.EQUAL, Operator.IN, Operator.MATCHES),
    Kind.MEASURE: (Operator.AT_LEAST, Operator.AT_MOST),
    Kind.VERSION: (
        Operator.EQUAL,
        Operator.AT_LEAST,
        Operator.AT_MOST,
        Operator.IN,
        Operator.MATCHES,
    ),
}


@dataclass(frozen=True, slots=True)
class Field:
    """
    A fact that rules may name.

    key: word for the rest of the name, as COMPONENT in `firmware.COMPONENT`; empty: there is none.
    """

    name: str
    kind: Kind
    about: str
    fact: Callable[[Facts, str], Fact]
    key: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}.{self.key}" if self.key else self.name


#: Key of a number of items from a size on.
_SIZE = re.compile(r"[1-9][0-9]{0,7}")
#: In the order of the documentation.
FIELDS = (
    Field("cpu.count", Kind.NUMBER, "processors that the operating system sees",
          facts.of_section("cpu", "count", facts.number)),
    Field("cpu.architecture", Kind.TEXT, "as `x86_64`",
          facts.of_section("cpu", "architecture", facts.text)),
    Field("cpu.model", Kind.TEXT, "name of the model",
          facts.of_section("cpu", "model_name", facts.text)),
    Field("memory_mb", Kind.NUMBER, "memory in MiB",
          facts.of_section("memory", "physical_mb", facts.number)),
    Field("system.manufacturer", Kind.TEXT, "manufacturer of the machine",
          facts.of_section("system_vendor", "manufacturer", facts.text)),
    Field("system.product", Kind.TEXT, "name of the product",
          facts.of_section("system_vendor", "product_name", facts.text)),
    Field("disks.count", Kind.NUMBER, "disks", facts.of_disks),
    Field("disks.from_gb", Kind.NUMBER, "disks with at least GB gigabytes (10^9 bytes)",
          facts.of_disks, "GB"),
    Field("nics.count", Kind.NUMBER, "network interfaces, without the loopback",
          facts.of_interfaces),
    Field("nics.from_mbps", Kind.NUMBER, "network interfaces with a link of at least MBPS Mbit/s",
          facts.of_interfaces, "MBPS"),
    Field("nics.with_link", Kind.NUMBER, "network interfaces with a link", facts.of_links),
    Field("firmware", Kind.VERSION, "version of a component, as `firmware.bmc`, `firmware.bios`",
          facts.of_firmware, "COMPONENT"),
    Field("bios", Kind.TEXT, "value of a BIOS setting", facts.of_bios, "NAME"),
    Field("benchmark.value", Kind.MEASURE, "newest number of a metric",
          facts.of_measured, "METRIC"),
    Field("benchmark.percent_of_own", Kind.MEASURE,
          "newest number, in percent of the median of those before it",
          facts.of_own_median, "METRIC"),
    Field("benchmark.percent_of_group", Kind.MEASURE,
          "newest number, in percent of the median of the baseline's nodes",
          facts.of_group_median, "METRIC"),
)  # fmt: skip
_BY_NAME: Mapping[str, Field] = {field.name: field for field in FIELDS}
#: Fields whose keys are names of rows in the database.
FIRMWARE, BIOS = _BY_NAME["firmware"], _BY_NAME["bios"]


#: Field of numbers in percent of the median of a group of nodes.
OF_GROUP = _BY_NAME["benchmark.percent_of_group"]


class RuleError(ValueError):
    """A rule is wrong. `member`: the one of field, operator and value that is."""

    def __init__(self, member: str, message: str) -> None:
        super().__init__(message)
        self.member = member


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, parsed. text: its field as written. values: one, or those of a list."""

    field: Field
    key: str
    operator: Operator
    values: Sequence[int | float | str]
    text: str

    @property
    def expected(self) -> Any:
        return list(self.values) if self.operator is Operator.IN else self.values[0]

    def is_met(self, fact: float | str) -> bool:
        """Whether a known fact is as expected."""
        return any(_TESTS[self.operator](fact, value) for value in self.values)

    def difference(self, machine: Facts) -> dict[str, object] | None:
        """Return the difference between a machine and this rule; None: there is none."""
        fact = self.field.fact(machine, self.key)
        if fact is not None and self.is_met(fact):
            return None
        return {
            "field": self.text, "operator": str(self.operator), "expected": self.expected,
            "actual": fact,
        }  # fmt: skip


def parsed(documents: Iterable[Mapping[str, object]]) -> Sequence[Rule]:
    """Parse the rules of a baseline. Raises RuleError."""
    return [parse(document) for document in documents]


def parse(document: Mapping[str, Any]) -> Rule:
    """
    Parse a rule.

    document: its field, operator and value.

    Raises RuleError.
    """
    label = document["field"]
    field, key = _field(label)
    operators = OPERATORS[field.kind]
    if document["operator"] not in operators:
        raise RuleError(
            "operator", f"{label} is a {field.kind}, which takes {', '.join(operators)}"
        )
    operator, value = Operator(document["operator"]), document["value"]
    if operator is Operator.IN:
        if not isinstance(value, list) or not 0 < len(value) <= MOST_VALUES:
            raise RuleError("value", f"{operator} takes a list of 1 to {MOST_VALUES} values")
        return Rule(field, key, operator, [_checked(field, item) for item in value], label)
    value = _checked(field, value)
    is_order = operator in (Operator.AT_LEAST, Operator.AT_MOST)
    if field.kind is Kind.VERSION and is_order and not version_order.is_ordered(str(value)):
        raise RuleError(
            "value", f"{label} {operator} takes a version with a number, as 7.10.50, not {value!r}"
        )
    if operator is Operator.MATCHES and str(value).count("*") > MOST_WILDCARDS:
        raise RuleError("value", f"a pattern has at most {MOST_WILDCARDS} wildcards")
    return Rule(field, key, operator, [value], label)


def _field(label: str) -> tuple[Field, str]:
    """Return a field and its key. Raises RuleError: there is none of this name."""
    for field in FIELDS:
        if not field.key and label == field.name:
            return field, ""
        if field.key and label.startswith(f"{field.name}."):
            key = label.removeprefix(f"{field.name}.")
            if field.kind is Kind.NUMBER and not _SIZE.fullmatch(key):
                raise RuleError("field", f"{label!r}: {field.key} is a number from 1 on")
            if field.kind is Kind.MEASURE and not is_name(key):
                raise RuleError("field", f"{label!r}: no step may measure a metric of this name")
            if key:
                return field, key
    labels = [field.label for field in FIELDS]
    nearest = get_close_matches(label[:64], labels, 1)
    hint = f"the nearest is {nearest[0]}" if nearest else f"there are {', '.join(labels)}"
    raise RuleError("field", f"there is no {label!r}; {hint}")


def _checked(field: Field, value: object) -> int | float | str:
    """Return a value of the field's kind. Raises RuleError."""
    if field.kind is Kind.MEASURE:
        measure = finite(value)
        if measure is None:
            raise RuleError("value", f"{field.label} is a number, as 512 or 97.5")
        return measure
    if field.kind is Kind.NUMBER:
        number = facts.number(value)
        if number is None:
            raise RuleError("value", f"{field.label} is a number: an integer from 0 to 2^53")
        return number
    if not isinstance(value, str) or facts.text(value) != value:
        raise RuleError(
            "value",
            f"{field.label} is a text of 1 to {facts.LONGEST} printable characters, in quotes",
        )
    return value


def _matches(fact: str, pattern: str) -> bool:
    """Whether a text has the parts of a pattern, in their order; in time linear in the text."""
    prefix, *further_parts = pattern.split("*")
    if not further_parts:
        return fact == pattern
    *middle_parts, suffix = further_parts
    position, end = len(prefix), len(fact) - len(suffix)
    if not (fact.startswith(prefix) and fact.endswith(suffix) and position <= end):
        return False
    for part in middle_parts:
        position = fact.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def _order(fact: Any, value: Any) -> float:
    """Return a number below, above or equal to 0; not a number, if the order is unknown."""
    if isinstance(fact, str):
        order = version_order.compare(fact, value)
        return math.nan if order is None else order
    return float(fact - value)


_TESTS: Mapping[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: lambda fact, value: fact == value,
    Operator.IN: lambda fact, value: fact == value,
    Operator.AT_LEAST: lambda fact, value: _order(fact, value) >= 0,
    Operator.AT_MOST: lambda fact, value: _order(fact, value) <= 0,
    Operator.MATCHES: _matches,
}
