"""
Address and login of a node's Redfish BMC, read from its driver_info.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from drivers.core.errors import InvalidDriverInfo, LoginRefused
from drivers.core.target import Target
from drivers.networks import Reach, of_bmcs
from drivers.tls import of_node, trust

PROPERTIES = {
    "redfish_address": "URL of the BMC, such as https://192.0.2.10. Required.",
    "redfish_system_id": "Path of the system, such as /redfish/v1/Systems/1. Required only when"
    " the BMC serves more than one.",
    "redfish_username": "User of the BMC",
    "redfish_password": "Password of that user",
    "redfish_verify_ca": "true (default: [redfish]verify_ca, else the system's authorities), false,"
    " or the path of the authorities to trust",
    "redfish_auth_type": "auto (default: session, else basic), session, or basic",
}
LOGIN_REFUSED = "{bmc} does not accept driver_info/redfish_username and redfish_password ({status})"


@dataclass(frozen=True, slots=True)
class Access:
    """Address, login and timeouts of a system."""

    address: str  # URL without a path
    system: str | None  # path; None: the only system of the BMC
    username: str | None  # None: the BMC needs no login
    password: str | None
    verify: bool | str  # see `drivers.tls.trust`
    auth: str  # auto, session or basic
    connect_timeout: float  # seconds
    read_timeout: float  # seconds
    reach: Reach  # networks of BMCs

    @property
    def key(self) -> str:
        """The BMC's name in the governor; systems of one chassis take turns independently."""
        return f"{self.address}{self.system or ''}"

    def login_refused(self, status: int) -> LoginRefused:
        """Return the error of a refused login; status: of the HTTP answer."""
        return LoginRefused(LOGIN_REFUSED.format(bmc=f"BMC {self.address}", status=status))

    def mask(self, text: str) -> str:
        """Mask the password in a text."""
        return text.replace(self.password, "******") if self.password else text


def access(target: Target) -> Access:
    """
    Read the access from a node's driver_info.

    Raises InvalidDriverInfo: names the field.
    """
    info = target.driver_info
    address = str(target.need("redfish_address")).rstrip("/")
    if "://" not in address:
        address = f"https://{address}"
    if not _is_of_bmc(address):
        raise InvalidDriverInfo(
            f"driver_info/redfish_address: {info['redfish_address']!r} is not the URL of a BMC"
        )
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
    username, password = info.get("redfish_username"), info.get("redfish_password")
    if password and not username:
        raise InvalidDriverInfo("driver_info/redfish_username is missing beside redfish_password")
    if auth == "session" and not username:
        raise InvalidDriverInfo("driver_info/redfish_username is required for session auth")
    options = target.options["redfish"]
    verify = of_node(
        target.options, info.get("redfish_verify_ca", True), "driver_info/redfish_verify_ca"
    )
    return Access(
        address,
        system.rstrip("/") if system else None,
        str(username) if username else None,
        str(password or "") if username else None,
        trust(options["verify_ca"] or True) if verify is True else verify,
        auth,
        float(options["connect_timeout"]),
        float(options["read_timeout"]),
        reach,
    )


def _is_of_bmc(address: str) -> bool:
    try:
        url = urlsplit(address)
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.netloc) and not url.path
