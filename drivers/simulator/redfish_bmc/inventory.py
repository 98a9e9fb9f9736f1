"""Inventory in the agent's inspection report."""

from collections.abc import Sequence
from typing import Any

from drivers.simulator.machine import Machine


def inventory(machine: Machine, macs: Sequence[str]) -> dict[str, Any]:
    """Return the body of the inspection callback (collector `default`)."""
    disk = {
        "name": "/dev/sda",
        "model": "Simulated Disk",
        "size": machine.disk_bytes,
        "rotational": False,
        "wwn": f"0x5000c500{machine.number:08x}",
        "serial": f"SIM-{machine.number:04d}-0",
        "vendor": "Simulated",
        "wwn_with_extension": None,
        "wwn_vendor_extension": None,
        "hctl": "0:0:0:0",
        "by_path": "/dev/disk/by-path/sim-0",
        "logical_sectors": 512,
        "physical_sectors": 4096,
        "tran": "sata",
    }
    interfaces = [
        {
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
        for index, mac in enumerate(macs)
    ]
    return {
        "inventory": {
            "interfaces": interfaces,
            "cpu": {
                "model_name": "Simulated CPU",
                "frequency": "2400.0",
                "count": machine.cpus,
                "architecture": "x86_64",
                "flags": ["vmx", "aes"],
                "socket_count": 1,
            },
            "disks": [disk],
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
        "root_disk": disk,
        "boot_interface": macs[0],
        "configuration": {
            "collectors": ["default"],
            "managers": [{"name": "generic_hardware_manager", "version": "1.2"}],
        },
        "error": None,
    }
