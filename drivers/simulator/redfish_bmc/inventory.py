"""Inventory in the agent's inspection report."""

from collections.abc import Sequence
from typing import Any

from drivers.simulator.machine import Machine
from drivers.simulator.redfish_bmc.system import DRIVES


def _disk(machine: Machine, index: int) -> dict[str, Any]:
    """Return a disk: the drive of the BMC with the same serial number, passed through."""
    return {
        "name": f"/dev/sd{'abcd'[index]}",
        "model": "Simulated Disk",
        "size": machine.disk_bytes,
        "rotational": False,
        "wwn": f"0x5000c5{index:02x}{machine.number:08x}",
        "serial": f"SIM-{machine.number:04d}-{index}",
        "vendor": "Simulated",
        "wwn_with_extension": None,
        "wwn_vendor_extension": None,
        "hctl": f"0:0:{index}:0",
        "by_path": f"/dev/disk/by-path/sim-{index}",
        "logical_sectors": 512,
        "physical_sectors": 4096,
        "tran": "sata",
    }


def _interface(machine: Machine, index: int, mac: str) -> dict[str, object]:
    """Return a network interface; the first one has an address and a carrier."""
    return {
        "name": f"eth{index}",
        "mac_address": mac,
        "ipv4_address": f"192.0.2.{machine.number % 250 + 1}" if index == 0 else None,
        "ipv6_address": None,
        "has_carrier": index == 0,
        "lldp": None,
        "vendor": "0x8086",
        "product": "0x100e",
        "client_id": None,
        "biosdevname": None,
        "speed_mbps": 1000,
        "pci_address": f"0000:00:{index + 3:02x}.0",
        "driver": "e1000",
    }


def inventory(machine: Machine, macs: Sequence[str]) -> dict[str, Any]:
    """Return the body of the inspection callback (collector `default`)."""
    disks = [_disk(machine, index) for index in range(DRIVES)]
    return {
        "inventory": {
            "interfaces": [_interface(machine, index, mac) for index, mac in enumerate(macs)],
            "cpu": {
                "model_name": "Simulated CPU",
                "frequency": "2400.0",
                "count": machine.cpus,
                "architecture": "x86_64",
                "flags": ["vmx", "aes"],
                "socket_count": 1,
            },
            "disks": disks,
            "memory": {
                "total": machine.memory_gib * 1024**3,
                "physical_mb": machine.memory_gib * 1024,
            },
            "bmc_address": machine.address,
            "bmc_v6address": "::/0",
            "system_vendor": {
                "product_name": "Simulated Machine",
                "serial_number": f"SIM-{machine.number:04d}",
                "manufacturer": "Simulated",
                "firmware": {
                    "vendor": "Simulated",
                    "version": machine.firmware["BIOS"],
                    "build_date": "01/01/2026",
                },
            },
            "boot": {
                "current_boot_mode": "uefi" if machine.boot_mode == "UEFI" else "bios",
                "pxe_interface": macs[0],
            },
            "hostname": machine.name,
            "bmc_mac": "52:58" + macs[0][5:],
        },
        "root_disk": disks[0],
        "boot_interface": macs[0],
        "configuration": {
            "collectors": ["default"],
            "managers": [{"name": "generic_hardware_manager", "version": "1.2"}],
        },
        "error": None,
    }
