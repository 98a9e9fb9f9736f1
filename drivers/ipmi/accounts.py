"""
IPMI: the password of a node's BMC user, by the command Set User Password (IPMI 2.0, 22.30).

The step is a part of the management interface; `drivers.core.password_rotation` has its course.
"""

from collections.abc import Mapping
from dataclasses import replace

from drivers.core.bmc import Bmcs
from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.core.password_rotation import require_own_account, rotate
from drivers.core.passwords import IPMI_LONGEST, Policy, policy_of
from drivers.core.steps import Outcome, Resume, step
from drivers.core.target import Target
from drivers.ipmi import credentials
from drivers.ipmi.client import Client


class BmcPassword:
    """The step that changes the BMC's password; a part of IpmiManagement."""

    bmcs: Bmcs

    @step(clean=0, service=0, needs_ramdisk=False, resume=Resume.PROBE)
    def rotate_bmc_password(self, target: Target) -> Outcome:
        """Change the password of the node's BMC user to a new one, verified by a login."""
        return rotate(target, IpmiAccount(target, self.bmcs))


class IpmiAccount:
    """The account of the node's user; see `password_rotation.Account`."""

    field = credentials.PASSWORD

    def __init__(self, target: Target, bmcs: Bmcs) -> None:
        self.target, self.bmcs, self.login = target, bmcs, credentials.read(target)
        self.bmc = f"BMC {self.login.endpoint}"
        vendor = target.properties.get("vendor")
        policy = policy_of(vendor if isinstance(vendor, str) else None)
        self.policy = policy.within(None, IPMI_LONGEST)
        if not self.login.password:
            raise InvalidDriverInfo("driver_info/ipmi_password is required to change it")

    def prepare(self) -> Policy:
        """
        Check that the password can be changed.

        Raises NotSupported: messages of ipmitool are arguments of a program, which others can read.
        """
        if self.login.client == "ipmitool":
            raise NotSupported(
                "driver_info/ipmi_client: ipmitool would show the new password in the arguments of"
                " a program; set pyghmi"
            )
        require_own_account(self.target, "ipmi_address", _place)
        self._client(self.login.password).user_number()
        return self.policy

    def write(self, password: str) -> None:
        client = self._client(self.login.password)
        client.set_user_password(client.user_number(), password)

    def log_in(self, password: str) -> None:
        self._client(password).log_in()

    def _client(self, password: str) -> Client:
        login = replace(self.login, password=password)
        return Client.with_credentials(self.target, self.bmcs, login)


def _place(info: Mapping[str, object]) -> str:
    """Return host:port of a BMC from driver_info."""
    address = info.get("ipmi_address")
    if not isinstance(address, str) or not address:
        raise InvalidDriverInfo("driver_info/ipmi_address is no text")
    return f"{address.lower()}:{info.get('ipmi_port') or 623}"
