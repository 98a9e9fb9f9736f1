"""
What Ingot asks of an IPMI BMC, in the messages of the IPMI 2.0 specification (chapter 28).

Whoever carries the messages, pyghmi's sessions or `ipmitool`, only carries bytes; what they mean is
known here, once.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from drivers.core.bmc import Bmcs
from drivers.core.errors import NotSupported, Refused, Unexpected, Unreachable
from drivers.core.kinds import POWER_OFF, POWER_ON, SOFT_OFF
from drivers.core.target import Target
from drivers.ipmi import credentials, ipmitool, suites
from drivers.ipmi.credentials import Credentials
from drivers.ipmi.sessions import sessions
from drivers.ipmi.suites import Carry

CHASSIS, APPLICATION = 0x00, 0x06
COLD_RESET, WARM_RESET = 0x02, 0x03
DIAGNOSTIC_INTERRUPT = 4
GET_STATUS, CONTROL, SET_BOOT_OPTION, GET_BOOT_OPTION = 0x01, 0x02, 0x08, 0x09
ORDERS = {POWER_OFF: 0, POWER_ON: 1, SOFT_OFF: 5}

#: boot option parameters, and the flags in the first byte of BOOT_FLAGS
VALID_BIT_CLEARING, BOOT_FLAGS = 3, 5
KEEP_ON_TIMEOUT = 0x08
VALID, PERSISTENT, UEFI = 0x80, 0x40, 0x20
DEVICES = {"pxe": 1, "disk": 2, "safe": 3, "cdrom": 5, "bios": 6}

COMPLETION_CODES = {
    0xC0: "node busy",
    0xC1: "invalid command",
    0xC2: "command invalid for this LUN",
    0xC3: "timeout while processing the command",
    0xC4: "out of space",
    0xC7: "request data length invalid",
    0xC9: "parameter out of range",
    0xCC: "invalid data field in request",
    0xCE: "no response could be provided",
    0xD2: "BMC initialization in progress",
    0xD4: "insufficient privilege level",
    0xD5: "not supported in the present state",
    0xD6: "sub-function disabled",
    0xFF: "unspecified error",
}
#: The BMC may well do it a moment later
TRY_AGAIN = frozenset({0xC0, 0xC3, 0xC4, 0xD2})
#: It does not know the command, or the value in it
UNKNOWN_TO_IT = frozenset({0xC1, 0xC2, 0xC9, 0xCC, 0x80})
PAUSE = 0.5

Ask = Callable[..., bytes]


@dataclass(frozen=True, slots=True)
class Client:
    """
    The BMC of one node.

    carry: what takes a message to the BMC and its answer back.
    timeout: seconds that one order or question may take, login and repetitions included.
    before_order: called right before each message that changes something; raises LeaseLost.
    suites: cipher suites to try in this order, see `suites.agreed`; empty: as `bmc` says.
    gap: least seconds since the command before this one; None: as for every BMC.

    Every method raises Unreachable, Refused, NotSupported or Unexpected.
    """

    bmc: Credentials
    bmcs: Bmcs
    carry: Carry
    timeout: float
    before_order: Callable[[], None]
    suites: tuple[int, ...] = ()
    gap: float | None = None

    @classmethod
    def of(cls, target: Target, bmcs: Bmcs) -> "Client":
        """The client for a node. Raises InvalidDriverInfo."""
        bmc = credentials.read(target)
        carry = ipmitool.raw if bmc.client == "ipmitool" else sessions().raw
        options = target.options["ipmi"]
        timeout, gap = float(options["command_timeout"]), float(options["min_command_interval"])
        tried = suites.candidates(bmc, options["cipher_suite_versions"])
        return cls(bmc, bmcs, carry, timeout, target.before_order, tried, gap or None)

    def power_state(self) -> str:
        """`power on` or `power off`."""
        with self._turn() as ask:
            status = ask(GET_STATUS, least=1)
        return POWER_ON if status[0] & 1 else POWER_OFF

    def order(self, state: str) -> None:
        """Order `power on`, `power off` or `soft power off`; do not wait for it."""
        if state not in ORDERS:
            raise NotSupported(f"IPMI knows no power order {state!r}")
        with self._turn() as ask:
            self.before_order()
            ask(CONTROL, ORDERS[state])

    def get_boot_device(self) -> dict[str, Any]:
        """
        {"boot_device": name or None, "persistent": bool or None, "uefi": bool or None}

        All are None when the BMC leaves the choice to the firmware.
        """
        with self._turn() as ask:
            flags = ask(GET_BOOT_OPTION, BOOT_FLAGS, 0, 0, least=4)
        invalid = flags[1] & 0x80
        selected = flags[3] >> 2 & 0x0F
        name = next((name for name, number in DEVICES.items() if number == selected), None)
        if invalid or not flags[2] & VALID or name is None:
            return {"boot_device": None, "persistent": None, "uefi": None}
        return {
            "boot_device": name,
            "persistent": bool(flags[2] & PERSISTENT),
            "uefi": bool(flags[2] & UEFI),
        }

    def set_boot_device(
        self, device: str, *, persistent: bool, uefi: bool, keep_on_timeout: bool
    ) -> None:
        """
        Choose what the next boot, or each boot, starts from.

        keep_on_timeout: ask the BMC not to forget it after 60 s without a power order.
        """
        if device not in DEVICES:
            raise NotSupported(f"boot device {device!r}: IPMI knows {', '.join(DEVICES)}")
        flags = VALID | (PERSISTENT if persistent else 0) | (UEFI if uefi else 0)
        with self._turn() as ask:
            self.before_order()
            if keep_on_timeout:
                with suppress(Refused, NotSupported):  # optional; without it the 60 s hold
                    ask(SET_BOOT_OPTION, VALID_BIT_CLEARING, KEEP_ON_TIMEOUT)
            ask(SET_BOOT_OPTION, BOOT_FLAGS, flags, DEVICES[device] << 2, 0, 0, 0)

    def inject_nmi(self) -> None:
        """Order a diagnostic interrupt."""
        with self._turn() as ask:
            self.before_order()
            ask(CONTROL, DIAGNOSTIC_INTERRUPT)

    def reset_bmc(self, *, warm: bool) -> None:
        """Restart the BMC itself: it does not answer for a while."""
        with self._access() as (bmc, deadline):
            self.before_order()
            command = WARM_RESET if warm else COLD_RESET
            with suppress(Unreachable):  # many a BMC is gone before it has answered
                self.carry(bmc, APPLICATION, command, b"", deadline)

    def send_raw(self, message: bytes) -> bytes:
        """A message of network function, command and data; the data of its answer."""
        with self._access() as (bmc, deadline):
            self.before_order()
            code, answer = self.carry(bmc, message[0], message[1], message[2:], deadline)
        if code != 0:
            meaning = COMPLETION_CODES.get(code, "no standard meaning")
            raise Refused(
                f"BMC {self.bmc.endpoint} answered the raw message {message.hex(' ')} with"
                f" completion code 0x{code:02x} ({meaning})"
            )
        return answer

    @contextmanager
    def _turn(self) -> Iterator[Ask]:
        """Have the BMC to oneself, to ask it chassis commands."""
        with self._access() as (bmc, deadline):
            yield partial(self._ask, bmc, deadline)

    @contextmanager
    def _access(self) -> Iterator[tuple[Credentials, float]]:
        """
        Have the BMC to oneself, and `timeout` seconds from now; as whom, and until when.

        The suite that was agreed on is the connection that is kept.
        """
        with self.bmcs.turn(self.bmc.endpoint, gap=self.gap) as held:
            bmc, deadline = self.bmc, time.monotonic() + self.timeout
            if self.suites:
                if held.connection not in self.suites:
                    held.connection = suites.agreed(self.carry, bmc, self.suites, deadline)
                bmc = replace(bmc, cipher_suite=held.connection)
            yield bmc, deadline

    def _ask(
        self, bmc: Credentials, deadline: float, command: int, *data: int, least: int = 0
    ) -> bytes:
        """The answer to a chassis command, of `least` bytes or more."""
        code, answer = self.carry(bmc, CHASSIS, command, bytes(data), deadline)
        while code in TRY_AGAIN and time.monotonic() + PAUSE < deadline:
            time.sleep(PAUSE)
            code, answer = self.carry(bmc, CHASSIS, command, bytes(data), deadline)
        if code != 0:
            meaning = COMPLETION_CODES.get(code, "no standard meaning")
            error = NotSupported if code in UNKNOWN_TO_IT else Refused
            raise error(
                f"BMC {self.bmc.endpoint} answered IPMI chassis command 0x{command:02x} with"
                f" completion code 0x{code:02x} ({meaning})"
            )
        if len(answer) < least:
            raise Unexpected(
                f"BMC {self.bmc.endpoint} answered IPMI chassis command 0x{command:02x} with"
                f" {len(answer)} bytes instead of at least {least}"
            )
        return answer
