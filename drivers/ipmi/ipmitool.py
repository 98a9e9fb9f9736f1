"""
Transport over the program `ipmitool`, for BMCs that pyghmi does not support.

Each request is a run of the program with a login. Secrets are passed in its environment, which only
the same user can read, and never in its arguments.
"""

import csv
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from drivers.core.errors import (
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Unexpected,
    Unreachable,
)
from drivers.ipmi.credentials import Bridge, Credentials
from drivers.net.child_environment import without_settings

PROGRAM = "ipmitool"
#: Home directory of the program, with a registry of enterprise numbers that has one entry: the
#: program reads the whole registry of the system else, and keeps 5 MiB of it as long as it runs.
_HOME = Path(__file__).with_name("home")
COMPLETION_CODE = re.compile(r"rsp=0x([0-9a-f]{1,2})\)")
#: Lines of `ipmitool -v` with the BMC's reason for a refused login
REFUSAL = re.compile(r"RAKP \d .*|Error in open session response message.*|.*[Aa]uthtype.*")
#: A reason that is temporary: the BMC has too many sessions
NO_ROOM = re.compile(r"insufficient resources", re.IGNORECASE)


def raw(
    bmc: Credentials, netfn: int, command: int, data: bytes, deadline: float
) -> tuple[int, bytes]:
    """
    Send an IPMI request; return its completion code and the data of its answer.

    deadline: `time.monotonic()` at which the program is killed.

    Raises Unreachable, Unexpected.
    Raises LoginRefused.
    Raises NotSupported: the program is not installed.
    """
    arguments = ("raw", *(f"0x{byte:02x}" for byte in (netfn, command, *data)))
    process = _run(bmc, arguments, deadline)
    if process.returncode != 0:
        return _failure(bmc, process.stderr), b""
    try:
        return 0, bytes.fromhex(process.stdout)
    except ValueError:
        answer = bmc.mask(process.stdout.strip())[:200]
        raise Unexpected(f"BMC {bmc.endpoint}: {PROGRAM} printed {answer!r}") from None


def sensor_rows(bmc: Credentials, deadline: float) -> list[list[str]]:
    """
    Return the analogue sensors of the BMC's records: [[name, reading, unit, status]].

    One run of the program reads them all; by messages it would be a run for each part of a record.

    Raises Unreachable, LoginRefused, NotSupported: as `raw`, or the BMC has no records.
    """
    process = _run(bmc, ("-c", "sdr", "list", "full"), deadline)
    rows = [row for row in csv.reader(process.stdout.splitlines()) if len(row) >= 4]
    if process.returncode != 0 and not rows:
        code = _failure(bmc, process.stderr)
        raise NotSupported(f"BMC {bmc.endpoint} has no sensor data records (0x{code:02x})")
    return rows


def _run(
    bmc: Credentials, arguments: Sequence[str], deadline: float
) -> subprocess.CompletedProcess[str]:
    """
    Run the program with a login, and with these words after it.

    Raises Unreachable: no end before the deadline. Raises NotSupported: it is not installed.
    """
    try:
        return subprocess.run(
            [PROGRAM, "-v", *options(bmc), *arguments],
            env=environment(bmc),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=max(deadline - time.monotonic(), 0.001),
            check=False,
        )
    except subprocess.TimeoutExpired:
        # without a suite, ipmitool offers a newer one, to which old BMCs may send no answer
        hint = "; driver_info/ipmi_cipher_suite = 3 may help" if bmc.cipher_suite is None else ""
        raise Unreachable(f"BMC {bmc.endpoint} did not answer {PROGRAM} in time{hint}") from None
    except FileNotFoundError:
        raise NotSupported(
            f"driver_info/ipmi_client: {PROGRAM} is not installed on this conductor"
        ) from None


def options(bmc: Credentials) -> list[str]:
    """Return the program's options for a login, without secrets."""
    arguments = ["-I", "lanplus" if bmc.protocol == "2.0" else "lan"]
    arguments += ["-H", bmc.peer or bmc.address, "-p", str(bmc.port), "-E"]
    if bmc.username:
        arguments += ["-U", bmc.username]
    if bmc.privilege:
        arguments += ["-L", bmc.privilege]
    if bmc.cipher_suite is not None:
        arguments += ["-C", str(bmc.cipher_suite)]
    if bmc.kg:
        arguments.append("-K")
    if bmc.bridge:
        arguments += _bridging(bmc.bridge)
    return arguments


def _bridging(bridge: Bridge) -> list[str]:
    options = {
        "-m": bridge.local_address,
        "-B": bridge.transit_channel,
        "-T": bridge.transit_address,
        "-b": bridge.channel,
        "-t": bridge.address,
    }
    return [
        word
        for option, number in options.items()
        if number is not None
        for word in (option, f"0x{number:02x}")
    ]


def environment(bmc: Credentials) -> dict[str, str]:
    """
    Return the environment of the program, with the secrets of a login.

    Raises InvalidDriverInfo: the program does not take the BMC's key.
    """
    environment = {
        **without_settings(), "LC_ALL": "C", "HOME": str(_HOME), "IPMI_PASSWORD": bmc.password,
    }  # fmt: skip
    if bmc.kg:
        if 0 in bmc.kg or not bmc.kg.isascii():
            raise InvalidDriverInfo(
                f"driver_info/ipmi_hex_kg_key: {PROGRAM} takes only a key of ASCII characters;"
                " ipmi_client = pyghmi takes any"
            )
        environment["IPMI_KGKEY"] = bmc.kg.decode()
    return environment


def _failure(bmc: Credentials, stderr: str) -> int:
    """
    Return the completion code in the program's output.

    Raises LoginRefused.
    Raises Unreachable: any other error.
    """
    code = COMPLETION_CODE.search(stderr)
    if code:
        return int(code[1], 16)
    refusal = REFUSAL.search(stderr)
    if refusal and not NO_ROOM.search(stderr):
        raise LoginRefused(f"IPMI login to BMC {bmc.endpoint}: {bmc.mask(refusal[0].strip('> '))}")
    lines = [line for line in stderr.splitlines() if line.strip()]
    reason = bmc.mask(lines[-1].strip()) if lines else f"{PROGRAM} failed without a message"
    raise Unreachable(f"IPMI login to BMC {bmc.endpoint}: {reason}")
