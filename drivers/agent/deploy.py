"""
Deploying with the agent: interfaces `direct` and `custom-agent`.

The agent boots from its ramdisk, says which steps it can do, fetches the image itself and writes it
to the disk; then the machine boots from that disk. `AgentDeploy` is what both share; `Direct` adds
the writing of an image.

A node that boots from a volume has nothing to write: no agent is booted for it, unless somebody
asks for the step `boot_agent`.
"""

from dataclasses import replace
from typing import Any

from drivers.agent import client, fast_track, image, in_band, logs, standby
from drivers.agent.flows import AgentFlows
from drivers.core.errors import HardwareError, LeaseLost, Unreachable
from drivers.core.interface import Frame, Rows
from drivers.core.kinds import POWER_OFF
from drivers.core.steps import Done, Failed, Flow, Outcome, Resume, Step, Wait, nest, step
from drivers.core.target import Target
from drivers.images import image_server, published

_WITHDRAW: Rows = (("deploy", "withdraw_image"),)


class AgentDeploy(AgentFlows):
    """Of the six steps of a deployment all but `write_image`, and `boot_agent` for volumes."""

    frames = AgentFlows.frames | {
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
                ("deploy", "keep_logs"),
                ("deploy", "stop_after_failure"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_provisioning_network"),
            ),
        ),
    }

    def prepare(self, target: Target) -> Outcome:
        """Row of frames: what is to be deployed makes sense."""
        self.validate(target)
        target.report(
            driver_internal_info={
                "deploy_boot_mode": image.boot_mode(target),
                "is_whole_disk_image": image.is_whole_disk(target),
                target.driver.boot.INSTANCE_NEXT: None,
            }
        )
        return Done()

    def frame(self, target: Target, flow: str) -> Frame:
        found = super().frame(target, flow)
        if flow == Flow.DEPLOY and _boots_from_volume(target):
            found = found.without((("boot", "prepare_ramdisk"),))
            found = replace(found, collect=("deploy", "boot_agent"))
        return found

    def get_steps(self, target: Target | None, flow: Flow) -> list[Step]:
        steps = super().get_steps(target, flow)
        from_volume = target is not None and _boots_from_volume(target)
        left_out = "write_image" if from_volume else "boot_agent"
        return [step for step in steps if step.name != left_out]

    @step(deploy=100)
    def deploy(self, target: Target) -> Outcome:
        """The agent runs, and its deploy steps are known; nothing for a machine with a volume."""
        if _boots_from_volume(target):
            return Done()
        return self._await_agent(target)

    @step(deploy=0)
    def boot_agent(self, target: Target) -> Outcome:
        """The agent runs on a machine that boots from a volume, for the sake of its own steps."""
        progress = target.progress
        if "agent" not in progress:
            outcome = nest(target.driver.boot.boot_agent_next(target.part("boot")), "boot", {})
            if not isinstance(outcome, Done):
                return outcome
            if "agent_token" in target.reports:  # it is written before the machine starts
                return Wait({"agent": {}}, poll_after=0)
        return nest(self._await_agent(target.part("agent")), "agent", {})

    def _await_agent(self, target: Target) -> Outcome:
        if not target.progress.get("booted") and not fast_track.runs(target):
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
        prepared = target.driver.boot.boot_instance_next(target.part("boot"))
        return nest(prepared, "boot", {"bootable": True})

    @step(deploy=40, resume=Resume.PROBE)
    def tear_down_agent(self, target: Target) -> Outcome:
        """
        The machine is off, and nothing of the agent's boot is left.

        The instance's boot is prepared again if a step has booted the agent since
        `prepare_instance_boot`.
        """
        if "boot" not in target.progress:
            outcome = self._end_agent(target)
            if not isinstance(outcome, Done):
                return outcome
        prepared = target.driver.boot.boot_instance_next(target.part("boot"))
        return nest(prepared, "boot", {})

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
        if _boots_from_volume(target):
            return False
        return not image.is_whole_disk(target) or image.boot_mode(target) == "uefi"

    def _install_bootloader(self, target: Target) -> Outcome:
        mode = (
            {} if target.progress.get("no_mode") else {"target_boot_mode": image.boot_mode(target)}
        )

        def params() -> dict[str, Any]:
            partitions = standby.partitions(target)
            return {
                "root_uuid": partitions.get("root uuid"),
                "efi_system_part_uuid": partitions.get("efi system partition uuid"),
                "prep_boot_part_uuid": partitions.get("PReP Boot partition uuid"),
                **mode,
            }

        outcome = in_band.once(target, in_band.Order("image.install_bootloader", params))
        if isinstance(outcome, Failed) and mode and "target_boot_mode" in outcome.reason:
            return Wait({"no_mode": True}, poll_after=0)  # an old agent finds the mode out itself
        return outcome

    def _end_agent(self, target: Target) -> Outcome:
        """
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
            if logs.wanted(target, failed=False):
                logs.keep(target)
            by_bmc = str(target.driver_info.get("deploy_forces_oob_reboot")).lower() == "true"
            dismissed = self._dismiss(target, None if by_bmc else "standby.power_off")
            if by_bmc or not dismissed:
                return nest(power.power_off(target.part("power")), "power", {})
        if looks >= options["post_deploy_get_power_state_retries"]:
            return nest(power.power_off(target.part("power")), "power", {})
        interval = float(options["post_deploy_get_power_state_retry_interval"])
        return Wait({"looks": looks + 1}, poll_after=interval)

    def _dismiss(self, target: Target, command: str | None) -> bool:
        """Have the agent write its buffers, then give it a last command; whether it took both."""
        try:
            if target.resumed and command and in_band.was_given(target, in_band.Order(command)):
                return True
            client.result(target, client.run(target, "standby.sync", {}, wait=True))
            if command is not None:
                client.run(target, command, {}, wait=False)
        except LeaseLost:
            raise
        except Unreachable:  # after a death: perhaps it is on its way already
            return target.resumed
        except HardwareError:  # the BMC will do it: a deployment must not fail at its very end
            return False
        return True


class Direct(AgentDeploy):
    """The agent fetches an image over HTTP and writes it to the disk."""

    name = "direct"
    frames = AgentDeploy.frames | {
        "deploy": replace(
            AgentDeploy.frames["deploy"],
            after=_WITHDRAW,
            on_failure=AgentDeploy.frames["deploy"].on_failure + _WITHDRAW,
        )
    }
    properties = AgentDeploy.properties | {
        "image_download_source": "http: the agent fetches images itself; local: conductors do",
        "image_http_proxy": "URL of the proxy through which agents fetch http images",
        "image_https_proxy": "URL of the proxy through which agents fetch https images",
        "image_no_proxy": "Hosts that agents reach without a proxy, separated by commas",
    }

    def validate(self, target: Target) -> None:
        if not _boots_from_volume(target):
            image.validate(target)

    def frame(self, target: Target, flow: str) -> Frame:
        found = super().frame(target, flow)
        if flow == Flow.DEPLOY and (_boots_from_volume(target) or not published.needed(target)):
            found = found.without(_WITHDRAW)
        return found

    def prepare(self, target: Target) -> Outcome:
        super().prepare(target)
        if not _boots_from_volume(target):
            target.report(driver_internal_info={image.EXAMINED: image.examine(target)})
        return Done()

    def withdraw_image(self, target: Target) -> Outcome:
        """Row of frames: this conductor serves the image no longer."""
        published.withdraw(target)
        return Done()

    @step(deploy=80, resume=Resume.PROBE)
    def write_image(self, target: Target) -> Outcome:
        """The image, and the config drive, are on the disk."""
        outcome = standby.write_image(target, image.write_step(target))
        if isinstance(outcome, Failed):  # the agent does not always say which image
            source = image_server.shown(str(target.instance_info["image_source"]))
            return replace(outcome, reason=f"{outcome.reason} (image {source})")
        return outcome


class CustomAgent(AgentDeploy):
    """The agent's own steps put the instance on the disk."""

    name = "custom-agent"


def _boots_from_volume(target: Target) -> bool:
    return not target.driver.storage.should_write_image(target)
