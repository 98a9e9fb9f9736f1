"""
The kinds of interfaces, one class for each.

Drivers import all kinds from here, also deploy, management, network and power, which have modules
of their own in `drivers.core.kinds`.

Every method that takes a `Target` must be idempotent: it is called again after a crash of the
conductor. A method used as a step returns an `Outcome` (None counts as `Done()`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from drivers.core import capabilities, raid_schema
from drivers.core.conditions import Condition, conditions
from drivers.core.errors import HardwareError, InvalidDriverInfo, LeaseLost, NotSupported
from drivers.core.interface import Frame, Interface
from drivers.core.kinds import boot_settings
from drivers.core.kinds.deploy import Deploy
from drivers.core.kinds.management import Management
from drivers.core.kinds.network import Network
from drivers.core.kinds.power import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF, SOFT_REBOOT, Power
from drivers.core.passthru import functions
from drivers.core.steps import Arg, Done, Failed, Outcome, Wait
from drivers.core.target import Target

_FLAG = {"type": "boolean"}


class Boot(Interface):
    """Boot the machine into the agent's ramdisk, or into its instance."""

    kind = "boot"
    #: boot sources besides the disk: boot_iso, ramdisk (with a kernel), ramdisk_configdrive
    #: (either of them with a config drive), kickstart (an installer), iscsi_volume
    options: ClassVar[frozenset[str]] = frozenset()
    #: boot modes that it supports
    modes: ClassVar[tuple[str, ...]] = (capabilities.UEFI, capabilities.BIOS)
    #: whether a machine is booted again if its agent stays silent (`[pxe]boot_retry_timeout`)
    boots_again: ClassVar[bool] = False
    #: how a machine loads its boot loader after DHCP: ipxe, pxe or http; None: by other means
    dhcp_boot: ClassVar[str | None] = None
    #: key of driver_internal_info under which the service keeps the last `boot_warning`
    WARNING: ClassVar[str] = "boot_warning"
    #: key of driver_internal_info, true during a deployment once the instance boots next
    INSTANCE_NEXT: ClassVar[str] = "instance_boots_next"

    def validate(self, target: Target) -> None:
        """
        Check the node's settings, among them boot mode and secure boot of its capabilities.

        Raises InvalidDriverInfo: names the field.
        """
        capabilities.validate(target)
        boot_settings.ramdisk_is_signed(target)

    @conditions(leaves=[Condition.AGENT_NEXT])
    def prepare_ramdisk(self, target: Target) -> Outcome | None:
        """Frame step: set the next power-on to boot the agent."""
        raise NotImplementedError

    def boot_agent_next(self, target: Target) -> Outcome | None:
        """
        Run `prepare_ramdisk` for a step that reboots the machine; `boot_instance_next` reverts it.

        Does nothing without `[agent]manage_agent_boot`: then the agent is booted by other means.
        """
        if not target.options["agent"]["manage_agent_boot"]:
            return Done()
        target.report(driver_internal_info={self.INSTANCE_NEXT: None})
        return self.prepare_ramdisk(target)

    @conditions(leaves=[Condition.UNPREPARED])
    def clean_up_ramdisk(self, target: Target) -> Outcome | None:
        """Frame step: remove files and boot settings of `prepare_ramdisk`."""
        return Done()

    @conditions(leaves=[Condition.INSTANCE_NEXT])
    def prepare_instance(self, target: Target) -> Outcome | None:
        """Set every power-on to boot the instance."""
        return Done()

    def boot_instance_next(self, target: Target) -> Outcome | None:
        """
        Run `prepare_instance`, unless it has run since the last `boot_agent_next`.

        It runs again once the machine is off if secure boot was postponed until then.
        """
        if target.driver_internal_info.get(self.INSTANCE_NEXT):
            return Done()
        outcome = self.prepare_instance(target)
        if isinstance(outcome, Done | None) and not boot_settings.is_postponed(target):
            target.report(driver_internal_info={self.INSTANCE_NEXT: True})
        return outcome

    @conditions(leaves=[Condition.UNPREPARED])
    def clean_up_instance(self, target: Target) -> Outcome | None:
        """Frame step: remove files and boot settings of `prepare_instance`."""
        return Done()

    def dhcp_options(self, target: Target) -> Sequence[Mapping[str, object]]:
        """
        Return the DHCP options of the machine's next boot: {opt_name, opt_value, ip_version}.

        Interfaces that boot from DHCP override it. Raises InvalidDriverInfo.
        """
        return ()


class Bios(Interface):
    """BIOS settings."""

    kind = "bios"
    #: argument of steps that change settings
    SETTINGS: ClassVar[Arg] = Arg(
        "settings",
        "A list of objects with the keys `name` and `value`",
        required=True,
        schema={"type": "array", "items": {"type": "object", "required": ["name", "value"]}},
    )

    def cache_bios_settings(self, target: Target) -> Outcome | None:
        """Read the BIOS settings, and report them all as `bios_settings`; no order is sent."""
        raise NotSupported(f"{self.name}: this node has no BIOS settings to read")


class Console(Interface):
    """Serial or graphical console."""

    kind = "console"

    def start_console(self, target: Target) -> Outcome | None:
        """Start the console, and report `console_enabled`; a step of its own operation."""
        raise NotSupported(f"{self.name}: this node has no console")

    def stop_console(self, target: Target) -> Outcome | None:
        """Stop the console, and report `console_enabled`; a step of its own operation."""
        raise NotSupported(f"{self.name}: this node has no console")

    def restore_console(self, target: Target) -> Outcome | None:
        """
        Start the console of a node whose `console_enabled` is true, after a deployment or a change
        of its conductor.

        An error is reported as `console_error` and fails no operation; the console is off then.
        """
        try:
            outcome = self.start_console(target)
        except LeaseLost:
            raise
        except HardwareError as error:
            outcome = Failed(str(error))
        if isinstance(outcome, Failed):
            error_text = f"The console could not be started: {outcome.reason}"
            target.report(console_enabled=False, console_error=error_text)
            return Done({"started": False})
        return outcome

    def get_console(self, target: Target) -> dict[str, object]:
        """Return the console's address: {type, url}."""
        raise NotSupported(f"{self.name}: this node has no console")


class Firmware(Interface):
    """Firmware versions and updates."""

    kind = "firmware"

    def cache_firmware_components(self, target: Target) -> Outcome | None:
        """Read the versions of all components, and report them as `firmware`; no order is sent."""
        raise NotSupported(f"{self.name}: this node has no firmware versions to read")


class Inspect(Interface):
    """Inspect the hardware of the machine."""

    kind = "inspect"
    #: key of driver_internal_info: IP addresses of the BMC during an inspection. The service finds
    #: the node of a report by them
    BMC_ADDRESSES: ClassVar[str] = "lookup_bmc_addresses"
    frames = {"inspect": Frame(before=(("inspect", "inspect_hardware"),))}

    def frame(self, target: Target) -> Frame:
        """Return the frame of an inspection of this node: `frames["inspect"]`, or a part of it."""
        return self.frames["inspect"]

    def inspect_hardware(self, target: Target) -> Outcome | None:
        """Frame step: inspect the machine, and report what was `inspected`."""
        raise NotSupported(f"{self.name}: this node has no inspection")


class Raid(Interface):
    """RAID configuration."""

    kind = "raid"
    #: whether the agent changes the RAID, by its own steps
    in_band: ClassVar[bool] = False
    #: accepted properties of logical disks
    schema: ClassVar[raid_schema.Document] = raid_schema.SCHEMA
    #: arguments of steps that build the target configuration
    SELECTION: ClassVar[tuple[Arg, ...]] = (
        Arg("create_root_volume", "Build the root volume; true when missing", False, _FLAG),
        Arg("create_nonroot_volumes", "Build all others; true when missing", False, _FLAG),
        Arg("delete_existing", "Delete what there is first; false when missing", False, _FLAG),
    )

    def target_config(self, target: Target) -> Mapping[str, object]:
        """
        Return the node's target configuration.

        Raises InvalidDriverInfo: it is empty.
        """
        config: Mapping[str, Any] = target.record.get("target_raid_config") or {}
        if not config.get("logical_disks"):
            raise InvalidDriverInfo("target_raid_config of the node is empty: set it first")
        return config

    def validate_raid_config(self, target: Target, config: Mapping[str, object]) -> None:
        """
        Check a target configuration.

        Raises InvalidDriverInfo: names the invalid property.
        """
        raid_schema.check(config, self.schema)

    def logical_disk_properties(self) -> dict[str, str]:
        """Return the description of each property of a logical disk, by name."""
        return raid_schema.descriptions(self.schema)


class Rescue(Interface):
    """Boot a rescue ramdisk that the tenant can log in to."""

    kind = "rescue"

    def rescue(self, target: Target) -> Outcome | None:
        """Boot the rescue ramdisk, and set its login."""
        raise NotSupported(f"{self.name}: this node cannot be rescued")

    def unrescue(self, target: Target) -> Outcome | None:
        """Boot the instance again."""
        raise NotSupported(f"{self.name}: this node cannot be rescued")


class Storage(Interface):
    """Remote volumes of the machine."""

    kind = "storage"
    #: whether `Target` has the node's volume connectors and volume targets
    uses_volumes: ClassVar[bool] = True

    def should_write_image(self, target: Target) -> bool:
        """Whether a deployment writes an image to a local disk: no volume is the boot volume."""
        return all(volume.boot_index != 0 for volume in target.volume_targets)

    def attach_volumes(self, target: Target) -> Outcome | None:
        """Frame step of a deployment: attach the node's volumes to the machine."""
        return Done()

    def detach_volumes(self, target: Target) -> Outcome | None:
        """Frame step of a tear-down: detach the volumes that a deployment has attached."""
        return Done()


class Vendor(Interface):
    """Vendor functions; methods with the decorator `drivers.core.passthru.passthru`."""

    kind = "vendor"

    def call(self, target: Target, function: str, arguments: Mapping[str, Any]) -> Any:
        """
        Call a vendor function, and return its result (JSON).

        Raises NotSupported: there is no such function.
        """
        if function not in functions(self):
            raise NotSupported(f"{self.name}: there is no vendor function {function!r}")
        return getattr(self, function)(target, **arguments)

    def call_as_step(
        self, target: Target, function: str, arguments: Mapping[str, object]
    ) -> Outcome:
        """Call an asynchronous function; the step of its operation."""
        outcome = self.call(target, function, arguments)
        if isinstance(outcome, Done | Wait | Failed):
            return outcome
        return Done({"returned": outcome})


#: Every kind, in the order of Ironic's lists.
KINDS: Mapping[str, type[Interface]] = {
    base.kind: base
    for base in (
        Bios, Boot, Console, Deploy, Firmware, Inspect, Management, Network,
        Power, Raid, Rescue, Storage, Vendor,
    )
}  # fmt: skip

__all__ = [
    "KINDS",
    "POWER_OFF",
    "POWER_ON",
    "REBOOT",
    "SOFT_OFF",
    "SOFT_REBOOT",
    "Bios",
    "Boot",
    "Console",
    "Deploy",
    "Firmware",
    "Frame",
    "Inspect",
    "Interface",
    "Management",
    "Network",
    "Power",
    "Raid",
    "Rescue",
    "Storage",
    "Vendor",
]
