import re
from dataclasses import replace

import pytest

from drivers.agent import client, in_band, step_hooks
from drivers.core.errors import (
    AgentBusy,
    LeaseLost,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.core.steps import Done, Failed, Flow, Wait
from drivers.core.target import Agent
from tests.unit.drivers.machines import (
    TOKEN,
    target,
    with_option,
)

ERASE = {"interface": "deploy", "step": "erase_devices", "priority": 10}
DIRECT = {"deploy": "direct"}
IMAGE = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}


#: the first bytes of a disk with a partition table
MBR = bytes(510) + b"\x55\xaa" + bytes(512)


@pytest.fixture
def node(agent):
    return target(interfaces=DIRECT, agent=agent.seen(), step_id="row-1")


def clean(node, step=ERASE):
    return node.driver.deploy.execute_in_band(node, Flow.CLEAN, step)


def again(node, outcome, **changes):
    """Return the node as the worker passes it to the next call of the step."""
    return replace(node, progress=outcome.progress, reports={}, **changes)


def test_a_step_is_sent_once_polled_and_returns_its_result(agent, node):
    waiting = clean(node)
    assert isinstance(waiting, Wait)
    still = clean(again(node, waiting))
    assert Wait(waiting.progress) == still
    agent.finish_step(result={"erased": 2})
    assert {"erased": 2} == clean(again(node, still)).result["result"]
    assert ["clean.execute_clean_step", "poll.get_hardware_info"] == agent.names()
    params = agent.received[0][1]
    assert {"manager": "1"} == params["clean_version"]
    assert 4 == params["node"]["driver_internal_info"]["disk_erasure_concurrency"]
    assert "52:54:00:00:00:01" == params["ports"][0]["address"]


def test_a_failed_step_fails_with_the_agents_words_and_without_secrets(agent, node):
    waiting = clean(node)
    agent.fail(f"GET http://images/x?sig=abc with {TOKEN} failed")
    failed = clean(again(node, waiting))
    assert (
        Failed(
            "deploy.erase_devices: GET http://images/x?****** with ****** failed",
            code="agent_failed",
        )
        == failed
    )


@pytest.mark.parametrize("status", ["CLEAN_VERSION_MISMATCH", "VERSION_MISMATCH"])
def test_a_version_mismatch_is_reported_as_such(agent, node, status):
    waiting = clean(node)
    agent.fail("no", status)
    assert "version_mismatch" == clean(again(node, waiting)).code


def test_after_a_crash_a_running_step_is_awaited_and_not_sent_again(agent, node):
    clean(node)
    waiting = clean(replace(node, resumed=True))
    assert "id-1" == waiting.progress["command"]
    agent.finish_step()
    for _ in range(2):  # the conductor dies before the outcome is recorded
        assert isinstance(clean(replace(node, resumed=True)), Done)
    assert ["clean.execute_clean_step"] == [name for name in agent.names() if "step" in name]


def test_after_a_crash_the_result_of_the_previous_step_is_not_used(agent, node):
    clean(node)
    agent.finish_step()
    clean(replace(node, step_id="row-2", resumed=True))
    assert ["clean.execute_clean_step"] * 2 == agent.names()


def test_a_command_to_a_busy_agent_is_retried(agent, node):
    agent.refusal = (409, "Agent is busy")
    waiting = clean(node)
    assert in_band.RETRY == waiting.poll_after
    assert waiting.reason.endswith("answered 409: Agent is busy")
    agent.refusal = None
    clean(again(node, waiting))
    assert ["clean.execute_clean_step"] == agent.names()


def test_a_command_whose_answer_was_lost_is_looked_up_before_it_is_sent_again(agent, node):
    gone = replace(node, agent=replace(node.agent, url="http://127.0.0.1:1"))
    lost = clean(gone)
    assert ({"sent": True}, in_band.RETRY) == (lost.progress, lost.poll_after)
    assert lost.reason.endswith("at http://127.0.0.1:1 did not answer (Connection refused)")
    waiting = clean(again(node, lost))
    assert ["clean.execute_clean_step"] == agent.names()
    assert "id-1" == waiting.progress["command"]


def test_a_step_lost_in_a_restart_is_sent_again_a_limited_number_of_times(agent, node):
    outcome = clean(node)
    for _ in range(in_band.RESTARTS):
        agent.restart()
        outcome = clean(again(node, outcome))
        assert isinstance(outcome, Wait)
    agent.restart()
    assert isinstance(clean(again(node, outcome)), Failed)


def test_no_command_is_sent_without_the_lease(agent, node):
    def lost():
        raise LeaseLost("another conductor has this node")

    with pytest.raises(LeaseLost):
        clean(replace(node, before_order=lost))
    assert [] == agent.received


@pytest.mark.parametrize("flow", [Flow.CLEAN, Flow.DEPLOY])
def test_a_step_that_requests_a_reboot_gets_one_and_the_agent_is_awaited(agent, node, flow):
    step = {**ERASE, "priority": 50, "reboot_requested": True}

    def run(node):
        return node.driver.deploy.execute_in_band(node, flow, step)

    node = replace(node, power_state="power on")
    waiting = run(node)
    agent.finish_step(flow, result="ok")
    rebooting = run(again(node, waiting))
    assert 0 == rebooting.poll_after
    off_node = again(node, rebooting)
    off = run(off_node)
    # the row loses the agent's data before the next agent can boot
    assert (0, None) == (off.poll_after, off_node.reports["agent"])
    booting = run(again(node, off, agent=Agent()))
    assert 0 == booting.poll_after
    assert Wait(booting.progress) == run(again(node, booting, agent=Agent()))
    agent.restart()
    agent.answers[f"{flow}.get_{flow}_steps"] = {
        f"{flow}_steps": {"manager": [step]},
        "hardware_manager_version": {"manager": "1"},
    }
    assert "ok" == run(again(node, booting)).result["result"]


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


def test_a_hook_runs_after_steps_of_its_flow_only(node, monkeypatch):
    monkeypatch.setattr(step_hooks, "_HOOKS", {})
    step_hooks.post_service_step_hook("deploy", "measure")(
        lambda target, result: target.report(health=result)
    )
    step_hooks.run_hook(node, Flow.CLEAN, "deploy", "measure", "not called")
    assert "health" not in node.reports
    step_hooks.run_hook(node, Flow.SERVICE, "deploy", "measure", "called")
    assert "called" == node.reports["health"]


def test_the_agents_steps_are_collected_after_its_first_heartbeat(agent, node):
    deploy = node.driver.deploy
    assert Wait() == deploy.await_clean_agent(replace(node, agent=Agent()))
    agent.answers["clean.get_clean_steps"] = {
        "clean_steps": {"manager": [ERASE]},
        "hardware_manager_version": {"manager": "2"},
    }
    assert Done() == deploy.await_clean_agent(node)
    assert {"clean": [ERASE]} == node.reports["agent_steps"]
    assert {"manager": "2"} == node.reports["hardware_manager_version"]


def test_priorities_of_the_agents_steps_follow_the_settings(node):
    raid = {"interface": "raid", "step": "create_configuration", "priority": 0}
    node = replace(
        node,
        agent=replace(node.agent, steps={"clean": [ERASE, raid]}),
        options=with_option("deploy", erase_devices_priority=0),
    )
    (step,) = node.driver.deploy.in_band_steps(node, Flow.CLEAN)
    assert ("deploy", "erase_devices") == step.key
    assert {Flow.CLEAN: 0} == step.priorities
    assert step.in_band


@pytest.mark.parametrize("priority", [40, 100, "50"])
def test_an_agents_deploy_step_outside_its_range_is_refused(agent, node, priority):
    step = {"interface": "deploy", "step": "paint", "priority": priority}
    agent.answers["deploy.get_deploy_steps"] = {
        "deploy_steps": {"manager": [step]},
        "hardware_manager_version": {},
    }
    with pytest.raises(Unexpected, match="paint"):
        in_band.collect(node, Flow.DEPLOY)


@pytest.mark.parametrize("listed", [None, 7, True, "paint", {"interface": "deploy"}])
def test_an_agents_steps_that_are_no_list_are_refused(agent, node, listed):
    agent.answers["deploy.get_deploy_steps"] = {
        "deploy_steps": {"manager": listed},
        "hardware_manager_version": {},
    }
    with pytest.raises(Unexpected, match="did not list the deploy steps of each hardware manager"):
        in_band.collect(node, Flow.DEPLOY)


def test_an_agent_without_the_deploy_extension_has_no_deploy_steps(agent, node):
    agent.refusal = (404, "Extension with id deploy not found")
    assert Done({"lacks": "deploy"}) == in_band.collect(node, Flow.DEPLOY)
    assert {"deploy": []} == node.reports["agent_steps"]
    assert {} == node.reports["hardware_manager_version"]


def test_an_agents_deploy_step_of_a_negative_priority_runs_on_request_only(agent, node):
    step = {"interface": "deploy", "step": "paint", "priority": -1}
    agent.answers["deploy.get_deploy_steps"] = {
        "deploy_steps": {"manager": [step]},
        "hardware_manager_version": {},
    }
    assert Done() == in_band.collect(node, Flow.DEPLOY)


def test_errors_of_the_client_do_not_contain_the_token(node):
    for url in ("http://127.0.0.1:1", "http://nowhere.invalid"):
        with pytest.raises(Unreachable) as raised:
            client.commands(replace(node, agent=replace(node.agent, url=url)))
        assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    ("refusal", "error"),
    [((401, "no"), Refused), ((409, "x"), AgentBusy), ((500, "x"), Unexpected)],
)
def test_refusals_become_errors(agent, node, refusal, error):
    agent.refusal = refusal
    with pytest.raises(error):
        client.run(node, "standby.sync", {}, wait=True)


def test_the_poller_notices_the_end_of_a_command():
    running, ended = {"command_status": "RUNNING"}, {"command_status": "FAILED"}
    assert not in_band.command_ended({"commands": [ended, running]})
    assert in_band.command_ended({"commands": [running, ended]})
    assert in_band.command_ended({"commands": []})
    with pytest.raises(Unexpected):
        in_band.command_ended({"faultstring": "no"})


def run_to_end(node, kind, method, on_wait):
    """Call a step until it is done, as the worker does; `on_wait` gets the node at each Wait."""
    for _ in range(20):
        outcome = node.driver.by_kind[kind].run(node, method, {})
        facts = {"power_state": node.reports.get("power_state", node.power_state)}
        facts["driver_internal_info"] = node.reports.get(
            "driver_internal_info", node.driver_internal_info
        )
        if "agent" in node.reports:
            facts["agent"] = Agent()
        if not isinstance(outcome, Wait):
            return outcome, replace(node, progress={}, reports={}, **facts)
        node = replace(node, progress=outcome.progress, reports={}, **facts)
        node = on_wait(node) or node
    raise AssertionError(f"{method} never ended")


def test_a_whole_disk_image_is_deployed(agent, images):
    images.files["/disk.raw"] = MBR
    info = IMAGE | {"image_source": f"{images.url}/disk.raw", "configdrive": {"meta_data": {}}}
    node = target(interfaces=DIRECT, instance_info=info, power_state="power on")
    agent.answers |= {
        "deploy.get_deploy_steps": {"deploy_steps": {}, "hardware_manager_version": {"m": "1"}},
        "standby.get_partition_uuids": {"root uuid": "0x1"},
    }

    def act(node):
        running = agent.commands and agent.commands[-1]["command_status"] == "RUNNING"
        if running and agent.names()[-1] == "deploy.execute_deploy_step":
            agent.finish_step("deploy", "written")
        elif running and agent.names()[-1] == "standby.power_off":
            return replace(node, power_state="power off")
        elif running:
            agent.finish()
        return replace(node, agent=agent.seen())

    frame = node.driver.deploy.frames["deploy"]
    steps = sorted(node.driver.deploy.get_steps(node, Flow.DEPLOY), key=lambda s: -s.priorities["deploy"])  # fmt: skip
    rows = [*frame.before, *(("deploy", step.name) for step in steps)]
    for kind, method in rows:
        outcome, node = run_to_end(node, kind, method, act)
        assert isinstance(outcome, Done), (method, outcome)
    assert "power on" == node.power_state
    assert [
        "deploy.get_deploy_steps",
        "deploy.execute_deploy_step",
        "standby.get_partition_uuids",
        "image.install_bootloader",
        "standby.sync",
        "standby.power_off",
    ] == agent.names()
    args = agent.received[1][1]["step"]["args"]
    told = args["image_info"]
    assert ("a" * 64, "raw") == (told["os_hash_value"], told["disk_format"])
    assert "image_type" not in told
    assert args["configdrive"].startswith("H4sI")
    assert "uefi" == agent.received[3][1]["target_boot_mode"]


def test_the_step_write_image_ends_when_the_agent_has_written_the_image(agent, images):
    images.files["/disk.raw"] = MBR
    info = IMAGE | {"image_source": f"{images.url}/disk.raw"}
    node = target(interfaces=DIRECT, instance_info=info, agent=agent.seen())
    write = node.driver.deploy.write_image
    waiting = write(node)
    assert isinstance(waiting, Wait)
    assert waiting == write(again(node, waiting))
    agent.finish_step("deploy", "written")
    assert Done({"result": "written"}) == write(again(node, waiting))
    assert ["deploy.execute_deploy_step"] == agent.names()


def test_a_wrong_checksum_is_reported_with_the_image_and_without_secrets(agent, images):
    images.files["/disk.raw"] = MBR
    source = f"{images.url}/disk.raw"
    info = IMAGE | {"image_source": f"{source}?signature=abc"}
    it = target(interfaces=DIRECT, instance_info=info, agent=agent.seen())
    waiting = it.driver.deploy.write_image(it)
    agent.fail("Error verifying image checksum")
    failed = it.driver.deploy.write_image(again(it, waiting))
    assert "Error verifying image checksum" in failed.reason
    assert failed.reason.endswith(f"(image {source})")


OLD = ("deploy", "standby.get_partition_uuids")
WRITTEN = (
    "prepare_image: image (disk.raw) written to device /dev/sda"
    " root_uuid=11-aa efi_system_partition_uuid=22-bb"
)


@pytest.fixture
def old(agent, images):
    """A node whose agent has no deploy extension."""
    agent.lacks = OLD
    images.files["/disk.raw"] = MBR
    info = IMAGE | {"image_source": f"{images.url}/disk.raw", "configdrive": "H4sI"}
    return target(interfaces=DIRECT, instance_info=info, agent=agent.seen())


def test_an_agent_without_the_deploy_extension_writes_the_image_by_standby(agent, old):
    deploy = old.driver.deploy
    assert Done({"lacks": "deploy"}) == in_band.collect(old, Flow.DEPLOY)
    waiting = deploy.write_image(old)
    assert waiting == deploy.write_image(again(old, waiting))
    agent.finish({"result": WRITTEN})
    assert Done({"result": {"result": WRITTEN}}) == deploy.write_image(again(old, waiting))
    waiting = deploy.prepare_instance_boot(old)
    agent.finish()
    assert Done() == deploy.prepare_instance_boot(again(old, waiting))
    (written, image), (booted, bootloader) = agent.received
    assert ("standby.prepare_image", "image.install_bootloader") == (written, booted)
    assert ("H4sI", "a" * 64) == (image["configdrive"], image["image_info"]["os_hash_value"])
    assert ("11-aa", "22-bb") == (bootloader["root_uuid"], bootloader["efi_system_part_uuid"])


def test_an_agent_without_the_deploy_extension_writes_an_image_once_despite_crashes(agent, old):
    write = old.driver.deploy.write_image
    write(old)
    waiting = write(replace(old, resumed=True))
    assert isinstance(waiting, Wait)
    agent.finish({"result": WRITTEN})
    assert isinstance(write(replace(old, resumed=True)), Done)
    assert ["standby.prepare_image"] == agent.names()


def test_an_agent_without_the_deploy_extension_reports_why_the_write_failed(agent, old):
    waiting = old.driver.deploy.write_image(old)
    agent.fail("no space")
    failed = old.driver.deploy.write_image(again(old, waiting))
    assert "standby.prepare_image: no space" in failed.reason
    assert "disk.raw" in failed.reason


def test_a_bootloader_is_installed_by_an_agent_that_accepts_no_boot_mode(agent, old):
    install = old.driver.deploy.prepare_instance_boot
    waiting = install(old)
    agent.fail("install_bootloader() got an unexpected keyword argument 'target_boot_mode'")
    waiting = install(again(old, waiting))
    assert Wait({"no_mode": True}, poll_after=0) == waiting
    waiting = install(again(old, waiting))
    agent.finish()
    assert Done() == install(again(old, waiting))
    assert [True, False] == ["target_boot_mode" in params for _, params in agent.received]


def test_an_agent_with_a_heartbeat_before_the_power_is_on_is_not_awaited(agent):
    agent.answers = {
        "deploy.get_deploy_steps": {"deploy_steps": {}, "hardware_manager_version": {"m": "1"}}
    }
    node = target(interfaces=DIRECT, agent=agent.seen(), power_state="power on")
    assert Done() == node.driver.deploy.deploy(node)


def test_a_machine_whose_agent_does_not_power_off_is_powered_off(agent):
    node = target(interfaces=DIRECT, agent=agent.seen(), power_state="power on")
    outcome, node = run_to_end(node, "deploy", "tear_down_agent", lambda _node: None)
    assert (Done(), "power off") == (outcome, node.power_state)


def test_a_machine_that_must_stay_on_is_reset_into_the_agent_and_never_powered_off(agent):
    ordered = []
    node = target(
        interfaces=DIRECT,
        disable_power_off=True,
        power_state="power on",
        agent=agent.seen(),
        before_order=lambda: ordered.append(1),
    )
    power = node.driver.power
    assert Done() == power.power_off(node)
    forgetting = power.power_on(node)  # recorded before another agent can boot
    assert ([], 0, {"agent": None}) == (ordered, forgetting.poll_after, node.reports)
    assert Done() == power.power_on(again(node, forgetting, agent=Agent()))
    assert [1] == ordered
    assert {"agent": None} == node.reports


def test_bios_whole_disk_images_need_no_bootloader(agent):
    info = {**IMAGE, "capabilities": '{"boot_mode": "bios"}'}
    node = target(interfaces=DIRECT, agent=agent.seen(), instance_info=info)
    assert Done() == node.driver.deploy.prepare_instance_boot(node)
    assert [] == agent.received


@pytest.mark.parametrize("configuration", ["raid_config", "target_raid_config"])
@pytest.mark.parametrize(
    ("controller", "stated", "root"),
    [
        ("software", {}, "11-aa"),
        ("software", {"image_rootfs_uuid": "33-cc"}, "33-cc"),
        ("perc", {}, None),
    ],
)
def test_bios_whole_disk_images_on_software_raid_need_a_bootloader(
    agent, configuration, controller, stated, root
):
    agent.answers["standby.get_partition_uuids"] = {"root uuid": "11-aa"}
    info = {**IMAGE, **stated, "capabilities": '{"boot_mode": "bios"}'}
    disks = [{"controller": controller, "raid_level": "1", "size_gb": 100}]
    node = target(
        interfaces=DIRECT, agent=agent.seen(), instance_info=info,
        record={"uuid": "u", configuration: {"logical_disks": disks}},
    )  # fmt: skip
    outcome = node.driver.deploy.prepare_instance_boot(node)
    assert isinstance(outcome, Wait if root else Done)
    orders = [params for name, params in agent.received if name == "image.install_bootloader"]
    assert ([root] if root else []) == [params["root_uuid"] for params in orders]


LONG = {"logs": "x" * (5 << 20)}


def test_a_long_result_of_another_command_does_not_fail_a_step(agent, node):
    waiting = clean(node)
    agent.finish_step()
    done = dict(agent.commands[-1])
    agent.commands[-1:] = [{**done, "id": "id-0", "command_result": LONG}, done]
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
    after = again(node, waiting)
    assert isinstance(in_band.execute(after, Flow.CLEAN, step), Done)
    assert disks == after.reports["raid_config"]["logical_disks"]


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
    told = clean(again(node, waiting)).result["erasure"]
    first, odd = told["disks"]
    assert {"name": "/dev/sda", "serial": "S 1", "wwn": None, "model": None, "size": 10} == {
        name: first[name] for name in ("name", "serial", "wwn", "model", "size")
    }
    assert 255 == len(first["vendor"])
    assert {None} == set(odd.values())
    assert (False, None) == (told["settings"]["erase_skip_read_only"], told["problem"])


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
