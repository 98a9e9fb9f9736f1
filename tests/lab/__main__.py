"""
The lab from the command line (docs/lab.md).

    python -m tests.lab           take machines through their lives, then remove everything
    python -m tests.lab faults    inject faults into one machine's life
    python -m tests.lab up        start the hypervisor and the service, enrol the machines, and exit
    python -m tests.lab down      remove a lab that `up` has started
"""

import os
import shutil
import subprocess
import sys
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import faults, packages, ramdisk, tenant
from tests.lab.hypervisor import HOST, PASSWORD, USER, Hypervisor
from tests.lab.journey import Journey, fetched
from tests.lab.service import Service
from tests.lab.view import View
from tests.support.fleet import ROOT
from tests.support.ports import free_port

#: Folder of the lab. The user of the machines must be able to enter it.
FOLDER = Path(os.environ.get("LAB_FOLDER", "/var/tmp/ingot-lab"))
SYSTEMS = ("first", "second")


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
            self.systems[name] = f"http://{HOST}:{self._images_at}/{name}.qcow2", image
        self.start_images()
        self.service = Service(self.hypervisor.folder, self.hypervisor.processes, built)
        say("starting the service")
        self.service.start()
        say(f"ready: {self.service.url}")

    def start_images(self):
        self.images = self.hypervisor.processes.start(
            "images", sys.executable, "-m", "tests.lab.images", self._images_at,
            self.hypervisor.folder / "images", self.journal, "127.0.0.1", HOST, cwd=ROOT,
        )  # fmt: skip

    def stop_images(self):
        self.images.kill()
        self.images.wait()

    def enrol(self, name, firmware, boot, driver, fast=False):
        """
        Create a machine, and its node.

        boot: the boot interface. fast: fast track, the agent keeps running between operations.
        """
        # a machine that boots for each operation takes longest: it gets its processor first
        machine = self.hypervisor.add(name, firmware, self.service.bootfile, first=not fast)
        journey = Journey(self.service, self.hypervisor, machine, self.systems, self.view.say, fast)
        info = {"kernel_append_params": f"%default% {journey.agent}", "fast_track": fast}
        if driver == "redfish":
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
        kinds = {"boot": boot, "inspect": "agent", "rescue": "agent"}
        journey.enrol(driver, kinds, info)
        return journey


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
    journey.manage()
    journey.provide()
    journey.deploy("first")
    journey.reboot_as_tenant("first")
    journey.undeploy()


#: (name, firmware, boot interface, driver, fast track, life)
MACHINES = (
    ("uefi", "uefi", "redfish-virtual-media", "redfish", False, whole_life),
    ("bios", "bios", "ipxe", "redfish", True, whole_life),
    ("ipmi", "bios", "ipxe", "ipmi", True, short_life),
)


def run(lab):
    """Take the machines through their lives, side by side."""
    with lab.view.watching(lab.service, journeys := []), ThreadPoolExecutor() as pool:
        lives = []
        for *machine, life in MACHINES:
            journeys.append(lab.enrol(*machine))
            lives.append(pool.submit(life, lab, journeys[-1]))
        for each in lives:
            each.result()
    lab.view.table(journeys)


def go_wrong(lab):
    """Inject all faults into one machine's life."""
    with lab.view.watching(lab.service, journeys := []):
        journeys.append(lab.enrol("uefi", "uefi", "redfish-virtual-media", "redfish"))
        faults.run(lab, journeys[-1])
    lab.view.table(journeys)


def up(lab):
    for *machine, _life in MACHINES:
        lab.enrol(*machine)
    print(
        "The lab is up, with three machines enrolled. To use it:\n"
        f"  export OS_AUTH_TYPE=none OS_ENDPOINT={lab.service.url}\n"
        "  .venv/bin/baremetal node list\n"
        f"  tail -F {FOLDER}/consoles/*\n"
        f"Images to deploy: {', '.join(url for url, _ in lab.systems.values())}\n"
        "make lab-down removes it."
    )


def main(order="run"):
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
        {"run": run, "faults": go_wrong, "up": up}[order](lab)
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
    sys.exit(main(*sys.argv[1:]))
