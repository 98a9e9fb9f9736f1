"""
Inspection rules: if all conditions of a rule hold, its actions are done, one after the other.

A rule is {conditions: [{op, args, loop?, multiple?}], actions: [{op, args, loop?}], ...}. `!`
before the op of a condition inverts it. A loop does the same for each of its items, `{item}` in
the arguments; `multiple` says which answers count: any (the default), all, first or last.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drivers.core.errors import InspectionFailed
from drivers.inspection import interpolation
from drivers.inspection.actions import ACTIONS
from drivers.inspection.conditions import CONDITIONS
from drivers.inspection.operations import Operation
from drivers.inspection.subject import Subject

Rule = Mapping[str, Any]

PHASES = ("main",)
MULTIPLE: Mapping[str, Callable[[list[bool]], bool]] = {
    "any": any,
    "all": all,
    "first": lambda answers: answers[0],
    "last": lambda answers: answers[-1],
}
_KEYS = {"op", "args", "loop"}


def problems(rule: Rule) -> list[str]:
    """What is wrong with the conditions and actions of a rule, a sentence each."""
    wrong = []
    for kind, operations in (("conditions", CONDITIONS), ("actions", ACTIONS)):
        for number, each in enumerate(rule.get(kind) or ()):
            try:
                _check(kind, each, operations)
            except ValueError as error:
                wrong.append(f"{kind}/{number}: {error}")
    return wrong


def _check(kind: str, each: Any, operations: Mapping[str, Operation]) -> None:
    """Raises ValueError."""
    if not isinstance(each, Mapping) or not {"op", "args"} <= each.keys():
        raise ValueError("an object with op and args is expected")
    op = _plain(each["op"]) if kind == "conditions" else each["op"]
    if op not in operations:
        raise ValueError(f"op: {each['op']!r} is none of {', '.join(operations)}")
    operations[op].named(each["args"])
    if not isinstance(each.get("loop", []), list | dict):
        raise ValueError("loop: a list or an object is expected")
    allowed = _KEYS | ({"multiple"} if kind == "conditions" else set())
    strange = sorted(each.keys() - allowed)
    if strange:
        raise ValueError(f"{', '.join(strange)}: unknown; known are {', '.join(sorted(allowed))}")
    if each.get("multiple", "any") not in MULTIPLE:
        raise ValueError(f"multiple: {each['multiple']!r} is none of {', '.join(MULTIPLE)}")


def _plain(op: Any) -> Any:
    """An operator without the sign that inverts it."""
    return op.strip().removeprefix("!").strip() if isinstance(op, str) else op


def apply(rules: Iterable[Rule], subject: Subject, mask: str) -> None:
    """
    Apply rules in order. mask: hide secrets of inventory and plugin data from them: `always`,
    `never`, or, but from sensitive rules, `sensitive`. Raises InspectionFailed that names the rule.
    """
    for rule in rules:
        hides = mask == "always" or (mask == "sensitive" and not rule.get("sensitive"))
        try:
            if all(_holds(each, subject, hides) for each in rule.get("conditions") or ()):
                for action in rule["actions"]:
                    _act(action, subject, hides)
        except InspectionFailed as error:
            name = rule.get("description") or rule.get("uuid")
            raise InspectionFailed(f"inspection rule {name}: {error}") from error


def _context(subject: Subject, hides: bool) -> dict[str, Any]:
    show = interpolation.masked if hides else lambda document: document
    return {
        "node": subject.node | {"traits": subject.traits, "ports": subject.ports},
        "inventory": show(subject.inventory),
        "plugin_data": show(subject.plugin_data),
    }


def _items(loop: Any) -> Sequence[Any]:
    return loop if isinstance(loop, list) else [loop]


def _turns(each: Rule, subject: Subject, hides: bool) -> Iterator[dict[str, Any]]:
    """The context of each turn of a loop; of the only one where there is none."""
    loop = each.get("loop")
    if not loop:
        yield _context(subject, hides)
        return
    for item in _items(loop):
        context = _context(subject, hides)
        yield context | {"item": interpolation.filled(item, context)}


def _holds(condition: Rule, subject: Subject, hides: bool) -> bool:
    op = condition["op"].strip()
    operation = CONDITIONS[_plain(op)]
    args = operation.named(condition["args"])
    answers = []
    for context in _turns(condition, subject, hides):
        given = {name: _filled(op, value, context) for name, value in args.items()}
        answers.append(bool(operation.run(**given)) is not op.startswith("!"))
    return MULTIPLE[condition.get("multiple", "any")](answers)


def _filled(op: str, value: Any, context: Mapping[str, Any]) -> Any:
    """What is missing is empty, for those who ask just that."""
    if _plain(op) in ("is-empty", "is-none") and isinstance(value, str):
        try:
            return interpolation.text(value, context)
        except interpolation.Missing:
            return None
    return interpolation.filled(value, context)


def _act(action: Rule, subject: Subject, hides: bool) -> None:
    operation = ACTIONS[action["op"]]
    args = operation.named(action["args"])
    for context in _turns(action, subject, hides):
        operation.run(subject, **interpolation.filled(args, context))


def read(path: str) -> list[dict[str, Any]]:
    """
    The rules in a YAML file, a list of them; those without a UUID get one by their place.

    Raises ValueError that names the file, the rule and what is wrong.
    """
    import yaml  # only who has such a file needs it

    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(found, list):
        raise ValueError(f"{path}: a list of rules is expected")
    rules = []
    for number, rule in enumerate(found):
        if not isinstance(rule, dict) or not rule.get("actions"):
            raise ValueError(f"{path}: rule {number}: an object with actions is expected")
        whole = {"uuid": f"00000000-0000-0000-0000-{number:012x}", "priority": 0} | rule
        wrong = problems(whole)
        if not isinstance(whole["priority"], int):
            wrong.append(f"priority: {whole['priority']!r} is no whole number")
        if whole.get("phase", "main") not in PHASES:
            wrong.append(f"phase: {whole['phase']!r} is none of {', '.join(PHASES)}")
        if wrong:
            raise ValueError(f"{path}: rule {number}: {'; '.join(wrong)}")
        rules.append(whole)
    return rules
