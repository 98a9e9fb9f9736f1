"""
Power and boot: what happens in a machine when its power is switched or it is reset.

A boot takes the override's device first and the disk after it, as firmware does. A medium with
`ipa-api-url` in it boots the agent; a disk with an image runs the instance.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time

import aiohttp

from drivers.simulator import media
from drivers.simulator.agent import Agent
from drivers.simulator.machine import Machine

#: Systems that hear the power button; anything else has to be switched off hard.
LISTENING = {"agent", "instance", "rescue"}


class WrongState(Exception):
    """The machine cannot do that in the power state it is in."""


@dataclass(slots=True)
class Power:
    """
    The power of one machine and what runs on it.

    pxe: what the network boots: kernel parameters as text, or the URL of a text that holds them,
        in which {mac} and {hexhyp} (with hyphens) stand for the machine's first MAC; "" nothing.
    """

    machine: Machine
    client: aiohttp.ClientSession
    pxe: str = ""
    agent: Agent | None = None
    _running: "asyncio.Task[None] | None" = None
    _changing: "asyncio.Task[None] | None" = None
    _heading: str = ""

    def reset(self, kind: str) -> None:  # noqa: C901, PLR0912 - one branch per ResetType
        """Do what Redfish's ResetType `kind` asks. Raises WrongState."""
        machine = self.machine
        if kind == "PushPowerButton":
            kind = "GracefulShutdown" if machine.power == "On" else "On"
        if kind in ("ForceRestart", "GracefulRestart", "PowerCycle", "Nmi"):
            if machine.power == "Off":
                raise WrongState(f"{kind}: the system is powered off")
        elif (kind in ("On", "ForceOn")) == ((self._heading or machine.power) == "On"):
            return  # it is, or is about to be, what was asked for
        if machine.faults.power_stuck:
            return
        if kind == "Nmi":
            self._die("hung")
        elif kind in ("On", "ForceOn"):
            self._switch(self._go_on, machine.faults.power_on_seconds)
        elif kind == "ForceOff":
            self._switch(self._go_off, machine.faults.power_off_seconds)
        elif kind == "GracefulShutdown":
            if machine.runs in LISTENING:
                self._switch(self._go_off, machine.faults.power_off_seconds)
        elif kind != "GracefulRestart" or machine.runs in LISTENING:
            self._switch(self._go_through, machine.faults.power_on_seconds)

    def from_inside(self, kind: str) -> None:
        """The system that runs on the machine powers off ("off") or restarts ("restart")."""
        faults = self.machine.faults
        if kind == "off":
            self._switch(self._go_off, faults.power_off_seconds)
        else:
            self._switch(self._go_through, faults.power_on_seconds)

    def unplug(self) -> None:
        """Nothing runs any more, at once."""
        self._halt()
        if self.machine.power == "On":
            self._go_off()

    def _switch(self, action: Callable[[], None], seconds: float) -> None:
        """Do it after `seconds`; a later order replaces one that has not been done yet."""
        self._halt()
        if seconds == 0:
            action()
            return

        async def later() -> None:
            await asyncio.sleep(seconds)
            self._changing, self._heading = None, ""
            action()

        self._heading = "Off" if action == self._go_off else "On"
        self._changing = asyncio.create_task(later())

    def _halt(self) -> None:
        """Forget the order that is under way."""
        if self._changing is not None:
            self._changing.cancel()
        self._changing, self._heading = None, ""

    def _go_on(self) -> None:
        self.machine.power = "On"
        self._start()

    def _go_off(self) -> None:
        self._die("off")
        self.machine.power = "Off"
        self.machine.record("machine", "is off")

    def _go_through(self) -> None:
        self._die("off")
        self._go_on()

    def _die(self, runs: str) -> None:
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
                    self._settle("instance", f"boots {machine.disk.name} from disk")
                    return
                continue
            try:
                parameters = await self._load(device)
            except media.Unreadable as error:
                machine.record("machine", f"cannot boot {device}", str(error))
                continue
            if "ipa-api-url" in parameters:
                self._settle("agent", f"boots the agent from {device}")
                if not machine.faults.agent_never_boots:
                    self._start_agent(parameters)
                return
            machine.record("machine", f"cannot boot {device}", "no ipa-api-url in it")
        self._settle("no bootable device", "finds no bootable device")

    def _devices(self) -> list[str]:
        """Boot devices in order; a one-time override is used up by this."""
        machine = self.machine
        target = machine.boot_target if machine.boot_enabled != "Disabled" else "None"
        if machine.boot_enabled == "Once":
            machine.boot_enabled, machine.boot_target = "Disabled", "None"
        return ["Hdd"] if target in ("None", "Hdd") else [target, "Hdd"]

    async def _load(self, device: str) -> dict[str, str]:
        """The kernel parameters that `device` boots with. Raises Unreadable."""
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

    def _settle(self, runs: str, what: str) -> None:
        self.machine.runs = runs
        self.machine.record("machine", what)

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
