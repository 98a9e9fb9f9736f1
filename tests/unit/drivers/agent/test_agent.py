import base64
import gzip
from dataclasses import replace

import pytest

from drivers.agent import client, configdrive, in_band
from drivers.core.errors import (
    AgentBusy,
    InvalidDriverInfo,
    LeaseLost,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.core.steps import Done, Failed, Flow, Wait
from drivers.core.target import Agent
from tests.unit.drivers.machines import (
    TOKEN,
    on,
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
    """The node as the worker hands it to the next call of the same step."""
    return replace(node, progress=outcome.progress, reports={}, **changes)


def test_a_step_is_sent_once_waited_for_and_gives_its_result(agent, node):
    waiting = clean(node)
    assert isinstance(waiting, Wait)
    still = clean(again(node, waiting))
    assert Wait(waiting.progress) == still
    agent.finish_step(result={"erased": 2})
    assert Done({"result": {"erased": 2}}) == clean(again(node, still))
    assert ["clean.execute_clean_step"] == agent.names()
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
def test_a_version_mismatch_is_told_apart(agent, node, status):
    waiting = clean(node)
    agent.fail("no", status)
    assert "version_mismatch" == clean(again(node, waiting)).code


def test_after_a_death_a_running_step_is_waited_for_and_not_sent_again(agent, node):
    clean(node)
    waiting = clean(replace(node, resumed=True))
    assert "id-1" == waiting.progress["command"]
    agent.finish_step()
    assert isinstance(clean(replace(node, resumed=True)), Done)
    assert ["clean.execute_clean_step"] == agent.names()


def test_after_a_death_the_step_before_it_is_not_taken_for_ours(agent, node):
    clean(node)
    agent.finish_step()
    clean(replace(node, step_id="row-2", resumed=True))
    assert ["clean.execute_clean_step"] * 2 == agent.names()


def test_a_busy_agent_is_asked_again_later(agent, node):
    agent.refusal = (409, "Agent is busy")
    waiting = clean(node)
    assert Wait(poll_after=in_band.RETRY) == waiting
    agent.refusal = None
    clean(again(node, waiting))
    assert ["clean.execute_clean_step"] == agent.names()


def test_an_order_whose_answer_was_lost_is_looked_for_before_it_is_sent_again(agent, node):
    gone = replace(node, agent=replace(node.agent, url="http://127.0.0.1:1"))
    lost = clean(gone)
    assert Wait({"sent": True}, poll_after=in_band.RETRY) == lost
    waiting = clean(again(node, lost))
    assert ["clean.execute_clean_step"] == agent.names()
    assert "id-1" == waiting.progress["command"]


def test_a_step_lost_in_a_restart_is_sent_again_but_not_for_ever(agent, node):
    outcome = clean(node)
    for _ in range(in_band.RESTARTS):
        agent.restart()
        outcome = clean(again(node, outcome))
        assert isinstance(outcome, Wait)
    agent.restart()
    assert isinstance(clean(again(node, outcome)), Failed)


def test_no_order_is_sent_without_the_lease(agent, node):
    def lost():
        raise LeaseLost("another conductor has this node")

    with pytest.raises(LeaseLost):
        clean(replace(node, before_order=lost))
    assert [] == agent.received


def test_a_step_that_asks_for_a_reboot_gets_one_and_the_agent_is_awaited(agent, node):
    step = {**ERASE, "reboot_requested": True}
    node = replace(node, power_state="power on")
    waiting = clean(node, step)
    agent.finish_step(result="ok")
    rebooting = clean(again(node, waiting), step)
    assert 0 == rebooting.poll_after
    off_node = again(node, rebooting)
    off = clean(off_node, step)
    # the agent is forgotten, in the row, before the next one can boot
    assert (0, None) == (off.poll_after, off_node.reports["agent"])
    booting = clean(again(node, off, agent=Agent()), step)
    assert 0 == booting.poll_after
    assert Wait(booting.progress) == clean(again(node, booting, agent=Agent()), step)
    agent.restart()
    agent.answers["clean.get_clean_steps"] = {
        "clean_steps": {"manager": [step]},
        "hardware_manager_version": {"manager": "1"},
    }
    assert Done({"result": "ok"}) == clean(again(node, booting), step)


def test_what_a_raid_step_made_is_reported(agent, node):
    step = {"interface": "raid", "step": "create_configuration"}
    waiting = clean(node, step)
    agent.finish_step(result={"logical_disks": [1]})
    later = again(node, waiting)
    clean(later, step)
    assert {"logical_disks": [1]} == later.reports["raid_config"]


def test_the_agents_steps_are_collected_once_it_has_announced_itself(agent, node):
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
    (step,) = in_band.steps_of(node, Flow.CLEAN)
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


def test_an_agent_without_the_deploy_extension_has_no_deploy_steps(agent, node):
    agent.refusal = (404, "Extension with id deploy not found")
    assert Done() == in_band.collect(node, Flow.DEPLOY)
    assert {"deploy": []} == node.reports["agent_steps"]


def test_errors_of_the_client_never_show_the_token(node):
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


def test_the_poller_sees_when_a_command_has_ended():
    running, ended = {"command_status": "RUNNING"}, {"command_status": "FAILED"}
    assert not in_band.command_ended({"commands": [ended, running]})
    assert in_band.command_ended({"commands": [running, ended]})
    assert in_band.command_ended({"commands": []})
    with pytest.raises(Unexpected):
        in_band.command_ended({"faultstring": "no"})


def run_to_end(node, kind, method, on_wait):
    """Call a row until it is done, as the worker does; `on_wait` is told of each Wait."""
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
    info = IMAGE | {"image_source": f"{images.url}/disk.raw"}
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
    told = agent.received[1][1]["step"]["args"]["image_info"]
    assert ("a" * 64, "raw") == (told["os_hash_value"], told["disk_format"])
    assert "uefi" == agent.received[3][1]["target_boot_mode"]


OLD = ("deploy", "standby.get_partition_uuids")
WRITTEN = (
    "prepare_image: image (disk.raw) written to device /dev/sda"
    " root_uuid=11-aa efi_system_partition_uuid=22-bb"
)


@pytest.fixture
def old(agent, images):
    """A node whose agent was built before there were deploy steps."""
    agent.lacks = OLD
    images.files["/disk.raw"] = MBR
    info = IMAGE | {"image_source": f"{images.url}/disk.raw", "configdrive": "H4sI"}
    return target(interfaces=DIRECT, instance_info=info, agent=agent.seen())


def test_an_agent_without_the_deploy_extension_writes_the_image_by_standby(agent, old):
    deploy = old.driver.deploy
    assert Done() == in_band.collect(old, Flow.DEPLOY)
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


def test_an_agent_without_the_deploy_extension_writes_an_image_once_although_its_conductor_dies(
    agent, old
):
    write = old.driver.deploy.write_image
    write(old)
    waiting = write(replace(old, resumed=True))
    assert isinstance(waiting, Wait)
    agent.finish({"result": WRITTEN})
    assert isinstance(write(replace(old, resumed=True)), Done)
    assert ["standby.prepare_image"] == agent.names()


def test_an_agent_without_the_deploy_extension_says_why_it_could_not_write(agent, old):
    waiting = old.driver.deploy.write_image(old)
    agent.fail("no space")
    failed = old.driver.deploy.write_image(again(old, waiting))
    assert "standby.prepare_image: no space" in failed.reason
    assert "disk.raw" in failed.reason


def test_a_bootloader_is_installed_by_an_agent_that_takes_no_boot_mode(agent, old):
    install = old.driver.deploy.prepare_instance_boot
    waiting = install(old)
    agent.fail("install_bootloader() got an unexpected keyword argument 'target_boot_mode'")
    waiting = install(again(old, waiting))
    assert Wait({"no_mode": True}, poll_after=0) == waiting
    waiting = install(again(old, waiting))
    agent.finish()
    assert Done() == install(again(old, waiting))
    assert [True, False] == ["target_boot_mode" in params for _, params in agent.received]


def test_an_agent_that_calls_before_the_power_is_seen_to_be_on_is_not_waited_for(agent):
    agent.answers = {
        "deploy.get_deploy_steps": {"deploy_steps": {}, "hardware_manager_version": {"m": "1"}}
    }
    node = target(interfaces=DIRECT, agent=agent.seen(), power_state="power on")
    assert Done() == node.driver.deploy.deploy(node)


def test_an_agent_that_does_not_switch_off_is_switched_off(agent):
    node = target(interfaces=DIRECT, agent=agent.seen(), power_state="power on")
    outcome, node = run_to_end(node, "deploy", "tear_down_agent", lambda _node: None)
    assert (Done(), "power off") == (outcome, node.power_state)


def test_a_machine_that_must_stay_on_is_reset_into_the_agent_and_never_switched_off(agent):
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
    forgetting = power.power_on(node)  # in the row, before another agent can boot
    assert ([], 0, {"agent": None}) == (ordered, forgetting.poll_after, node.reports)
    assert Done() == power.power_on(again(node, forgetting, agent=Agent()))
    assert [1] == ordered
    assert {"agent": None} == node.reports


def test_bios_whole_disk_images_need_no_bootloader(agent):
    info = {**IMAGE, "capabilities": '{"boot_mode": "bios"}'}
    node = target(interfaces=DIRECT, agent=agent.seen(), instance_info=info)
    assert Done() == node.driver.deploy.prepare_instance_boot(node)
    assert [] == agent.received


def test_a_config_drive_is_passed_on_or_made():
    assert configdrive.encoded(None) is None
    assert "http://drive" == configdrive.encoded("http://drive")
    made = configdrive.encoded({"meta_data": {"uuid": "u"}, "user_data": "#cloud-config"})
    iso = gzip.decompress(base64.b64decode(made))
    assert b"CD001" == iso[16 * 2048 + 1 :][:5]
    assert b"config-2" == iso[16 * 2048 + 40 :][:8]
    assert 0 == len(iso) % 2048
    names = [f"/openstack/latest/{name}" for name in ("meta_data.json", "user_data")]
    assert [b'{"uuid": "u"}', b"#cloud-config"] == on(iso, *names)
    with pytest.raises(InvalidDriverInfo, match="motd"):
        configdrive.encoded({"motd": "hello"})
