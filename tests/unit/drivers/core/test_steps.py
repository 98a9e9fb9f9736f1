"""Steps composed of parts: the part that resumes, and the record before each part."""

from collections import Counter
from dataclasses import replace

import pytest

from drivers.core import reserved
from drivers.core.steps import AWAITED, Done, Failed, Flow, Hold, Wait
from drivers.core.target import Agent, run_parts
from drivers.redfish.changes.restart import through_restart
from tests.unit.drivers.machines import OPTIONS, target

PARTS = ("boot", "power", "agent")


class Machine:
    """A machine that needs `looks` polls for each part, and records its commands."""

    def __init__(self, looks):
        self.looks, self.orders = looks, Counter()

    def part(self, name):
        def method(target):
            looks = target.progress.get("looks", 0)
            if not looks and name not in self.orders:  # a part reads before it acts
                self.orders[name] += 1
            return Wait({"looks": looks + 1}, 1, 60) if looks < self.looks else None

        return method

    def step(self, node):
        return run_parts(node, {name: self.part(name) for name in PARTS})


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_a_step_resumed_from_any_recorded_progress_sends_each_command_once(looks):
    """At each progress, the conductor crashes after the call; another one repeats it."""
    machine, node, recorded = Machine(looks), target(), []
    for _ in range(20):
        machine.step(node)
        outcome = machine.step(replace(node, resumed=True))
        if not isinstance(outcome, Wait):
            break
        recorded.append(outcome.progress)
        assert (1, 60) == (outcome.poll_after, outcome.timeout)
        node = replace(node, progress=outcome.progress)
    assert Done() == outcome
    assert dict.fromkeys(PARTS, 1) == machine.orders
    assert [{name: {"looks": n}} for name in PARTS for n in range(1, looks + 1)] == recorded


def test_a_completed_part_is_not_called_again():
    called = []
    parts = {
        "old": lambda _: called.append("old"),
        "new": lambda part: Done() if part.progress else Wait({"asked": True}, 1),
    }
    waiting = run_parts(target(progress={"own": 1}), parts)
    assert Wait({"own": 1, "new": {"asked": True}}, 1) == waiting
    assert Done() == run_parts(target(progress=waiting.progress), parts)
    assert ["old"] == called


def test_a_progress_that_a_part_keeps_resumes_the_step_at_this_part():
    kept_progresses = []
    node = target(
        progress={"own": 1, "old": {"looks": 1}, AWAITED: "the order"},
        keep_progress=kept_progresses.append,
    )

    def outer(part):
        return run_parts(part, {"inner": lambda inner: inner.keep_progress({"sending": True})})

    run_parts(node, {"old": lambda _: Done(), "outer": outer})
    assert [{"own": 1, "outer": {"inner": {"sending": True}}}] == kept_progresses


def test_a_step_ends_with_its_last_part_or_the_first_failure():
    failed = Failed("the BMC refused")
    assert Done({"b": 2}) == run_parts(
        target(), {"a": lambda _: Done({"a": 1}), "b": lambda _: Done({"b": 2})}
    )
    assert failed == run_parts(target(), {"a": lambda _: failed, "b": pytest.fail})
    assert Done() == run_parts(target(), {})


def test_a_held_part_resumes_with_its_own_progress():
    outcome = run_parts(target(progress={"own": 1}), {"part": lambda _: Hold({"held": True})})
    assert Hold({"own": 1, "part": {"held": True}}) == outcome


def test_a_removal_from_networks_is_not_repeated_while_others_are_attached(monkeypatch):
    node, called = target(interfaces={"deploy": "direct"}), []
    network = type(node.driver.network)
    monkeypatch.setattr(network, "remove_provisioning_network", lambda *_: called.append("remove"))
    monkeypatch.setattr(network, "configure_tenant_networks", lambda *_: Wait({"port": "p"}, 5))
    switch = node.driver.deploy.switch_to_tenant_network
    waiting = switch(node)
    assert waiting == switch(replace(node, progress=waiting.progress))
    assert ["remove"] == called


def test_a_switch_of_networks_says_if_the_network_interface_switches_none(monkeypatch):
    node = target(interfaces={"deploy": "direct"})
    switch = node.driver.deploy.switch_to_tenant_network
    assert Done({"networks": "unchanged by network interface noop"}) == switch(node)
    network, called = type(node.driver.network), []
    monkeypatch.setattr(network, "remove_provisioning_network", lambda *_: called.append("remove"))
    assert Done() == switch(node)
    assert ["remove"] == called


@pytest.fixture
def node(monkeypatch):
    """A node whose agent boots from a medium that carries its token."""
    node = target(interfaces={"deploy": "direct"}, power_state="power off")
    monkeypatch.setattr(
        type(node.driver.boot),
        "prepare_ramdisk",
        lambda _, target: target.report(agent_token="made for the medium"),
    )
    return node


def power_on(node):
    return reserved.power_on(node, ramdisk=True)


def reboot(node):
    return reserved.reboot(node, ramdisk=True)


def after_bios_settings(node):
    progress = {"ordered": True, "agent": True, **node.progress}
    return through_restart(replace(node, progress=progress))


def after_an_in_band_step(node):
    step = {"interface": "deploy", "step": "burn", "priority": 1, "reboot_requested": True}
    progress = {"rebooting": True, "result": {}, "version": {}, **node.progress}
    return node.driver.deploy.execute_in_band(replace(node, progress=progress), Flow.CLEAN, step)


def beside_a_volume(node):
    return node.driver.deploy.boot_agent(node)


BOOTS = pytest.mark.parametrize(
    "step", [power_on, reboot, after_bios_settings, after_an_in_band_step, beside_a_volume]
)


@BOOTS
def test_the_token_on_a_medium_is_recorded_before_the_machine_starts(node, step):
    """Otherwise a crash after the start leaves an agent with an unrecorded token."""
    waiting = step(node)
    assert (0, "made for the medium") == (waiting.poll_after, node.reports["agent_token"])
    assert "power_state" not in node.reports


@BOOTS
def test_the_boot_of_the_agent_is_prepared_once_while_the_machine_restarts(node, step, monkeypatch):
    prepared = []
    monkeypatch.setattr(type(node.driver.boot), "prepare_ramdisk", lambda *_: prepared.append(1))
    fake = {**OPTIONS, "fake": {**OPTIONS["fake"], "power_delay": "0.1"}}
    node = replace(node, power_state="power on", options=fake, agent=Agent(silent_for=1e9))
    for _ in range(4):
        outcome = step(node)
        if not isinstance(outcome, Wait):
            break
        state = node.reports.get("power_state", node.power_state)
        node = replace(node, progress=outcome.progress, power_state=state, reports={})
    assert [1] == prepared


@pytest.mark.parametrize("step", [power_on, reboot])
def test_the_limit_of_a_power_change_holds_when_a_token_is_recorded_first(node, step):
    assert Wait({"power": {}}, 0, 60) == step(node)


#: Progress recorded by the previous release -> the remaining parts.
RECORDED = [
    (power_on, {"prepared": True, "power": {"ordered": True, "looks": 1}}, ["power"]),
    (power_on, {"boot": {"asked": True}}, ["boot", "power"]),
    (reboot, {"prepared": True, "power": {"phase": "on", "ordered": True, "looks": 1}}, ["power"]),
    (after_bios_settings, {"boot": {"asked": True}, "restart": {"phase": "on"}}, ["power"]),
    (after_bios_settings, {"boot": {"asked": True}, "restart": {}, "restarted": True}, []),
    (after_an_in_band_step, {"boot": {"asked": True}, "power": {"phase": "on"}}, ["power"]),
    (beside_a_volume, {"agent": {"power": {"ordered": True, "looks": 2}}}, ["power"]),
    (beside_a_volume, {"agent": {"booted": True}}, []),
]


@pytest.mark.parametrize(("step", "progress", "parts"), RECORDED)
def test_progress_of_the_previous_release_is_resumed_at_its_part(
    node, step, progress, parts, monkeypatch
):
    called = []
    driver = node.driver
    monkeypatch.setattr(type(driver.boot), "prepare_ramdisk", lambda *_: called.append("boot"))
    monkeypatch.setattr(type(driver.power), "order", lambda *_: pytest.fail("ordered again"))
    look = type(driver.power).get_power_state

    def get_power_state(self, target):
        called.append("power")
        return look(self, target)

    monkeypatch.setattr(type(driver.power), "get_power_state", get_power_state)
    step(replace(node, power_state="power on", progress=progress))
    assert parts == list(dict.fromkeys(called))


@pytest.mark.parametrize("progress", [{"bootable": True, "boot": {}}, {"boot": {}}])
def test_an_installed_boot_loader_is_not_installed_again(progress):
    """`bootable` is the key of the previous release."""
    node = target(interfaces={"deploy": "direct"}, progress=progress)
    assert Done() == node.driver.deploy.prepare_instance_boot(node)


@pytest.mark.parametrize("progress", [{"power": {"ordered": True, "looks": 1}}, {"boot": {}}])
def test_a_stopped_agent_is_not_stopped_again(progress, monkeypatch):
    node = target(interfaces={"deploy": "direct"}, power_state="power off", progress=progress)
    monkeypatch.setattr(type(node.driver.deploy), "_dismiss", pytest.fail)
    assert Done() == node.driver.deploy.tear_down_agent(node)
    assert ("power_state" in node.reports) == ("power" in progress)
