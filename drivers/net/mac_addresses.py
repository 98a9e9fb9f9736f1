"""
MAC addresses that machines report, and which of them can be the address of a port.

Firmware fills the fields of network interfaces that it does not know with zeros, ones or other
text. A port with such an address collides with that of another machine.
"""

import re

_SEPARATORS = re.compile(r"[:.\-\s]")
_DIGITS = re.compile(r"[0-9a-f]{12}")
#: Bit of the first byte: the address is that of a group of stations.
_GROUP = 0x01


def station(value: object) -> str:
    """
    Return a MAC address in the form of the API: lower case, with colons.

    value: six bytes in hexadecimal, with any or no separators.

    Raises ValueError: it is no MAC address, or not that of one station; the message is a predicate.
    """
    digits = _SEPARATORS.sub("", value).lower() if isinstance(value, str) else ""
    if not _DIGITS.fullmatch(digits):
        raise ValueError("is no MAC address")
    octets = bytes.fromhex(digits)
    if not any(octets):
        raise ValueError("is all zeros")
    if octets[0] & _GROUP:
        raise ValueError("is that of a group (broadcast or multicast)")
    return octets.hex(":")
