"""
The interfaces of a driver: what each must do, and the frames that flows are built from.

Every method that takes a `Target` may be repeated: an operation interrupted by the death of its
conductor calls it again. A method used as a step returns an `Outcome` (None counts as `Done()`).

A *frame* is what surrounds the steps of a flow: plain rows of (interface, method), run before and
after the steps themselves. An interface states its frames as data, so the API can plan, and an
operator can see, everything that will happen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from drivers.errors import HardwareError, NotSupported
from drivers.steps import (
    MARK,
    Done,
    Failed,
    Flow,
    Outcome,
    Step,
    Wait,
)
from drivers.target import Target

if TYPE_CHECKING:
    from drivers.bmc import Bmcs

POWER_ON, POWER_OFF, REBOOT = "power on", "power off", "rebooting"
SOFT_OFF, SOFT_REBOOT = "soft power off", "soft rebooting"

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """
    What surrounds the steps of one flow.

    before, after: methods run before the first and after the last step.
    collect: the (interface, method) after which the agent's own steps are known, so that the rest
        of the flow is planned anew; None when no agent takes part.
    on_failure: methods run when the flow has failed, before the node enters its failed state.
    """

    before: Rows = ()
    after: Rows = ()
    collect: tuple[str, str] | None = None
    on_failure: Rows = ()


class Interface:
    """
    What all interfaces share: a kind ("power"), a name ("redfish"), steps, validation.

    A class may also define methods that are not steps: the rows of a frame, or what other
    interfaces call. Instances hold no state of a node.
    """

    kind: ClassVar[str]
    name: ClassVar[str]
    steps: ClassVar[Mapping[str, Step]] = {}
    #: driver_info key -> description, shown at /v1/drivers/{name}/properties
    properties: ClassVar[Mapping[str, str]] = {}
    #: every connection to a BMC that this process has; set by the registry
    bmcs: "Bmcs"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found: dict[str, Step] = {}
        for attribute in sorted(dir(cls)):
            mark = getattr(getattr(cls, attribute, None), MARK, None)
            if mark is not None:
                found[attribute] = replace(mark, interface=getattr(cls, "kind", ""), name=attribute)
        cls.steps = found

    def validate(self, target: Target) -> None:
        """Check the node's settings without touching the machine. Raises InvalidDriverInfo."""

    def get_steps(self, target: Target | None, flow: Flow) -> list[Step]:
        """The steps that this interface offers for a flow, priority 0 included."""
        return [
            declared.in_flow(flow)
            for declared in self.steps.values()
            if flow in declared.priorities
        ]

    def run(self, target: Target, method: str, args: Mapping[str, Any]) -> Outcome:
        """Call a step or the row of a frame."""
        outcome = getattr(self, method)(target, **args)
        return Done() if outcome is None else outcome

    # The seed specs' names for the above, for drivers written against them.

    def get_clean_steps(self, target: Target) -> list[dict[str, Any]]:
        """Enabled clean steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.CLEAN)

    def get_deploy_steps(self, target: Target) -> list[dict[str, Any]]:
        """Enabled deploy steps as {interface, step, priority}, by decreasing priority."""
        return self._enabled(target, Flow.DEPLOY)

    def execute_clean_step(self, target: Target, step: Mapping[str, Any]) -> Outcome:
        """Run one of `get_clean_steps`; `step["args"]` are its arguments."""
        return self.run(target, step["step"], step.get("args") or {})

    def execute_deploy_step(self, target: Target, step: Mapping[str, Any]) -> Outcome:
        """Run one of `get_deploy_steps`; `step["args"]` are its arguments."""
        return self.run(target, step["step"], step.get("args") or {})

    def _enabled(self, target: Target, flow: Flow) -> list[dict[str, Any]]:
        enabled = [
            {"interface": found.interface, "step": found.name, "priority": found.priorities[flow]}
            for found in self.get_steps(target, flow)
            if found.priorities[flow] > 0
        ]
        return sorted(enabled, key=lambda entry: -entry["priority"])


class Power(Interface):
    """Switch the machine on and off."""

    kind = "power"
    #: targets that `change` accepts
    supported: ClassVar[tuple[str, ...]] = (POWER_ON, POWER_OFF, REBOOT)

    def get_power_state(self, target: Target) -> str:
        """`power on` or `power off`, as the BMC says. Raises HardwareError."""
        raise NotImplementedError

    def order(self, target: Target, state: str) -> None:
        """
        Order `power on`, `power off`, `soft power off`, or `rebooting`: a hard reset, which only
        machines that must not be powered off are given. Does not wait. Raises HardwareError.
        """
        raise NotImplementedError

    def power_on(self, target: Target) -> Outcome:
        """
        Row of frames: the machine has started anew and is on.

        It was off before, unless it must not be powered off: then it is reset.
        """
        if target.disable_power_off:
            return self._reset(target)
        return self._reach(target, POWER_ON, POWER_ON, target.progress)

    def power_off(self, target: Target) -> Outcome:
        """
        Row of frames: the machine is off.

        A node that must not be powered off (`disable_power_off`) is left on: whatever follows
        resets it instead.
        """
        if target.disable_power_off:
            return Done()
        return self._reach(target, POWER_OFF, POWER_OFF, target.progress)

    def reboot(self, target: Target) -> Outcome:
        """Row of frames: the machine was off and is on again."""
        return self.change(target, REBOOT)

    def reset_if_kept_on(self, target: Target) -> Outcome:
        """Row of frames: a machine that must not be powered off leaves the agent by a reset."""
        return self._reset(target) if target.disable_power_off else Done()

    def read(self, target: Target) -> Outcome:
        """Row of frames: report the power state that the BMC gives."""
        target.report(power_state=self.get_power_state(target))
        return Done()

    def change(self, target: Target, state: str, timeout: float | None = None) -> Outcome:
        """
        Bring the machine to `state`, which may be a reboot, hard or soft.

        A soft target waits `[conductor]soft_power_off_timeout` seconds unless `timeout` is given.
        A reboot of a machine that is off switches it on; one that must not be powered off is reset.
        """
        if state in (POWER_ON, POWER_OFF):
            return self._reach(target, state, state, target.progress, timeout)
        if state == SOFT_OFF:
            return self._reach(target, SOFT_OFF, POWER_OFF, target.progress, timeout)
        if target.disable_power_off:
            return self._reset(target)
        progress = target.progress or {"phase": "off"}
        if progress.get("phase") == "off":
            order = SOFT_OFF if state == SOFT_REBOOT else POWER_OFF
            outcome = self._reach(target, order, POWER_OFF, progress, timeout)
            if not isinstance(outcome, Done):
                return outcome
            progress = {"phase": "on"}
        return self._reach(target, POWER_ON, POWER_ON, progress, timeout)

    def _reset(self, target: Target) -> Outcome:
        """Reset a machine that is on; switch on one that is off."""
        if target.progress.get("ordered") or self.get_power_state(target) != POWER_ON:
            return self._reach(target, POWER_ON, POWER_ON, target.progress)
        target.before_order()
        self.order(target, REBOOT)
        target.forget_agent()
        target.report(power_state=POWER_ON)
        return Done()

    def _reach(
        self,
        target: Target,
        order: str,
        wanted: str,
        progress: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Outcome:
        """Order once, then look until the BMC reports the wanted state; looks before it orders."""
        state = self.get_power_state(target)
        if wanted == POWER_OFF and (state == POWER_OFF or progress.get("ordered")):
            target.forget_agent()
        if state == wanted:
            target.report(power_state=state)
            return Done()
        looks = int(progress.get("looks", 0))
        if not progress.get("ordered"):
            target.before_order()
            self.order(target, order)
            if wanted == POWER_OFF:
                target.forget_agent()
            state = self.get_power_state(target)
            if state == wanted:
                target.report(power_state=state)
                return Done()
        name = "soft_power_off_timeout" if order == SOFT_OFF else "power_state_change_timeout"
        return Wait(
            {**progress, "ordered": True, "looks": looks + 1},
            poll_after=min(0.5 * 1.5**looks, 10.0),
            timeout=timeout or target.options["conductor"][name],
        )


class Management(Interface):
    """Boot device, boot mode and other settings of the machine."""

    kind = "management"

    def supported_boot_devices(self, target: Target) -> list[str]:
        """Names out of Ironic's list: pxe, disk, cdrom, bios, safe, wanboot, ..."""
        return []

    def get_boot_device(self, target: Target) -> dict[str, Any]:
        """{"boot_device": name or None, "persistent": bool or None}."""
        return {"boot_device": None, "persistent": None}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """Raises NotSupported for a device the machine does not know."""
        raise NotSupported(f"{self.name} management cannot set a boot device")

    def get_boot_mode(self, target: Target) -> str | None:
        """`uefi`, `bios`, or None when the machine does not tell. Raises HardwareError."""
        return None

    def set_boot_mode(self, target: Target, mode: str) -> None:
        """Takes effect at the next start. Raises NotSupported for a mode the machine lacks."""
        raise NotSupported(f"{self.name} management cannot set the boot mode")


class Boot(Interface):
    """Make the machine boot the agent's ramdisk, or its instance."""

    kind = "boot"

    def prepare_ramdisk(self, target: Target) -> Outcome | None:
        """Row of frames: the next power-on boots the agent."""
        raise NotImplementedError

    def clean_up_ramdisk(self, target: Target) -> Outcome | None:
        """Row of frames: nothing of the agent's boot is left."""
        return Done()

    def prepare_instance(self, target: Target) -> Outcome | None:
        """The next power-on, and those after it, boot the instance."""
        return Done()

    def clean_up_instance(self, target: Target) -> Outcome | None:
        """Row of frames: nothing of the instance's boot is left."""
        return Done()


class Deploy(Interface):
    """Put an instance on the machine, clean it, and take it down."""

    kind = "deploy"
    #: flow ("clean", "deploy", "delete", "service", "rescue", "unrescue") -> its frame
    frames: ClassVar[Mapping[str, Frame]] = {}

    def execute_in_band(self, target: Target, flow: Flow, step: Mapping[str, Any]) -> Outcome:
        """Run a step that the agent reported; `step["args"]` are its arguments."""
        raise NotSupported(f"{self.name} deploy has no agent to run {step['step']!r}")


class Network(Interface):
    """Put the machine on the network that a flow needs."""

    kind = "network"

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

    def configure_tenant_networks(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()

    def unconfigure_tenant_networks(self, target: Target) -> Outcome | None:
        """Row of frames."""
        return Done()


class Bios(Interface):
    """BIOS settings."""

    kind = "bios"


class Console(Interface):
    """Serial or graphical console."""

    kind = "console"


class Firmware(Interface):
    """Firmware versions and updates."""

    kind = "firmware"


class Inspect(Interface):
    """Find out what the machine is made of."""

    kind = "inspect"

    def inspect_hardware(self, target: Target) -> Outcome | None:
        """Report what was found."""
        raise NotSupported(f"{self.name}: this node has no inspection")


class Raid(Interface):
    """RAID configuration."""

    kind = "raid"


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


class Vendor(Interface):
    """What only one vendor has."""

    kind = "vendor"


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
    "Failed",
    "Firmware",
    "Frame",
    "HardwareError",
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
