"""
Configuration of dnsmasq as DHCP and TFTP server for network boot.

The first boot file depends on the client's architecture (RFC 4578), and on whether the client is
already iPXE.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network

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
    """Return the configuration file of the site's server. ranges: values for `dhcp-range`."""
    lines = [
        "# DHCP and TFTP for Ingot: made by `ingot dhcp-config`",
        "port=0",  # no DNS
        *(f"dhcp-range={address_range}" for address_range in ranges),
        *_boot_files(options, boot),
    ]
    return _text(lines)


def dhcp_server(options: Options, hosts_file: str, lease_file: str) -> str:
    """
    Return the configuration file of the DHCP server that a conductor runs.

    hosts_file: path of the file with the lines of `host_line`.
    """
    server = options["dhcp_server"]
    dns_servers = ",".join(server["dns_servers"])
    lines = [
        *_of_conductor(options),
        *(_range(addresses, server["lease_time"]) for addresses in server["ranges"]),
        "dhcp-authoritative",
        f"dhcp-hostsfile={hosts_file}",
        f"dhcp-leasefile={lease_file}",
        f"dhcp-option=option:router{',' if server['router'] else ''}{server['router']}",
        *([f"dhcp-option=option:dns-server,{dns_servers}"] if dns_servers else []),
        "quiet-dhcp",
    ]
    for boot in LOADERS:
        lines += _boot_files(options, boot, only=f"tag:{_tag(boot)},")
    if server["unknown_machines"] == "ignore":
        lines.append("dhcp-ignore=tag:!known")
    elif script := server["unknown_boot_script"]:
        lines += _boot_files(options, "ipxe", only="tag:!known,", script=script)
    tftp = tuple(_serving_tftp(options))
    return _text(line for line in dict.fromkeys(lines) if line not in tftp)


def tftp_server(options: Options) -> str:
    """Return the configuration file of the TFTP server that a conductor runs."""
    return _text([*_of_conductor(options), *_serving_tftp(options), "quiet-tftp"])


def _of_conductor(options: Options) -> Iterator[str]:
    yield "# A server of a conductor of Ingot, which writes this file at its start"
    yield "port=0"  # no DNS
    yield "bind-dynamic"  # to these interfaces alone, also to one that appears later
    yield from (f"interface={name}" for name in options["dhcp_server"]["interfaces"])


def _serving_tftp(options: Options) -> Iterator[str]:
    yield "enable-tftp"
    yield f"tftp-root={options['pxe']['tftp_root']}"


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def host_line(mac: str, boot: str | None, address: str | None) -> str:
    """
    Return the line of a known machine in the file of hosts.

    boot: key of `LOADERS`; None: it does not boot from this port. address: its fixed address.
    """
    tags = [f"set:{_tag(boot)}"] if boot else []
    return ",".join([mac, *tags, *([address] if address else [])])


def _range(addresses: str, lease_time: float) -> str:
    """Return the line of a range of `[dhcp_server]ranges`."""
    bounds, slash, prefix = addresses.partition("/")
    low, dash, high = bounds.partition("-")
    mask = [str(IPv4Network((low, int(prefix)), strict=False).netmask)] if slash else []
    return f"dhcp-range={','.join([low, high if dash else 'static', *mask, f'{lease_time:.0f}'])}"


def _tag(boot: str) -> str:
    return f"boots-{boot}"


def _boot_files(
    options: Options, boot: str, only: str = "", script: str | None = None
) -> Iterator[str]:
    """
    Return the lines that lead machines to their boot files.

    only: tag of the machines; empty: all. script: URL of the first script of iPXE, if it is not
    that of known machines.
    """
    pxe = options["pxe"]
    bios, uefi, by_arch = (pxe[name] for name in LOADERS[boot])
    names = {"x86_64": uefi} | by_arch
    root = str(options["deploy"]["http_url"] or "").rstrip("/")
    loader = only
    if boot == "ipxe":
        loader = f"{only}tag:!ipxe,"
        yield f"dhcp-match={_IS_IPXE}"
        # without a web server iPXE fetches its script by TFTP
        boot_script = script or (f"{root}/{scripts.FIRST}" if root else scripts.FIRST)
        yield f"dhcp-boot={only}tag:ipxe,{boot_script}"
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
    yield from _serving_tftp(options)
    yield f"dhcp-match=set:bios,option:client-arch,{_BIOS}"
    yield f"dhcp-boot={loader}tag:bios,{bios}{server}"
    for arch in filter(names.get, _UEFI):
        yield from (f"dhcp-match=set:{arch},option:client-arch,{code}" for code in _UEFI[arch])
        yield f"dhcp-boot={loader}tag:{arch},{names[arch]}{server}"


def _by_http(root: str, loader: str, names: Mapping[str, str]) -> Iterator[str]:
    """Return the lines for UEFI HTTP boot. root: URL of the folder that has the first files."""
    for arch in filter(names.get, _HTTP):
        tag = f"{loader.replace('tag:!ipxe,', '')}tag:{arch}-http"
        yield f"dhcp-match=set:{arch}-http,option:client-arch,{_HTTP[arch]}"
        # firmware takes offers without this answer for offers of PXE
        yield f"dhcp-option-force={tag},option:vendor-class,HTTPClient"
        yield f"dhcp-boot={loader}tag:{arch}-http,{root}/{names[arch]}"
