"""
Deploying with the agent: interface `direct`.

The agent boots from its ramdisk, says which steps it can do, fetches the image itself and writes it
to the disk; then the machine boots from that disk. `AgentDeploy` is what every interface of this
kind shares; `Direct` adds the writing of an image.
"""

from collections.abc import Mapping
from typing import Any

from drivers.agent import client, image, in_band
from drivers.errors import HardwareError, LeaseLost
from drivers.interfaces import POWER_OFF, Deploy, Frame
from drivers.steps import Done, Flow, Outcome, Resume, Wait, nest, step
from drivers.target import Target

_BOOT_AGENT = (("boot", "prepare_ramdisk"), ("power", "power_on"))


class AgentDeploy(Deploy):
    """Cleaning, deploying and servicing through the agent."""

    frames = {
        "clean": Frame(
            before=(
                ("power", "power_off"),
                ("network", "add_cleaning_network"),
                *_BOOT_AGENT,
                ("deploy", "await_clean_agent"),
            ),
            collect=("deploy", "await_clean_agent"),
            after=(
                ("power", "power_off"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_cleaning_network"),
                ("power", "reset_if_kept_on"),
            ),
            # never powered off: the operator may want to see what the agent did
            on_failure=(("boot", "clean_up_ramdisk"), ("network", "remove_cleaning_network")),
        ),
        "deploy": Frame(
            before=(
                ("power", "power_off"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_provisioning_network"),
                ("deploy", "prepare"),
                ("boot", "prepare_ramdisk"),
            ),
            collect=("deploy", "deploy"),
            on_failure=(
                ("deploy", "stop_after_failure"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_provisioning_network"),
            ),
        ),
        "delete": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_instance"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "remove_provisioning_network"),
            ),
        ),
        "service": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_instance"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_servicing_network"),
                *_BOOT_AGENT,
                ("deploy", "await_service_agent"),
            ),
            collect=("deploy", "await_service_agent"),
            after=(
                ("power", "power_off"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_servicing_network"),
                ("network", "configure_tenant_networks"),
                ("boot", "prepare_instance"),
                ("power", "power_on"),
            ),
        ),
        "rescue": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_instance"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_rescuing_network"),
                *_BOOT_AGENT,
                ("rescue", "rescue"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_rescuing_network"),
                ("network", "configure_tenant_networks"),
            ),
            on_failure=(
                ("power", "power_off"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_rescuing_network"),
            ),
        ),
        "unrescue": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_ramdisk"),
                ("rescue", "unrescue"),
                ("boot", "prepare_instance"),
                ("power", "power_on"),
            ),
        ),
    }
    properties = {
        "deploy_forces_oob_reboot": "true: the BMC, not the agent, powers off after a deployment",
        "agent_verify_ca": "Authorities that signed the agent's certificate; or true, false",
    }

    def await_clean_agent(self, target: Target) -> Outcome:
        """Row of frames: the agent runs, and its clean steps are known."""
        return in_band.collect(target, Flow.CLEAN)

    def await_service_agent(self, target: Target) -> Outcome:
        """Row of frames: the agent runs, and its service steps are known."""
        return in_band.collect(target, Flow.SERVICE)

    def prepare(self, target: Target) -> Outcome:
        """Row of frames: what is to be deployed makes sense."""
        self.validate(target)
        target.report(
            driver_internal_info={
                "deploy_boot_mode": image.boot_mode(target),
                "is_whole_disk_image": image.is_whole_disk(target),
            }
        )
        return Done()

    def stop_after_failure(self, target: Target) -> Outcome:
        """Row of frames: the machine is off, unless `power_off_after_deploy_failure` is not set."""
        if target.options["deploy"]["power_off_after_deploy_failure"]:
            return target.driver.power.power_off(target)
        return Done()

    def execute_in_band(self, target: Target, flow: Flow, step: Mapping[str, Any]) -> Outcome:
        return in_band.execute(target, flow, step)

    @step(deploy=100)
    def deploy(self, target: Target) -> Outcome:
        """The agent runs, and its deploy steps are known."""
        if not target.progress.get("booted"):
            outcome = nest(target.driver.power.power_on(target.part("power")), "power", {})
            if not isinstance(outcome, Done):
                return outcome
            if not target.agent.url:  # else it was faster than our look at the power state
                return Wait({"booted": True})
        return in_band.collect(target, Flow.DEPLOY)

    @step(deploy=60, resume=Resume.PROBE)
    def prepare_instance_boot(self, target: Target) -> Outcome:
        """The machine boots the instance from its disk from now on."""
        progress = target.progress
        if not progress.get("bootable") and self._needs_bootloader(target):
            outcome = self._install_bootloader(target)
            if not isinstance(outcome, Done):
                return outcome
        prepared = target.driver.boot.prepare_instance(target.part("boot"))
        return nest(prepared, "boot", {"bootable": True})

    @step(deploy=40)
    def tear_down_agent(self, target: Target) -> Outcome:
        """
        The agent's work is on the disk, and the machine is off.

        The agent is asked to switch off; when the machine is still on after
        `[agent]post_deploy_get_power_state_retries` looks, the BMC does it.
        """
        power, options = target.driver.power, target.options["agent"]
        if "power" in target.progress:
            return nest(power.power_off(target.part("power")), "power", {})
        looks = target.progress.get("looks")
        if target.disable_power_off:
            self._dismiss(target, "system.lockdown")
            return Done()
        if power.get_power_state(target) == POWER_OFF:
            target.forget_agent()
            target.report(power_state=POWER_OFF)
            return Done()
        if looks is None:
            looks = 0
            by_bmc = str(target.driver_info.get("deploy_forces_oob_reboot")).lower() == "true"
            dismissed = self._dismiss(target, None if by_bmc else "standby.power_off")
            if by_bmc or not dismissed:
                return nest(power.power_off(target.part("power")), "power", {})
        if looks >= options["post_deploy_get_power_state_retries"]:
            return nest(power.power_off(target.part("power")), "power", {})
        interval = float(options["post_deploy_get_power_state_retry_interval"])
        return Wait({"looks": looks + 1}, poll_after=interval)

    @step(deploy=30)
    def switch_to_tenant_network(self, target: Target) -> Outcome:
        """The machine is on the networks of its tenant."""
        network = target.driver.network
        removed = nest(network.remove_provisioning_network(target.part("old")), "old", {})
        if not isinstance(removed, Done):
            return removed
        return nest(network.configure_tenant_networks(target.part("new")), "new", {})

    @step(deploy=20)
    def boot_instance(self, target: Target) -> Outcome:
        """The instance boots."""
        return target.driver.power.power_on(target)

    def _needs_bootloader(self, target: Target) -> bool:
        return not image.is_whole_disk(target) or image.boot_mode(target) == "uefi"

    def _install_bootloader(self, target: Target) -> Outcome:
        def params() -> dict[str, Any]:
            asked = client.run(target, "standby.get_partition_uuids", {}, wait=True)
            partitions = client.result(target, asked)
            return {
                "root_uuid": partitions.get("root uuid"),
                "efi_system_part_uuid": partitions.get("efi system partition uuid"),
                "prep_boot_part_uuid": partitions.get("PReP Boot partition uuid"),
                "target_boot_mode": image.boot_mode(target),
            }

        return in_band.once(target, in_band.Order("image.install_bootloader", params))

    def _dismiss(self, target: Target, command: str | None) -> bool:
        """Have the agent write its buffers, then give it a last command; whether it took both."""
        try:
            client.result(target, client.run(target, "standby.sync", {}, wait=True))
            if command is not None:
                client.run(target, command, {}, wait=False)
        except LeaseLost:
            raise
        except HardwareError:  # the BMC will do it: a deployment must not fail at its very end
            return False
        return True


class Direct(AgentDeploy):
    """The agent fetches an image over HTTP and writes it to the disk."""

    name = "direct"

    def validate(self, target: Target) -> None:
        image.validate(target)

    @step(deploy=80, resume=Resume.PROBE)
    def write_image(self, target: Target) -> Outcome:
        """The image, and the config drive, are on the disk."""
        return in_band.execute(target, Flow.DEPLOY, image.write_step(target))


class CustomAgent(AgentDeploy):
    """The agent's own steps put the instance on the disk."""

    name = "custom-agent"
