"""
Sessions with switches, by netmiko over SSH, and the queue of each switch.

A switch has one session of a process at a time. The thread that has it also carries out the work
that other threads have queued in the meantime: a login takes longer than most work.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

from drivers.core.errors import (
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    Refused,
    Unreachable,
)
from drivers.core.switching import Switch
from drivers.switch.cisco import AristaEos, CiscoIos, CiscoNxos
from drivers.switch.dialects import Dialect
from drivers.switch.open_vswitch import OpenVswitch

if TYPE_CHECKING:
    import paramiko

Result = TypeVar("Result")

#: Device type of a switch, as netmiko names it -> its dialect.
DIALECTS: Mapping[str, Dialect] = {
    "arista_eos": AristaEos(),
    "cisco_ios": CiscoIos(),
    "cisco_nxos": CiscoNxos(),
    "cisco_xe": CiscoIos(),
    "ovs_linux": OpenVswitch(),
}
_SSH = 22  # port that known_hosts does not mention
#: Settings [switch].
Options = Mapping[str, Any]


@dataclass(slots=True)
class SwitchSession:
    """A session with a switch whose login has succeeded."""

    switch: Switch
    dialect: Dialect
    connection: Any  # of netmiko
    timeout: float  # seconds for the output of a command

    def show(self, command: str) -> str:
        """Send a command that changes nothing; return its output."""
        with _translated(self.switch):
            return str(self.connection.send_command(command, read_timeout=self.timeout))

    def configure(self, commands: Sequence[str]) -> None:
        """
        Send commands in the mode for configuration, one after the other.

        Raises Refused: the switch reports an error of one; the following ones are not sent.
        """
        with _translated(self.switch):
            self.connection.send_config_set(
                list(commands),
                read_timeout=self.timeout,
                error_pattern=f"(?i)^.*({self.dialect.refusal}).*$",
            )

    def save(self) -> None:
        """Save the configuration for the next start of the switch."""
        with _translated(self.switch):
            self.connection.save_config()


def run(switch: Switch, options: Options, work: Callable[[SwitchSession], Result]) -> Result:
    """
    Do work in a session with a switch, when its turn in the queue of the switch has come.

    Raises Unreachable, LoginRefused, Refused: of the switch; InvalidDriverInfo: of its row; the
    errors of the work.
    """
    return _queue_of(switch.uuid).run(lambda: opened(switch, options), work)


@dataclass(slots=True)
class _Order:
    """Work that waits for its turn, then its result or its error."""

    work: Callable[[SwitchSession], Any]
    is_done: bool = False
    result: Any = None
    error: BaseException | None = None

    def carry_out(self, session: SwitchSession) -> None:
        try:
            self.result = self.work(session)
        except BaseException as error:
            self.error = error
        self.is_done = True


@dataclass(slots=True)
class _Queue:
    """The queue of a switch."""

    _turn: threading.Lock = field(default_factory=threading.Lock)
    _waiting: deque[_Order] = field(default_factory=deque)

    def run(self, connect: Callable[[], Any], work: Callable[[SwitchSession], Result]) -> Result:
        order = _Order(work)
        self._waiting.append(order)
        with self._turn:
            while not order.is_done:  # again if the work of another one has lost the session
                self._serve(connect)
        if order.error is not None:
            raise order.error
        result: Result = order.result
        return result

    def _serve(self, connect: Callable[[], Any]) -> None:
        """Carry out the waiting orders, up to the first without an answer."""
        try:
            with connect() as session:
                while self._waiting:
                    order = self._waiting.popleft()
                    order.carry_out(session)
                    if isinstance(order.error, Unreachable):
                        break
        except Exception as error:  # no session, so none for those that wait for it, either
            while self._waiting:
                order = self._waiting.popleft()
                order.error, order.is_done = error, True


_queues: dict[str, _Queue] = {}
_queues_lock = threading.Lock()


def _queue_of(switch: str) -> _Queue:
    with _queues_lock:
        return _queues.setdefault(switch, _Queue())


@contextmanager
def opened(switch: Switch, options: Options) -> Iterator[SwitchSession]:
    """
    Log in to a switch, whose host key is checked.

    Raises InvalidDriverInfo: a field of the switch is wrong, or netmiko is not installed.
    Raises Unreachable, LoginRefused.
    """
    try:
        import netmiko  # takes half a second; conductors without switches need not have it
    except ImportError as error:
        raise InvalidDriverInfo(
            f"network interface switch needs netmiko on the conductors: install ingot[switch]"
            f" ({error})"
        ) from error
    dialect = DIALECTS.get(switch.device_type)
    if dialect is None:
        raise InvalidDriverInfo(
            f"device_type of switch {switch.name}: {switch.device_type!r} is none of"
            f" {', '.join(sorted(DIALECTS))}"
        )
    host_line = _host_line(switch)
    with NamedTemporaryFile("w", prefix="ingot-known-host-") as known_hosts:
        known_hosts.write(f"{host_line}\n")
        known_hosts.flush()
        with _translated(switch):
            connection = netmiko.ConnectHandler(
                device_type=switch.device_type,
                host=switch.address,
                port=switch.port,
                username=switch.username,
                password=switch.password,
                secret=switch.enable_password or switch.password or "",
                pkey=_private_key(switch),
                use_keys=False,
                allow_agent=False,
                ssh_strict=True,
                system_host_keys=False,
                alt_host_keys=True,
                alt_key_file=known_hosts.name,
                conn_timeout=options["connect_timeout"],
                auth_timeout=options["connect_timeout"],
                banner_timeout=options["connect_timeout"],
            )
    try:
        with _translated(switch):
            connection.enable()
        yield SwitchSession(switch, dialect, connection, options["command_timeout"])
    finally:
        connection.disconnect()


def _host_line(switch: Switch) -> str:
    """Return the line of known_hosts. Raises InvalidDriverInfo: the host key is malformed."""
    from paramiko import hostkeys

    host = switch.address if switch.port == _SSH else f"[{switch.address}]:{switch.port}"
    line, subject = f"{host} {switch.host_key}", f"host_key of switch {switch.name}"
    try:
        entry = hostkeys.HostKeyEntry.from_line(line)
    except Exception as error:  # paramiko's parsers raise errors of many libraries
        raise InvalidDriverInfo(f"{subject}: it is malformed ({_line(error)})") from error
    if entry is None:
        raise InvalidDriverInfo(f"{subject}: it is no public key of SSH")
    return line


def _private_key(switch: Switch) -> "paramiko.PKey | None":
    """Return the key as paramiko wants it; None: there is none."""
    if not switch.private_key:
        return None
    import paramiko

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key(StringIO(switch.private_key))
        except paramiko.SSHException:
            continue
    raise InvalidDriverInfo(
        f"private_key of switch {switch.name}: it is no Ed25519, ECDSA or RSA key without a"
        " passphrase"
    )


@contextmanager
def _translated(switch: Switch) -> Iterator[None]:
    """Raise errors of netmiko and paramiko as errors of drivers."""
    import netmiko
    import paramiko

    try:
        yield
    except HardwareError:
        raise
    except netmiko.NetmikoAuthenticationException as error:
        raise LoginRefused(
            f"Switch {switch.name} does not accept user {switch.username} and its password or key"
        ) from error
    except netmiko.exceptions.ConfigInvalidException as error:
        raise Refused(f"Switch {switch.name} refused a command: {_line(error)}") from error
    except (netmiko.exceptions.NetmikoBaseException, paramiko.SSHException, OSError, EOFError,
            ValueError) as error:  # fmt: skip
        text = _line(error)
        if "host key" in text.lower() or "known_hosts" in text:
            raise Refused(
                f"Switch {switch.name} shows another host key than that in its field host_key: it"
                f" was replaced, or another host answers at {switch.address}"
            ) from error
        raise Unreachable(
            f"Switch {switch.name} ({switch.address}:{switch.port}) did not answer: {text}"
        ) from error


def _line(error: BaseException) -> str:
    """Return the message of an error in one short line."""
    return re.sub(r"\s+", " ", str(error)).strip()[:300] or type(error).__name__
