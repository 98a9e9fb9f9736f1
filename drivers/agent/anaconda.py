"""
Deploying by a distribution's installer: interface `anaconda`.

The boot interface starts the installer with a kickstart file. By commands in that file the
installer posts its status as heartbeats: start, end or error.
"""

from drivers.agent.flows import AgentFlows
from drivers.core.conditions import Condition, conditions
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface import Frame
from drivers.core.kinds import boot_settings
from drivers.core.steps import Done, Failed, Outcome, Wait, step
from drivers.core.target import Target, run_parts
from drivers.images import config_drive, instance
from drivers.net import service_addresses

_FIELDS = ("kernel", "ramdisk", "stage2")


class AnacondaDeploy(AgentFlows):
    """
    The installer installs the system; after its heartbeat `end`, the machine boots from its disk.
    """

    name = "anaconda"
    opt_in = True  # conductors fetch and render templates that tenants write
    boot_option = "kickstart"
    frames = AgentFlows.frames | {
        "deploy": Frame(
            before=(
                ("power", "power_off"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_provisioning_network"),
                ("storage", "attach_volumes"),
                ("deploy", "prepare"),
            ),
            after=(
                ("power", "power_off"),
                ("boot", "clean_up_instance"),
                ("deploy", "boot_from_disk"),
                ("network", "remove_provisioning_network"),
                ("network", "configure_tenant_networks"),
                ("power", "power_on"),
            ),
            on_failure=(
                ("deploy", "stop_after_failure"),
                ("boot", "clean_up_instance"),
                ("network", "remove_provisioning_network"),
            ),
        )
    }

    def validate(self, target: Target) -> None:
        super().validate(target)
        info, boot = target.instance_info, target.driver.boot
        if "kickstart" not in boot.options:
            raise InvalidDriverInfo(
                f"boot_interface {boot.name} cannot start an installer with a kickstart file"
            )
        if not info.get("image_source"):
            raise InvalidDriverInfo("instance_info/image_source is required and missing")
        for name in _FIELDS:
            if not info.get(name):
                raise InvalidDriverInfo(f"instance_info/{name} is required and missing")
        instance.installer_source(target)
        instance.installer_stage2(target)
        instance.kernel_and_ramdisk(target)
        instance.kickstart_template(target)
        config_drive.files(target)
        service_addresses.of_files(target)  # for the kickstart file, with any boot interface

    @conditions(leaves=[Condition.UNWRITTEN])
    def prepare(self, target: Target) -> Outcome:
        """Frame step: validate the fields of the installation."""
        self.validate(target)
        return Done()

    @step(deploy=100, leaves=[Condition.STARTED, Condition.BOOTABLE])
    def deploy(self, target: Target) -> Outcome:
        """Start the installer and wait for its end."""
        status = target.agent.status
        if not target.progress.get("started") and not status:
            boot, power = target.driver.boot, target.driver.power
            outcome = run_parts(target, {"boot": boot.prepare_instance, "power": power.power_on})
            if not isinstance(outcome, Done):
                return outcome
        if status == "error":
            return Failed(
                f"the installer failed: {target.agent.status_message or 'no reason given'}"
            )
        if status == "end":
            return Done()
        return Wait({"started": True})

    @conditions(needs=[Condition.BOOTABLE], leaves=[Condition.INSTANCE_NEXT])
    def boot_from_disk(self, target: Target) -> Outcome:
        """Frame step: prepare firmware and boot device for the installed system on the disk."""
        return run_parts(target, {"firmware": boot_settings.for_instance, "device": self._set_disk})

    def _set_disk(self, target: Target) -> None:
        target.driver.management.set_boot_device(target, "disk", persistent=True)
