"""
Configuration of dnsmasq as DHCP and TFTP server for network boot.

The first boot file depends on the client's architecture (RFC 4578), and on whether the client is
already iPXE.
"""

from collections.abc import Iterable, Iterator

from drivers.boot import scripts
from drivers.core.target import Options

#: Boot interface -> options of [pxe]: loader for legacy BIOS, for UEFI, by architecture.
LOADERS = {
    "ipxe": ("ipxe_bootfile_name", "uefi_ipxe_bootfile_name", "ipxe_bootfile_name_by_arch"),
    "pxe": ("pxe_bootfile_name", "uefi_pxe_bootfile_name", "pxe_bootfile_name_by_arch"),
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
    server = f",,{pxe['tftp_server']}" if pxe["tftp_server"] else ""  # empty: dnsmasq's own
    yield "# DHCP and TFTP for Ingot: made by `ingot dhcp-config`"
    yield "port=0"  # no DNS
    yield from (f"dhcp-range={each}" for each in ranges)
    yield "enable-tftp"
    yield f"tftp-root={pxe['tftp_root']}"
    bios, uefi, by_arch = (pxe[name] for name in LOADERS[boot])
    names = {"x86_64": uefi} | by_arch
    root = str(options["deploy"]["http_url"] or "").rstrip("/")
    if boot == "ipxe":
        yield f"dhcp-match={_IS_IPXE}"
        # without a web server iPXE fetches its script by TFTP
        first = f"{root}/{scripts.FIRST}" if root else scripts.FIRST
        yield f"dhcp-boot=tag:ipxe,{first}"
    other = "tag:!ipxe," if boot == "ipxe" else ""
    yield f"dhcp-match=set:bios,option:client-arch,{_BIOS}"
    yield f"dhcp-boot={other}tag:bios,{bios}{server}"
    for arch, codes in _UEFI.items():
        if arch in names:
            yield from (f"dhcp-match=set:{arch},option:client-arch,{code}" for code in codes)
            yield f"dhcp-boot={other}tag:{arch},{names[arch]}{server}"
            if boot == "ipxe" and root:
                yield f"dhcp-match=set:{arch}-http,option:client-arch,{_HTTP[arch]}"
                yield f"dhcp-option-force=tag:{arch}-http,option:vendor-class,HTTPClient"
                yield f"dhcp-boot={other}tag:{arch}-http,{root}/{names[arch]}"
