"""
The configuration of dnsmasq, which does DHCP and TFTP for machines that boot from the network.

What a machine loads first depends on what it says that it is: by its architecture (RFC 4578), and
whether it is iPXE already.
"""

from collections.abc import Iterable, Iterator

from drivers.boot import scripts
from drivers.core.target import Options

#: way of booting -> (setting for legacy BIOS, for UEFI, by architecture) in [pxe]
LOADERS = {
    "ipxe": ("ipxe_bootfile_name", "uefi_ipxe_bootfile_name", "ipxe_bootfile_name_by_arch"),
    "pxe": ("pxe_bootfile_name", "uefi_pxe_bootfile_name", "pxe_bootfile_name_by_arch"),
}
#: architecture -> what clients of it send as option 93: those of TFTP, and those of HTTP
_UEFI = {"x86_64": (7, 9), "aarch64": (11,)}
_HTTP = {"x86_64": 16, "aarch64": 19}
_BIOS = 0
#: option 175 is sent by iPXE alone
_IS_IPXE = "set:ipxe,175"


def config(options: Options, boot: str, ranges: Iterable[str] = ()) -> str:
    """The whole file; ranges: of addresses, each as dnsmasq writes them."""
    return "\n".join(_lines(options, boot, ranges)) + "\n"


def _lines(options: Options, boot: str, ranges: Iterable[str]) -> Iterator[str]:
    pxe = options["pxe"]
    server = f",,{pxe['tftp_server']}" if pxe["tftp_server"] else ""  # else dnsmasq itself
    yield "# DHCP and TFTP for Ingot: made by `ingot dhcp-config`"
    yield "port=0"  # it is no name server
    yield from (f"dhcp-range={each}" for each in ranges)
    yield "enable-tftp"
    yield f"tftp-root={pxe['tftp_root']}"
    bios, uefi, by_arch = (pxe[name] for name in LOADERS[boot])
    names = {"x86_64": uefi} | by_arch
    root = str(options["deploy"]["http_url"] or "").rstrip("/")
    if boot == "ipxe":
        yield f"dhcp-match={_IS_IPXE}"
        # without a web server it is fetched by TFTP, and says so itself
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
