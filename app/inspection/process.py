"""
Findings of an inspection step, from the data that its driver has reported.
"""

from dataclasses import replace

from app.inspection import hooks, rules
from app.inspection.subject import Findings, Subject, findings
from drivers.core.target import Inspected, Material, Target

#: Reports of drivers that `process` turns into findings.
INPUT = frozenset({"addresses", "inspected"})


def process(target: Target) -> None:
    """
    Replace the reports in `INPUT` by `findings`; nothing for steps without such a report.

    Raises InspectionFailed: a hook or a rule refuses the machine.
    """
    reports = target.reports
    if "addresses" in reports:
        reports["findings"] = _with_ports(target.material, reports.pop("addresses"))
    if "inspected" in reports:
        reports["findings"] = _of_data(target, reports.pop("inspected"))


def _with_ports(material: Material, addresses: list[str]) -> Findings:
    """Return the findings of new ports alone."""
    subject = Subject.of(material, {}, {})
    for address in addresses:
        subject.add_port(address)
    return replace(findings(material, subject), inventory=None)


def _of_data(target: Target, data: Inspected) -> Findings:
    """Run the hooks, then the rules, on a copy of the node."""
    material, options = target.material, target.options
    subject = Subject.of(material, data.inventory, data.plugin_data, options, partial=data.partial)
    hooks.run(data.hooks, subject, options)
    rules.apply(material.rules, subject, options["inspection_rules"]["mask_secrets"])
    return findings(material, subject)
