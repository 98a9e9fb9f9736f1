"""
The lab from the command line (docs/lab.md).

    python -m tests.lab [run]     take machines through their lives, then remove everything
    python -m tests.lab faults    inject faults into one machine's life
    python -m tests.lab up        start the hypervisor and the service, enrol the machines, and exit
    python -m tests.lab down      remove a lab that `up` has started

`--machine NAME` of run and up: only this machine; may be repeated.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import faults, packages, ramdisk, tenant
from tests.lab.hypervisor import HOST, PASSWORD, USER, Hypervisor, Wire
from tests.lab.journey import Journey, fetched
from tests.lab.service import Service
from tests.lab.view import View
from tests.support.fleet import ROOT
from tests.support.ports import free_port

#: Folder of the lab. The user of the machines must be able to enter it.
FOLDER = Path(os.environ.get("LAB_FOLDER", "/var/tmp/ingot-lab"))
SYSTEMS = ("first", "second")
#: Machines that run at a time: each needs a processor.
SIDE_BY_SIDE = 3


@dataclass(slots=True)
class Lab:
    """Everything that the lab has started."""

    view: View = field(default_factory=View)
    hypervisor: Hypervisor = field(default_factory=lambda: Hypervisor(FOLDER))
    systems: dict = field(default_factory=dict)  # name -> (URL of its image, the image)
    service: Service | None = None
    images: subprocess.Popen | None = None  # server of the images
    _images_at: int = field(default_factory=free_port)  # its port

    @property
    def journal(self):
        return self.hypervisor.folder / "journal"

    def build(self):
        say = self.view.say
        if os.geteuid() != 0:
            raise LookupError("the lab builds a ramdisk and needs root for it; try: sudo make lab")
        packages.install(say)
        built = ramdisk.build(say)
        images = {name: tenant.build(built, name, say)[0] for name in SYSTEMS}
        self.hypervisor.open(say)
        folder = self.hypervisor.folder / "images"
        folder.mkdir()
        for name, image in images.items():
            shutil.copy(image.path, folder / f"{name}.qcow2")
            self.systems[name] = self.url(f"{name}.qcow2"), image
        self.start_images()
        self.service = Service(self.hypervisor.folder, self.hypervisor.processes, built)
        say("starting the service")
        self.service.start()
        self.hypervisor.relay(self.service.api, self.service.http)
        say(f"ready: {self.service.url}")

    def url(self, name):
        """URL of a file in the folder of images."""
        return f"http://{HOST}:{self._images_at}/{name}"

    def start_images(self):
        self.images = self.hypervisor.processes.start(
            "images", sys.executable, "-m", "tests.lab.images", self._images_at,
            self.hypervisor.folder / "images", self.journal, "127.0.0.1", HOST, cwd=ROOT,
        )  # fmt: skip

    def stop_images(self):
        self.images.kill()
        self.images.wait()

    def enrol(self, spec):
        """Create a machine, and its node."""
        # a machine that boots for each operation takes longest: it gets its processor first
        machine = self.hypervisor.add(
            spec.name,
            spec.firmware,
            self.service.bootfile,
            has_priority=not spec.fast,
            wire=spec.wire,
        )
        journey = Journey(
            self.service, self.hypervisor, machine, self.systems, self.view.say, spec.fast
        )
        info = {"kernel_append_params": f"%default% {journey.agent}", "fast_track": spec.fast}
        if spec.firmware == "secure":
            partition = tenant.signed_partition(self.hypervisor.folder / "images")
            info["bootloader"] = self.url(partition.name)
        if spec.driver == "redfish":
            info |= {
                "redfish_address": self.hypervisor.redfish_url,
                "redfish_system_id": f"/redfish/v1/Systems/{machine.uuid}",
                "redfish_username": USER,
                "redfish_password": PASSWORD,
                "redfish_verify_ca": "False",
            }
        else:
            info |= {
                "ipmi_address": "127.0.0.1",
                "ipmi_port": self.hypervisor.add_ipmi(machine),
                "ipmi_username": USER,
                "ipmi_password": PASSWORD,
                "ipmi_cipher_suite": "3",
            }
        kinds = {"boot": spec.boot, "inspect": "agent", "rescue": "agent"}
        journey.enrol(spec.driver, kinds, info)
        wire = spec.wire
        if wire and spec.boot == "http":
            addresses = f"{wire.machine},{wire.machine},{wire.netmask}"
            config = self.service.dhcp_config(spec.boot, addresses)
            self.hypervisor.serve_addresses(wire, config)
        elif wire:
            journey.set("--network-data", network_data(machine))
        return journey


def network_data(machine):
    """network_data of a machine on a wire, as JSON."""
    wire = machine.wire
    link = {"id": "card", "type": "phy", "ethernet_mac_address": machine.mac}
    route = {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": wire.host}
    network = {
        "id": "wire", "network_id": "wire", "type": "ipv4", "link": "card",
        "ip_address": wire.machine, "netmask": wire.netmask, "routes": [route],
    }  # fmt: skip
    return json.dumps({"links": [link], "networks": [network], "services": []})


def whole_life(lab, journey):
    """A machine's whole life; its conductor is killed twice while the agent works."""
    journey.manage()
    journey.inspect()
    journey.provide()
    killed = journey.once_at("deploy.write_image", journey.kill_conductor)
    journey.deploy("first")
    killed()
    assert fetched(lab.journal, journey, "first") == 1, "the image was fetched again"
    journey.reboot_as_tenant("first")
    journey.rebuild("second")
    journey.rescue()
    journey.unrescue("second")
    journey.retire()
    killed = journey.once_at("deploy.erase_devices", journey.kill_conductor)
    journey.undeploy("manageable")
    killed()


def short_life(_lab, journey):
    """A machine with a serial console: its tenant logs in there; it has the words of a failed boot."""
    journey.manage()
    journey.enable_console()
    journey.provide()
    journey.deploy("first")
    journey.log_in_as_tenant()
    journey.reboot_as_tenant("first")
    journey.undeploy()
    journey.boot_in_vain()


def life_without_dhcp(_lab, journey):
    """The agent gets its address by network_data, from the CD and from its ramdisk."""
    journey.manage()
    journey.inspect()
    for words in ("network_data in the ramdisk", "network_data on /dev/sr0"):
        journey.expect_on_console(f"{words}")
    journey.expect_on_console(f" {journey.machine.wire.machine}/24")
    journey.provide()


def secure_life(_lab, journey):
    """A deployment leaves the machine with Secure Boot on, seen from inside; a tear-down, off."""
    journey.set("--no-automated-clean")  # saves a boot of the agent
    journey.manage()
    journey.ask("provide")
    journey.set(
        "--property=capabilities=boot_mode:uefi,secure_boot:true",
        '--instance-info=capabilities={"secure_boot": "true"}',
    )
    journey.deploy("first")
    journey.expect_on_console(" secureboot=0")  # of the ramdisk
    journey.expect_on_console("TENANT system=first firmware=uefi secureboot=1")
    journey.ask("undeploy")
    assert journey.show()["secure_boot"] is False


def life_by_http(_lab, journey):
    """The firmware fetches GRUB over HTTP, and GRUB the agent."""
    journey.manage()
    journey.inspect()
    journey.expect_on_console("UEFI HTTPv4")
    journey.expect_on_console(f" {journey.machine.wire.machine}/24")


@dataclass(frozen=True, slots=True)
class Spec:
    """A machine, and its life: a function of the lab and its journey."""

    name: str
    firmware: str  # a key of hypervisor.FIRMWARE
    boot: str  # the boot interface
    driver: str
    life: Callable
    fast: bool = False  # fast track: the agent keeps running between operations
    #: its network, without DHCP unless it boots from it; None: QEMU's
    wire: Wire | None = None


MACHINES = (
    Spec("uefi", "uefi", "redfish-virtual-media", "redfish", whole_life),
    Spec("bios", "bios", "ipxe", "redfish", whole_life, fast=True),
    Spec("ipmi", "bios", "ipxe", "ipmi", short_life, fast=True),
    Spec("secure", "secure", "redfish-virtual-media", "redfish", secure_life),
    Spec(
        "static", "bios", "redfish-virtual-media", "redfish", life_without_dhcp,
        wire=Wire("labwire0", "198.51.100.1", "198.51.100.7"),
    ),
    Spec(
        "http", "uefi", "http", "redfish", life_by_http,
        wire=Wire("labwire1", "198.18.51.1", "198.18.51.7"),
    ),
)  # fmt: skip


def run(lab, machines):
    """Take machines through their lives, some of them side by side."""
    with lab.view.watching(lab.service, journeys := []), ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        lives = []
        for spec in machines:
            journeys.append(lab.enrol(spec))
            lives.append(pool.submit(spec.life, lab, journeys[-1]))
        for life in lives:
            life.result()
    lab.view.table(journeys)


def go_wrong(lab, _machines):
    """Inject all faults into one machine's life."""
    with lab.view.watching(lab.service, journeys := []):
        journeys.append(lab.enrol(MACHINES[0]))
        faults.run(lab, journeys[-1])
    lab.view.table(journeys)


def up(lab, machines):
    for spec in machines:
        lab.enrol(spec)
    print(
        f"The lab is up, with {len(machines)} machines enrolled. To use it:\n"
        f"  export OS_AUTH_TYPE=none OS_ENDPOINT={lab.service.url}\n"
        "  .venv/bin/baremetal node list\n"
        f"  tail -F {FOLDER}/consoles/*\n"
        f"Images to deploy: {', '.join(url for url, _ in lab.systems.values())}\n"
        "make lab-down removes it."
    )


def main():
    parser = argparse.ArgumentParser(prog="tests.lab")
    parser.add_argument("order", nargs="?", default="run", choices=("run", "faults", "up", "down"))
    names = [spec.name for spec in MACHINES]
    parser.add_argument("--machine", action="append", choices=names, help="only this machine")
    arguments = parser.parse_args()
    order = arguments.order
    machines = [spec for spec in MACHINES if spec.name in (arguments.machine or names)]
    warnings.filterwarnings("ignore", message="Unverified HTTPS")
    lab = Lab()
    if order == "down":
        lab.hypervisor.close()
        return 0
    if FOLDER.exists():
        print(f"{FOLDER} exists: make lab-down removes the lab", file=sys.stderr)
        return 1
    try:
        lab.build()
        {"run": run, "faults": go_wrong, "up": up}[order](lab, machines)
    except LookupError as error:
        print(error, file=sys.stderr)
        order = "failed"
    except Exception:
        traceback.print_exc()
        order = "failed"
        print(f"logs of the failed run: {keep_logs(lab)}", file=sys.stderr)
    if order != "up":
        lab.hypervisor.close()
    return int(order == "failed")


def keep_logs(lab):
    """Copy logs and consoles to a folder that outlasts the lab; return it."""
    place = Path(f"{FOLDER}-failed")
    shutil.rmtree(place, ignore_errors=True)
    for name in ("logs", "consoles"):
        if (lab.hypervisor.folder / name).exists():
            shutil.copytree(lab.hypervisor.folder / name, place / name)
    return place


if __name__ == "__main__":
    sys.exit(main())
