"""Nodes with a simulated BMC, and what it was ordered."""

import time
from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.registry import load
from drivers.core.steps import Wait
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import OPTIONS, target


@pytest.fixture(scope="module")
def fleet():
    with running(machines=2, power_off_seconds=0.05) as simulator:
        yield simulator


@pytest.fixture
def machine(fleet):
    """A machine with the same settings and firmware for each test."""
    machine = fleet.machines[0]
    bios, firmware = dict(machine.bios), dict(machine.firmware)
    yield machine
    machine.settle()
    machine.bios, machine.firmware, machine.boot_uri = bios, firmware, ""


@pytest.fixture
def node(fleet, machine):
    options = {**OPTIONS["redfish"], "firmware_update_overall_timeout": 60}
    return target(
        "redfish",
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100)),
        uuid=machine.uuid,
        driver_info=machine.driver_info() | {"deploy_iso": fleet.medium("http://127.0.0.1:1")},
        options={**OPTIONS, "redfish": options},
    )


@pytest.fixture
def management(node):
    return node.driver.management


def orders(machine):
    return [entry["what"] for entry in machine.log if entry["kind"] == "redfish"]


def finish(node, kind, step, **args):
    """Call a step until it ends; return its outcome and its reports."""
    node = replace(node, reports={})
    for _ in range(200):
        outcome = node.driver.by_kind[kind].run(node, step, args)
        if not isinstance(outcome, Wait):
            return outcome, node.reports
        time.sleep(0.02)
        node = replace(node, progress=outcome.progress, reports={})
    raise AssertionError(f"no end: {outcome}")
