"""Firmware updates and changes in a flow with an agent, over HTTP to a simulated BMC."""

import time
from dataclasses import replace

import pytest

from drivers.core.errors import InvalidDriverInfo, Unexpected
from drivers.core.steps import Done, Wait

from .conftest import finish, orders


def test_firmware_updates_run_one_after_the_other(node, machine):
    _, reports = finish(node, "firmware", "cache_firmware_components")
    assert {"bios": "1.0.0", "bmc": "2.10"} == {
        component["component"]: component["current_version"] for component in reports["firmware"]
    }
    updates = [
        {"component": "bmc", "url": "http://images/2.20.bin"},
        {"component": "bios", "url": "http://images/1.1.0.bin"},
    ]
    outcome, reports = finish(node, "firmware", "update", settings=updates)
    assert Done({"versions": {"bios": "1.1.0", "bmc": "2.20"}}) == outcome
    assert {"bios": "1.1.0", "bmc": "2.20"} == {
        component["component"]: component["last_version_flashed"]
        for component in reports["firmware"]
    }
    assert 2 == orders(machine).count("update firmware")


BMC_UPDATE = [{"component": "bmc", "url": "http://images/2.30.bin"}]


def test_an_updated_bmc_is_ready_after_three_consecutive_answers(node, monkeypatch):
    firmware, outcome, looks, read = node.driver.firmware, None, [], node.driver.firmware._read
    answers = iter([True, True, False, True, True, True])

    def scripted(target, flashed=()):
        looks.append("end" if flashed else next(answers))
        if not looks[-1]:
            raise Unexpected("it has not got all of its resources yet")
        return read(target, flashed)

    monkeypatch.setattr(firmware, "_read", scripted)
    outcome, _ = finish(node, "firmware", "update", settings=BMC_UPDATE)
    assert isinstance(outcome, Done)
    assert [True, True, False, True, True, True, "end"] == looks


ACCEPTED = {
    "request": {"method": "POST", "path": "/s", "body": {}, "etag": None},
    "facts": {"version": "2.10", "systems": 1}, "tasks": [], "paths": ["/t"], "crashes": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        ({"record": ACCEPTED, "follow": {"silent": 59}}, None),
        (
            {"record": ACCEPTED, "follow": {"silent": 60}},
            "the update of bmc was ordered, not confirmed: the BMC cannot be read since then",
        ),
        ({"number": 1, "ends": [{}], "good": 2, "polls": 14}, None),
        (
            {"number": 1, "ends": [{}], "good": 2, "polls": 16},
            "the BMC does not answer correctly since",
        ),
    ],
)
def test_a_bmc_that_does_not_return_from_its_update_fails_the_step(fleet, node, progress, reason):
    """At 5 seconds a poll for 300 seconds, and 30 seconds for 480 seconds."""
    fleet.set_faults(0, bmc_dead=True)
    try:
        outcome = node.driver.firmware.update(replace(node, progress=progress), BMC_UPDATE)
    finally:
        fleet.set_faults(0, bmc_dead=None)
    if reason:
        assert outcome.reason.startswith(reason)
    elif "good" in progress:
        assert {**progress, "good": 0, "polls": 15}.items() <= outcome.progress.items()
        assert (30, 60) == (outcome.poll_after, outcome.timeout)
        assert "did not answer" in outcome.reason
    else:
        assert (5, 60, 60) == (
            outcome.poll_after, outcome.timeout, outcome.progress["follow"]["silent"],
        )  # fmt: skip


@pytest.mark.parametrize(
    "setting",
    [
        {"component": "gpu", "url": "http://a/b"},
        {"component": "bmc", "url": "b"},
        {"component": "bmc", "url": "http://a/b", "version": 2},
        {"component": "bmc", "url": "http://a/b", "target": ""},
        {"component": "bmc", "url": "http://a/b", "wait": "long"},
        {"component": "bmc", "url": "http://a/b", "checksum": "x"},
    ],
)
def test_a_wrong_firmware_update_is_refused_at_once(node, setting):
    with pytest.raises(InvalidDriverInfo, match="settings"):
        finish(node, "firmware", "update", settings=[setting])


def test_a_change_in_a_flow_with_an_agent_boots_it_again_and_waits_for_it(node, machine):
    agent = replace(node.agent, url="http://agent")
    settings = [{"name": "NumLock", "value": "Off"}]
    step = node.driver.bios.apply_configuration
    node, forgotten = replace(node, agent=agent), False
    for _ in range(100):
        outcome = step(node, settings)
        forgotten = forgotten or "agent" in node.reports
        if outcome.progress.get("change", {}).get("restarted") and machine.bios["NumLock"] == "Off":
            break
        time.sleep(0.02)
        reported_agent = replace(agent, url=None) if forgotten else agent
        node = replace(node, progress=outcome.progress, agent=reported_agent, reports={})
    assert machine.media["Cd"]
    assert forgotten
    silent_node = replace(node, progress=outcome.progress, agent=replace(agent, url=None))
    assert isinstance(step(silent_node, settings), Wait)
    assert Done() == step(replace(silent_node, agent=agent), settings)
