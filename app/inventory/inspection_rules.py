"""
Inspection rules: those created through the API, and the built-in ones of a file.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.errors import Invalid
from app.inspection import rules as engine
from app.models import InspectionRule
from app.rows import row_changes
from app.runtime import runtime_of


def create(session: Session, fields: Mapping[str, Any]) -> InspectionRule:
    """
    Create a rule. `fields` have the API's names, and were validated against its schema.

    Raises Invalid, AlreadyExists.
    """
    rule = row_changes.make(InspectionRule, fields)
    _check(rule)
    return row_changes.add(session, rule)


def change(session: Session, rule: InspectionRule, values: Mapping[str, Any]) -> None:
    """
    Update a rule, whose row is locked.

    Raises Invalid: a value is wrong, or would make a sensitive rule readable.
    """
    if rule.sensitive and not values.get("sensitive", True):
        raise Invalid("sensitive: cannot be unset once it is set")
    row_changes.change(session, rule, values)
    _check(rule)


def remove_all(session: Session) -> None:
    """Delete all rules but the built-in ones."""
    session.execute(delete(InspectionRule))


def in_order(session: Session, phase: str = "main") -> list[dict[str, object]]:
    """
    Return the rules of a phase in the order of execution: by decreasing priority, then by age.

    Raises ValueError: the file of built-in rules has become invalid since the start.
    """
    query = select(InspectionRule).where(InspectionRule.phase == phase).order_by(InspectionRule.id)
    names = ("uuid", "description", "priority", "sensitive", "conditions", "actions")
    rules = [{name: getattr(rule, name) for name in names} for rule in session.scalars(query)]
    path = runtime_of(session).settings.inspection_rules.built_in_rules
    if path:
        rules += [rule for rule in engine.read(path) if rule.get("phase", "main") == phase]
    return sorted(rules, key=lambda rule: -rule["priority"])


def _check(rule: InspectionRule) -> None:
    errors = engine.problems({"conditions": rule.conditions, "actions": rule.actions})
    if not rule.actions:
        errors.append("actions: at least one is expected")
    if errors:
        raise Invalid("; ".join(errors))
