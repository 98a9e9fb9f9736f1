"""State of one simulated machine, and its log."""

import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from drivers.simulator.faults import Faults

#: Number of entries in the log of a machine; older ones are dropped.
LOG_LENGTH = 10_000

BIOS_DEFAULTS: dict[str, object] = {
    "BootMode": "Uefi",
    "NumLock": "On",
    "ProcHyperthreading": "Enabled",
    "ProcTurboMode": "Enabled",
    "ProcVirtualization": "Enabled",
    "SerialBaudRate": 115200,
    "SriovGlobalEnable": "Disabled",
}
#: Values of the enumerated BIOS attributes.
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
    """Image on the disk."""

    name: str
    sha256: str  # hexadecimal
    size: int  # bytes
    configdrive: bool = False


@dataclass(slots=True, eq=False)
class Task:
    """A task of the BMC."""

    number: int
    name: str
    started: float  # seconds since the epoch
    ends: float  # seconds since the epoch
    effect: Callable[[], object] | None = None  # of a task that succeeds
    failure: str = ""  # error message; "": the task succeeds
    state: str = "Completed"  # at the end, unless it fails
    status: str = "OK"  # at the end, unless it fails
    message: str = ""  # at the end, unless it fails
    delay: float = 0.0  # seconds from the end to the effect
    hidden: bool = False  # the BMC does not show it


@dataclass(slots=True)
class Machine:
    """State of one machine."""

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
    wrong_logins: int = 0  # in a row
    lockouts: int = 0  # how often they have locked the user out
    locked_until: float = 0.0  # on time.monotonic; until then every login is refused
    #: All passwords that the BMC has had, or was sent in a login or an order.
    seen_passwords: set[str] = field(default_factory=set)
    power: str = "Off"  # "On" or "Off"
    #: "off", "starting", "agent", "instance", "rescue", "no bootable device" or "hung".
    runs: str = "off"
    agent: str = ""  # activity of the agent; "": no agent runs
    boot_target: str = "None"
    boot_enabled: str = "Disabled"
    boot_mode: str = "UEFI"
    boot_uri: str = ""
    #: Device -> URL of the inserted medium; "": none.
    media: dict[str, str] = field(default_factory=lambda: {"Cd": "", "Floppy": ""})
    bios: dict[str, object] = field(default_factory=lambda: dict(BIOS_DEFAULTS))  # in effect
    bios_pending: dict[str, object] = field(default_factory=dict)  # applied by the next reset
    bios_applied: float | None = None  # seconds since the epoch
    secure_boot: bool = False  # setting
    secure_boot_now: bool = False  # in effect since the last start
    secure_boot_mode: str = "UserMode"  # SecureBootMode; SetupMode: without keys
    clock_ahead: float = 0.0  # seconds by which the BMC's clock is ahead of this host's
    clock_offset: str = "+00:00"  # DateTimeLocalOffset
    indicator: str = "Off"
    drive_indicators: dict[int, str] = field(default_factory=dict)
    asset_tag: str = ""
    firmware: dict[str, str] = field(default_factory=lambda: {"BIOS": "1.0.0", "BMC": "2.10"})
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    raid: list[dict[str, object]] = field(default_factory=list)  # logical disks, built by the agent
    tasks: list[Task] = field(default_factory=list)
    unsettled: list[Task] = field(default_factory=list)  # effect still to come
    at_start: list[Callable[[], object]] = field(default_factory=list)  # called once, at next start
    sessions: dict[str, str] = field(default_factory=dict)  # id -> token
    subscriptions: dict[str, dict[str, object]] = field(default_factory=dict)  # path -> document
    disk: Image | None = None
    disk_bytes: int = 100 * 1024**3
    memory_gib: int = 32
    cpus: int = 8
    reads: int = 0  # GET requests to the BMC
    boots: int = 0
    spent: set[str] = field(default_factory=set)  # one-time faults that have occurred
    memory: dict[str, dict[object, object]] = field(default_factory=dict)  # of rude faults, by name
    log: deque[dict[str, object]] = field(default_factory=lambda: deque(maxlen=LOG_LENGTH))

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
    ) -> dict[str, object]:
        """Return `driver_info` for a node of this machine with hardware type `redfish`."""
        return {
            "redfish_address": self.redfish_address,
            "redfish_system_id": self.system_id,
            "redfish_username": username or self.username,
            "redfish_password": password or self.password,
            "redfish_verify_ca": False,
        }

    def set_password(self, password: str) -> None:
        """Change the password of the BMC's user; all its sessions end."""
        self.password = password
        self.seen_passwords.add(password)
        self.sessions.clear()

    def describe_account(self) -> dict[str, Any]:
        """Return the BMC's user as the control endpoint shows it."""
        return {
            "username": self.username,
            "password": self.password,
            "seen_passwords": sorted(self.seen_passwords),
            "wrong_logins": self.wrong_logins,
            "lockouts": self.lockouts,
        }

    def settle(self) -> None:
        """Apply the effects of the tasks that have ended."""
        now = time.time()
        due_tasks = [task for task in self.unsettled if now >= task.ends + task.delay]
        self.unsettled = [task for task in self.unsettled if task not in due_tasks]
        for task in due_tasks:
            if task.effect is not None and not task.failure:
                task.effect()

    def record(self, kind: str, summary: str, detail: object = None, **facts: object) -> None:
        """
        Add an entry to the machine's log. facts: further keys of the entry.

        kind: "redfish" (command to the BMC), "agent" (start or end of an agent's command) or
        "machine" (event on the machine, or action at its power button).
        """
        self.log.append(
            {"at": time.time(), "kind": kind, "what": summary, "detail": detail, **facts}
        )

    def describe(self) -> dict[str, object]:
        """Return the machine as the control endpoint shows it."""
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
            "firmware": self.firmware,
            "disk": self.disk
            and {
                "image": self.disk.name,
                "sha256": self.disk.sha256,
                "size": self.disk.size,
                "configdrive": self.disk.configdrive,
            },
            "volumes": list(self.volumes.values()),
            "raid": self.raid,
            "reads": self.reads,
        }


def build(number: int, address: str, port: int, seed: int, faults: Faults | None = None) -> Machine:
    """Return machine `number` of the fleet with this seed. Its identity is the same in each run."""
    low = number.to_bytes(3, "big")
    macs = tuple(
        ":".join(f"{octet:02x}" for octet in (prefix, 0x54, seed % 256, *low))
        for prefix in (0x52, 0x56)
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
