"""One simulated machine: everything that is true of it, and the log of what happened to it."""

import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from drivers.simulator.faults import Faults

#: How many entries the log of one machine keeps.
LOG_LENGTH = 10_000

BIOS_DEFAULTS: dict[str, Any] = {
    "BootMode": "Uefi",
    "NumLock": "On",
    "ProcHyperthreading": "Enabled",
    "ProcTurboMode": "Enabled",
    "ProcVirtualization": "Enabled",
    "SerialBaudRate": 115200,
    "SriovGlobalEnable": "Disabled",
}
#: The values that an enumerated BIOS attribute can have.
BIOS_CHOICES: dict[str, list[str]] = {
    "BootMode": ["Uefi", "Bios"],
    "NumLock": ["On", "Off"],
    "ProcHyperthreading": ["Enabled", "Disabled"],
    "ProcTurboMode": ["Enabled", "Disabled"],
    "ProcVirtualization": ["Enabled", "Disabled"],
    "SriovGlobalEnable": ["Enabled", "Disabled"],
}


@dataclass(slots=True)
class Image:
    """What was written to the disk: size in bytes, sha256 in hex."""

    name: str
    sha256: str
    size: int
    configdrive: bool = False


@dataclass(slots=True)
class Task:
    """A long job of the BMC, done at `ends` (seconds since the epoch). failure: "" or why."""

    number: int
    name: str
    started: float
    ends: float
    failure: str = ""


@dataclass(slots=True)
class Machine:
    """
    The state of one machine.

    power: "On" or "Off". runs: what the machine does: "off", "starting", "agent", "instance",
    "rescue", "no bootable device" or "hung". agent: "" or what the agent is at.
    media: device ("Cd", "Floppy") -> URL inserted, "" if none.
    spent: one-time faults that have happened.
    subscriptions: path -> document.
    at_start: what the next start of the machine does, once.
    bios, bios_pending: attributes in effect, and those that the next reset brings.
    """

    number: int
    address: str
    port: int
    uuid: str
    macs: tuple[str, ...]
    name: str
    faults: Faults
    random: Random

    username: str = "admin"
    password: str = "admin"
    power: str = "Off"
    runs: str = "off"
    agent: str = ""
    boot_target: str = "None"
    boot_enabled: str = "Disabled"
    boot_mode: str = "UEFI"
    boot_uri: str = ""
    media: dict[str, str] = field(default_factory=lambda: {"Cd": "", "Floppy": ""})
    bios: dict[str, Any] = field(default_factory=lambda: dict(BIOS_DEFAULTS))
    bios_pending: dict[str, Any] = field(default_factory=dict)
    bios_applied: float | None = None
    secure_boot: bool = False
    secure_boot_now: bool = False
    indicator: str = "Off"
    drive_indicators: dict[int, str] = field(default_factory=dict)
    asset_tag: str = ""
    firmware: dict[str, str] = field(default_factory=lambda: {"BIOS": "1.0.0", "BMC": "2.10"})
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    at_start: list[Callable[[], None]] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    disk: Image | None = None
    disk_bytes: int = 100 * 1024**3
    memory_gib: int = 32
    cpus: int = 8
    reads: int = 0
    boots: int = 0
    spent: set[str] = field(default_factory=set)
    log: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LOG_LENGTH))

    @property
    def system_id(self) -> str:
        return f"/redfish/v1/Systems/{self.uuid}"

    @property
    def mac(self) -> str:
        return self.macs[0]

    @property
    def redfish_address(self) -> str:
        return f"http://{self.address}:{self.port}"

    def driver_info(
        self, username: str | None = None, password: str | None = None
    ) -> dict[str, Any]:
        """`driver_info` of a node that is this machine, for the hardware type `redfish`."""
        return {
            "redfish_address": self.redfish_address,
            "redfish_system_id": self.system_id,
            "redfish_username": username or self.username,
            "redfish_password": password or self.password,
            "redfish_verify_ca": False,
        }

    def record(self, kind: str, what: str, detail: Any = None, **more: Any) -> None:
        """
        Log what the machine was told or did.

        kind: "redfish" (an order to the BMC), "agent" (a command to the agent, or its end) or
        "machine" (what came of it, or what somebody did at the machine). more: keys of this entry
        alone.
        """
        self.log.append({"at": time.time(), "kind": kind, "what": what, "detail": detail, **more})

    def describe(self) -> dict[str, Any]:
        """The machine as the control endpoint shows it."""
        return {
            "number": self.number,
            "name": self.name,
            "uuid": self.uuid,
            "mac": self.mac,
            "macs": list(self.macs),
            "redfish_address": self.redfish_address,
            "system_id": self.system_id,
            "power": self.power,
            "runs": self.runs,
            "agent": self.agent,
            "boots": self.boots,
            "boot": {"target": self.boot_target, "enabled": self.boot_enabled},
            "media": self.media,
            "disk": self.disk
            and {
                "image": self.disk.name,
                "sha256": self.disk.sha256,
                "size": self.disk.size,
                "configdrive": self.disk.configdrive,
            },
            "volumes": list(self.volumes.values()),
            "reads": self.reads,
        }


def build(number: int, address: str, port: int, seed: int, faults: Faults | None = None) -> Machine:
    """Machine `number` of the fleet that `seed` names: the same identity in every run."""
    low = number.to_bytes(3, "big")
    macs = tuple(
        ":".join(f"{octet:02x}" for octet in (first, 0x54, seed % 256, *low))
        for first in (0x52, 0x56)
    )
    return Machine(
        number=number,
        address=address,
        port=port,
        uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"simulator/{seed}/{number}")),
        macs=macs,
        name=f"sim-{number:04d}",
        faults=faults or Faults(),
        random=Random(f"{seed}/{number}"),
    )
