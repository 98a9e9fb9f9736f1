"""IPMI: power."""

from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF, SOFT_REBOOT, Power
from drivers.core.target import Target
from drivers.ipmi import credentials
from drivers.ipmi.client import Client


class IpmiPower(Power):
    """Chassis control of an IPMI BMC, by pyghmi or by the program ipmitool."""

    name = "ipmitool"
    properties = credentials.PROPERTIES
    supported = (POWER_ON, POWER_OFF, REBOOT, SOFT_OFF, SOFT_REBOOT)

    def validate(self, target: Target) -> None:
        credentials.read(target)

    def get_power_state(self, target: Target) -> str:
        return Client.of(target, self.bmcs).power_state()

    def order(self, target: Target, state: str) -> None:
        Client.of(target, self.bmcs).order(state)
