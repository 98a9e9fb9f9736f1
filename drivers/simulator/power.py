"""
Power and boot of a simulated machine.

A boot tries the override's device first, then the disk, as firmware does. A medium with
`ipa-api-url` boots the agent; a disk with an image runs the instance.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time

import aiohttp

from drivers.simulator import media
from drivers.simulator.agent import Agent
from drivers.simulator.machine import Machine
from drivers.simulator.redfish_bmc import events

#: Systems that react to the power button; in other states only a hard power-off works.
ACPI_SYSTEMS = {"agent", "instance", "rescue"}


class WrongState(Exception):
    """The action is not possible in the machine's power state."""


@dataclass(slots=True)
class Power:
    """Power of one machine, and the system that runs on it."""

    machine: Machine
    client: aiohttp.ClientSession
    #: Kernel parameters of network boot as text, or the URL of a text with them; {mac} and {hexhyp}
    #: (with hyphens) stand for the machine's first MAC address. "": no network boot.
    pxe: str = ""
    agent: Agent | None = None
    #: Power state that a delayed change leads to; "": no change is delayed.
    next_state: str = ""
    _running: "asyncio.Task[None] | None" = None
    _change: "asyncio.Task[None] | None" = None

    def reset(self, kind: str) -> None:  # noqa: C901, PLR0912 - one branch per ResetType
        """Perform a reset of Redfish's ResetType `kind`. Raises WrongState."""
        machine = self.machine
        if kind == "PushPowerButton":
            kind = "GracefulShutdown" if machine.power == "On" else "On"
        if kind in ("ForceRestart", "GracefulRestart", "PowerCycle", "Nmi"):
            if machine.power == "Off":
                raise WrongState(f"{kind}: the system is powered off")
        elif (kind in ("On", "ForceOn")) == ((self.next_state or machine.power) == "On"):
            return  # in the requested state already, or on the way there
        if machine.faults.power_stuck:
            return
        if kind == "Nmi":
            self._end_system("hung")
        elif kind in ("On", "ForceOn"):
            self._switch(self._go_on, machine.faults.power_on_seconds)
        elif kind == "ForceOff":
            self._switch(self._go_off, machine.faults.power_off_seconds)
        elif kind == "GracefulShutdown":
            if machine.runs in ACPI_SYSTEMS:
                self._switch(self._go_off, machine.faults.power_off_seconds)
        elif kind != "GracefulRestart" or machine.runs in ACPI_SYSTEMS:
            self._switch(self._go_off_and_on, machine.faults.power_on_seconds)

    def from_inside(self, kind: str) -> None:
        """Power off ("off") or restart ("restart") the machine, on behalf of its system."""
        faults = self.machine.faults
        if kind == "off":
            self._switch(self._go_off, faults.power_off_seconds)
        else:
            self._switch(self._go_off_and_on, faults.power_on_seconds)

    def unplug(self) -> None:
        """Stop all activity at once."""
        self._halt()
        if self.machine.power == "On":
            self._go_off()

    def _switch(self, action: Callable[[], None], seconds: float) -> None:
        """Perform a power change after `seconds`. Replaces a change that is still delayed."""
        self._halt()
        if seconds == 0:
            action()
            return

        async def later() -> None:
            await asyncio.sleep(seconds)
            self._change, self.next_state = None, ""
            action()

        self.next_state = "Off" if action == self._go_off else "On"
        self._change = asyncio.create_task(later())

    def _halt(self) -> None:
        """Cancel a delayed power change."""
        if self._change is not None:
            self._change.cancel()
        self._change, self.next_state = None, ""

    def _go_on(self) -> None:
        self.machine.power = "On"
        events.power_changed(self)
        self._start()

    def _go_off(self) -> None:
        self._end_system("off")
        self.machine.power = "Off"
        self.machine.record("machine", "is off")
        events.power_changed(self)

    def _go_off_and_on(self) -> None:
        self._end_system("off")
        self._go_on()

    def _end_system(self, runs: str) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if self.agent is not None:
            self.agent.kill()
            self.agent = None
        self.machine.runs, self.machine.agent = runs, ""

    def _start(self) -> None:
        machine = self.machine
        machine.boots += 1
        machine.runs = "starting"
        if machine.bios_pending:
            machine.bios.update(machine.bios_pending)
            machine.bios_pending = {}
            machine.bios_applied = time()
        machine.secure_boot_now = machine.secure_boot
        for change in machine.at_start:
            change()
        machine.at_start.clear()
        self._running = asyncio.create_task(self._boot())

    async def _boot(self) -> None:
        machine = self.machine
        await asyncio.sleep(machine.faults.boot_seconds)
        for device in self._devices():
            if device == "Hdd":
                if machine.disk is not None:
                    self._set_running("instance", f"boots {machine.disk.name} from disk")
                    return
                continue
            try:
                parameters = await self._load(device)
            except media.Unreadable as error:
                machine.record("machine", f"cannot boot {device}", str(error))
                continue
            if "ipa-api-url" in parameters:
                self._set_running("agent", f"boots the agent from {device}")
                if not machine.faults.agent_never_boots:
                    self._start_agent(parameters)
                return
            machine.record("machine", f"cannot boot {device}", "no ipa-api-url in it")
        self._set_running("no bootable device", "finds no bootable device")

    def _devices(self) -> list[str]:
        """Return the boot devices in order. Resets a one-time override."""
        machine = self.machine
        target = machine.boot_target if machine.boot_enabled != "Disabled" else "None"
        if machine.boot_enabled == "Once":
            machine.boot_enabled, machine.boot_target = "Disabled", "None"
        return ["Hdd"] if target in ("None", "Hdd") else [target, "Hdd"]

    async def _load(self, device: str) -> dict[str, str]:
        """Return the kernel parameters from a boot device. Raises Unreadable."""
        machine = self.machine
        if device in ("Cd", "UsbCd", "Floppy", "Usb"):
            url = machine.media["Floppy" if device == "Floppy" else "Cd"]
            if not url:
                raise media.Unreadable("no medium is inserted")
            return await media.scan(self.client, url)
        if device == "UefiHttp" and machine.boot_uri:
            return await media.scan(self.client, machine.boot_uri)
        if device not in ("Pxe", "UefiHttp") or not self.pxe:
            raise media.Unreadable("nothing to boot there")
        if not self.pxe.startswith(("http://", "https://", "file:")):
            return media.parameters(self.pxe.encode())
        hexhyp = machine.mac.replace(":", "-")
        return await media.scan(self.client, self.pxe.format(mac=machine.mac, hexhyp=hexhyp))

    def _set_running(self, runs: str, event: str) -> None:
        self.machine.runs = runs
        self.machine.record("machine", event)

    def _start_agent(self, parameters: Mapping[str, str]) -> None:
        machine = self.machine
        self.agent = Agent(
            parameters["ipa-api-url"],
            machine.macs,
            machine.address,
            machine.port,
            token=parameters.get("ipa-agent-token"),
            insecure=parameters.get("ipa-insecure", "0") == "1",
            inspection_url=parameters.get("ipa-inspection-callback-url"),
            machine=machine,
            client=self.client,
            on_power=self.from_inside,
        )
        self.agent.run()
