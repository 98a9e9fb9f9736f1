"""
The DHCP server of a conductor: dnsmasq serves a client in a network namespace, and nothing else is
on their wire.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from app.models import Node, Port
from tests.support import debian
from tests.support.prerequisites import not_run
from workers.dhcp import known_machines, server

on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

KNOWN, UNKNOWN = "52:54:00:00:00:01", "52:54:00:00:00:99"
#: Settings of the server, and what udhcpc asks for: a UEFI firmware that boots by TFTP, or iPXE.
SERVER = "10.202.0.1"
UEFI, BIOS, IPXE = "93:0007", "93:0000", "175:01"
SCRIPT = '#!/bin/sh\n[ "$1" = bound ] && env > "$OUT"\nexit 0\n'


class Wire:
    """A link between this host, with the address of the server, and a client in a namespace."""

    def __init__(self, folder):
        self.folder, number = folder, os.getpid() % 100_000
        self.interface, self._peer, self.namespace = (
            f"ds{number}",
            f"dc{number}",
            f"ingot-dhcp-{number}",
        )
        self._script = folder / "bound.sh"
        self._script.write_text(SCRIPT)
        self._script.chmod(0o755)

    def lay(self):
        ip("netns", "add", self.namespace)
        ip("link", "add", self.interface, "type", "veth", "peer", "name", self._peer)
        ip("link", "set", self._peer, "netns", self.namespace)
        ip("address", "add", f"{SERVER}/24", "dev", self.interface)
        ip("link", "set", self.interface, "up")

    def remove(self):
        ip("link", "del", self.interface)
        ip("netns", "del", self.namespace)

    def ask(self, mac, *options, tries=4):
        """Ask for an address as a machine; return the lease, or None if there is no answer."""
        ip("-n", self.namespace, "link", "set", self._peer, "down")
        ip("-n", self.namespace, "link", "set", self._peer, "address", mac, "up")
        out = self.folder / "lease"
        out.unlink(missing_ok=True)
        command = [
            "ip", "netns", "exec", self.namespace, "busybox", "udhcpc", "-i", self._peer, "-f", "-q", "-n",
            "-t", str(tries), "-T", "1", "-s", str(self._script), "-O", "bootfile", "-O", "tftp", "-O", "vendor",
            *(word for option in options for word in ("-x", option)),
        ]  # fmt: skip
        subprocess.run(
            command,
            check=False,
            capture_output=True,
            env={**os.environ, "OUT": str(out)},
            timeout=60,
        )
        if not out.exists():
            return None
        return dict(line.split("=", 1) for line in out.read_text().splitlines() if "=" in line)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def require():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        not_run("root, to make a network namespace")
    for program, package in (("dnsmasq", "dnsmasq-base"), ("busybox", "busybox")):
        path = f"{os.environ['PATH']}:/usr/sbin"
        if not debian.provide(
            lambda program=program, path=path: shutil.which(program, path=path), package
        ):
            not_run(program)


@pytest.fixture
def wire(tmp_path):
    require()
    wire = Wire(tmp_path)
    wire.lay()
    yield wire
    wire.remove()


@pytest.fixture
def serve(begin):
    """Start the server with further settings, in a conductor's folder; return it."""

    def start(**settings):
        dhcp = begin(**settings)
        until(lambda: is_serving(dhcp))
        return dhcp

    return start


@pytest.fixture
def begin(inside, wire, tmp_path):
    """Factory of servers that may not serve yet."""
    views = []

    def start(**settings):
        inside.environ |= {
            "INGOT_DHCP_SERVER_BACKEND": "dnsmasq",
            "INGOT_DHCP_SERVER_PROGRAM": shutil.which(
                "dnsmasq", path=f"{os.environ['PATH']}:/usr/sbin"
            ),
            "INGOT_DHCP_SERVER_INTERFACES": wire.interface,
            "INGOT_DHCP_SERVER_RANGES": "10.202.0.100-10.202.0.110",
            "INGOT_DHCP_SERVER_REFRESH_INTERVAL": "0.2",
            "INGOT_DEPLOY_HTTP_URL": "http://10.202.0.1:6386",
            "INGOT_DEPLOY_HTTP_ROOT": str(tmp_path / "http"),
            "INGOT_PXE_TFTP_ROOT": str(tmp_path / "tftp"),
            "INGOT_DATA_DIR": str(tmp_path / "data"),
            **settings,
        }
        view = inside.another()
        dhcp = server.of(view.runtime)
        dhcp.start()
        views.append((dhcp, view))
        return dhcp

    yield start
    for dhcp, view in views:
        dhcp.stop()
        view.close()


def is_serving(dhcp):
    return all(map(is_dnsmasq, dhcp.programs or [None]))


def is_dnsmasq(program):
    """Whether a program of the server has started."""
    if program is None or program.process is None:
        return False
    return "started" in program.output.read_text()


def pids(dhcp):
    return {program.name: program.process and program.process.pid for program in dhcp.programs}


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def node_of(inside, mac=KNOWN, **columns):
    node = inside.node("manageable", **{"boot_interface": "ipxe", **columns})
    with inside.runtime.transaction() as session:
        for port in session.query(Port).filter_by(node_id=node):
            session.delete(port)
        session.flush()
        session.add(Port(uuid=f"00000000-0000-4000-8000-{node:012}", node_id=node, address=mac))
    return node


def static(address, mac=KNOWN):
    return {
        "links": [{"id": "l1", "type": "phy", "ethernet_mac_address": mac.upper()}],
        "networks": [
            {
                "id": "n1",
                "type": "ipv4",
                "link": "l1",
                "ip_address": address,
                "netmask": "255.255.255.0",
            }
        ],
        "services": [],
    }


@on_sqlite
def test_a_known_machine_gets_an_address_and_its_bootfiles(inside, wire, serve):
    node_of(inside)
    serve(INGOT_DHCP_SERVER_ROUTER="10.202.0.254")
    lease = wire.ask(KNOWN, UEFI)
    assert lease["ip"].startswith("10.202.0.1")
    assert ("snponly.efi", "10.202.0.254", SERVER) == (
        lease["bootfile"],
        lease["router"],
        lease["siaddr"],
    )
    assert "undionly.kpxe" == wire.ask(KNOWN, BIOS)["bootfile"]
    assert "http://10.202.0.1:6386/boot.ipxe" == wire.ask(KNOWN, UEFI, IPXE)["bootfile"]


@on_sqlite
@pytest.mark.parametrize(
    ("interface", "arch", "file"),
    [
        ("pxe", UEFI, "bootx64.efi"), ("http", "93:0010", "http://10.202.0.1:6386/bootx64.efi"),
        ("http-ipxe", "93:0010", "http://10.202.0.1:6386/snponly.efi"), ("ipxe", "93:000b", "snponly-arm64.efi"),
        ("redfish-virtual-media", UEFI, None),
    ],
)  # fmt: skip
def test_the_bootfile_is_that_of_the_boot_interface_and_architecture(
    inside, wire, serve, interface, arch, file
):
    node_of(inside, boot_interface=interface)
    serve()
    assert file == wire.ask(KNOWN, arch).get("bootfile")


@on_sqlite
def test_the_address_of_network_data_is_fixed(inside, wire, serve):
    node_of(inside, network_data=static("10.202.0.77"))
    serve(INGOT_DHCP_SERVER_RANGES="10.202.0.0/24")
    assert "10.202.0.77" == wire.ask(KNOWN, UEFI)["ip"]


@on_sqlite
def test_unknown_machines_are_ignored_until_they_are_known(inside, wire, serve):
    dhcp = serve()
    assert wire.ask(UNKNOWN, UEFI, tries=2) is None
    tftp, node = pids(dhcp)["tftp"], node_of(inside, UNKNOWN)
    until(lambda: dhcp.machines)
    assert "snponly.efi" == wire.ask(UNKNOWN, UEFI, tries=20)["bootfile"]
    with inside.runtime.transaction() as session:
        session.delete(session.query(Port).filter_by(node_id=node).one())
    until(lambda: not dhcp.machines)
    assert wire.ask(UNKNOWN, UEFI, tries=2) is None
    assert tftp == pids(dhcp)["tftp"], "transfers are not interrupted for that"


@on_sqlite
def test_unknown_machines_may_be_led_to_an_inspection(inside, wire, serve):
    node_of(inside, boot_interface="pxe")
    serve(
        INGOT_DHCP_SERVER_UNKNOWN_MACHINES="answer",
        INGOT_DHCP_SERVER_UNKNOWN_BOOT_SCRIPT="http://10.202.0.1:6386/inspect.ipxe",
    )
    assert "snponly.efi" == wire.ask(UNKNOWN, UEFI)["bootfile"]
    assert "http://10.202.0.1:6386/inspect.ipxe" == wire.ask(UNKNOWN, UEFI, IPXE)["bootfile"]
    assert "bootx64.efi" == wire.ask(KNOWN, UEFI)["bootfile"]


@on_sqlite
def test_a_server_that_ends_is_started_again_and_keeps_its_leases(inside, wire, serve):
    node_of(inside)
    dhcp = serve()
    address = wire.ask(KNOWN, UEFI)["ip"]
    old_pids = pids(dhcp)
    for pid in old_pids.values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: not {*old_pids.values()} & {*pids(dhcp).values()} and is_serving(dhcp))
    assert address == wire.ask(KNOWN, UEFI)["ip"]


@on_sqlite
def test_the_server_ends_with_its_conductor(inside, serve):
    dhcp = serve()
    old_pids = pids(dhcp)
    dhcp.stop()
    assert [] == [pid for pid in old_pids.values() if Path(f"/proc/{pid}").exists()]


@on_sqlite
def test_of_two_conductors_on_a_host_one_serves_until_it_ends(inside, wire, serve, begin):
    node_of(inside)
    first_server = serve()
    address = wire.ask(KNOWN, UEFI)["ip"]
    second_server = begin()
    time.sleep(1)
    assert () == second_server.programs
    first_server.stop()
    until(lambda: is_serving(second_server))
    assert address == wire.ask(KNOWN, UEFI)["ip"]


@on_sqlite
def test_the_loaders_are_there_before_a_machine_boots_for_the_first_time(serve, begin, tmp_path):
    loader = tmp_path / "loader"
    loaders = {"INGOT_PXE_LOADER_FILE_PATHS": f"snponly.efi:{loader}"}
    begin(**loaders)  # without the file, it serves those that need none
    loader.write_bytes(b"a loader")
    serve(INGOT_DATA_DIR=str(tmp_path / "others"), **loaders)
    assert b"a loader" == (tmp_path / "tftp" / "snponly.efi").read_bytes()


@on_sqlite
def test_machines_get_files_by_tftp(inside, wire, serve, tmp_path):
    node_of(inside)
    (tmp_path / "tftp").mkdir()
    (tmp_path / "tftp" / "snponly.efi").write_bytes(b"a loader")
    serve()
    lease = wire.ask(KNOWN, UEFI)
    wire_address = f"{lease['ip']}/24"
    ip("-n", wire.namespace, "address", "add", wire_address, "dev", wire._peer)
    command = ["ip", "netns", "exec", wire.namespace, "busybox", "tftp", "-g", "-r", lease["bootfile"], "-l",
               str(tmp_path / "got"), lease["siaddr"]]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert b"a loader" == (tmp_path / "got").read_bytes()


def test_known_machines_are_the_ports_of_the_conductors_group(inside):
    node_of(inside)
    node_of(inside, "52:54:00:00:00:02", conductor_group="rack-2")
    node_of(inside, "52:54:00:00:00:03", network_data=static("10.202.0.7", "52:54:00:00:00:03"))
    node_of(inside, "52:54:00:00:00:04", network_data=static("10.202.0.7", "52:54:00:00:00:04"))
    machines = {machine.mac[-2:]: machine for machine in known_machines.read(inside.runtime)}
    assert {"01", "03", "04"} == machines.keys()
    assert ("10.202.0.7", None) == (machines["03"].address, machines["04"].address)
    with inside.runtime.transaction() as session:
        session.query(Port).filter_by(address=KNOWN).one().pxe_enabled = False
        session.query(Node).filter_by(boot_interface="ipxe").update({"boot_interface": "pxe"})
    boots = {machine.mac[-2:]: machine.boot for machine in known_machines.read(inside.runtime)}
    assert {"01": None, "03": "pxe", "04": "pxe"} == boots


@pytest.mark.parametrize(
    ("document", "address"),
    [
        ({}, None), (static("10.0.0.1"), "10.0.0.1"), (static("10.0.0.1/24"), "10.0.0.1"),
        (static("10.0.0.1", UNKNOWN), None), (static("fd00::1"), None), (static("nonsense"), None),
    ],
)  # fmt: skip
def test_a_fixed_address_is_one_of_the_link_with_the_mac(document, address):
    assert address == known_machines.fixed_address(document, KNOWN)
