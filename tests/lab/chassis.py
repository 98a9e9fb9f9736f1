"""
Commands of an IPMI BMC (ipmi_sim) to its machine: power and boot device, by libvirt.

    chassis.py URI DOMAIN get power|boot ...
    chassis.py URI DOMAIN set power|reset|shutdown|boot VALUE ...
"""

import subprocess
import sys
from xml.etree import ElementTree as ET

#: IPMI's names of boot devices -> path of the device in a domain
DEVICES = {
    "pxe": "interface",
    "cdrom": "disk[@device='cdrom']",
    "default": "disk[@device='disk']",
}


def set_boot_order(domain, names):
    """Have a domain's firmware try the devices of these names, in order; names may be missing."""
    devices = domain.find("devices")
    for parent in (domain.find("os"), *devices):
        for match in parent.findall("boot"):
            parent.remove(match)
    boot_devices = [device for name in names for device in devices.findall(DEVICES[name])]
    for number, device in enumerate(boot_devices, 1):
        ET.SubElement(device, "boot", order=str(number))


def main(uri, domain, order, *arguments):  # noqa: C901 - one closure per command
    def virsh(*command, **about):
        return subprocess.run(
            ["virsh", "-q", "-c", uri, *command], check=False, capture_output=True, **about
        ).stdout

    def power(value):
        virsh("start" if value == "1" else "destroy", domain)

    def reset(_value):
        virsh("destroy", domain)
        virsh("start", domain)

    def read():
        return ET.fromstring(virsh("dumpxml", "--inactive", "--security-info", domain))

    def boot(value):
        tree = read()
        names = [value] if value in DEVICES else []
        set_boot_order(tree, dict.fromkeys([*names, "default"]))
        virsh("define", "/dev/stdin", input=ET.tostring(tree))

    def first():
        devices = read().find("devices")
        names = (
            name
            for name, path in DEVICES.items()
            if any(match.find("boot[@order='1']") is not None for match in devices.findall(path))
        )
        return next(names, "default")

    if order == "get":
        readers = {
            # one that is shutting down is on: libvirt would not start it
            "power": lambda: int(virsh("domstate", domain).strip() != b"shut off"),
            "boot": first,
        }
        for name in arguments:
            if name in readers:
                print(f"{name}:{readers[name]()}")
    elif order == "set":
        writers = {
            "power": power,
            "reset": reset,
            "shutdown": lambda _value: virsh("shutdown", domain),
            "boot": boot,
        }
        for name, value in zip(arguments[::2], arguments[1::2], strict=False):
            if name in writers:
                writers[name](value)


if __name__ == "__main__":
    main(*sys.argv[1:])
