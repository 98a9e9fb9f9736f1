"""
Deploying with the agent: interfaces `direct` and `custom-agent`.

The agent boots from its ramdisk, lists its deploy steps, fetches the image and writes it to the
disk; then the machine boots from that disk. `AgentDeploy` holds the common steps; `Direct` adds
`write_image`.

A node that boots from a volume has no image to write. Its agent is booted only if the step
`boot_agent` is enabled.
"""

from dataclasses import replace

from drivers.agent import client, image, in_band, logs, raid, root_device, standby
from drivers.agent.flows import AgentFlows
from drivers.core import capabilities, fast_track
from drivers.core.conditions import AS_FOUND, Condition, Conditions, conditions
from drivers.core.errors import HardwareError, LeaseLost, Unreachable
from drivers.core.interface import Frame, Rows
from drivers.core.interface_kinds import POWER_OFF
from drivers.core.steps import Done, Failed, Flow, Outcome, Resume, Step, Wait, step
from drivers.core.target import Target, run_parts
from drivers.images import published
from drivers.net import urls

_WITHDRAW: Rows = (("deploy", "withdraw_image"),)
#: Of `prepare_instance_boot` on a node with a boot volume: nothing is installed.
_OF_VOLUME = Conditions(leaves=(Condition.INSTANCE_NEXT,))


class AgentDeploy(AgentFlows):
    """The steps of a deployment except `write_image`, and `boot_agent` for nodes with a volume."""

    frames = AgentFlows.frames | {
        "deploy": Frame(
            before=(
                ("power", "power_off"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_provisioning_network"),
                ("storage", "attach_volumes"),
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

    def validate(self, target: Target) -> None:
        super().validate(target)
        root_device.validate(target)

    def prepare(self, target: Target) -> Outcome:
        """Frame step: validate the instance's fields and record its boot mode and kind of image."""
        self.validate(target)
        target.report(
            driver_internal_info={
                "deploy_boot_mode": capabilities.boot_mode(target),
                "is_whole_disk_image": image.is_whole_disk(target),
                target.driver.boot.INSTANCE_NEXT: None,
            }
        )
        return Done()

    def frame(self, target: Target, flow: str) -> Frame:
        frame = super().frame(target, flow)
        if flow == Flow.DEPLOY and _boots_from_volume(target):
            frame = frame.without((("boot", "prepare_ramdisk"),))
            frame = replace(frame, collect=("deploy", "boot_agent"))
        return frame

    def conditions_of(self, target: Target, method: str) -> Conditions:
        conditions = super().conditions_of(target, method)
        if not _boots_from_volume(target):
            return conditions
        return {"deploy": AS_FOUND, "prepare": AS_FOUND, "prepare_instance_boot": _OF_VOLUME}.get(
            method, conditions
        )

    def get_steps(self, target: Target | None, flow: Flow) -> list[Step]:
        steps = super().get_steps(target, flow)
        from_volume = target is not None and _boots_from_volume(target)
        left_out = "write_image" if from_volume else "boot_agent"
        return [step for step in steps if step.name != left_out]

    @step(deploy=100, leaves=[Condition.AGENT])
    def deploy(self, target: Target) -> Outcome:
        """Boot the agent and read its deploy steps. Does nothing for a node with a boot volume."""
        if _boots_from_volume(target):
            return Done()
        return self._await_agent(target)

    @step(deploy=0, leaves=[Condition.AGENT, Condition.AGENT_NEXT])
    def boot_agent(self, target: Target) -> Outcome:
        """Boot the agent on a node with a boot volume, for the agent's own deploy steps."""
        boot = target.driver.boot.boot_agent_next
        return run_parts(target, {"boot": boot, "agent": self._await_agent})

    def _await_agent(self, target: Target) -> Outcome:
        if not target.progress.get("booted") and not fast_track.agent_runs(target):
            outcome = run_parts(target, {"power": target.driver.power.power_on})
            if not isinstance(outcome, Done):
                return outcome
            if not target.agent.url:  # else its heartbeat came before the power state was read
                return Wait({"booted": True})
        return in_band.collect(target, Flow.DEPLOY)

    @step(
        deploy=60, resume=Resume.PROBE,
        needs=[Condition.AGENT, Condition.WRITTEN],
        leaves=[Condition.INSTANCE_NEXT, Condition.BOOTABLE],
    )  # fmt: skip
    def prepare_instance_boot(self, target: Target) -> Outcome:
        """Set the machine to boot the instance from its disk."""
        if "boot" not in target.progress and self._needs_bootloader(target):
            outcome = self._install_bootloader(target)
            if not isinstance(outcome, Done):
                return outcome
        return run_parts(target, {"boot": target.driver.boot.boot_instance_next})

    @step(
        deploy=40, resume=Resume.PROBE,
        needs=[Condition.BOOTABLE], leaves=[Condition.OFF, Condition.INSTANCE_NEXT],
    )  # fmt: skip
    def tear_down_agent(self, target: Target) -> Outcome:
        """
        Power the machine off and remove the agent's boot files and settings.

        Prepares the instance's boot again, as a step may have booted the agent since
        `prepare_instance_boot`.
        """
        driver = target.driver
        parts = {"power": driver.power.power_off, "boot": driver.boot.boot_instance_next}
        if not parts.keys() & target.progress.keys():
            waiting = self._end_agent(target)
            if waiting is not None:
                return waiting
        return run_parts(target, parts)

    @step(deploy=30, needs=[Condition.OFF], leaves=[Condition.TENANT_NETWORKS])
    def switch_to_tenant_network(self, target: Target) -> Outcome:
        """
        Move the machine from the provisioning network to the tenant's networks.

        The result says so if the network interface switches no networks.
        """
        network = target.driver.network
        if not any(map(network.has, ("remove_provisioning_network", "configure_tenant_networks"))):
            return Done({"networks": f"unchanged by network interface {network.name}"})
        remove_network, configure_network = (
            network.remove_provisioning_network,
            network.configure_tenant_networks,
        )
        return run_parts(target, {"old": remove_network, "new": configure_network})

    @step(
        deploy=20,
        needs=[Condition.OFF, Condition.INSTANCE_NEXT], leaves=[Condition.INSTANCE],
    )  # fmt: skip
    def boot_instance(self, target: Target) -> Outcome:
        """Power the machine on to boot the instance."""
        return target.driver.power.power_on(target)

    def _needs_bootloader(self, target: Target) -> bool:
        if _boots_from_volume(target):
            return False
        return (
            not image.is_whole_disk(target)
            or capabilities.boot_mode(target) == "uefi"
            or raid.is_software(target)
        )

    def _install_bootloader(self, target: Target) -> Outcome:
        mode = (
            {}
            if target.progress.get("no_mode")
            else {"target_boot_mode": capabilities.boot_mode(target)}
        )

        def params() -> dict[str, object]:
            partitions = standby.partitions(target)
            root_uuid = (
                target.instance_info.get("image_rootfs_uuid") if raid.is_software(target) else None
            )
            return {
                "root_uuid": root_uuid or partitions.get("root uuid"),
                "efi_system_part_uuid": partitions.get("efi system partition uuid"),
                "prep_boot_part_uuid": partitions.get("PReP Boot partition uuid"),
                **mode,
            }

        outcome = in_band.run_once(target, in_band.Order("image.install_bootloader", params))
        if isinstance(outcome, Failed) and mode and "target_boot_mode" in outcome.reason:
            return Wait({"no_mode": True}, poll_after=0)  # an old agent detects the mode itself
        return outcome

    def _end_agent(self, target: Target) -> Wait | None:
        """
        Ask the agent to power the machine off; None once it is off, or if the BMC has to do it.

        The BMC has to do it after `[agent]post_deploy_get_power_state_retries` polls.
        """
        options, polls = target.options["agent"], target.progress.get("looks")
        if not target.driver.power.switches_off:  # this agent restarts the machine later
            if logs.are_kept(target, failed=False):
                logs.keep(target)
            self._dismiss(target, None)
            return None
        if target.disable_power_off:
            self._dismiss(target, "system.lockdown")
            return None
        if target.driver.power.get_power_state(target) == POWER_OFF:
            return None
        if polls is None:
            polls = 0
            if logs.are_kept(target, failed=False):
                logs.keep(target)
            by_bmc = str(target.driver_info.get("deploy_forces_oob_reboot")).lower() == "true"
            dismissed = self._dismiss(target, None if by_bmc else "standby.power_off")
            if by_bmc or not dismissed:
                return None
        if polls >= options["post_deploy_get_power_state_retries"]:
            return None
        interval = float(options["post_deploy_get_power_state_retry_interval"])
        return Wait({"looks": polls + 1}, poll_after=interval)

    def _dismiss(self, target: Target, command: str | None) -> bool:
        """
        Have the agent flush its buffers, then send it a last command.

        Returns whether the agent accepted both.
        """
        try:
            if target.resumed and command and in_band.was_sent(target, in_band.Order(command)):
                return True
            client.result(target, client.run(target, "standby.sync", {}, wait=True))
            if command is not None:
                client.run(target, command, {}, wait=False)
        except LeaseLost:
            raise
        except Unreachable:  # after a conductor's death, the machine may already be going down
            return target.resumed
        except HardwareError:  # leave it to the BMC: the deployment is complete but for this
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
        super().validate(target)
        if not _boots_from_volume(target):
            image.validate(target)

    def frame(self, target: Target, flow: str) -> Frame:
        frame = super().frame(target, flow)
        if flow == Flow.DEPLOY and (_boots_from_volume(target) or not published.needed(target)):
            frame = frame.without(_WITHDRAW)
        return frame

    @conditions(leaves=[Condition.UNWRITTEN])
    def prepare(self, target: Target) -> Outcome:
        super().prepare(target)
        if not _boots_from_volume(target):
            image_facts = image.facts(target)
            completed_target = image.described(target, image_facts)
            target.report(
                driver_internal_info={
                    image.FACTS: image_facts or None,
                    image.EXAMINED: image.examine(completed_target),
                    "is_whole_disk_image": image.is_whole_disk(completed_target),
                }
            )
        return Done()

    def withdraw_image(self, target: Target) -> Outcome:
        """Frame step: remove the image from this conductor's web server."""
        published.withdraw(target)
        return Done()

    @step(
        deploy=80, resume=Resume.PROBE,
        needs=[Condition.AGENT], leaves=[Condition.WRITTEN],
    )  # fmt: skip
    def write_image(self, target: Target) -> Outcome:
        """Write the image and the config drive to the disk."""
        outcome = standby.write_image(target, image.write_step(target))
        if isinstance(outcome, Failed):  # the agent does not always name the image
            source = urls.redacted(str(target.instance_info["image_source"]))
            return replace(outcome, reason=f"{outcome.reason} (image {source})")
        return outcome


class CustomAgent(AgentDeploy):
    """Deploys by the agent's own steps only."""

    name = "custom-agent"


def _boots_from_volume(target: Target) -> bool:
    return not target.driver.storage.should_write_image(target)
