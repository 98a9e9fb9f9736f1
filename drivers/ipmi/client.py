"""
IPMI commands to a BMC, encoded as messages of the IPMI 2.0 specification (chapter 28).

The transports, pyghmi's sessions and `ipmitool`, send bytes; only this module knows their meaning.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    Busy,
    HardwareError,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, SOFT_OFF
from drivers.core.password_rotation import require_settled
from drivers.core.target import Target
from drivers.ipmi import credentials, ipmitool, sensors, suites
from drivers.ipmi.credentials import Credentials
from drivers.ipmi.sessions import sessions
from drivers.ipmi.suites import Transport

CHASSIS, APPLICATION = 0x00, 0x06
_FUNCTIONS = {CHASSIS: "chassis", APPLICATION: "application"}
GET_DEVICE_ID, GET_USER_ACCESS, GET_USER_NAME, SET_USER_PASSWORD = 0x01, 0x44, 0x46, 0x47
#: Channel of the request itself; operation of SET_USER_PASSWORD.
THIS_CHANNEL, SET_PASSWORD = 0x0E, 0x02
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
    0xD0: "SDR repository in update mode",
    0xD1: "device in firmware update mode",
    0xD2: "BMC initialization in progress",
    0xD4: "insufficient privilege level",
    0xD5: "not supported in the present state",
    0xD6: "sub-function disabled",
    0xFF: "unspecified error",
}
#: Temporary errors
TRY_AGAIN = frozenset({0xC0, 0xC3, 0xC4, 0xD2})
#: Refusals of a power command that may be due to a transition
TRANSIENT = frozenset({0xC0, 0xC4, 0xD0, 0xD1, 0xD2, 0xD5})
#: The BMC does not say whether it has carried out a power command
UNCERTAIN = frozenset({0xC3, 0xCE, 0xFF})
#: The BMC lacks the command, or rejects a value in it
UNSUPPORTED = frozenset({0xC1, 0xC2, 0xC9, 0xCC, 0x80})
#: Completion codes of an order that is sent once -> the error that it raises; all others: Refused
_ORDER_ERRORS: tuple[tuple[frozenset[int], type[HardwareError]], ...] = (
    (TRANSIENT, Busy),
    (UNCERTAIN, Unconfirmed),
    (UNSUPPORTED, NotSupported),
)
PAUSE = 0.5  # seconds between repetitions of a command

Send = Callable[..., bytes]


@dataclass(frozen=True, slots=True)
class Client:
    """
    The commands to the BMC of one node.

    Every method raises Unreachable, Refused, NotSupported or Unexpected.
    """

    bmc: Credentials
    bmcs: Bmcs
    transport: Transport  # sends a message to the BMC, and returns its answer
    timeout: float  # seconds for a command, login and repetitions included
    #: called right before each message that changes the machine's state; raises LeaseLost
    before_order: Callable[[], None]
    suites: tuple[int, ...] = ()  # cipher suites to negotiate, in this order; empty: none
    gap: float | None = None  # least seconds since the previous command; None: `bmcs.gap`

    @classmethod
    def of(cls, target: Target, bmcs: Bmcs) -> "Client":
        """
        Return the client of a node.

        Raises InvalidDriverInfo: names the field.
        Raises PasswordUnsettled: the BMC's password is being changed.
        """
        require_settled(target, credentials.PASSWORD)
        return cls.with_credentials(target, bmcs, credentials.read(target))

    @classmethod
    def with_credentials(cls, target: Target, bmcs: Bmcs, bmc: Credentials) -> "Client":
        """Return the client of a node that logs in with these credentials."""
        transport = ipmitool.raw if bmc.client == "ipmitool" else sessions().raw
        options = target.options["ipmi"]
        timeout, gap = float(options["command_timeout"]), float(options["min_command_interval"])
        cipher_suites = suites.candidates(bmc, options["cipher_suite_versions"])
        return cls(bmc, bmcs, transport, timeout, target.before_order, cipher_suites, gap or None)

    def power_state(self) -> str:
        """Return `power on` or `power off`."""
        with self._turn() as send:
            status = send(GET_STATUS, min_length=1)
        return POWER_ON if status[0] & 1 else POWER_OFF

    def order(self, state: str) -> None:
        """
        Send the command for `power on`, `power off` or `soft power off` once; do not wait.

        Raises Busy: refused for now. Raises Unconfirmed: it may have been carried out.
        """
        if state not in ORDERS:
            raise NotSupported(f"IPMI has no power command {state!r}")
        self._order_once(CHASSIS, CONTROL, bytes([ORDERS[state]]))

    def get_boot_device(self) -> dict[str, object]:
        """
        Return {"boot_device": name or None, "persistent": bool or None, "uefi": bool or None}.

        All are None if no boot device is set: then the firmware chooses it.
        """
        with self._turn() as send:
            flags = send(GET_BOOT_OPTION, BOOT_FLAGS, 0, 0, min_length=4)
        invalid = flags[1] & 0x80
        device_number = flags[3] >> 2 & 0x0F
        name = next((name for name, number in DEVICES.items() if number == device_number), None)
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
        Set the boot device of the next start, or of every start if `persistent`.

        keep_on_timeout: keep it longer than 60 s without a power command, the default of BMCs.
        """
        if device not in DEVICES:
            raise NotSupported(f"boot device {device!r}: IPMI has {', '.join(DEVICES)}")
        flags = VALID | (PERSISTENT if persistent else 0) | (UEFI if uefi else 0)
        with self._turn() as send:
            self.before_order()
            if keep_on_timeout:
                with suppress(Refused, NotSupported):  # optional in IPMI; without it 60 s apply
                    send(SET_BOOT_OPTION, VALID_BIT_CLEARING, KEEP_ON_TIMEOUT)
            send(SET_BOOT_OPTION, BOOT_FLAGS, flags, DEVICES[device] << 2, 0, 0, 0)

    def inject_nmi(self) -> None:
        """Send a diagnostic interrupt."""
        with self._turn() as send:
            self.before_order()
            send(CONTROL, DIAGNOSTIC_INTERRUPT)

    def reset_bmc(self, *, warm: bool) -> None:
        """Restart the BMC; it is unreachable for a while."""
        with self._access() as (bmc, deadline):
            self.before_order()
            command = WARM_RESET if warm else COLD_RESET
            with suppress(Unreachable):  # some BMCs restart before they answer
                self.transport(bmc, APPLICATION, command, b"", deadline)

    def user_number(self) -> int:
        """
        Return the number of the user of this client.

        Raises NotSupported: the BMC lists no such user.
        """
        with self._access() as (bmc, deadline):
            if not bmc.username:
                return 1  # the null user
            access = self._carry_out(bmc, deadline, GET_USER_ACCESS, bytes([THIS_CHANNEL, 1]), 4)
            for number in range(1, (access[0] & 0x3F) + 1):
                with suppress(Refused, NotSupported):  # an unused number
                    name = self._carry_out(bmc, deadline, GET_USER_NAME, bytes([number]), 0)
                    if name.rstrip(b"\0") == bmc.username.encode():
                        return number
        raise NotSupported(f"BMC {self.bmc.endpoint} lists no user of driver_info/ipmi_username")

    def set_user_password(self, number: int, password: str) -> None:
        """
        Set a user's password of at most 16 bytes once.

        Raises Busy: refused for now. Raises Unconfirmed: it may have been carried out.
        """
        message = bytes([number, SET_PASSWORD]) + password.encode().ljust(16, b"\0")
        self._order_once(APPLICATION, SET_USER_PASSWORD, message)

    def log_in(self) -> None:
        """
        Log in again, and send a read-only command.

        Raises LoginRefused.
        """
        with self._access() as (bmc, deadline):
            sessions().forget(bmc)
            self.transport(bmc, APPLICATION, GET_DEVICE_ID, b"", deadline)

    def _order_once(self, function: int, command: int, data: bytes) -> None:
        """
        Send an order once.

        Raises Busy: refused for now. Raises Unconfirmed: it may have been carried out.
        """
        with self._access() as (bmc, deadline):
            self.before_order()
            try:
                code, _ = self.transport(bmc, function, command, data, deadline)
            except Unreachable as error:
                raise Unconfirmed(str(error)) from error
        if code != 0:
            kind = next((kind for codes, kind in _ORDER_ERRORS if code in codes), Refused)
            raise kind(self._refusal(function, command, code))

    def _carry_out(
        self, bmc: Credentials, deadline: float, command: int, data: bytes, least: int
    ) -> bytes:
        """Send an application command; return its answer of at least `least` bytes."""
        code, answer = self.transport(bmc, APPLICATION, command, data, deadline)
        if code != 0:
            error = NotSupported if code in UNSUPPORTED else Refused
            raise error(self._refusal(APPLICATION, command, code))
        if len(answer) < least:
            raise Unexpected(f"BMC {self.bmc.endpoint} sent a short answer to 0x{command:02x}")
        return answer

    def send_raw(self, message: bytes) -> bytes:
        """Send a message (network function, command, data); return the data of the answer."""
        with self._access() as (bmc, deadline):
            self.before_order()
            code, answer = self.transport(bmc, message[0], message[1], message[2:], deadline)
        if code != 0:
            meaning = COMPLETION_CODES.get(code, "no standard meaning")
            raise Refused(
                f"BMC {self.bmc.endpoint} answered the raw message {message.hex(' ')} with"
                f" completion code 0x{code:02x} ({meaning})"
            )
        return answer

    def sensors(self) -> list[dict[str, Any]]:
        """Return the analogue sensors: [{name, kind, reading, unit, health}]."""
        with self._access() as (bmc, deadline):
            if bmc.client == "ipmitool":
                rows = ipmitool.sensor_rows(bmc, deadline)
                return sensors.readings_of_rows(rows, self.bmc.endpoint)

            def ask(netfn: int, command: int, data: bytes) -> tuple[int, bytes]:
                return self.transport(bmc, netfn, command, data, deadline)

            return sensors.readings(ask, self.bmc.endpoint)

    @contextmanager
    def _turn(self) -> Iterator[Send]:
        """Hold the BMC's turn; yields a function that sends chassis commands."""
        with self._access() as (bmc, deadline):
            yield partial(self._ask, bmc, deadline)

    @contextmanager
    def _access(self) -> Iterator[tuple[Credentials, float]]:
        """
        Hold the BMC's turn; yields credentials and deadline (`time.monotonic()`) of its commands.

        The governor keeps the negotiated cipher suite as the BMC's connection.
        """
        with self.bmcs.turn(self.bmc.endpoint, gap=self.gap) as state:
            bmc, deadline = self.bmc.resolved(), time.monotonic() + self.timeout
            if self.suites:
                if state.connection not in self.suites:
                    state.connection = suites.negotiate(self.transport, bmc, self.suites, deadline)
                bmc = replace(bmc, cipher_suite=state.connection)
            yield bmc, deadline

    def _refusal(self, function: int, command: int, code: int) -> str:
        meaning = COMPLETION_CODES.get(code, "no standard meaning")
        return (
            f"BMC {self.bmc.endpoint} answered IPMI {_FUNCTIONS[function]} command 0x{command:02x}"
            f" with completion code 0x{code:02x} ({meaning})"
        )

    def _ask(
        self, bmc: Credentials, deadline: float, command: int, *data: int, min_length: int = 0
    ) -> bytes:
        """
        Send a chassis command, and repeat it after temporary errors; return its answer.

        min_length: least bytes of a valid answer.
        """
        code, answer = self.transport(bmc, CHASSIS, command, bytes(data), deadline)
        while code in TRY_AGAIN and time.monotonic() + PAUSE < deadline:
            time.sleep(PAUSE)
            code, answer = self.transport(bmc, CHASSIS, command, bytes(data), deadline)
        if code != 0:
            error = NotSupported if code in UNSUPPORTED else Refused
            raise error(self._refusal(CHASSIS, command, code))
        if len(answer) < min_length:
            raise Unexpected(
                f"BMC {self.bmc.endpoint} answered IPMI chassis command 0x{command:02x} with"
                f" {len(answer)} bytes instead of at least {min_length}"
            )
        return answer
