"""
Address and login of a node's IPMI BMC, read from its `driver_info`.
"""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drivers.core.errors import InvalidDriverInfo, Unreachable
from drivers.core.references import is_reference
from drivers.core.target import Target
from drivers.net.networks import Reach, of_bmcs

PROPERTIES = {
    "ipmi_address": "host name or IP address of the BMC. Required.",
    "ipmi_port": "UDP port of the BMC; 623 by default. Optional.",
    "ipmi_username": "user name, at most 16 bytes; default is the null user. Optional.",
    "ipmi_password": "password, at most 20 bytes; empty by default. Optional.",
    "ipmi_priv_level": "privilege level to ask for: ADMINISTRATOR (default), OPERATOR, USER or"
    " CALLBACK. Optional.",
    "ipmi_cipher_suite": "cipher suite to use (0-255); negotiated by default. Optional.",
    "ipmi_hex_kg_key": "BMC key (Kg) as 40 hexadecimal digits. Optional.",
    "ipmi_protocol_version": "2.0 (default) or 1.5. Optional.",
    "ipmi_client": "IPMI client: pyghmi or ipmitool; default is [ipmi]client. Optional.",
    "ipmi_bridging": "no (default), single or dual: whether requests are bridged to another"
    " controller; needs ipmi_client = ipmitool. Optional.",
    "ipmi_target_channel": "channel of the bridged controller. Required with bridging.",
    "ipmi_target_address": "address of the bridged controller. Required with bridging.",
    "ipmi_transit_channel": "channel of the controller between. Required with dual bridging.",
    "ipmi_transit_address": "address of the controller between. Required with dual bridging.",
    "ipmi_local_address": "IPMB address of the sender of bridged requests. Optional.",
    "ipmi_disable_boot_timeout": "keep a boot device longer than 60 s after it was set; default is"
    " [ipmi]disable_boot_timeout. Optional.",
    "ipmi_force_boot_device": "set a persistent boot device again before each start, for BMCs that"
    " forget it; false by default. Optional.",
}

#: Field of driver_info.
PASSWORD = "ipmi_password"
PRIVILEGES = {"CALLBACK": 1, "USER": 2, "OPERATOR": 3, "ADMINISTRATOR": 4}
CLIENTS = ("pyghmi", "ipmitool")
PYGHMI_SUITES = (3, 17)

#: ipmi_bridging -> its required keys of driver_info
_BRIDGES: Mapping[str, tuple[str, ...]] = {
    "no": (),
    "single": ("ipmi_target_channel", "ipmi_target_address"),
    "dual": (
        "ipmi_target_channel", "ipmi_target_address",
        "ipmi_transit_channel", "ipmi_transit_address",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bridge:
    """Path of requests to a controller behind the BMC; numbers from 0 to 255."""

    channel: int
    address: int
    transit_channel: int | None = None  # of the controller between; None: there is none
    transit_address: int | None = None
    local_address: int | None = None  # IPMB address of the sender; None: the client's default


@dataclass(frozen=True, slots=True)
class Credentials:
    """Address and login of a BMC."""

    address: str
    port: int = 623
    username: str = ""
    password: str = field(default="", repr=False)
    privilege: str | None = None  # None: the client's default
    cipher_suite: int | None = None  # None: negotiated
    kg: bytes | None = field(default=None, repr=False)  # BMC key; None: no key
    protocol: str = "2.0"  # IPMI version
    client: str = "pyghmi"  # one of CLIENTS
    bridge: Bridge | None = None  # None: the BMC itself answers
    reach: Reach | None = None  # networks of BMCs; None: all
    peer: str = ""  # IP address that the transports contact; empty: that of `address`

    @property
    def endpoint(self) -> str:
        """host:port, the BMC's name in errors and in the governor."""
        return f"{self.address}:{self.port}"

    def resolved(self) -> "Credentials":
        """
        Return the credentials with the IP address of the BMC, after a check of it.

        Raises Unreachable: the name of the BMC is unknown.
        Raises InvalidDriverInfo: a setting refuses the address.
        """
        try:
            address_infos = socket.getaddrinfo(self.address, self.port, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError):
            raise Unreachable(f"BMC {self.endpoint}: its name has no address") from None
        peer = str(address_infos[0][4][0])
        if self.reach:
            self.reach.check(peer)
        return replace(self, peer=peer)

    def mask(self, text: str) -> str:
        """Mask the password in a text."""
        return text.replace(self.password, "******") if self.password else text


def read(target: Target) -> Credentials:
    """
    Read the credentials from a node's driver_info.

    Raises InvalidDriverInfo: names the field.
    """
    target.need("ipmi_address")
    client = _choice(target, "ipmi_client", CLIENTS, target.options["ipmi"]["client"])
    suite = _optional(target, "ipmi_cipher_suite", _number(0, 255))
    protocol = _choice(target, "ipmi_protocol_version", ("2.0", "1.5"), "2.0")
    if client == "pyghmi" and suite not in (None, *PYGHMI_SUITES):
        raise InvalidDriverInfo(
            f"driver_info/ipmi_cipher_suite: pyghmi has the cipher suites 3 and 17, not {suite};"
            " ipmi_client = ipmitool has more"
        )
    if suite is not None and protocol == "1.5":
        raise InvalidDriverInfo("driver_info/ipmi_cipher_suite: IPMI 1.5 has no cipher suites")
    reach = of_bmcs(target.options, "ipmi_address")
    address = _optional(target, "ipmi_address", _text(255))
    reach.check_literal(address)
    return Credentials(
        address=address,
        port=_optional(target, "ipmi_port", _number(1, 65535)) or 623,
        username=_optional(target, "ipmi_username", _text(16)) or "",
        password=_optional(target, "ipmi_password", _text(20)) or "",
        privilege=_choice(target, "ipmi_priv_level", tuple(PRIVILEGES), "")
        if target.driver_info.get("ipmi_priv_level")
        else None,
        cipher_suite=suite,
        kg=_optional(target, "ipmi_hex_kg_key", _key),
        protocol=protocol,
        client=client,
        bridge=_bridge(target, client),
        reach=reach,
    )


def _bridge(target: Target, client: str) -> Bridge | None:
    kind = _choice(target, "ipmi_bridging", tuple(_BRIDGES), "no")
    if kind == "no":
        return None
    if client != "ipmitool":
        raise InvalidDriverInfo(
            f"driver_info/ipmi_bridging: {client} has no bridging; ipmi_client = ipmitool has it"
        )
    for name in _BRIDGES[kind]:
        target.need(name)
    numbers = {name: _optional(target, name, _byte) for name in _BRIDGES[kind]}
    return Bridge(
        numbers["ipmi_target_channel"],
        numbers["ipmi_target_address"],
        numbers.get("ipmi_transit_channel"),
        numbers.get("ipmi_transit_address"),
        _optional(target, "ipmi_local_address", _byte),
    )


def _choice(target: Target, name: str, choices: tuple[str, ...], default: str) -> str:
    value = str(target.driver_info.get(name) or default)
    if value not in choices:
        raise InvalidDriverInfo(
            f"driver_info/{name}: must be one of {', '.join(choices)}, not {value!r}"
        )
    return value


def _optional(target: Target, name: str, read_value: Callable[[Any], Any]) -> Any:
    value = target.driver_info.get(name)
    if value is None or value == "" or is_reference(value):  # no login uses a reference
        return None
    try:
        return read_value(value)
    except ValueError as error:
        raise InvalidDriverInfo(f"driver_info/{name}: {error}") from None


def _number(lowest: int, highest: int) -> Callable[[Any], int]:
    def read_number(value: object) -> int:
        text = str(value)
        if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
            raise ValueError(f"must be a number from {lowest} to {highest}, not {value!r}")
        return int(text)

    return read_number


def _text(max_length: int) -> Callable[[Any], str]:
    """
    Return a reader of texts of limited length. Its errors omit the value, maybe a password.

    A number counts as its digits: OpenStack's client sends `ipmi_password=1234` as a number.
    """

    def read_text(value: object) -> str:
        text = str(value) if _is_number(value) else value
        if (
            not isinstance(text, str)
            or len(text.encode(errors="replace")) > max_length
            or "\0" in text
        ):
            raise ValueError(f"must be a string of at most {max_length} bytes, without NUL")
        return text

    return read_text


def _byte(value: object) -> int:
    """Read a number from 0 to 255, decimal or, as ipmitool has them, hexadecimal with 0x."""
    try:
        number = int(value, 0) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= 255:
        raise ValueError(f"must be a number from 0 to 255, such as 130 or 0x82, not {value!r}")
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key(value: object) -> bytes:
    try:
        key = bytes.fromhex(str(value))
    except ValueError:
        key = b""
    if len(key) != 20:
        raise ValueError("must be 40 hexadecimal digits")
    return key
