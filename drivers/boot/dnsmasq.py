"""
Configuration of dnsmasq as DHCP and TFTP server for network boot.

The first boot file depends on the client's architecture (RFC 4578), and on whether the client is
already iPXE.
"""

from collections.abc import Iterable, Iterator, Mapping

from drivers.boot import scripts
from drivers.core.target import Options

#: Boot interface -> options of [pxe]: loader for legacy BIOS, for UEFI, by architecture.
LOADERS = {
    "ipxe": ("ipxe_bootfile_name", "uefi_ipxe_bootfile_name", "ipxe_bootfile_name_by_arch"),
    "pxe": ("pxe_bootfile_name", "uefi_pxe_bootfile_name", "pxe_bootfile_name_by_arch"),
    "http": ("pxe_bootfile_name", "uefi_pxe_bootfile_name", "pxe_bootfile_name_by_arch"),
}
#: Architecture -> value of DHCP option 93: of TFTP clients, and of HTTP clients.
_UEFI = {"x86_64": (7, 9), "aarch64": (11,)}
_HTTP = {"x86_64": 16, "aarch64": 19}
_BIOS = 0
#: Only iPXE sends option 175.
_IS_IPXE = "set:ipxe,175"


def config(options: Options, boot: str, ranges: Iterable[str] = ()) -> str:
    """Return the configuration file. ranges: values for `dhcp-range`."""
    return "\n".join(_lines(options, boot, ranges)) + "\n"


def _lines(options: Options, boot: str, ranges: Iterable[str]) -> Iterator[str]:
    pxe = options["pxe"]
    bios, uefi, by_arch = (pxe[name] for name in LOADERS[boot])
    names = {"x86_64": uefi} | by_arch
    root = str(options["deploy"]["http_url"] or "").rstrip("/")
    yield "# DHCP and TFTP for Ingot: made by `ingot dhcp-config`"
    yield "port=0"  # no DNS
    yield from (f"dhcp-range={address_range}" for address_range in ranges)
    loader = ""
    if boot == "ipxe":
        loader = "tag:!ipxe,"
        yield f"dhcp-match={_IS_IPXE}"
        # without a web server iPXE fetches its script by TFTP
        boot_script = f"{root}/{scripts.FIRST}" if root else scripts.FIRST
        yield f"dhcp-boot=tag:ipxe,{boot_script}"
    if boot != "http":
        yield from _by_tftp(options, loader, bios, names)
    if boot != "pxe" and root:
        yield from _by_http(root, loader, names)


def _by_tftp(options: Options, loader: str, bios: str, names: Mapping[str, str]) -> Iterator[str]:
    """
    Return the lines for firmware that fetches its first file over TFTP.

    loader: tag of clients that need a boot loader. names: architecture -> file for UEFI.
    """
    pxe = options["pxe"]
    server = f",,{pxe['tftp_server']}" if pxe["tftp_server"] else ""  # empty: dnsmasq's own
    yield "enable-tftp"
    yield f"tftp-root={pxe['tftp_root']}"
    yield f"dhcp-match=set:bios,option:client-arch,{_BIOS}"
    yield f"dhcp-boot={loader}tag:bios,{bios}{server}"
    for arch in filter(names.get, _UEFI):
        yield from (f"dhcp-match=set:{arch},option:client-arch,{code}" for code in _UEFI[arch])
        yield f"dhcp-boot={loader}tag:{arch},{names[arch]}{server}"


def _by_http(root: str, loader: str, names: Mapping[str, str]) -> Iterator[str]:
    """Return the lines for UEFI HTTP boot. root: URL of the folder that has the first files."""
    for arch in filter(names.get, _HTTP):
        tag = f"tag:{arch}-http"
        yield f"dhcp-match=set:{arch}-http,option:client-arch,{_HTTP[arch]}"
        # firmware takes offers without this answer for offers of PXE
        yield f"dhcp-option-force={tag},option:vendor-class,HTTPClient"
        yield f"dhcp-boot={loader}{tag},{root}/{names[arch]}"
