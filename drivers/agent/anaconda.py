"""
Installing a system by its own installer: interface `anaconda`.

The boot interface starts the installer with a kickstart file, in which the installer is told to
call the heartbeat with its status: start, end or error.
"""

from drivers.agent.flows import AgentFlows
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface import Frame
from drivers.core.steps import Done, Failed, Outcome, Wait, nest, step
from drivers.core.target import Target
from drivers.images import instance

_FIELDS = ("kernel", "ramdisk", "stage2")


class AnacondaDeploy(AgentFlows):
    """The installer installs; the machine boots from its disk once it says that it has ended."""

    name = "anaconda"
    opt_in = True  # conductors fetch and render templates that tenants write
    boot_option = "kickstart"
    frames = AgentFlows.frames | {
        "deploy": Frame(
            before=(
                ("power", "power_off"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_provisioning_network"),
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

    def prepare(self, target: Target) -> Outcome:
        """Row of frames: what is to be installed makes sense."""
        self.validate(target)
        return Done()

    @step(deploy=100)
    def deploy(self, target: Target) -> Outcome:
        """The installer has started, and has said that it has ended."""
        progress, status = target.progress, target.agent.status
        if not progress.get("started") and not status:
            if "power" not in progress:
                prepared = target.driver.boot.prepare_instance(target.part("boot"))
                outcome = nest(prepared, "boot", {})
                if not isinstance(outcome, Done):
                    return outcome
            outcome = nest(target.driver.power.power_on(target.part("power")), "power", {})
            if not isinstance(outcome, Done):
                return outcome
        if status == "error":
            return Failed(
                f"the installer failed: {target.agent.status_message or 'no reason given'}"
            )
        if status == "end":
            return Done()
        return Wait({"started": True})

    def boot_from_disk(self, target: Target) -> Outcome:
        """Row of frames: the machine boots what the installer has put on its disk."""
        target.driver.management.set_boot_device(target, "disk", persistent=True)
        return Done()
