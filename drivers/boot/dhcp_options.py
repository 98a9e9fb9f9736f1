"""
DHCP options that lead a machine to its loader, for a DHCP server that has options of each port.

The names are numbers of RFC 2132, with dnsmasq's tag of iPXE where iPXE needs another file.
"""

from collections.abc import Iterator
from typing import Any

from drivers.boot import ramdisks, scripts
from drivers.boot.dnsmasq import LOADERS
from drivers.core import capabilities
from drivers.core.target import Target
from drivers.net import service_addresses

_TFTP_SERVER = ("66", "150", "server-ip-address")


def options(target: Target, *, ipxe: bool, http: bool) -> list[dict[str, Any]]:
    """
    Return the options as {opt_name, opt_value, ip_version}.

    ipxe: the loader is iPXE, which fetches its script. http: firmware fetches the loader by HTTP.

    Raises InvalidDriverInfo: a URL that they need is not set.
    """
    server = str(target.options["pxe"]["tftp_server"])
    url = service_addresses.of_files(target) if http or ipxe else ""
    version = 6 if ":" in server or "[" in url else 4
    return [
        {"opt_name": name, "opt_value": value, "ip_version": version}
        for name, value in _named(target, server, version, ipxe=ipxe, http=http)
    ]


def _named(
    target: Target, server: str, version: int, *, ipxe: bool, http: bool
) -> Iterator[tuple[str, str]]:
    loader = _loader(target, "ipxe" if ipxe else "pxe")
    file, tag = ("67", "ipxe") if version == 4 else ("59", "ipxe6")
    if http:
        loader = f"{service_addresses.of_files(target)}/{loader}"
    elif version == 6 and server:
        loader = f"tftp://{service_addresses.in_url(server)}/{loader}"
    if ipxe:
        yield f"tag:!{tag},{file}", loader
        yield f"tag:{tag},{file}", f"{service_addresses.of_files(target)}/{scripts.FIRST}"
    else:
        yield file, loader
    if http:
        yield "60", "HTTPClient"  # firmware takes offers without it for those of PXE
    elif server and version == 4:  # empty: Neutron's DHCP server is the TFTP server
        yield from ((name, server) for name in _TFTP_SERVER)


def _loader(target: Target, boot: str) -> str:
    """Return the file of the loader for the architecture and the boot mode of the machine."""
    pxe = target.options["pxe"]
    bios, uefi, by_arch = (pxe[name] for name in LOADERS[boot])
    if loader := by_arch.get(ramdisks.architecture(target)):
        return str(loader)
    return str(uefi if capabilities.boot_mode(target) == capabilities.UEFI else bios)
