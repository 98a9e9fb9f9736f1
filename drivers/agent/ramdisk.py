"""
Booting a ramdisk as the instance: interface `ramdisk`. Nothing is written to a disk.
"""

from drivers.agent.flows import AgentFlows
from drivers.core.conditions import Condition
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface import Frame
from drivers.core.steps import Done, Outcome, step
from drivers.core.target import Target, run_parts
from drivers.images import instance


class RamdiskDeploy(AgentFlows):
    """
    The machine boots `instance_info/boot_iso`, or `kernel` and `ramdisk`, at every start.

    The agent takes part in cleaning only.
    """

    name = "ramdisk"
    boot_option = "ramdisk"
    frames = AgentFlows.frames | {
        "deploy": Frame(
            before=(
                ("power", "power_off"),
                ("network", "unconfigure_tenant_networks"),
                ("storage", "attach_volumes"),
                ("deploy", "prepare"),
                ("network", "configure_tenant_networks"),
            ),
            on_failure=(("deploy", "stop_after_failure"),),
        )
    }

    def validate(self, target: Target) -> None:
        super().validate(target)
        info, boot = target.instance_info, target.driver.boot
        iso, kernel, ramdisk = (info.get(name) for name in ("boot_iso", "kernel", "ramdisk"))
        if iso and (kernel or ramdisk):
            raise InvalidDriverInfo("instance_info: give boot_iso, or kernel and ramdisk, not both")
        if not iso and not (kernel and ramdisk):
            raise InvalidDriverInfo(
                "instance_info/boot_iso, or kernel and ramdisk, are required and missing"
            )
        image_field, field = ("boot_iso", "boot_iso") if iso else ("ramdisk", "kernel")
        if image_field not in boot.options:
            raise InvalidDriverInfo(
                f"instance_info/{field}: boot_interface {boot.name} cannot boot an instance from it"
            )
        if iso:
            instance.boot_iso(target)
        else:
            instance.kernel_and_ramdisk(target)
            instance.kernel_arguments(target)
        if info.get("configdrive") and "ramdisk_configdrive" not in boot.options:
            raise InvalidDriverInfo(
                f"instance_info/configdrive: boot_interface {boot.name} cannot add one to a ramdisk"
            )

    def prepare(self, target: Target) -> Outcome:
        """Frame step: validate the fields that name the ramdisk."""
        self.validate(target)
        return Done()

    @step(deploy=100, leaves=[Condition.INSTANCE, Condition.INSTANCE_NEXT])
    def deploy(self, target: Target) -> Outcome:
        """Boot the ramdisk."""
        boot, power = target.driver.boot, target.driver.power
        return run_parts(target, {"boot": boot.prepare_instance, "power": power.power_on})
