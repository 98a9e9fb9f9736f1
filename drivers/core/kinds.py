"""
The kinds of interfaces, one class for each.

Drivers import all kinds from here, also deploy and power, which have modules of their own.

Every method that takes a `Target` must be idempotent: it is called again after a crash of the
conductor. A method used as a step returns an `Outcome` (None counts as `Done()`).
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
        """
        Return the MAC addresses that the BMC lists; empty if it lists none.

        Raises HardwareError.
        """
        return []

    def supported_boot_devices(self, target: Target) -> list[str]:
        """Return the supported devices of Ironic's list: pxe, disk, cdrom, bios, safe, ..."""
        return []

    def get_boot_device(self, target: Target) -> dict[str, Any]:
        """Return {"boot_device": name or None, "persistent": bool or None}; None: unknown."""
        return {"boot_device": None, "persistent": None}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """
        Set the boot device of the next start, or of every start if `persistent`.

        Raises NotSupported: the machine lacks the device.
        """
        raise NotSupported(f"{self.name} management cannot set a boot device")

    def before_start(self, target: Target) -> None:
        """Prepare a start or reset; each power interface calls it right before its command."""

    def get_boot_mode(self, target: Target) -> str | None:
        """
        Return `uefi` or `bios`; None if the machine does not report it.

        Raises HardwareError.
        """
        return None

    def set_boot_mode(self, target: Target, mode: str) -> None:
        """
        Set the boot mode of the next start.

        Raises NotSupported: the machine lacks the mode.
        """
        raise NotSupported(f"{self.name} management cannot set the boot mode")

    def change_boot_mode(self, target: Target, mode: str) -> Outcome | None:
        """Change the boot mode, and report it; a step of its own operation."""
        if self.get_boot_mode(target) != mode:
            self.set_boot_mode(target, mode)
        target.report(boot_mode=mode)
        return Done()

    def get_secure_boot(self, target: Target) -> bool | None:
        """Whether secure boot is on; None if the machine does not report it."""
        return None

    def set_secure_boot(self, target: Target, state: bool) -> None:
        """Switch secure boot on or off for the next start."""
        raise NotSupported(f"{self.name} management cannot change secure boot")

    def change_secure_boot(self, target: Target, state: bool) -> Outcome | None:
        """Change secure boot, and report it; a step of its own operation."""
        if self.get_secure_boot(target) != state:
            self.set_secure_boot(target, state)
        target.report(secure_boot=state)
        return Done()

    def inject_nmi(self, target: Target) -> None:
        """Inject a non-maskable interrupt, on which the operating system writes a dump."""
        raise NotSupported(f"{self.name} management cannot inject an NMI")

    def indicators(self, target: Target) -> list[dict[str, Any]]:
        """
        Return the indicator LEDs: [{name, component, readonly, states}].

        component: chassis, system, disk, power or nic. states: of on, off, blinking, unknown.
        """
        raise NotSupported(f"{self.name} management has no indicators")

    def get_indicator(self, target: Target, component: str, name: str) -> str:
        """
        Return the state of an indicator.

        Raises NotSupported: there is no such indicator.
        """
        raise NotSupported(f"{self.name} management has no indicators")

    def set_indicator(self, target: Target, component: str, name: str, state: str) -> None:
        """
        Set the state of an indicator.

        Raises NotSupported: there is no such indicator, or it lacks the state.
        """
        raise NotSupported(f"{self.name} management has no indicators")

    def virtual_media(self, target: Target) -> list[dict[str, Any]]:
        """Return the virtual media of the BMC: [{media_types, inserted, image}]."""
        raise NotSupported(f"{self.name} management has no virtual media")

    def attach_virtual_media(self, target: Target, device_type: str, image_url: str) -> None:
        """Insert an image into a cdrom, disk or floppy; a step of its own operation."""
        raise NotSupported(f"{self.name} management has no virtual media")

    def detach_virtual_media(self, target: Target, device_types: list[str]) -> None:
        """Eject all media of these types; a step of its own operation."""
        raise NotSupported(f"{self.name} management has no virtual media")


class Boot(Interface):
    """Boot the machine into the agent's ramdisk, or into its instance."""

    kind = "boot"
    #: boot sources besides the disk: boot_iso, ramdisk (with a kernel), ramdisk_configdrive
    #: (either of them with a config drive), kickstart (an installer), iscsi_volume
    options: ClassVar[frozenset[str]] = frozenset()
    #: whether a machine is booted again if its agent stays silent (`[pxe]boot_retry_timeout`)
    boots_again: ClassVar[bool] = False
    #: key of driver_internal_info, true during a deployment once the instance boots next
    INSTANCE_NEXT: ClassVar[str] = "instance_boots_next"

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

    def clean_up_ramdisk(self, target: Target) -> Outcome | None:
        """Frame step: remove files and boot settings of `prepare_ramdisk`."""
        return Done()

    def prepare_instance(self, target: Target) -> Outcome | None:
        """Set every power-on to boot the instance."""
        return Done()

    def boot_instance_next(self, target: Target) -> Outcome | None:
        """Run `prepare_instance`, unless it has run since the last `boot_agent_next`."""
        if target.driver_internal_info.get(self.INSTANCE_NEXT):
            return Done()
        outcome = self.prepare_instance(target)
        if isinstance(outcome, Done | None):
            target.report(driver_internal_info={self.INSTANCE_NEXT: True})
        return outcome

    def clean_up_instance(self, target: Target) -> Outcome | None:
        """Frame step: remove files and boot settings of `prepare_instance`."""
        return Done()


class Network(Interface):
    """Connect the machine to the network that a flow needs."""

    kind = "network"
    #: whether attached VIFs are recorded on the node's ports
    keeps_vifs: ClassVar[bool] = True

    def physical_networks(self, vif: Mapping[str, Any]) -> frozenset[str]:
        """
        Return the physical networks of a VIF; empty if any will do. Sends no request.

        vif: `id`, and other keys that the client gave.
        """
        named = vif.get("physical_network")
        return frozenset([named] if isinstance(named, str) else ())

    def add_cleaning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_cleaning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def add_provisioning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_provisioning_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def add_servicing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_servicing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def add_rescuing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_rescuing_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def add_inspection_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def remove_inspection_network(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def configure_tenant_networks(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()

    def unconfigure_tenant_networks(self, target: Target) -> Outcome | None:
        """Frame step."""
        return Done()


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


class Console(Interface):
    """Serial or graphical console."""

    kind = "console"

    def start_console(self, target: Target) -> Outcome | None:
        """Start the console; a step of its own operation."""
        raise NotSupported(f"{self.name}: this node has no console")

    def stop_console(self, target: Target) -> Outcome | None:
        """Stop the console; a step of its own operation."""
        raise NotSupported(f"{self.name}: this node has no console")

    def get_console(self, target: Target) -> dict[str, Any]:
        """Return the console's address: {type, url}."""
        raise NotSupported(f"{self.name}: this node has no console")


class Firmware(Interface):
    """Firmware versions and updates."""

    kind = "firmware"


class Inspect(Interface):
    """Inspect the hardware of the machine."""

    kind = "inspect"
    frames = {"inspect": Frame(before=(("inspect", "inspect_hardware"),))}

    def frame(self, target: Target) -> Frame:
        """Return the frame of an inspection of this node: `frames["inspect"]`, or a part of it."""
        return self.frames["inspect"]

    def inspect_hardware(self, target: Target) -> Outcome | None:
        """Frame step: inspect the machine, and report the findings."""
        raise NotSupported(f"{self.name}: this node has no inspection")


class Raid(Interface):
    """RAID configuration."""

    kind = "raid"
    #: accepted properties of logical disks
    schema: ClassVar[raid_schema.Document] = raid_schema.SCHEMA
    #: arguments of steps that build the target configuration
    SELECTION: ClassVar[tuple[Arg, ...]] = (
        Arg("create_root_volume", "Build the root volume; true when missing", False, _FLAG),
        Arg("create_nonroot_volumes", "Build all others; true when missing", False, _FLAG),
        Arg("delete_existing", "Delete what there is first; false when missing", False, _FLAG),
    )

    def wanted(self, target: Target) -> Mapping[str, Any]:
        """
        Return the node's target configuration.

        Raises InvalidDriverInfo: it is empty.
        """
        config: Mapping[str, Any] = target.record.get("target_raid_config") or {}
        if not config.get("logical_disks"):
            raise InvalidDriverInfo("target_raid_config of the node is empty: set it first")
        return config

    def validate_raid_config(self, target: Target, config: Mapping[str, Any]) -> None:
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

    def call_as_step(self, target: Target, function: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call an asynchronous function; the step of its operation."""
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
