"""IPMI: management of Intel's machines, with their Speed Select profiles."""

from drivers.core.errors import BadArgument
from drivers.core.steps import Arg, step
from drivers.core.target import Target
from drivers.ipmi.client import Client
from drivers.ipmi.management import IpmiManagement

#: Message that sets the profile of a processor: network function, command, data; its number and
#: that of the profile follow.
_SET_PROFILE = bytes((0x2C, 0x41, 0x04, 0x00))
_MOST_SOCKETS = 8


class IntelIpmiManagement(IpmiManagement):
    """The IPMI interface, with a step for Intel Speed Select (SST-PP)."""

    name = "intel-ipmitool"

    @step(
        deploy=0,
        needs_ramdisk=False,
        args=(
            Arg(
                "intel_speedselect_config",
                "Profile of the processors: '0x00', '0x01' or '0x02'",
                required=True,
                schema={"type": "string"},
            ),
            Arg(
                "socket_count",
                "Number of processors, 1 to 8; 1 by default",
                schema={"type": "integer", "minimum": 1, "maximum": _MOST_SOCKETS},
            ),
        ),
    )
    def configure_intel_speedselect(
        self, target: Target, intel_speedselect_config: str, socket_count: int = 1
    ) -> None:
        """Set the Speed Select profile of all processors; the next start applies it."""
        if intel_speedselect_config not in ("0x00", "0x01", "0x02"):
            raise BadArgument("intel_speedselect_config: must be '0x00', '0x01' or '0x02'")
        profile = int(intel_speedselect_config, 16)
        for socket in range(socket_count):
            message = bytes((*_SET_PROFILE, socket, profile))
            Client.of(target, self.bmcs).send_raw(message)
