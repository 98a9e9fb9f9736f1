"""
Making use of what was found: hooks first, then rules, all on a copy that the target reports.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from drivers.core.target import Target
from drivers.inspection import hooks, rules
from drivers.inspection.subject import Subject, findings


def process(
    target: Target,
    names: Iterable[str],
    inventory: Mapping[str, Any],
    plugin_data: Mapping[str, Any],
) -> None:
    """Run the hooks of these names, and the rules of the target. Raises InspectionFailed."""
    subject = Subject.of(target.material, inventory, plugin_data)
    hooks.run(names, subject, target.options)
    rules.apply(target.material.rules, subject, target.options["inspection_rules"]["mask_secrets"])
    target.report(findings=findings(target.material, subject))
