"""The BMC's clock and its Secure Boot keys, over HTTP to a simulated BMC: accepted is not applied."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.errors import BadArgument, NotSupported, Unexpected
from drivers.core.registry import load
from drivers.core.steps import Done, Failed, Flow, Wait
from drivers.redfish import clock
from drivers.redfish.changes import restart
from drivers.simulator.orders import ORDERS
from drivers.simulator.redfish import DOCUMENTS, DONE
from drivers.simulator.redfish_bmc import system
from drivers.simulator.redfish_bmc.documents import MANAGER, SYSTEM
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import OPTIONS, target

KEYS = f"{SYSTEM}/SecureBoot"


@pytest.fixture
def machine(fleet):
    return fleet.machines[0]


@pytest.fixture
def fleet():
    with running(machines=1, power_off_seconds=0.05) as simulator:
        yield simulator


@pytest.fixture
def node(fleet, machine):
    return target(
        "redfish",
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100)),
        uuid=machine.uuid,
        driver_info=machine.driver_info() | {"deploy_iso": fleet.medium("http://127.0.0.1:1")},
        options={**OPTIONS, "redfish": dict(OPTIONS["redfish"])},
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(restart, "POLL_INTERVAL", 0.01)


def finish(node, step, **args):
    """Call a step until it ends, without its pauses; return its outcome."""
    for _ in range(200):
        outcome = node.driver.management.run(node, step, args)
        if not isinstance(outcome, Wait):
            return outcome
        time.sleep(0.02)
        node = replace(node, progress=outcome.progress, reports={})
    raise AssertionError(f"no end: {outcome}")


def orders(machine):
    return [entry["what"].split()[0] for entry in machine.log if entry["kind"] == "redfish"]


def shown(machine):
    return datetime.now(UTC) + timedelta(seconds=machine.clock_ahead)


def test_the_clock_is_set_to_the_conductors_time(node, machine):
    machine.clock_ahead = -86400.0
    assert isinstance(finish(node, "set_bmc_clock"), Done)
    assert abs(machine.clock_ahead) < 3
    assert ["clock"] == orders(machine)


@pytest.mark.parametrize(
    "moment", ["2030-01-31T12:00:00+00:00", "2030-01-31T14:00:00+02:00", "2030-01-31T12:00:00Z"]
)
def test_the_clock_is_set_to_a_time_with_any_offset(node, machine, moment):
    assert isinstance(finish(node, "set_bmc_clock", target_datetime=moment), Done)
    assert abs((shown(machine) - datetime(2030, 1, 31, 12, tzinfo=UTC)).total_seconds()) < 5


def test_the_local_offset_is_set_and_compared(node, machine):
    assert isinstance(finish(node, "set_bmc_clock", datetime_local_offset="+02:00"), Done)
    assert "+02:00" == machine.clock_offset


@pytest.mark.parametrize("moment", ["2030-01-31T12:00:00", "tomorrow", ""])
def test_a_time_without_offset_is_refused_and_nothing_is_sent(node, machine, moment):
    with pytest.raises(BadArgument, match=r"management\.set_bmc_clock: target_datetime"):
        finish(node, "set_bmc_clock", target_datetime=moment)
    assert [] == orders(machine)


@pytest.mark.parametrize("step", ["set_bmc_clock", "verify_bmc_clock"])
def test_a_time_that_the_bmc_accepts_and_does_not_show_fails_the_step(
    node, machine, monkeypatch, step
):
    machine.clock_ahead = 7200.0
    monkeypatch.setitem(ORDERS, ("PATCH", MANAGER), lambda _bmc, _body: DONE)
    outcome = finish(node, step)
    assert isinstance(outcome, Failed)
    assert "accepted a time that it does not show" in outcome.reason
    assert "7200 s" in outcome.reason or "7199 s" in outcome.reason


@pytest.mark.parametrize("wrong", [8.0, -8.0])
@pytest.mark.parametrize("step", ["set_bmc_clock", "verify_bmc_clock"])
def test_a_clock_that_runs_beside_the_time_it_was_set_to_fails_the_step(
    node, machine, monkeypatch, step, wrong
):
    machine.clock_ahead = 7200.0

    def accept(power, _body):
        power.machine.clock_ahead = wrong
        return DONE

    monkeypatch.setitem(ORDERS, ("PATCH", MANAGER), accept)
    assert isinstance(finish(node, step), Failed)


@pytest.mark.parametrize(
    ("shift", "difference"), [(0, 0.0), (-60, -60.0), (60, 60.0), (-1.5, -1.0)]
)
def test_a_clock_of_whole_seconds_is_right_within_its_second(shift, difference):
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=shift)
    manager = SimpleNamespace(datetime=moment.replace(microsecond=0).isoformat(), path="manager")
    assert abs(clock._difference(manager, 0.0) - difference) <= 1.0
    if shift == 0:
        assert abs(clock._difference(manager, 0.0)) < 0.2


def test_a_time_that_takes_effect_late_is_waited_for_and_ordered_once(node, machine, monkeypatch):
    machine.clock_ahead = 7200.0
    received = []
    monkeypatch.setitem(
        ORDERS, ("PATCH", MANAGER), lambda _bmc, body: received.append(body) or DONE
    )
    management = node.driver.management
    first_outcome = management.run(node, "set_bmc_clock", {})
    assert isinstance(first_outcome, Wait)
    second_outcome = management.run(
        replace(node, progress=first_outcome.progress), "set_bmc_clock", {}
    )
    assert isinstance(second_outcome, Wait)
    machine.clock_ahead = 0.0
    last_outcome = management.run(
        replace(node, progress=second_outcome.progress), "set_bmc_clock", {}
    )
    assert isinstance(last_outcome, Done)
    assert 1 == len(received)


@pytest.mark.parametrize(
    ("ahead", "arguments", "actions"),
    [
        (0.0, {}, []),
        (2.5, {}, ["clock"]),
        (-3.0, {}, ["clock"]),
        (2.5, {"tolerance": 10}, []),
        (-20.0, {"tolerance": 10}, ["clock"]),
    ],
)
def test_a_clock_is_set_only_beyond_the_tolerance(node, machine, ahead, arguments, actions):
    machine.clock_ahead = ahead
    assert isinstance(finish(node, "verify_bmc_clock", **arguments), Done)
    assert actions == orders(machine)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, NotSupported),
        ("", Unexpected),
        ("soon", Unexpected),
        ("2026-01-31T12:00:00", Unexpected),
        (7, Unexpected),
    ],
)
def test_a_bmc_without_a_readable_clock_is_sent_nothing(node, machine, monkeypatch, value, error):
    document = DOCUMENTS[MANAGER]
    changed = lambda machine: {**document(machine), "DateTime": value}  # noqa: E731
    monkeypatch.setitem(DOCUMENTS, MANAGER, changed)
    with pytest.raises(error):
        finish(node, "verify_bmc_clock")
    assert [] == orders(machine)


@pytest.mark.parametrize("enabled", [False, True])
def test_a_verification_compares_the_clock_only_if_the_setting_asks(node, enabled):
    node.options["redfish"]["enable_verify_bmc_clock"] = enabled
    steps = [step.name for step in node.driver.management.get_steps(node, Flow.VERIFY)]
    assert enabled == ("verify_bmc_clock" in steps)
    cleaning = [step.name for step in node.driver.management.get_steps(node, Flow.CLEAN)]
    assert {"verify_bmc_clock", "set_bmc_clock"} <= set(cleaning)


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        ("clear_secure_boot_keys", "UserMode", "SetupMode"),
        ("clear_secure_boot_keys", "SetupMode", "SetupMode"),
        ("reset_secure_boot_keys_to_default", "SetupMode", "UserMode"),
        ("reset_secure_boot_keys_to_default", "UserMode", "UserMode"),
    ],
)
def test_keys_are_reset_and_the_mode_shows_it(node, machine, step, before, after):
    machine.secure_boot_mode, boots = before, machine.boots
    assert isinstance(finish(node, step), Done)
    assert after == machine.secure_boot_mode
    assert 1 == orders(machine).count("reset")
    # a mode that does not change proves nothing until a start
    assert (before == after) == (machine.boots > boots)


def test_keys_that_stay_after_a_restart_are_waited_for(node, machine, monkeypatch):
    path = f"{KEYS}/Actions/SecureBoot.ResetKeys"
    monkeypatch.setitem(ORDERS, ("POST", path), lambda _bmc, _body: DONE)
    waiting = node
    for _ in range(60):
        outcome = node.driver.management.run(waiting, "clear_secure_boot_keys", {})
        assert isinstance(outcome, Wait)
        waiting = replace(waiting, progress=outcome.progress, reports={})
        time.sleep(0.01)
    assert outcome.progress["restarted"]


@pytest.mark.parametrize(
    ("step", "mode"),
    [("clear_secure_boot_keys", "UserMode"), ("reset_secure_boot_keys_to_default", "SetupMode")],
)
def test_a_reset_that_takes_effect_at_a_start_gets_one(node, machine, monkeypatch, step, mode):
    machine.secure_boot_mode = mode
    desired = "SetupMode" if mode == "UserMode" else "UserMode"
    boots = machine.boots

    def accept(power, body):
        power.machine.record("redfish", "reset keys", body["ResetKeysType"])
        return DONE

    monkeypatch.setitem(ORDERS, ("POST", f"{KEYS}/Actions/SecureBoot.ResetKeys"), accept)
    waiting = replace(node)
    for _ in range(100):
        outcome = node.driver.management.run(waiting, step, {})
        if machine.boots > boots:
            machine.secure_boot_mode = desired
        if isinstance(outcome, Done):
            break
        waiting = replace(waiting, progress=outcome.progress, reports={})
        time.sleep(0.02)
    assert isinstance(outcome, Done)
    assert machine.boots > boots
    assert 1 == orders(machine).count("reset")


def test_a_bmc_that_does_not_show_the_result_is_sent_nothing(node, machine, monkeypatch):
    document = system.SYSTEM_DOCUMENTS[KEYS]
    monkeypatch.setitem(
        DOCUMENTS, KEYS, lambda machine: {**document(machine), "SecureBootMode": None}
    )
    with pytest.raises(NotSupported, match="no SecureBootMode"):
        finish(node, "clear_secure_boot_keys")
    assert [] == orders(machine)


def test_a_reset_that_the_bmc_does_not_offer_is_named(node, machine, monkeypatch):
    document = system.SYSTEM_DOCUMENTS[KEYS]

    def limited(machine):
        resource = document(machine)
        resource["Actions"]["#SecureBoot.ResetKeys"]["ResetKeysType@Redfish.AllowableValues"] = [
            "ResetAllKeysToDefault"
        ]
        return resource

    monkeypatch.setitem(DOCUMENTS, KEYS, limited)
    with pytest.raises(NotSupported, match="does not offer DeleteAllKeys, but ResetAllKeysToDef"):
        finish(node, "clear_secure_boot_keys")
    assert [] == orders(machine)
