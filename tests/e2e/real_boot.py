"""
QEMU machines that boot from a segment of their own: a bridge in a network namespace, with one
address of this host. The firmware is SeaBIOS with QEMU's iPXE, or OVMF with its own network stack.

A switch for their power answers the webhooks of power interface `webhook`.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support import debian, web
from tests.support.prerequisites import not_run

#: Address of this host on the segment.
HOST = "10.203.0.1"
SECRET = "secret of the power switch"
MEMORY = 1024  # MiB
OVMF = Path("/usr/share/OVMF")
#: Required file -> packages of Debian that have it.
NEEDED = {
    "/usr/bin/qemu-system-x86_64": "qemu-system-x86 seabios ipxe-qemu",
    f"{OVMF}/OVMF_CODE_4M.fd": "ovmf",
    "/usr/lib/ipxe/snponly.efi": "ipxe",
    "/usr/lib/PXELINUX/pxelinux.0": "pxelinux",
    "/usr/lib/syslinux/modules/bios/ldlinux.c32": "syslinux-common",
    "/usr/lib/grub/x86_64-efi/modinfo.sh": "grub-efi-amd64-bin grub-common",
    "/usr/sbin/dnsmasq": "dnsmasq-base",
    "/usr/sbin/debootstrap": "debootstrap",
    "/usr/bin/zstd": "zstd",
    "/usr/bin/cpio": "cpio",
}
FIRMWARE = {
    "bios": ("-machine", "pc"),
    "uefi": (
        "-machine", "q35",
        "-drive", f"if=pflash,format=raw,readonly=on,file={OVMF}/OVMF_CODE_4M.fd",
        "-drive", "if=pflash,format=raw,file={variables}",
    ),
}  # fmt: skip


def require():
    """Skip the test if a part is not available."""
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.W_OK):
        not_run("root and /dev/net/tun, for a machine in a network namespace")
    for path, packages in NEEDED.items():
        if not debian.provide(lambda path=path: Path(path).exists() or None, packages):
            not_run(f"{path} of Debian 12")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Segment:
    """interface: that of this host on the segment, with address `HOST`."""

    def __init__(self):
        number = os.getpid() % 100_000
        self.interface, self._peer = f"bh{number}", f"bp{number}"
        self.namespace = f"ingot-boot-{number}"

    def __enter__(self):
        inside = partial(ip, "-n", self.namespace)
        ip("netns", "add", self.namespace)
        ip("link", "add", self.interface, "type", "veth", "peer", "name", self._peer)
        ip("link", "set", self._peer, "netns", self.namespace)
        ip("address", "add", f"{HOST}/24", "dev", self.interface)
        ip("link", "set", self.interface, "up")
        inside("link", "add", "segment", "type", "bridge")
        inside("tuntap", "add", "mode", "tap", "name", "machine")
        for device in (self._peer, "machine"):
            inside("link", "set", device, "master", "segment", "up")
        inside("link", "set", "segment", "up")
        return self

    def __exit__(self, *_):
        ip("link", "del", self.interface)
        ip("netns", "del", self.namespace)


class Machine:
    """A machine on the segment; one runs at a time. url: of its power switch."""

    url = ""

    def __init__(self, folder, segment, firmware, mac):
        self.mac, self._folder, self._segment, self._firmware = mac, folder, segment, firmware
        self._process = None
        self.starts = 0
        folder.mkdir()
        shutil.copy(OVMF / "OVMF_VARS_4M.fd", folder / "variables")
        (folder / "console").touch()
        with (folder / "disk").open("wb") as disk:
            disk.truncate(512 << 20)

    def output(self):
        """Text on the serial console since the last start."""
        return (self._folder / "console").read_text(errors="replace")

    @property
    def is_on(self):
        return self._process is not None and self._process.poll() is None

    def switch(self, power):
        if power == "on" and not self.is_on:
            self._start()
        elif power == "off" and self.is_on:
            self._process.terminate()
            self._process.wait(30)

    def _start(self):
        folder, self.starts = self._folder, self.starts + 1
        # with its option ROM, SeaBIOS boots iPXE; without it, OVMF has only its own stack
        rom = "" if self._firmware == "bios" else ",romfile="
        options = (word.format(variables=folder / "variables") for word in FIRMWARE[self._firmware])
        command = [
            "ip", "netns", "exec", self._segment.namespace, "nice", "qemu-system-x86_64", *options,
            "-cpu", "qemu64", "-m", f"{MEMORY}", "-nographic", "-nodefaults", "-serial", f"file:{folder}/console",
            "-netdev", "tap,id=wire,ifname=machine,script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=wire,mac={self.mac},bootindex=0{rom}",
            "-drive", f"if=virtio,format=raw,cache=unsafe,file={folder}/disk",
            "-device", "virtio-rng-pci",
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def driver_info(self):
        return {
            "webhook_power_on_url": self.url, "webhook_power_off_url": self.url,
            "webhook_power_state_url": self.url, "webhook_power_secret": SECRET,
        }  # fmt: skip


@contextmanager
def plugged(folder, segment, firmware, mac):
    """Yield a machine, switched off, with its power switch."""
    machine = Machine(folder, segment, firmware, mac)

    class Switch(web.Handler):
        def do_GET(self):
            self.answer(200, {"power": "on" if machine.is_on else "off"})

        def do_POST(self):
            machine.switch(self.body()["power"])
            self.answer(204)

    with web.serving(Switch) as server:
        machine.url = f"{server.url}/power"
        try:
            yield machine
        finally:
            machine.switch("off")
            print(f"--- console of {mac}", machine.output()[-4000:])
