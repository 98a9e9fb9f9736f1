from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.core.interface_kinds import KINDS, REBOOT
from drivers.core.registry import load
from drivers.core.steps import Done, Flow, Wait
from drivers.fake.pace import seconds
from tests.unit.drivers.machines import target, with_option


def automated(node, flow):
    return [step.key for step in node.driver.steps(flow) if step.priorities[flow] > 0]


def test_an_automated_clean_of_a_fake_node_runs_exactly_log_passthrough():
    assert [("vendor", "log_passthrough")] == automated(target(), Flow.CLEAN)
    assert [("deploy", "deploy")] == automated(target(), Flow.DEPLOY)


def test_steps_of_fake_hardware_declare_whether_they_need_the_ramdisk():
    node = target()
    by_name = {step.name: step for step in node.driver.steps(Flow.CLEAN)}
    assert {
        "apply_configuration",
        "cache_bios_settings",
        "factory_reset",
        "log_passthrough",
        "update",
    } == set(by_name)
    assert by_name["log_passthrough"].needs_ramdisk
    assert by_name["update"].args[0].required
    in_service = {step.name: step.needs_ramdisk for step in node.driver.steps(Flow.SERVICE)}
    assert {
        "apply_configuration": True,
        "log_passthrough": False,
        "trigger_servicewait": False,
    } == in_service


def test_the_power_state_is_the_last_requested_one():
    node = target(power_state=None)
    assert "power off" == node.driver.power.get_power_state(node)
    assert Done() == node.driver.power.power_on(node)
    assert "power on" == node.reports["power_state"]
    node = replace(node, power_state="power on", reports={})
    assert Done() == node.driver.power.change(node, REBOOT)
    assert {"power_state": "power on", "agent": None} == node.reports


def test_a_slow_machine_blocks_no_thread():
    node = target(power_state="power off", options=with_option("fake", power_delay="0.5,1.5"))
    waiting = node.driver.power.power_on(node)
    assert isinstance(waiting, Wait)
    assert 0.5 <= waiting.poll_after <= 1.5
    assert "power_state" not in node.reports
    assert Done() == node.driver.power.power_on(replace(node, progress=waiting.progress))


def test_a_slow_step_waits_once():
    node = target(options=with_option("fake", vendor_delay="0.2"))
    waiting = node.driver.vendor.run(node, "log_passthrough", {})
    assert Wait({"waited": True}, poll_after=0.2) == waiting
    later = replace(node, progress=waiting.progress)
    assert Done() == node.driver.vendor.run(later, "log_passthrough", {})
    assert 0.2 == seconds(node, "vendor_delay")


def test_a_management_command_takes_its_delay_once():
    node = target(options=with_option("fake", management_delay="0.2"))
    row = ("change_boot_mode", {"mode": "bios"})
    waiting = node.driver.management.run(node, *row)
    assert (Wait({"waited": True}, poll_after=0.2), {}) == (waiting, node.reports)
    node = replace(node, progress=waiting.progress)
    assert Done() == node.driver.management.run(node, *row)
    assert "bios" == node.reports["boot_mode"]


def test_fake_hardware_supports_every_interface():
    registry = load(HARDWARE_TYPES)
    for name in registry.types:
        for kind in KINDS:
            accepted = registry.supported("fake-hardware", kind)
            assert set(registry.supported(name, kind)) <= set(accepted), (name, kind)


def test_defaults_are_those_of_ironic():
    registry = load(HARDWARE_TYPES)
    assert {"fake", "noop"} == {registry.default("fake-hardware", kind) for kind in KINDS}
    assert "noop" == registry.default("fake-hardware", "network")
    for kind, name in {
        "boot": "redfish-virtual-media",
        "deploy": "direct",
        "network": "noop",
        "power": "redfish",
        "raid": "no-raid",
        "storage": "noop",
    }.items():
        assert name == registry.default("redfish", kind)


def test_a_missing_interface_of_a_node_is_named():
    node = target("redfish")
    with pytest.raises(NotSupported, match="redfish does not support console"):
        node.driver.console.validate(node)
    with pytest.raises(InvalidDriverInfo, match=r"deploy_interface.*magic.*direct"):
        load(HARDWARE_TYPES).driver("redfish", {"deploy": "magic"})
