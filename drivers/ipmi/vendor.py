"""IPMI: vendor functions."""

from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface_kinds import Vendor
from drivers.core.passthru import passthru
from drivers.core.steps import Arg, Done, Outcome, step
from drivers.core.target import Target
from drivers.ipmi import credentials
from drivers.ipmi.client import Client

_RAW = Arg("raw_bytes", "The bytes to send, such as '0x00 0x01'", required=True)


class IpmiVendor(Vendor):
    """Raw messages, and reset of the BMC."""

    name = "ipmitool"
    properties = credentials.PROPERTIES

    def validate(self, target: Target) -> None:
        credentials.read(target)

    @step(clean=0, service=0, args=(_RAW,))
    @passthru("POST", description="Send raw bytes to the BMC: raw_bytes is a string such as '0 1'")
    def send_raw(self, target: Target, raw_bytes: str) -> Outcome:
        """Send raw bytes to the BMC: network function, command, data."""
        message = _bytes(raw_bytes)
        answer = Client.of(target, self.bmcs).send_raw(message)
        return Done({"answer": answer.hex(" ")})

    @passthru("POST", description="Reset the BMC; warm (default true): a warm reset")
    def bmc_reset(self, target: Target, warm: bool = True) -> None:
        """Restart the BMC."""
        Client.of(target, self.bmcs).reset_bmc(warm=str(warm).lower() == "true")


def _bytes(text: str) -> bytes:
    """
    Parse a list of bytes, such as '0x00 0x01'.

    Raises InvalidDriverInfo: it is malformed, or has less than two bytes.
    """
    try:
        message = bytes(int(part, 0) for part in str(text).split())
    except ValueError:
        message = b""
    if len(message) < 2:
        raise InvalidDriverInfo(
            f"raw_bytes: {text!r} is not two or more bytes, each from 0x00 to 0xff"
        )
    return message
