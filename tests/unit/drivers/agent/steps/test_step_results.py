"""Results of steps: RAID, long results, and the disks after an erasure."""

import re
from dataclasses import replace

import pytest

from drivers.agent import in_band, step_hooks
from drivers.core.errors import Unexpected
from drivers.core.steps import Done, Flow, Wait

from .conftest import ERASE, again, clean


@pytest.mark.parametrize(
    ("flow", "name"),
    [(Flow.CLEAN, "create_configuration"), (Flow.DEPLOY, "apply_configuration")],
)
def test_the_volumes_of_a_raid_step_are_reported(agent, node, flow, name):
    def run(node):
        return node.driver.deploy.execute_in_band(node, flow, {"interface": "raid", "step": name})

    waiting = run(node)
    agent.finish_step(flow, result={"logical_disks": [1]})
    later = again(node, waiting)
    run(later)
    assert {"logical_disks": [1]} == later.reports["raid_config"]


HINT = {"wwn": "0x5000c500"}
ROOT_VOLUME = {"is_root_volume": True, "root_device_hint": HINT}


@pytest.mark.parametrize(
    ("disks", "root_device"),
    [
        ([{"size_gb": 1, "root_device_hint": {"wwn": "0x1"}}, ROOT_VOLUME], HINT),
        ([{"is_root_volume": True}, 1], None),
        ([], None),
    ],
)
def test_the_hint_for_the_root_volume_becomes_the_root_device(node, disks, root_device):
    step_hooks.run_hook(
        node, Flow.DEPLOY, "raid", "apply_configuration", {"logical_disks": disks, "x": 1}
    )
    assert root_device == node.reports["properties"].get("root_device")


@pytest.mark.parametrize(
    "result",
    [
        [1],
        {"logical_disks": [ROOT_VOLUME, ROOT_VOLUME]},
        {"logical_disks": [{"is_root_volume": True, "root_device_hint": "sda"}]},
    ],
)
def test_a_raid_configuration_without_a_clear_root_volume_fails_the_step(node, result):
    with pytest.raises(Unexpected, match="RAID configuration that"):
        step_hooks.run_hook(node, Flow.CLEAN, "raid", "create_configuration", result)
    assert "raid_config" not in node.reports


LONG = {"logs": "x" * (5 << 20)}


def test_a_long_result_of_another_command_does_not_fail_a_step(agent, node):
    waiting = clean(node)
    agent.finish_step()
    command = dict(agent.commands[-1])
    agent.commands[-1:] = [{**command, "id": "id-0", "command_result": LONG}, command]
    assert isinstance(clean(again(node, waiting)), Done)


def test_a_long_result_of_a_step_is_left_out_and_its_hook_gets_it(agent, node, monkeypatch):
    heard = []
    hook = lambda _target, result: heard.append(result)  # noqa: E731
    monkeypatch.setitem(step_hooks._HOOKS, (Flow.CLEAN, "deploy", "erase_devices"), hook)
    waiting = clean(node)
    agent.finish_step(result=LONG)
    outcome = clean(again(node, waiting))
    assert re.fullmatch("[0-9]+ bytes, not kept", outcome.result["result"])
    assert [LONG] == heard


def test_a_raid_configuration_of_many_disks_is_recorded(agent, node):
    disks = [{"size_gb": 1, "raid_level": "1", "note": "x" * 99} for _ in range(1000)]
    step = {"interface": "raid", "step": "create_configuration", "args": {}}
    waiting = in_band.execute(node, Flow.CLEAN, step)
    agent.finish_step(result={"logical_disks": disks})
    later_node = again(node, waiting)
    assert isinstance(in_band.execute(later_node, Flow.CLEAN, step), Done)
    assert disks == later_node.reports["raid_config"]["logical_disks"]


DISK = {
    "name": "/dev/sda",
    "serial": "S 1\x00",
    "wwn": 7,
    "model": "",
    "size": 10,
    "vendor": "v" * 999,
}


def test_after_an_erasure_the_agent_tells_which_disks_there_are(agent, node):
    agent.answers["poll.get_hardware_info"] = {"disks": [DISK, "odd"]}
    waiting = clean(node)
    agent.finish_step(result={"/dev/sda": None})
    erasure = clean(again(node, waiting)).result["erasure"]
    disk, odd = erasure["disks"]
    assert {"name": "/dev/sda", "serial": "S 1", "wwn": None, "model": None, "size": 10} == {
        name: disk[name] for name in ("name", "serial", "wwn", "model", "size")
    }
    assert 255 == len(disk["vendor"])
    assert {None} == set(odd.values())
    assert (False, None) == (erasure["settings"]["erase_skip_read_only"], erasure["problem"])


@pytest.mark.parametrize("size", [True, -1, 2**60, "10", None, 1.5])
def test_a_size_that_is_no_whole_number_is_left_out(agent, node, size):
    agent.answers["poll.get_hardware_info"] = {"disks": [{**DISK, "size": size}]}
    waiting = clean(node)
    agent.finish_step()
    (disk,) = clean(again(node, waiting)).result["erasure"]["disks"]
    assert None is disk["size"]


def test_other_steps_and_flows_ask_for_no_disks(agent, node):
    for flow, step in ((Flow.CLEAN, "burnin_cpu"), (Flow.DEPLOY, "erase_devices")):
        one_step = {**ERASE, "step": step, "priority": 50}
        waiting = in_band.execute(node, flow, one_step)
        agent.finish_step(flow, result="ok")
        assert Done({"result": "ok"}) == in_band.execute(again(node, waiting), flow, one_step)
        agent.restart()
    assert "poll.get_hardware_info" not in agent.names()


METRICS = {"disk.read": {"value": 512, "unit": "MB/s"}}


def test_the_numbers_that_a_step_has_measured_are_reported_at_its_end(agent, node):
    waiting = clean(node)
    agent.finish_step(result={"metrics": METRICS, "note": "x"})
    later = again(node, waiting)
    assert isinstance(clean(later), Done)
    assert {"benchmarks": METRICS} == later.reports
    assert {} == node.reports


def test_the_numbers_of_a_step_with_a_reboot_are_reported_once_the_agent_is_back(agent, node):
    step = ERASE | {"reboot_requested": True}
    waiting = clean(node, step)
    agent.finish_step(result={"metrics": METRICS})
    later = again(node, waiting)
    rebooting = clean(later, step)
    assert isinstance(rebooting, Wait)
    assert "benchmarks" not in later.reports
    progress = {**rebooting.progress, "rebooting": "agent"}
    agent.answers["clean.get_clean_steps"] = {
        "clean_steps": {}, "hardware_manager_version": progress["version"],
    }  # fmt: skip
    back = replace(node, progress=progress, reports={})
    assert isinstance(clean(back, step), Done)
    assert METRICS == back.reports["benchmarks"]


@pytest.mark.parametrize(
    "result", [None, [], "metrics", {}, {"Metrics": METRICS}, {"metrics": "x" * 70_000}]
)
def test_a_step_without_numbers_reports_none(agent, node, result):
    waiting = clean(node)
    agent.finish_step(result=result)
    later = again(node, waiting)
    assert isinstance(clean(later), Done)
    assert {} == later.reports
