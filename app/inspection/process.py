"""Processing of an inventory: hooks first, then rules, on a copy of the node."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.inspection import hooks, rules
from app.inspection.subject import Subject, findings
from drivers.core.target import Target


def process(
    target: Target,
    names: Iterable[str],
    inventory: Mapping[str, Any],
    plugin_data: Mapping[str, Any],
    *,
    partial: bool = False,
) -> None:
    """
    Run hooks and rules, and report the findings.

    names: of the hooks. partial: see `Subject`.

    Raises InspectionFailed.
    """
    subject = Subject.of(target.material, inventory, plugin_data, target.options, partial=partial)
    hooks.run(names, subject, target.options)
    rules.apply(target.material.rules, subject, target.options["inspection_rules"]["mask_secrets"])
    target.report(findings=findings(target.material, subject))
