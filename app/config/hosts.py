"""
Hosts in settings: addresses, and names that can be resolved (RFC 1123).

A name whose last label is a number is an address with a mistake, such as 999.1.1.1 or 10.0.0: no
such name can be resolved, and programs disagree about the address that is meant.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

#: Most characters of a name.
LONGEST = 253
#: Label of a name; _ is not for names of hosts, but in use.
_LABEL = re.compile(r"(?!-)[\w-]{1,63}(?<!-)", re.ASCII)
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)
#: Host, or an IPv6 address in brackets, and a port.
_WITH_PORT = re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::(\d{1,5}))?", re.ASCII)
EXPECTED = (
    "expected an IPv4 address, an IPv6 address without brackets, or a name such as bm.example.org"
)


def is_host(text: str) -> bool:
    """Whether a text is an IP address or the name of a host."""
    try:
        ip_address(text)
    except ValueError:
        labels = text.removesuffix(".").split(".")
        is_name = len(text) <= LONGEST and all(map(_LABEL.fullmatch, labels))
        return is_name and not _NUMBER.fullmatch(labels[-1])
    return True


def is_place(text: str) -> bool:
    """Whether a text is HOST or HOST:PORT, an IPv6 address in brackets, as in URLs."""
    match = _WITH_PORT.fullmatch(text)
    if match is None or (match[3] is not None and not 0 < int(match[3]) < 1 << 16):
        return False
    return is_host(match[1] or match[2]) and (match[1] is None or ":" in match[1])


def listening_host(text: str) -> None:
    """Check an address to listen on, or a name of this host."""
    if not is_host(text):
        raise ValueError(f"{text!r} is not a host: {EXPECTED}; 0.0.0.0 or :: is every address")


def optional_listening_host(text: str) -> None:
    """Check an address to listen on, or none."""
    if text:
        listening_host(text)


def optional_host(text: str) -> None:
    """Check a host that machines contact, or none."""
    if text and not is_host(text):
        raise ValueError(f"{text!r} is not a host: {EXPECTED}")
    if text and _is_unspecified(text):
        raise ValueError(f"{text!r} is no address that a machine can contact: {EXPECTED}")


def host_names(texts: Iterable[str]) -> None:
    """Check hosts as they are in the header Host, without their port."""
    for text in texts:
        if not is_host(text):
            raise ValueError(f"{text!r} is not a host: {EXPECTED}; without a port")


def cache_servers(texts: Iterable[str]) -> None:
    """Check servers as python-memcached reads them."""
    for text in texts:
        place = text.removeprefix("inet:").removeprefix("inet6:")
        if not (is_place(place) or re.fullmatch(r"unix:/.+", text)):
            raise ValueError(
                f"{text!r} is not a server: expected HOST:PORT, inet6:[ADDRESS]:PORT or unix:/PATH"
            )


def _is_unspecified(text: str) -> bool:
    try:
        return ip_address(text).is_unspecified
    except ValueError:
        return False
