"""
Hardware manager of a machine whose disks are files.

It derives from the agent's abstract manager, not from the generic one: the agent can do only the
operations that are defined here. Disks and RAID volumes are found and made by the generic manager's
code; the programs that it starts are stand-ins.
"""

import os
import time

import devices
from devices import FOLDER
from ironic_python_agent import errors, hardware, tls_utils
from ironic_python_agent.extensions import base

DISKS = [devices.DEV / name for name in devices.DISKS]
MEBIBYTE = 1 << 20
Generic = hardware.GenericHardwareManager


class FileMachine(hardware.HardwareManager):
    HARDWARE_MANAGER_NAME = "file_machine"

    filter_device = Generic.filter_device
    list_block_devices = Generic.list_block_devices
    list_block_devices_check_skip_list = Generic.list_block_devices_check_skip_list
    get_skip_list_from_node_for_disks = Generic.get_skip_list_from_node_for_disks
    get_skip_list_from_node_for_raids = Generic.get_skip_list_from_node_for_raids
    validate_configuration = Generic.validate_configuration
    create_configuration = Generic.create_configuration
    delete_configuration = Generic.delete_configuration
    apply_configuration = Generic.apply_configuration
    _do_create_configuration = Generic._do_create_configuration
    _delete_config_pass = Generic._delete_config_pass

    def __init__(self):
        self._raid_root_device_mapping = {}

    def initialize(self):
        hardware._md_scan_and_assemble()

    @property
    def HARDWARE_MANAGER_VERSION(self):
        version = FOLDER / "firmware"
        return version.read_text() if version.exists() else "1"

    def evaluate_hardware_support(self):
        return hardware.HardwareSupport.SERVICE_PROVIDER

    # inventory

    def list_network_interfaces(self):
        return [
            hardware.NetworkInterface(
                "eth0", os.environ["MACHINE_MAC"], ipv4_address="192.0.2.10", has_carrier=True
            )
        ]

    def get_cpus(self):
        return hardware.CPU("a file's", "1000", 1, "x86_64")

    def get_memory(self):
        return hardware.Memory(1024 * MEBIBYTE, physical_mb=1024)

    def get_system_vendor_info(self):
        return hardware.SystemVendorInfo(
            "File", "1", "Tests", hardware.SystemFirmware("Tests", "1", "01/01/2026")
        )

    def get_boot_info(self):
        return hardware.BootInfo("bios", pxe_interface=os.environ["MACHINE_MAC"])

    def get_bmc_address(self):
        return None

    def get_bmc_v6address(self):
        return None

    def get_bmc_mac(self):
        raise errors.IncompatibleHardwareMethodError

    def get_usb_devices(self):
        return []

    def collect_lldp_data(self, interface_names=None):
        return {}

    def collect_system_logs(self, io_dict, file_list):
        file_list.append(str(FOLDER / "agent.log"))

    def get_os_install_device(self, permit_refresh=False):
        """Return the file of the device that the agent chooses."""
        return f"{FOLDER}{Generic.get_os_install_device(self, permit_refresh)}"

    def wait_for_disks(self):
        """No wait: the disk is always there."""

    def generate_tls_certificate(self, ip_address):
        certificate, key = FOLDER / "agent.crt", FOLDER / "agent.key"
        text = tls_utils._generate_tls_certificate(certificate, key, "file-machine", ip_address)
        return tls_utils.TlsCertificate(text, str(certificate), str(key))

    def full_sync(self):
        """No sync: files need none."""

    # steps

    def get_clean_steps(self, node, ports):
        return [
            step("erase_devices", 10, abortable=True),
            step("erase_devices_metadata", 99, abortable=True),
            step("burn_in", 0, abortable=True, seconds="How long"),
            step("delete_configuration", 0, "raid"),
            step("create_configuration", 0, "raid"),
        ]

    def get_deploy_steps(self, node, ports):
        return [
            step("write_image", 0, image_info="The image", configdrive="The config drive"),
            step("sign_disk", 50),
            step(
                "apply_configuration",
                0,
                "raid",
                raid_config="Disks to create",
                delete_existing="Whether to delete the existing ones",
            ),
        ]

    def get_service_steps(self, node, ports):
        return [step("burn_in", 0, abortable=True, seconds="How long")]

    def erase_devices(self, node, ports):
        for disk in DISKS:
            size = disk.stat().st_size
            os.truncate(disk, 0)
            os.truncate(disk, size)
        return {disk.name: "erased" for disk in DISKS}

    def erase_devices_metadata(self, node, ports):
        for path in DISKS:
            with path.open("r+b") as disk:
                disk.write(bytes(MEBIBYTE))
                disk.seek(-MEBIBYTE, os.SEEK_END)
                disk.write(bytes(MEBIBYTE))

    def write_image(self, node, ports, image_info, configdrive=None):
        standby = base.get_extension("standby")
        return standby.prepare_image(image_info=image_info, configdrive=configdrive).wait()

    def sign_disk(self, node, ports):
        """The custom deploy step: write the instance's name to the disk."""
        with DISKS[0].open("r+b") as disk:
            disk.seek(512)
            disk.write(node["uuid"].encode())
        return "signed"

    def burn_in(self, node, ports, seconds=0.0):
        time.sleep(float(seconds))
        return f"burnt for {seconds} s"


def step(name, priority, interface="deploy", abortable=False, **arguments):
    return {
        "step": name,
        "priority": priority,
        "interface": interface,
        "reboot_requested": False,
        "abortable": abortable,
        "argsinfo": {
            argument: {"description": description, "required": name == "burn_in"}
            for argument, description in arguments.items()
        },
    }
