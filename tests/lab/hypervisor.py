"""
The hypervisor: a private libvirtd, virtual machines, and third-party emulators as their BMCs.

    hypervisor = Hypervisor(folder)
    hypervisor.open(say)
    machine = hypervisor.add("uefi", "uefi")
    hypervisor.close()

Libvirtd runs as an ordinary user with all of its files in the folder. The machines' network has
addresses that are reserved for documentation. In it the host's loopback has one address; the host's
loopback gets that address too, so that both sides use the same one. That is the only change outside
of the folder.
"""

import os
import shutil
import socket
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import bcrypt
import requests

from tests.lab import cache, packages
from tests.lab.chassis import set_boot_order
from tests.lab.processes import Processes, unprivileged
from tests.lab.ramdisk import run
from tests.support.fleet import ROOT, until
from tests.support.ports import free_port

REQUIREMENTS = ROOT / "requirements" / "lab.txt"
CHASSIS = Path(__file__).with_name("chassis.py")
#: The machines' network, and this host's address in it.
NETWORK, HOST = "192.0.2.0/24", "192.0.2.2"
USER, PASSWORD = "admin", "secret"
#: Port of the agent inside of its machine.
AGENT_PORT = 9999
DISK = "512M"
MEMORY = 1024  # MiB

#: Firmware that can do Secure Boot, with variables without keys.
SECURE_OS = """
    <loader readonly='yes' secure='no' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.secboot.fd</loader>
    <nvram template='/usr/share/OVMF/OVMF_VARS_4M.fd'>{folder}/disks/{name}.nosecboot.fd</nvram>
"""
#: firmware -> (machine type, attributes of <os>, more elements of it, features of the machine)
FIRMWARE = {
    "bios": ("pc", "", "", ""),
    "uefi": (
        "q35", " firmware='efi'",
        "<firmware><feature enabled='no' name='secure-boot'/></firmware>", "",
    ),
    # off at first; with Secure Boot, the BMC gives the firmware variables with Microsoft's keys
    "secure": (
        "q35", "",
        SECURE_OS,
        "<smm state='on'/>",
    ),
}  # fmt: skip

#: A card on QEMU's own network; a card on a wire to this host, without its iPXE.
CARD = "<interface type='user'><mac address='{mac}'/><model type='virtio'/></interface>"
WIRED_CARD = """
    <interface type='udp'><mac address='{mac}'/><model type='virtio'/>
      <source address='127.0.0.1' port='{port}'><local address='127.0.0.1' port='{own_port}'/></source>
      <rom enabled='no'/>
    </interface>
"""

# type='qemu': emulated. A machine may show /dev/kvm and still be unable to use it. The simplest
# processor is the fastest then: newer instructions are emulated one by one.
DOMAIN = """
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name><uuid>{uuid}</uuid>
  <memory unit='MiB'>{memory}</memory><vcpu>1</vcpu>
  <os{attributes}><type arch='x86_64' machine='{type}'>hvm</type>{more}<boot dev='hd'/></os>
  <features><acpi/><apic/>{features}</features>
  <cpu><model>qemu64</model></cpu>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
  <devices>
    <emulator>{emulator}</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='unsafe'/>
      <source file='{disk}'/><target dev='vda' bus='virtio'/><serial>{name}</serial>
    </disk>
    {card}
    <serial type='tcp'>
      <source mode='bind' host='127.0.0.1' service='{serial_port}'/><protocol type='raw'/>
      <log file='{console}' append='on'/><target port='0'/>
    </serial>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <memballoon model='none'/>
  </devices>
  <qemu:commandline>{options}</qemu:commandline>
  <qemu:capabilities><qemu:del capability='netdev.json'/></qemu:capabilities>
</domain>
"""

EMULATOR = """
SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_LIBVIRT_URI = "{uri}"
SUSHY_EMULATOR_AUTH_FILE = "{folder}/htpasswd"
SUSHY_EMULATOR_SSL_CERT = "{folder}/bmc.crt"
SUSHY_EMULATOR_SSL_KEY = "{folder}/bmc.key"
SUSHY_EMULATOR_STATE_DIR = "{folder}"
SUSHY_EMULATOR_STORAGE_POOL = "default"
SUSHY_EMULATOR_BOOT_LOADER_MAP = {{
    "UEFI": {{"x86_64": "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"}},
    "Legacy": {{"x86_64": None}},
}}
SUSHY_EMULATOR_SECURE_BOOT_ENABLED_NVRAM = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"
SUSHY_EMULATOR_SECURE_BOOT_DISABLED_NVRAM = "/usr/share/OVMF/OVMF_VARS_4M.fd"
"""

IPMI_LAN = """
name "{name}"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_callback none md2 md5 straight
  allowed_auths_user none md2 md5 straight
  allowed_auths_operator none md2 md5 straight
  allowed_auths_admin none md2 md5 straight
  guid {guid}
endlan
chassis_control "{control}"
sol "tcp:127.0.0.1:{serial_port}" 115200
user 1 true "" "none" user 10 none md2 md5 straight
user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""

IPMI_CONTROLLER = """
mc_setbmc 0x20
mc_add 0x20 0 has-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A virtual machine."""

    name: str
    firmware: str
    uuid: str
    mac: str
    agent_port: int  # port of loopback that is forwarded to its agent; unused on a wire
    serial_port: int  # port of loopback that is its serial line while it is on, for one client
    wire: "Wire | None"
    disk: Path
    console: Path  # file with the output of its serial line

    def output(self, since=0):
        """Text on its console, from a byte on."""
        try:
            with self.console.open("rb") as console:
                console.seek(since)
                return console.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def mark(self):
        """Present length of its console's output."""
        return self.console.stat().st_size if self.console.exists() else 0


@dataclass(frozen=True, slots=True)
class Wire:
    """A network of this host and one machine, without DHCP."""

    device: str  # of this host
    host: str  # address of this host
    machine: str  # address for the machine
    netmask: str = "255.255.255.0"


class Hypervisor:
    """Machines of one folder. redfish_url: of the BMC of all of them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.processes = Processes(self.folder)
        self.uri = f"qemu+unix:///session?socket={self.folder}/run/libvirt/libvirt-sock"
        self.redfish_url, self.redfish = "", None
        self._environ = {
            "HOME": str(self.folder),
            **{
                f"XDG_{name}": str(self.folder / place)
                for name, place in (
                    ("RUNTIME_DIR", "run"), ("CONFIG_HOME", "settings"),
                    ("CACHE_HOME", "cached"), ("DATA_HOME", "data"),
                )
            },
        }  # fmt: skip

    def open(self, say):
        """Start libvirtd and the Redfish BMC."""
        for name in ("run", "settings/libvirt", "cached", "data", "pool", "disks", "consoles",
                     "tftp", "bmc"):  # fmt: skip
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        settings = self.folder / "settings/libvirt"
        (settings / "qemu.conf").write_text('security_driver = "none"\nstdio_handler = "file"\n')
        (settings / "libvirtd.conf").write_text(
            'auth_unix_rw = "none"\nauth_unix_ro = "none"\nlog_outputs = "3:stderr"\n'
        )
        self._own()
        subprocess.run(["ip", "address", "replace", f"{HOST}/32", "dev", "lo"], check=False)
        say("starting libvirtd")
        self.processes.start(
            "libvirtd", packages.program("libvirtd"), "-f", settings / "libvirtd.conf",
            "-p", self.folder / "run/libvirtd.pid", environ=self._environ, **unprivileged(),
        )  # fmt: skip
        until(lambda: self._virsh("version") is not None, "the start of libvirtd", 30)
        self._virsh("pool-define-as", "default", "dir", "--target", self.folder / "pool")
        self._virsh("pool-start", "default")
        self._start_redfish(_sushy_emulator(say))

    def _own(self):
        owner = unprivileged()
        for path in (self.folder, *self.folder.rglob("*")):
            if path.name != "logs" and "logs" not in path.parts:
                os.chown(path, owner["user"], owner["group"], follow_symlinks=False)

    def _virsh(self, *arguments):
        """Output of virsh; None when it fails."""
        command = ["virsh", "-q", "-c", self.uri, *map(str, arguments)]
        result = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60,
            env={**os.environ, **self._environ},
        )  # fmt: skip
        return None if result.returncode else result.stdout

    def _start_redfish(self, emulator):
        folder, port = self.folder / "bmc", free_port()
        if not (folder / "bmc.crt").exists():
            run(
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650",
                "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", str(folder / "bmc.key"), "-out", str(folder / "bmc.crt"),
            )  # fmt: skip
        digest = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{USER}:{digest}\n")
        settings = EMULATOR.format(port=port, uri=self.uri, folder=folder)
        (folder / "emulator.conf").write_text(settings)
        self.redfish = self.processes.start(
            "redfish", emulator, "--config", folder / "emulator.conf", environ=self._environ
        )
        self.redfish_url = f"https://127.0.0.1:{port}"
        until(lambda: _answers(f"{self.redfish_url}/redfish/v1/"), "the start of the BMC", 60)

    def add(self, name, firmware, bootfile="none", *, has_priority=True, wire=None):
        """
        Create a machine, switched off.

        bootfile: file or URL that DHCP offers. has_priority: over machines without it, if there are
        too few processors. wire: its network, if it is not QEMU's.
        """
        disk, console = self.folder / f"disks/{name}", self.folder / f"consoles/{name}"
        identity = uuid.uuid5(uuid.NAMESPACE_URL, f"lab:{name}")
        mac = "52:54:00:" + ":".join(f"{byte:02x}" for byte in identity.bytes[:3])
        mode = "bios" if firmware == "bios" else "uefi"
        machine = Machine(
            name, mode, str(identity), mac, free_port(), free_port(), wire, disk, console
        )
        run("qemu-img", "create", "-q", "-f", "qcow2", str(disk), DISK)
        self._own()
        network = (
            ()
            if wire
            else (
                f"net={NETWORK}",
                f"host={HOST}",
                f"hostfwd=tcp:127.0.0.1:{machine.agent_port}-:{AGENT_PORT}",
                f"tftp={self.folder}/tftp",
                f"bootfile={bootfile}",
            )
        )
        kind, attributes, elements, features = FIRMWARE[firmware]
        card = self._wire(wire, mac) if wire else CARD.format(mac=mac)
        domain = self.folder / f"settings/{name}.xml"
        domain.write_text(
            DOMAIN.format(
                name=name, uuid=identity, memory=MEMORY, type=kind, attributes=attributes,
                more=elements.format(folder=self.folder, name=name), features=features, card=card,
                emulator=self._emulator(has_priority), disk=disk,
                console=console, serial_port=machine.serial_port, options="".join(
                    f"<qemu:arg value='-set'/><qemu:arg value='netdev.hostnet0.{option}'/>"
                    for option in network
                ),
            )
        )  # fmt: skip
        run("virsh", "-q", "-c", self.uri, "define", str(domain))
        return machine

    def _wire(self, wire, mac):
        """Start the wire of a machine; return its card."""
        port, own_port = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_DGRAM)
        self.processes.start(
            f"wire-{wire.device}", sys.executable, "-m", "tests.lab.wire", wire.device,
            f"{wire.host}/24", port, own_port, cwd=ROOT,
        )  # fmt: skip
        until(lambda: Path("/sys/class/net", wire.device).exists(), "the start of the wire", 30)
        return WIRED_CARD.format(mac=mac, port=port, own_port=own_port)

    def serve_addresses(self, wire, config):
        """Run dnsmasq for the machine of a wire."""
        path = self.folder / f"settings/{wire.device}.dnsmasq"
        path.write_text(config)
        self.processes.start(
            f"dnsmasq-{wire.device}", packages.program("dnsmasq"), "--keep-in-foreground",
            "--log-dhcp", "--log-facility=-", f"--conf-file={path}", "--bind-interfaces",
            f"--interface={wire.device}", "--except-interface=lo", "--user=root",
            f"--dhcp-leasefile={path}.leases", f"--pid-file={path}.pid",
        )  # fmt: skip

    def relay(self, *ports):
        """Let machines on wires reach these ports of loopback, at this host's address."""
        self.processes.start(
            "relay", sys.executable, "-m", "tests.lab.relay", HOST, *ports, cwd=ROOT
        )

    def _emulator(self, has_priority):
        program = packages.program("qemu-system-x86_64")
        if has_priority:
            return program
        path = self.folder / "settings/emulator"
        path.write_text(f'#!/bin/sh\nexec nice -n 10 {program} "$@"\n')
        path.chmod(0o755)
        return path

    def add_ipmi(self, machine):
        """Start an IPMI BMC for a machine; return its port."""
        folder, port = self.folder / f"bmc/ipmi-{machine.name}", free_port(socket.SOCK_DGRAM)
        folder.mkdir()
        control = f"{sys.executable} {CHASSIS} {self.uri} {machine.name}"
        (folder / "lan").write_text(
            IPMI_LAN.format(
                name=machine.name, port=port, control=control, user=USER, password=PASSWORD,
                guid=machine.uuid.replace("-", ""), serial_port=machine.serial_port,
            )
        )  # fmt: skip
        (folder / "controller").write_text(IPMI_CONTROLLER)
        self.processes.start(
            f"ipmi-{machine.name}", packages.program("ipmi_sim"), "-n", "-c", folder / "lan",
            "-f", folder / "controller", "-s", folder, environ=self._environ,
        )  # fmt: skip
        return port

    def power(self, machine):
        """Whether a machine is on, by libvirt."""
        return (self._virsh("domstate", machine.name) or "").strip() == "running"

    def restart(self, machine, *devices):
        """Switch a machine off and on; its firmware tries these devices, in order, from now on."""
        self._virsh("destroy", machine.name)
        domain = ET.fromstring(
            self._virsh("dumpxml", "--inactive", "--security-info", machine.name)
        )
        set_boot_order(domain, devices)
        path = self.folder / f"settings/{machine.name}.xml"
        path.write_bytes(ET.tostring(domain))
        run("virsh", "-q", "-c", self.uri, "define", str(path))
        run("virsh", "-q", "-c", self.uri, "start", machine.name)

    def reset(self, machine):
        """Press a machine's reset button."""
        run("virsh", "-q", "-c", self.uri, "reset", machine.name)

    def close(self):
        """Switch off the machines, end all processes, and remove the folder."""
        for name in (self._virsh("list", "--name") or "").split():
            self._virsh("destroy", name)
        self.processes.end()
        subprocess.run(["ip", "address", "del", f"{HOST}/32", "dev", "lo"], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def _answers(url):
    try:
        return requests.get(url, verify=False, timeout=5).status_code < 500
    except requests.RequestException:
        return False


def _sushy_emulator(say):
    """Install sushy-emulator, in its own environment: libvirt's binding has to be compiled."""
    with cache.kept("emulator", REQUIREMENTS, sys.version) as (folder, is_complete):
        if not is_complete:
            say("installing sushy-emulator")
            run(sys.executable, "-m", "venv", str(folder / "venv"))
            run(
                str(folder / "venv/bin/python"), "-m", "pip", "install", "--quiet",
                "--disable-pip-version-check", "--require-hashes", "-r", str(REQUIREMENTS),
            )  # fmt: skip
    return folder / "venv/bin/sushy-emulator"
