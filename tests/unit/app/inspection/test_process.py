"""Findings of an inspection step, from the data that its driver has reported."""

import pytest

from app.inspection.process import INPUT, process
from drivers.core.target import Inspected, Material
from tests.unit.drivers.machines import target

PORT = {"uuid": "u", "address": "52:54:00:00:00:01", "bound": False, "extra": {}}


@pytest.fixture
def node():
    rules = [
        {"uuid": "r", "actions": [{"op": "set-attribute", "args": ["description", "inspected"]}]}
    ]
    return target(material=Material(node={"properties": {"memory_mb": 1}}, rules=rules))


def test_hooks_and_rules_run_on_the_data_of_the_driver(node):
    inventory = {"memory": {"physical_mb": 4096}}
    node.report(inspected=Inspected(inventory, {"root_disk": {}}, ["memory"]))
    process(node)
    findings = node.reports["findings"]
    assert {"properties": {"memory_mb": 4096}, "description": "inspected"} == findings.node
    assert (inventory, {"root_disk": {}}) == (findings.inventory, findings.plugin_data)
    assert not INPUT & node.reports.keys()


def test_addresses_become_ports_and_no_inventory(node):
    node.report(addresses=[PORT["address"]])
    process(node)
    findings = node.reports["findings"]
    assert [PORT["address"]] == [port["address"] for port in findings.ports]
    assert ({}, None, None) == (findings.node, findings.traits, findings.inventory)


def test_a_step_without_data_has_no_findings(node):
    process(node)
    assert {} == node.reports
