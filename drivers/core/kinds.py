"""
The kinds of interfaces, one class for each: its methods, and its frames.

All kinds are imported from here, also those with a file of their own: deploy and power.

Every method that takes a `Target` may be repeated: an operation interrupted by the death of its
conductor calls it again. A method used as a step returns an `Outcome` (None counts as `Done()`).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from drivers.core import raid_schema
from drivers.core.deploy import Deploy
from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.core.interface import Frame, Interface
from drivers.core.passthru import functions
from drivers.core.power import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF, SOFT_REBOOT, Power
from drivers.core.steps import Arg, Done, Failed, Outcome, Wait
from drivers.core.target import Target

_FLAG = {"type": "boolean"}


class Management(Interface):
    """Boot device, boot mode and other settings of the machine."""

    kind = "management"

    def mac_addresses(self, target: Target) -> list[str]:
        """Of the machine's network interfaces, as far as the BMC tells. Raises HardwareError."""
        return []

    def supported_boot_devices(self, target: Target) -> list[str]:
        """Names out of Ironic's list: pxe, disk, cdrom, bios, safe, wanboot, ..."""
        return []

    def get_boot_device(self, target: Target) -> dict[str, Any]:
        """{"boot_device": name or None, "persistent": bool or None}."""
        return {"boot_device": None, "persistent": None}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """Raises NotSupported for a device the machine does not know."""
        raise NotSupported(f"{self.name} management cannot set a boot device")

    def before_start(self, target: Target) -> None:
        """
        Called by every power interface right before it orders a machine to start, or to be reset.
        """

    def get_boot_mode(self, target: Target) -> str | None:
        """`uefi`, `bios`, or None when the machine does not tell. Raises HardwareError."""
        return None

    def set_boot_mode(self, target: Target, mode: str) -> None:
        """Takes effect at the next start. Raises NotSupported for a mode the machine lacks."""
        raise NotSupported(f"{self.name} management cannot set the boot mode")

    def change_boot_mode(self, target: Target, mode: str) -> Outcome | None:
        """Row of an operation: the machine has this boot mode, and the node says so."""
        if self.get_boot_mode(target) != mode:
            self.set_boot_mode(target, mode)
        target.report(boot_mode=mode)
        return Done()

    def get_secure_boot(self, target: Target) -> bool | None:
        """Whether only signed systems boot; None when the machine does not tell."""
        return None

    def set_secure_boot(self, target: Target, state: bool) -> None:
        """Takes effect at the next start."""
        raise NotSupported(f"{self.name} management cannot change secure boot")

    def change_secure_boot(self, target: Target, state: bool) -> Outcome | None:
        """Row of an operation: secure boot is as wanted, and the node says so."""
        if self.get_secure_boot(target) != state:
            self.set_secure_boot(target, state)
        target.report(secure_boot=state)
        return Done()

    def inject_nmi(self, target: Target) -> None:
        """Interrupt the machine, for its system to write a dump."""
        raise NotSupported(f"{self.name} management cannot inject an NMI")

    def indicators(self, target: Target) -> list[dict[str, Any]]:
        """
        The lights of the machine: [{name, component, readonly, states}].

        component: chassis, system, disk, power or nic. states: of on, off, blinking, unknown.
        """
        raise NotSupported(f"{self.name} management knows no indicators")

    def get_indicator(self, target: Target, component: str, name: str) -> str:
        """The state of one light. Raises NotSupported when there is none of that name."""
        raise NotSupported(f"{self.name} management knows no indicators")

    def set_indicator(self, target: Target, component: str, name: str, state: str) -> None:
        """Raises NotSupported when there is none of that name, or it knows no such state."""
        raise NotSupported(f"{self.name} management knows no indicators")

    def virtual_media(self, target: Target) -> list[dict[str, Any]]:
        """The media that the BMC can show: [{media_types, inserted, image}]."""
        raise NotSupported(f"{self.name} management has no virtual media")

    def attach_virtual_media(self, target: Target, device_type: str, image_url: str) -> None:
        """Row of an operation: the medium (cdrom, disk or floppy) shows this image."""
        raise NotSupported(f"{self.name} management has no virtual media")

    def detach_virtual_media(self, target: Target, device_types: list[str]) -> None:
        """Row of an operation: the media of these types are empty."""
        raise NotSupported(f"{self.name} management has no virtual media")


class Boot(Interface):
    """Make the machine boot the agent's ramdisk, or its instance."""

    kind = "boot"
    #: what it can boot instead of the disk: boot_iso, ramdisk (with a kernel), either of them with
    #: a config drive: ramdisk_configdrive; kickstart (an installer), iscsi_volume
    options: ClassVar[frozenset[str]] = frozenset()
    #: whether a machine whose agent stays silent is booted again (`[pxe]boot_retry_timeout`)
    boots_again: ClassVar[bool] = False
    #: the key of driver_internal_info that says, during a deployment, that the instance boots next
    INSTANCE_NEXT: ClassVar[str] = "instance_boots_next"

    def prepare_ramdisk(self, target: Target) -> Outcome | None:
        """Row of frames: the next power-on boots the agent."""
        raise NotImplementedError

    def boot_agent_next(self, target: Target) -> Outcome | None:
        """
        As `prepare_ramdisk`, for steps that reboot the machine; `boot_instance_next` takes it back.

        Does nothing where others boot the agent (`[agent]manage_agent_boot`).
        """
        if not target.options["agent"]["manage_agent_boot"]:
            return Done()
        target.report(driver_internal_info={self.INSTANCE_NEXT: None})
        return self.prepare_ramdisk(target)

    def clean_up_ramdisk(self, target: Target) -> Outcome | None:
        """Row of frames: nothing of the agent's boot is left."""
        return Done()

    def prepare_instance(self, target: Target) -> Outcome | None:
        """The next power-on, and those after it, boot the instance."""
        return Done()

    def boot_instance_next(self, target: Target) -> Outcome | None:
        """As `prepare_instance`, unless that was done since a step booted the agent."""
        if target.driver_internal_info.get(self.INSTANCE_NEXT):
            return Done()
        outcome = self.prepare_instance(target)
        if isinstance(outcome, Done | None):
            target.report(driver_internal_info={self.INSTANCE_NEXT: True})
        return outcome

    def clean_up_instance(self, target: Target) -> Outcome | None:
        """Row of frames: nothing of the instance's boot is left."""
        return Done()


class Network(Interface):
    """Put the machine on the network that a flow needs."""

    kind = "network"
    #: whether VIFs that are attached are kept on the node's ports; else they are forgotten
    keeps_vifs: ClassVar[bool] = True

    def physical_networks(self, vif: Mapping[str, Any]) -> frozenset[str]:
        """
        The physical networks that a VIF can be reached on; none given: any.

        vif: `id` and whatever else the caller knows of it. Talks to nobody.
        """
        named = vif.get("physical_network")
        return frozenset([named] if isinstance(named, str) else ())

    def add_cleaning_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def remove_cleaning_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def add_provisioning_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def remove_provisioning_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def add_servicing_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def remove_servicing_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def add_rescuing_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def remove_rescuing_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def add_inspection_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def remove_inspection_network(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def configure_tenant_networks(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def unconfigure_tenant_networks(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()


class Bios(Interface):
    """BIOS settings."""

    kind = "bios"
    #: the argument of a step that changes some
    SETTINGS: ClassVar[Arg] = Arg(
        "settings",
        "A list of objects with the keys `name` and `value`",
        required=True,
        schema={"type": "array", "items": {"type": "object", "required": ["name", "value"]}},
    )


class Console(Interface):
    """Serial or graphical console."""

    kind = "console"

    def start_console(self, target: Target) -> Outcome | None:
        """Row of an operation: the console can be reached."""
        raise NotSupported(f"{self.name}: this node has no console")

    def stop_console(self, target: Target) -> Outcome | None:
        """Row of an operation: the console can no longer be reached."""
        raise NotSupported(f"{self.name}: this node has no console")

    def get_console(self, target: Target) -> dict[str, Any]:
        """How to reach it: {type, url}."""
        raise NotSupported(f"{self.name}: this node has no console")


class Firmware(Interface):
    """Firmware versions and updates."""

    kind = "firmware"


class Inspect(Interface):
    """Find out what the machine is made of."""

    kind = "inspect"
    frames = {"inspect": Frame(before=(("inspect", "inspect_hardware"),))}

    def frame(self, target: Target) -> Frame:
        """The methods of an inspection for this node: `frames["inspect"]`, or less of it."""
        return self.frames["inspect"]

    def inspect_hardware(self, target: Target) -> Outcome | None:
        """Row of frames: report what was found."""
        raise NotSupported(f"{self.name}: this node has no inspection")


class Raid(Interface):
    """RAID configuration."""

    kind = "raid"
    #: what a target configuration may hold
    schema: ClassVar[raid_schema.Document] = raid_schema.SCHEMA
    #: arguments of a step that builds the target configuration
    SELECTION: ClassVar[tuple[Arg, ...]] = (
        Arg("create_root_volume", "Build the root volume; true when missing", False, _FLAG),
        Arg("create_nonroot_volumes", "Build all others; true when missing", False, _FLAG),
        Arg("delete_existing", "Delete what there is first; false when missing", False, _FLAG),
    )

    def wanted(self, target: Target) -> Mapping[str, Any]:
        """The target configuration of the node. Raises InvalidDriverInfo when there is none."""
        config: Mapping[str, Any] = target.record.get("target_raid_config") or {}
        if not config.get("logical_disks"):
            raise InvalidDriverInfo("target_raid_config of the node is empty: set it first")
        return config

    def validate_raid_config(self, target: Target, config: Mapping[str, Any]) -> None:
        """Check a target configuration. Raises InvalidDriverInfo that names what is wrong."""
        raid_schema.check(config, self.schema)

    def logical_disk_properties(self) -> dict[str, str]:
        """property of a logical disk -> description"""
        return raid_schema.descriptions(self.schema)


class Rescue(Interface):
    """Boot a rescue ramdisk that the tenant can log in to."""

    kind = "rescue"

    def rescue(self, target: Target) -> Outcome | None:
        """The tenant can log in to the rescue ramdisk."""
        raise NotSupported(f"{self.name}: this node cannot be rescued")

    def unrescue(self, target: Target) -> Outcome | None:
        """The machine runs its instance again."""
        raise NotSupported(f"{self.name}: this node cannot be rescued")


class Storage(Interface):
    """Volumes that the machine boots from or uses."""

    kind = "storage"
    #: whether targets are to have the node's volume connectors and targets
    uses_volumes: ClassVar[bool] = True

    def should_write_image(self, target: Target) -> bool:
        """Whether an image is written to the machine's own disk: it boots from no volume."""
        return all(volume.boot_index != 0 for volume in target.volume_targets)


class Vendor(Interface):
    """What only one vendor has; see `passthru` for functions that are called by name."""

    kind = "vendor"

    def call(self, target: Target, function: str, arguments: Mapping[str, Any]) -> Any:
        """What a function returns (JSON). Raises NotSupported when there is none of that name."""
        if function not in functions(self):
            raise NotSupported(f"{self.name}: there is no vendor function {function!r}")
        return getattr(self, function)(target, **arguments)

    def call_as_step(self, target: Target, function: str, arguments: Mapping[str, Any]) -> Outcome:
        """Row of an operation: the function was called."""
        outcome = self.call(target, function, arguments)
        if isinstance(outcome, Done | Wait | Failed):
            return outcome
        return Done({"returned": outcome})


#: Every kind, in the order in which Ironic lists them.
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
