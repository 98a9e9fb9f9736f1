"""Alert rules and dashboard: their metrics exist, each alert has a runbook."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from app.metrics.kinds import Gauge
from app.metrics.table import METRICS
from tests.support import debian
from tests.support.prerequisites import not_run

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "compose/prometheus/alerts.yml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((ROOT / "compose/grafana/ingot.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
#: Labels that Prometheus adds.
ADDED = {"le", "job", "instance"}


def expressions():
    return [rule["expr"] for rule in RULES] + [
        target["expr"] for panel in PANELS for target in panel["targets"]
    ]


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_of_an_expression_is_declared(expression):
    bare = re.sub(r'"[^"]*"', "", expression)
    names = set(re.findall(r"ingot_\w+", bare))
    used = [metric for metric in METRICS if names & set(metric.series)]
    assert set() == names - {name for metric in used for name in metric.series}
    labels = {label for metric in used for label in metric.labels} | ADDED
    selected = re.findall(r"[{,]\s*(\w+)\s*(?:=|!=|=~|!~)", bare)
    grouped = [
        word.strip() for group in re.findall(r"by \(([^)]*)\)", bare) for word in group.split(",")
    ]
    assert set() == {*selected, *grouped} - labels


def test_the_dashboard_shows_every_metric():
    queries = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    assert [] == [m.name for m in METRICS if not any(name in queries for name in m.series)]


def test_gauges_are_not_summed_over_exporters():
    """Each beat's exporter has them: a sum would count them twice."""
    gauges = [metric.name for metric in METRICS if isinstance(metric, Gauge)]
    for expression in expressions():
        for name in set(re.findall(r"ingot_\w+", expression)) & set(gauges):
            assert re.search(rf"max (by \([^)]*\) )?\({name}|max\({name}", expression), expression


def test_the_queries_of_a_panel_have_different_names_and_no_panels_overlap():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    for panel in PANELS:
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_runbook_a_severity_and_a_summary(rule):
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    text = (ROOT / page).read_text()
    assert anchor == rule["alert"].lower()
    assert re.search(rf"^### {rule['alert']}\n\n\S", text, re.MULTILINE)
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"]


def test_every_runbook_has_its_alert():
    _, _, alerts = (ROOT / "docs/metrics.md").read_text().partition("## Alerts\n")
    names = re.findall(r"^### (\w+)", alerts, re.MULTILINE)
    assert sorted(names) == sorted(rule["alert"] for rule in RULES)


def test_promtool_accepts_rules_and_configuration():
    promtool = debian.provide(lambda: shutil.which("promtool"), "prometheus")
    if promtool is None:
        not_run("promtool is missing")
    for arguments in (
        ["check", "rules", ALERTS],
        ["check", "config", ALERTS.parent / "prometheus.yml"],
    ):
        process = subprocess.run(
            [promtool, *arguments], check=False, capture_output=True, text=True
        )
        assert 0 == process.returncode, process.stdout + process.stderr
