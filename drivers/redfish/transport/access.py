"""
Address and login of a node's Redfish BMC, read from its driver_info.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from drivers.core.errors import InvalidDriverInfo, LoginRefused
from drivers.core.target import Target
from drivers.net.networks import Reach, of_bmcs
from drivers.net.tls import of_node, trust

PROPERTIES = {
    "redfish_address": "URL of the BMC, such as https://192.0.2.10, or its host, IPv6 address or"
    " host:port; a path is that of the service root (/redfish/v1). Required.",
    "redfish_system_id": "Path of the system, such as /redfish/v1/Systems/1. Required only when"
    " the BMC serves more than one.",
    "redfish_username": "User of the BMC",
    "redfish_password": "Password of that user",
    "redfish_verify_ca": "true (default: [redfish]verify_ca, else the system's authorities), false,"
    " or the path of the authorities to trust",
    "redfish_auth_type": "auto (default: session, else basic), session, or basic",
}
#: Field of driver_info.
PASSWORD = "redfish_password"
#: Path of the service root.
ROOT = "/redfish/v1/"
#: Length from which a password is no part of other words by chance.
_LONG = 4
#: Most characters of a wrong address in an error.
_LONGEST_SHOWN = 300
#: Host name or IPv4 address.
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")
#: IPv6 address, with or without a zone.
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")
_PATH = re.compile(r"[A-Za-z0-9._~%/-]*")
LOGIN_REFUSED = "{bmc} does not accept driver_info/redfish_username and redfish_password ({status})"


@dataclass(frozen=True, slots=True)
class Access:
    """Address, login and timeouts of a system."""

    address: str  # URL without a path
    root: str  # path of the service root, with slashes around it
    system: str | None  # path; None: the only system of the BMC
    username: str | None  # None: the BMC needs no login
    password: str | None
    verify: bool | str  # see `drivers.net.tls.trust`
    auth: str  # auto, session or basic
    connect_timeout: float  # seconds
    read_timeout: float  # seconds
    reach: Reach  # networks of BMCs

    @property
    def key(self) -> str:
        """The BMC's name in the governor; systems of one chassis take turns independently."""
        root = "" if self.root == ROOT else self.root.rstrip("/")
        return f"{self.address}{self.system or root}"

    def login_refused(self, status: int) -> LoginRefused:
        """Return the error of a refused login; status: of the HTTP answer."""
        return LoginRefused(LOGIN_REFUSED.format(bmc=f"BMC {self.address}", status=status))

    def mask(self, text: str) -> str:
        """Mask the password in a text; a short one only where it stands alone."""
        if not self.password:
            return text
        if len(self.password) >= _LONG:
            return text.replace(self.password, "******")
        return re.sub(rf"(?<![\w.:-]){re.escape(self.password)}(?![\w.:-])", "******", text)


def access(target: Target) -> Access:
    """
    Read the access from a node's driver_info.

    Raises InvalidDriverInfo: names the field.
    """
    info = target.driver_info
    address, root = _address(target.need("redfish_address"))
    reach = of_bmcs(target.options, "redfish_address")
    reach.check_url(address)
    system = info.get("redfish_system_id") or None
    if system is not None and not (isinstance(system, str) and system.startswith("/")):
        raise InvalidDriverInfo(
            f"driver_info/redfish_system_id: {system!r} is no path such as /redfish/v1/Systems/1"
        )
    auth = info.get("redfish_auth_type") or target.options["redfish"]["auth_type"]
    if auth not in ("auto", "session", "basic"):
        raise InvalidDriverInfo(
            f"driver_info/redfish_auth_type: {auth!r} is none of auto, session, basic"
        )
    username, password = _text(info, "redfish_username"), _text(info, "redfish_password")
    if password and not username:
        raise InvalidDriverInfo("driver_info/redfish_username is missing beside redfish_password")
    if username and ":" in username and auth == "basic":
        raise InvalidDriverInfo(
            "driver_info/redfish_username: Basic authentication has no user with a colon; set"
            " driver_info/redfish_auth_type to session"
        )
    if auth == "session" and not username:
        raise InvalidDriverInfo("driver_info/redfish_username is required for session auth")
    options = target.options["redfish"]
    verify = of_node(
        target.options, info.get("redfish_verify_ca", True), "driver_info/redfish_verify_ca"
    )
    return Access(
        address,
        root,
        system,
        username or None,
        password if username else None,
        trust(options["verify_ca"] or True) if verify is True else verify,
        auth,
        float(options["connect_timeout"]),
        float(options["read_timeout"]),
        reach,
    )


def place(info: Mapping[str, Any]) -> str:
    """
    Return scheme, host and port of a BMC from driver_info, in one form for all ways to write it.

    Raises InvalidDriverInfo: the address is invalid.
    """
    url = urlsplit(_address(info.get("redfish_address"))[0])
    port = url.port or (443 if url.scheme == "https" else 80)
    return f"{url.scheme}://{url.netloc.lower().removesuffix(f':{url.port}')}:{port}"


def _address(value: object) -> tuple[str, str]:
    """
    Return the URL of a BMC without a path, and the path of its service root.

    Raises InvalidDriverInfo: names the field.
    """
    text = value if isinstance(value, str) else ""
    url = _url(text)
    if url is None:
        raise InvalidDriverInfo(
            f"driver_info/redfish_address: {_shown(value)} is not the URL of a BMC, such as"
            " https://192.0.2.10, https://[2001:db8::1]:8443 or https://192.0.2.10/redfish/v1"
        )
    path = re.sub("/+", "/", f"{url.path}/")
    root = ROOT if path == "/" else f"{path}v1/" if path.endswith("/redfish/") else path
    return f"{url.scheme}://{url.netloc}", root


def _shown(value: object) -> str:
    """
    Return a wrong address for an error, without a password in it.

    It is whole, or left out: callers who may not see it would see a part.
    """
    text = str(value)
    if "@" in text or len(text) > _LONGEST_SHOWN:
        return f"a text {'with @' if '@' in text else f'of {len(text)} characters'}"
    return repr(value)


def _url(text: str) -> SplitResult | None:
    """Return the parts of a URL, whose scheme may be missing; None if it is no URL of a BMC."""
    host, slash, path = text.partition("/")
    if _is_ipv6(host):
        text = f"[{host}]{slash}{path}"
    try:
        url = urlsplit(text if "://" in text else f"https://{text}")
        port = url.port
    except ValueError:
        return None
    hosted = url.hostname or ""
    literal = hosted if _is_ipv6(hosted) else ""
    if not literal and not _HOST.fullmatch(hosted):
        return None
    name = f"[{literal}]" if literal else hosted
    netloc = name if port is None else f"{name}:{port}"
    plain = url.scheme in {"http", "https"} and _PATH.fullmatch(url.path)
    is_same_host = url.netloc.lower() in {netloc.lower(), f"{name}:".lower()}  # without a user
    if not (plain and is_same_host) or port == 0 or ".." in url.path or not text.isprintable():
        return None
    return None if "?" in text or "#" in text else url._replace(netloc=netloc)


def _is_ipv6(host: str) -> bool:
    with suppress(AddressValueError):
        IPv6Address(host.partition("%")[0])
        return bool(_IPV6.fullmatch(host))
    return False


def _text(info: Mapping[str, Any], field: str) -> str:
    """
    Return a field of driver_info as a text; OpenStack's client sends digits as a number.

    Raises InvalidDriverInfo: it is no text.
    """
    value = info.get(field)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidDriverInfo(f"driver_info/{field}: a text is needed")
    return str(value)
