"""Deploy interfaces: steps, frames and refused nodes of each."""

from dataclasses import replace

import pytest

from drivers.agent.anaconda import AnacondaDeploy
from drivers.boot.network import Ipxe
from drivers.core.errors import BadArgument, InvalidDriverInfo
from drivers.core.steps import Done, Failed, Flow, Wait
from drivers.core.target import Agent, VolumeConnector, VolumeTarget
from tests.unit.drivers.machines import image_server, scripted_agent, target, with_option

CORE = {
    "deploy": 100, "prepare_instance_boot": 60, "tear_down_agent": 40,
    "switch_to_tenant_network": 30, "boot_instance": 20,
}  # fmt: skip
VOLUME = VolumeTarget("v", "iscsi", "1", 0)
BOOT_AGENT = {("boot", "prepare_ramdisk"), ("power", "power_on")}


def node(deploy, boot="fake", **fields):
    return target(interfaces={"deploy": deploy, "boot": boot}, **fields)


def steps(it, flow=Flow.DEPLOY):
    return {step.name: step.priorities[flow] for step in it.driver.deploy.get_steps(it, flow)}


@pytest.mark.parametrize(
    ("deploy", "expected"),
    [
        ("direct", CORE | {"write_image": 80}),
        ("custom-agent", CORE),
        ("ramdisk", {"deploy": 100}),
        ("anaconda", {"deploy": 100}),
        ("noop", {"deploy": 100}),
    ],
)
def test_each_interface_has_ironics_steps(deploy, expected):
    assert expected == steps(node(deploy))


@pytest.mark.parametrize("deploy", ["direct", "custom-agent", "ramdisk", "anaconda"])
def test_every_interface_but_noop_cleans_with_the_agent(deploy):
    it = node(deploy)
    assert ("deploy", "await_clean_agent") == it.driver.deploy.frame(it, "clean").collect


def test_noop_has_no_steps():
    it = node("noop")
    assert Done() == it.driver.deploy.deploy(it)
    assert {} == it.reports


def test_a_machine_that_boots_from_a_volume_needs_no_image_and_no_agent():
    it = node("direct", volume_targets=(VOLUME,))
    deploy = it.driver.deploy
    deploy.validate(it)
    assert CORE | {"boot_agent": 0} == steps(it)
    frame = deploy.frame(it, "deploy")
    assert ("boot", "prepare_ramdisk") not in frame.before
    assert Done() == deploy.prepare(it)
    assert Done() == deploy.deploy(it)
    assert Done() == deploy.prepare_instance_boot(it)
    assert Done() == deploy.tear_down_agent(it)


def test_an_agent_is_booted_beside_a_volume_on_request():
    with scripted_agent() as agent:
        agent.answers["deploy.get_deploy_steps"] = {
            "deploy_steps": {}, "hardware_manager_version": {"m": "1"},
        }  # fmt: skip
        it = node("direct", volume_targets=(VOLUME,))
        deploy = it.driver.deploy
        assert ("deploy", "boot_agent") == deploy.frame(it, "deploy").collect
        waiting = deploy.boot_agent(it)
        assert isinstance(waiting, Wait)
        assert "power on" == it.reports["power_state"]
        called = replace(
            it, agent=agent.seen(), power_state="power on", progress=waiting.progress, reports={}
        )
        assert Done() == deploy.boot_agent(called)
        assert {"m": "1"} == called.reports["hardware_manager_version"]


@pytest.mark.parametrize(
    ("fast_track", "silent_for", "power", "goes_on"),
    [
        (True, 10.0, "power on", True),
        (True, 1000.0, "power on", False),
        (True, None, "power on", False),
        (True, 10.0, "power off", False),
        (False, 10.0, "power on", False),
    ],
)
def test_fast_track_does_not_boot_a_running_agent_again(fast_track, silent_for, power, goes_on):
    it = node(
        "direct",
        driver_info={"fast_track": fast_track},
        agent=Agent(url="https://agent", silent_for=silent_for),
        power_state=power,
    )
    steps_before = {*it.driver.deploy.frame(it, "clean").before}
    assert goes_on == BOOT_AGENT.isdisjoint(steps_before)
    assert goes_on == (("power", "power_off") not in steps_before)
    steps_after = it.driver.deploy.frame(it, "clean").after
    assert fast_track == (("power", "power_off") not in steps_after)
    assert ("deploy", "await_clean_agent") in steps_before


def test_fast_track_deploys_with_the_running_agent():
    with scripted_agent() as agent:
        agent.answers["deploy.get_deploy_steps"] = {
            "deploy_steps": {}, "hardware_manager_version": {},
        }  # fmt: skip
        it = node(
            "direct",
            driver_info={"fast_track": True},
            agent=replace(agent.seen(), silent_for=1.0),
            power_state="power on",
            disable_power_off=True,  # would be reset into the agent
        )
        assert Done() == it.driver.deploy.deploy(it)
        assert "power_state" not in it.reports


def test_an_image_that_this_conductor_serves_is_removed_at_every_end():
    it = node("direct", instance_info={"image_download_source": "local"})
    frame = it.driver.deploy.frame(it, "deploy")
    withdrawal = ("deploy", "withdraw_image")
    assert (withdrawal, withdrawal) == (frame.after[-1], frame.on_failure[-1])


@pytest.mark.parametrize(
    ("boot", "info", "complaint"),
    [
        ("redfish-virtual-media", {}, "boot_iso, or kernel and ramdisk, are required"),
        ("redfish-virtual-media", {"boot_iso": "http://i", "kernel": "k"}, "not both"),
        ("redfish-virtual-media", {"boot_iso": "/tmp/i"}, "no http or https URL"),
        ("pxe", {"boot_iso": "http://i"}, "boot_interface pxe cannot boot"),
        ("fake", {"boot_iso": "http://i"}, "boot_interface fake cannot boot"),
    ],
)
def test_a_ramdisk_that_cannot_be_booted_is_refused(boot, info, complaint):
    it = node("ramdisk", boot, instance_info=info)
    with pytest.raises(InvalidDriverInfo, match=complaint):
        it.driver.deploy.validate(it)


class Installers(Ipxe):
    options = frozenset({"kickstart"})


@pytest.fixture
def installing(monkeypatch):
    monkeypatch.setattr(Ipxe, "options", Installers.options)
    urls = {name: f"http://mirror/{name}" for name in ("kernel", "ramdisk", "stage2")}
    info = {"image_source": "http://mirror/tree", **urls}
    options = with_option("deploy", http_url="http://conductor")
    return node("anaconda", "ipxe", instance_info=info, power_state="power off", options=options)


def test_an_installer_is_started_and_its_end_awaited(installing, monkeypatch):
    monkeypatch.setattr(Ipxe, "prepare_instance", lambda _self, _target: None)
    deploy = installing.driver.deploy
    deploy.validate(installing)
    waiting = deploy.deploy(installing)
    assert Wait({"started": True}) == waiting
    for status, outcome in (
        ("start", waiting),
        ("end", Done()),
        ("error", Failed("the installer failed: no disk")),
    ):
        agent = Agent(url="", status=status, status_message="no disk")
        assert outcome == deploy.deploy(
            replace(installing, progress=waiting.progress, agent=agent, power_state="power on")
        )


def test_an_installer_needs_a_boot_interface_that_can_start_it():
    it = node("anaconda")
    assert isinstance(it.driver.deploy, AnacondaDeploy)
    with pytest.raises(InvalidDriverInfo, match="boot_interface fake cannot start an installer"):
        it.driver.deploy.validate(it)


@pytest.mark.parametrize(
    ("volumes", "connectors", "complaint"),
    [
        ((VOLUME,), (), "does not support iSCSI"),
        ((replace(VOLUME, volume_type="fibre_channel"),), (), None),
        ((), (), None),
    ],
)
def test_external_storage_requires_a_boot_interface_that_reaches_the_volume(
    volumes, connectors, complaint
):
    it = target(
        interfaces={"storage": "external"}, volume_targets=volumes, volume_connectors=connectors
    )
    if complaint is None:
        it.driver.storage.validate(it)
        return
    with pytest.raises(InvalidDriverInfo, match=complaint):
        it.driver.storage.validate(it)


def test_iscsi_requires_a_volume_connector(monkeypatch):
    monkeypatch.setattr(Ipxe, "options", frozenset({"iscsi_volume"}))
    it = target(interfaces={"storage": "external", "boot": "ipxe"}, volume_targets=(VOLUME,))
    with pytest.raises(InvalidDriverInfo, match="no volume connector"):
        it.driver.storage.validate(it)
    connector = VolumeConnector("c", "iqn", "iqn.2026-01.org.example:node")
    it.driver.storage.validate(replace(it, volume_connectors=(connector,)))


ROOT = {"raid_level": "1", "size_gb": 100, "controller": "software", "is_root_volume": True}
DATA = {"raid_level": "0", "size_gb": "MAX", "controller": "software"}


def raid_node(agent, **fields):
    record = {"uuid": "u", "target_raid_config": {"logical_disks": [ROOT, DATA]}}
    return target(interfaces={"raid": "agent"}, agent=agent.seen(), record=record, **fields)


@pytest.mark.parametrize(
    ("args", "built"),
    [
        ({}, [ROOT, DATA]),
        ({"create_nonroot_volumes": False}, [ROOT]),
        ({"create_root_volume": False}, [DATA]),
    ],
)
def test_raid_is_built_by_the_agent_from_the_target_raid_config(args, built):
    with scripted_agent() as agent:
        it = raid_node(agent)
        waiting = it.driver.raid.create_configuration(it, **args)
        ((name, params),) = agent.received
        assert "clean.execute_clean_step" == name
        assert built == params["node"]["target_raid_config"]["logical_disks"]
        agent.finish_step(result={"logical_disks": built})
        later = replace(it, progress=waiting.progress, reports={})
        assert isinstance(it.driver.raid.create_configuration(later, **args), Done)
        assert {"logical_disks": built} == later.reports["raid_config"]


def test_raid_may_replace_existing_volumes():
    with scripted_agent() as agent:
        it = raid_node(agent, step_id="row-1")
        create = it.driver.raid.create_configuration
        deleting = create(it, delete_existing=True)
        agent.finish_step()
        building = create(replace(it, progress=deleting.progress), delete_existing=True)
        assert ["delete_configuration", "create_configuration"] == [
            params["step"]["step"] for _, params in agent.received
        ]
        agent.finish_step(result={"logical_disks": [ROOT]})
        assert isinstance(
            create(replace(it, progress=building.progress), delete_existing=True), Done
        )


def test_raid_without_a_target_is_refused():
    with scripted_agent() as agent:
        it = raid_node(agent)
        with pytest.raises(BadArgument, match="no logical disk is left"):
            it.driver.raid.create_configuration(
                it, create_root_volume=False, create_nonroot_volumes=False
            )
        with pytest.raises(InvalidDriverInfo, match="target_raid_config of the node is empty"):
            it.driver.raid.create_configuration(replace(it, record={}))
        assert [] == agent.received


def test_priorities_of_raid_in_automated_cleaning_follow_the_settings():
    it = target(
        interfaces={"raid": "agent"}, options=with_option("deploy", create_configuration_priority=5)
    )
    priorities = {step.name: step.priorities[Flow.CLEAN] for step in it.driver.raid.get_steps(it, Flow.CLEAN)}  # fmt: skip
    assert {"create_configuration": 5, "delete_configuration": 0} == priorities


@pytest.mark.parametrize(
    ("disks", "complaint"),
    [
        ([ROOT, DATA], None),
        ([DATA, ROOT], "logical_disks/0/raid_level: the first of two"),
        ([ROOT, DATA, DATA], "one or two"),
        ([ROOT | {"raid_level": "2"}], "software RAID has 0, 1, 5, 6, 1\\+0, not 2"),
        ([ROOT, {"raid_level": "1", "size_gb": 1}], "all with controller software"),
    ],
)
def test_a_software_raid_that_cannot_be_built_is_refused(disks, complaint):
    it = target(interfaces={"raid": "agent"})
    if complaint is None:
        it.driver.raid.validate_raid_config(it, {"logical_disks": disks})
        return
    with pytest.raises(InvalidDriverInfo, match=complaint):
        it.driver.raid.validate_raid_config(it, {"logical_disks": disks})


def test_the_servers_facts_about_an_image_are_kept_for_the_agent():
    with image_server() as images:
        images.files["/disk.raw"] = bytes(510) + b"\x55\xaa"
        info = {"image_source": f"{images.url}/disk.raw", "image_checksum": "a" * 64}
        it = node("direct", instance_info=info)
        assert Done() == it.driver.deploy.prepare(it)
    assert {
        "urls": [info["image_source"]],
        "disk_format": "raw",
        "os_hash_algo": "sha256",
        "os_hash_value": "a" * 64,
    } == it.reports["driver_internal_info"]["image"]
