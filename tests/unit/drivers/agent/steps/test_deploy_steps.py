"""Deploy steps: images, bootloaders, agents without the deploy extension, power."""

from dataclasses import replace

import pytest

from drivers.agent import in_band
from drivers.core.steps import Done, Flow, Wait
from drivers.core.target import Agent
from tests.unit.drivers.machines import target

from .conftest import DIRECT, again

IMAGE = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}
#: the first bytes of a disk with a partition table
MBR = bytes(510) + b"\x55\xaa" + bytes(512)


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
    image_info = args["image_info"]
    assert ("a" * 64, "raw") == (image_info["os_hash_value"], image_info["disk_format"])
    assert "image_type" not in image_info
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
    (write_command, image), (boot_command, bootloader) = agent.received
    assert ("standby.prepare_image", "image.install_bootloader") == (write_command, boot_command)
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
