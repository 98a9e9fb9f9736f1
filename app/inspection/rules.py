"""
Inspection rules: if all conditions of a rule hold, its actions run in order.

A rule is {conditions: [{op, args, loop?, multiple?}], actions: [{op, args, loop?}], ...}. `!`
before the op of a condition inverts it. A loop evaluates the entry for each of its items, as
`{item}` in the arguments; `multiple` combines the results: any (default), all, first or last.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.inspection import interpolation
from app.inspection.actions import ACTIONS
from app.inspection.conditions import CONDITIONS
from app.inspection.operators import Operation
from app.inspection.subject import Subject
from drivers.core.errors import InspectionFailed

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
    """Return the errors in the conditions and actions of a rule, one sentence each."""
    problem_texts = []
    for kind, operations in (("conditions", CONDITIONS), ("actions", ACTIONS)):
        for number, item in enumerate(rule.get(kind) or ()):
            try:
                _check(kind, item, operations)
            except ValueError as error:
                problem_texts.append(f"{kind}/{number}: {error}")
    return problem_texts


def _check(kind: str, item: object, operations: Mapping[str, Operation]) -> None:
    """Check a condition or an action. Raises ValueError."""
    if not isinstance(item, Mapping) or not {"op", "args"} <= item.keys():
        raise ValueError("an object with op and args is expected")
    op = _without_inversion(item["op"]) if kind == "conditions" else item["op"]
    if op not in operations:
        raise ValueError(f"op: {item['op']!r} is none of {', '.join(operations)}")
    operations[op].named(item["args"])
    if not isinstance(item.get("loop", []), list | dict):
        raise ValueError("loop: a list or an object is expected")
    allowed_keys = _KEYS | ({"multiple"} if kind == "conditions" else set())
    unknown_keys = sorted(item.keys() - allowed_keys)
    if unknown_keys:
        raise ValueError(
            f"{', '.join(unknown_keys)}: unknown; known are {', '.join(sorted(allowed_keys))}"
        )
    if item.get("multiple", "any") not in MULTIPLE:
        raise ValueError(f"multiple: {item['multiple']!r} is none of {', '.join(MULTIPLE)}")


def _without_inversion(op: object) -> Any:
    return op.strip().removeprefix("!").strip() if isinstance(op, str) else op


def apply(rules: Iterable[Rule], subject: Subject, mask: str) -> None:
    """
    Apply rules in order.

    mask: `always`, `never` or `sensitive`: whether secrets in inventory and plugin data are masked.
    With `sensitive`, only rules marked as sensitive see them.

    Raises InspectionFailed: an action failed; names the rule.
    """
    for rule in rules:
        masks = mask == "always" or (mask == "sensitive" and not rule.get("sensitive"))
        try:
            if all(_holds(condition, subject, masks) for condition in rule.get("conditions") or ()):
                for action in rule["actions"]:
                    _run_action(action, subject, masks)
        except InspectionFailed as error:
            name = rule.get("description") or rule.get("uuid")
            raise InspectionFailed(f"inspection rule {name}: {error}") from error


def _context(subject: Subject, masks: bool) -> dict[str, Any]:
    show = interpolation.masked if masks else lambda document: document
    return {
        "node": subject.node | {"traits": subject.traits, "ports": subject.ports},
        "inventory": show(subject.inventory),
        "plugin_data": show(subject.plugin_data),
    }


def _items(loop: object) -> Sequence[Any]:
    return loop if isinstance(loop, list) else [loop]


def _contexts(action: Rule, subject: Subject, masks: bool) -> Iterator[dict[str, Any]]:
    """Yield the context of each item of a loop, or one context without a loop."""
    loop = action.get("loop")
    if not loop:
        yield _context(subject, masks)
        return
    for item in _items(loop):
        context = _context(subject, masks)
        yield context | {"item": interpolation.interpolate(item, context)}


def _holds(condition: Rule, subject: Subject, masks: bool) -> bool:
    op = condition["op"].strip()
    operation = CONDITIONS[_without_inversion(op)]
    args = operation.named(condition["args"])
    answers = []
    for context in _contexts(condition, subject, masks):
        arguments = {name: _argument(op, value, context) for name, value in args.items()}
        answers.append(bool(operation.run(**arguments)) is not op.startswith("!"))
    return MULTIPLE[condition.get("multiple", "any")](answers)


def _argument(op: str, value: object, context: Mapping[str, Any]) -> Any:
    """Return an argument; a missing value is None for operators that test for it."""
    if _without_inversion(op) in ("is-empty", "is-none") and isinstance(value, str):
        try:
            return interpolation.text(value, context)
        except interpolation.MissingValue:
            return None
    return interpolation.interpolate(value, context)


def _run_action(action: Rule, subject: Subject, masks: bool) -> None:
    operation = ACTIONS[action["op"]]
    args = operation.named(action["args"])
    for context in _contexts(action, subject, masks):
        operation.run(subject, **interpolation.interpolate(args, context))


def read(path: str) -> list[dict[str, Any]]:
    """
    Read a list of rules from a YAML file. Rules without a UUID get one by position.

    Raises ValueError: names the file, the rule and the error.
    """
    import yaml  # needed only with such a file

    try:
        rule_documents = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(rule_documents, list):
        raise ValueError(f"{path}: a list of rules is expected")
    rules = []
    for number, rule in enumerate(rule_documents):
        if not isinstance(rule, dict) or not rule.get("actions"):
            raise ValueError(f"{path}: rule {number}: an object with actions is expected")
        complete_rule = {"uuid": f"00000000-0000-0000-0000-{number:012x}", "priority": 0} | rule
        rule_problems = problems(complete_rule)
        if not isinstance(complete_rule["priority"], int):
            rule_problems.append(f"priority: {complete_rule['priority']!r} is not a whole number")
        if complete_rule.get("phase", "main") not in PHASES:
            rule_problems.append(
                f"phase: {complete_rule['phase']!r} is none of {', '.join(PHASES)}"
            )
        if rule_problems:
            raise ValueError(f"{path}: rule {number}: {'; '.join(rule_problems)}")
        rules.append(complete_rule)
    return rules
