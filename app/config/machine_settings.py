"""
Settings about machines: their boot, agent, BMCs and inspection. `app/config/settings.py` has the
others, and says how a setting is added.
"""

# ruff: noqa: E501, RUF009 - the groups are a table: an option, a line

from dataclasses import dataclass

from app.config import hosts
from app.config.option_types import (
    base_url,
    cidr_map,
    cipher_suites,
    count,
    fake_delay,
    image_url,
    must_be_false,
    seconds,
)
from app.config.options import option
from app.inspection import hooks as inspection_hooks
from app.inspection import pci as inspection_pci
from app.inspection import rules as inspection_rules
from drivers.net import networks

#: Networks of no machine: unspecified, loopback, link-local, multicast, metadata and platform services of
#: clouds. Simulators and virtual BMCs on the host of a conductor need a setting without loopback.
MACHINE_DENIED = (
    "0.0.0.0/8", "100.100.100.200/32", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
    "192.0.0.192/32", "224.0.0.0/3", "::/127", "fd00:ec2::/32", "fd20:ce::254/128", "fe80::/10", "ff00::/8",
)  # fmt: skip


# fmt: off
@dataclass(frozen=True, slots=True)
class Deploy:
    http_url: str | None = option(None, "URL at which machines fetch files from this conductor; empty: `ingot up` serves them itself, and other roles expect `ingot files` at http_port", check=base_url)
    http_root: str = option("", "Directory served at http_url; empty: httpboot in the data directory")
    served_group: str = option("", "Group with read access to http_root and [pxe]tftp_root, for web and TFTP servers of other users; empty: only the user of the service")
    http_port: int = option(0, "Port at which `ingot up` and `ingot files` serve http_root; 0: any free one", minimum=0, maximum=65535)
    enable_ssl_files: bool = option(False, "Serve http_root over HTTPS with cert_file and key_file of [api]; machines and BMCs must trust the certificate. Not in Ironic")
    external_http_url: str | None = option(None, "URL at which BMCs fetch files from this conductor; empty: http_url", check=base_url)
    external_callback_url: str | None = option(None, "URL of the API for agents booted from images; empty: [api]public_endpoint", check=base_url)
    fast_track: bool = option(False, "Use a running agent without a reboot")
    fast_track_timeout: float = seconds(300, "Maximum age of the last heartbeat of a running agent, in seconds")
    ramdisk_signed: bool = option(False, "Ramdisks of agents, and the loaders before them, start with secure boot on: it is not switched off for them")
    default_boot_mode: str = option("uefi", "Boot mode of nodes without one", choices=("uefi", "bios"))
    power_off_after_deploy_failure: bool = option(True, "Power a node off after a failed deployment")
    erase_devices_priority: float | None = option(None, "Priority of erasing whole disks; empty: the agent's; 0: not at all")
    erase_devices_metadata_priority: float | None = option(None, "Priority of erasing partition tables; empty: the agent's; 0: not at all")
    delete_configuration_priority: float | None = option(None, "Priority of deleting RAID; empty: the agent's; 0: not at all")
    create_configuration_priority: float | None = option(None, "Priority of creating RAID; empty: the agent's; 0: not at all")
    shred_random_overwrite_iterations: int = count(1, "Random passes over a disk")
    shred_final_overwrite_with_zeros: bool = option(True, "Overwrite disks with zeros after the random passes")
    continue_if_disk_secure_erase_fails: bool = option(False, "Overwrite disks if secure erase fails")
    disk_erasure_concurrency: int = count(4, "Disks erased at once", minimum=1)
    enable_ata_secure_erase: bool = option(True, "Use ATA secure erase")
    enable_nvme_secure_erase: bool = option(True, "Use NVMe format")
    erase_skip_read_only: bool = option(False, "Skip read-only disks instead of failing")
    configdrive_use_object_store: bool = option(False, "Not available: must stay false", check=must_be_false)


@dataclass(frozen=True, slots=True)
class Agent:
    require_tls: bool = option(True, "Refuse agents without HTTPS")
    denied_networks: tuple[str, ...] = option(MACHINE_DENIED, "Networks in which no agent may be; the default is loopback, link-local, multicast and the metadata addresses of clouds. Not in Ironic", check=networks.parse)
    allowed_networks: tuple[str, ...] = option((), "The only networks in which agents may be; empty: all but denied_networks. Not in Ironic", check=networks.parse)
    verify_ca: str = option("True", "CA file for agents that announce no certificate, or True: the system's, or False: no verification")
    api_ca_file: str | None = option(None, "CA file of the API, put on boot images for agents")
    command_timeout: float = seconds(60, "Seconds for an agent to accept a command", minimum=1)
    max_command_attempts: int = count(3, "Attempts of a command after network errors", minimum=1)
    poll_interval: float = seconds(1, "Seconds between the first polls of a command; the interval grows", minimum=0.05)
    image_download_source: str = option("http", "http: agents fetch images themselves; local: conductors keep copies", choices=("http", "local"))
    stream_raw_images: bool = option(True, "Write raw images without a copy in memory")
    memory_consumed_by_agent: int = count(0, "Memory of the ramdisk itself, in MiB")
    manage_agent_boot: bool = option(True, "Boot the ramdisk by Ingot; else the site's own boot server does")
    deploy_logs_collect: str = option("on_failure", "When to keep the agent's logs", choices=("always", "on_failure", "never"))
    deploy_logs_local_path: str = option("", "Directory of agent logs; empty: in the data directory")
    deploy_logs_max_size: int = count(1024, "Size in MiB of all kept logs of a host, above which the oldest are removed. Not in Ironic", minimum=1)
    post_deploy_get_power_state_retries: int = count(6, "Number of checks for the shutdown of the agent")
    post_deploy_get_power_state_retry_interval: float = seconds(5, "Seconds between these checks")
    enable_bios_bootloader_install: bool = option(False, "Install a boot loader for legacy BIOS")
    tls_minimum_version: str = option("1.3", "Lowest TLS version that agents offer", choices=("1.2", "1.3"))
    tls_ciphers: str | None = option(None, "OpenSSL cipher list that agents offer")
    allow_md5_checksum: bool = option(True, "Allow MD5 checksums of images")
    neutron_agent_max_attempts: int = count(100, "Reads of a port in Neutron until it must be connected", minimum=1)
    neutron_agent_status_retry_interval: float = seconds(10, "Seconds between these reads; an event of Neutron ends the wait at once", minimum=0.1)


@dataclass(frozen=True, slots=True)
class Pxe:
    tftp_root: str = option("", "Directory of the TFTP server; empty: tftpboot in the data directory")
    tftp_server: str = option("", "Address of the TFTP server, if it differs from the DHCP server's", check=hosts.optional_host)
    kernel_append_params: str = option("nofb vga=normal", "Kernel arguments for network boot", deprecated=("pxe.pxe_append_params",))
    instance_master_path: str = option("", "Copies of kernels, ramdisks and boot loaders; empty: master_images in the data directory", deprecated=("pxe.tftp_master_path",))
    image_cache_size: int = count(20480, "Maximum size of instance_master_path, in MiB")
    image_cache_ttl: int = count(10080, "Minutes for which an unused copy is kept")
    loader_file_paths: dict[str, str] = option({}, "name:file pairs of boot loaders served by TFTP and HTTP")
    ipxe_timeout: int = seconds(0, "Seconds for iPXE to download an image; 0: for ever")
    ipxe_bootfile_name: str = option("undionly.kpxe", "Boot file of iPXE for legacy BIOS")
    uefi_ipxe_bootfile_name: str = option("snponly.efi", "Boot file of iPXE for UEFI")
    pxe_bootfile_name: str = option("pxelinux.0", "Boot file without iPXE for legacy BIOS")
    uefi_pxe_bootfile_name: str = option("bootx64.efi", "Boot file without iPXE for UEFI")
    pxe_bootfile_name_by_arch: dict[str, str] = option({}, "architecture:name pairs of boot files without iPXE for other architectures")
    ipxe_bootfile_name_by_arch: dict[str, str] = option({"aarch64": "snponly-arm64.efi"}, "architecture:name pairs of boot files of iPXE for other architectures")
    pxe_config_subdir: str = option("pxelinux.cfg", "Directory of per-machine boot files")
    boot_retry_timeout: float | None = option(None, "Seconds without a heartbeat after which a machine is booted again; empty: never", minimum=1)
    boot_retry_check_interval: float = seconds(90, "Seconds between checks of boot_retry_timeout", minimum=1)
    default_ephemeral_format: str = option("ext4", "File system of ephemeral partitions")
    enable_netboot_fallback: bool = option(False, "Let machines that ignore the boot device continue from the network to their disk")


@dataclass(frozen=True, slots=True)
class Anaconda:
    default_ks_template: str | None = option(None, "URL of the kickstart template; a file must lie in [conductor]file_url_allowed_paths; empty: the built-in one", check=image_url)
    insecure_heartbeat: bool = option(False, "Let installers call the API without certificate verification")


@dataclass(frozen=True, slots=True)
class Redfish:
    auth_type: str = option("auto", "Authentication at BMCs", choices=("basic", "session", "auto"))
    verify_ca: str | None = option(None, "CA file for nodes without redfish_verify_ca")
    connect_timeout: float = seconds(10, "Seconds to reach a BMC", minimum=0.1)
    read_timeout: float = seconds(60, "Seconds for a BMC to answer an order", minimum=0.1)
    sync_timeout: float = seconds(10, "Seconds for a BMC to return its power state", minimum=0.1)
    min_command_interval: float = seconds(0, "Minimum seconds between two requests to one BMC")
    kernel_append_params: str = option("nofb vga=normal", "Kernel arguments of virtual media boots")
    file_permission: str = option("0o644", "Mode of ISO images made for BMCs")
    firmware_update_status_interval: float = seconds(5, "Seconds between polls of an update", minimum=0.1)
    firmware_update_overall_timeout: float = seconds(7200, "Maximum duration of an update, in seconds; 0: no limit")
    firmware_update_bmc_timeout: float = seconds(300, "Seconds for which a BMC may be silent during its update")
    firmware_update_required_successes: int = count(3, "Consecutive valid answers after which an updated BMC counts as back; 0: do not wait")
    firmware_update_validation_interval: float = seconds(30, "Seconds between these answers", minimum=0.1)
    firmware_update_resource_validation_timeout: float = seconds(480, "Seconds after an update during which malformed answers of the BMC are ignored; later ones fail the step")
    enable_verify_bmc_clock: bool = option(False, "Compare the BMC's clock with the conductor's when a node is verified, and set it if they differ")
    boot_mode_config_timeout: float = seconds(900, "Seconds for a change of boot mode or secure boot, including a restart; 0: do not wait")
    vmedia_insert_timeout: float = seconds(60, "Seconds for a BMC to present an image that it has accepted, or to eject one", minimum=1)
    vmedia_insert_poll_interval: float = seconds(2, "Seconds between reads of a virtual medium", minimum=0.1)
    event_receiver_url: str | None = option(None, "URL of this service for events of BMCs, as https://HOST: each BMC is asked to send its events there; empty: to none. Not in Ironic", check=base_url)
    event_check_interval: float = seconds(600, "Seconds between two checks of a BMC's subscription to events. Not in Ironic", minimum=1)
    inspection_hooks: tuple[str, ...] = option(("validate-interfaces", "ports", "architecture"), "Hooks of out-of-band inspection, in order", check=inspection_hooks.check)


@dataclass(frozen=True, slots=True)
class Ipmi:
    client: str = option("pyghmi", "IPMI client", choices=("pyghmi", "ipmitool"))
    min_command_interval: float = seconds(0, "Minimum seconds between two commands to one BMC")
    command_timeout: float = seconds(20, "Seconds for a command, including login and retries; then its process is killed", minimum=0.1)
    disable_boot_timeout: bool = option(True, "Disable the BMC's timeout of the boot device")
    cipher_suite_versions: tuple[str, ...] = option((), "Cipher suites to try for nodes without one, the best last; empty: negotiated", check=cipher_suites)


@dataclass(frozen=True, slots=True)
class Bmc:
    """Limits of the traffic to every BMC, of any protocol; not in Ironic."""

    denied_networks: tuple[str, ...] = option(MACHINE_DENIED, "Networks in which no BMC may be; the default is loopback, link-local, multicast and the metadata addresses of clouds", check=networks.parse)
    allowed_networks: tuple[str, ...] = option((), "The only networks in which BMCs may be; empty: all but denied_networks", check=networks.parse)
    retry_after: float = seconds(5, "Seconds for which a BMC is not contacted after three failures in a row; doubles with each further one")
    max_retry_after: float = seconds(300, "Maximum of that pause in seconds")


@dataclass(frozen=True, slots=True)
class Inspector:
    power_off: bool = option(True, "Power a node off after inspection")
    extra_kernel_params: str = option("", "Kernel arguments of the inspection ramdisk")
    force_dhcp: bool = option(False, "Leave network_data off the media of inspections, so that the agent gets its addresses by DHCP")
    require_managed_boot: bool = option(True, "Inspect only machines that Ingot can boot")
    pre_create_ports: bool = option(True, "Create ports from the BMC's inventory before in-band inspection")
    add_ports: str = option("pxe", "Ports to create", choices=("all", "active", "pxe", "disabled"))
    keep_ports: str = option("all", "Ports to keep", choices=("all", "present", "added"))
    update_pxe_enabled: bool = option(True, "Set pxe_enabled of ports from the interface that booted")
    hooks: tuple[str, ...] = option(("ramdisk-error", "validate-interfaces", "ports", "architecture"), "Hooks of in-band inspection, in order", check=inspection_hooks.check)
    cpu_capabilities: dict[str, str] = option({"vmx": "cpu_vt", "svm": "cpu_vt", "aes": "cpu_aes", "pse": "cpu_hugepages", "pdpe1gb": "cpu_hugepages_1g", "smx": "cpu_txt"}, "flag of a processor:capability pairs, for hook cpu-capabilities")
    extra_hardware_strict: bool = option(False, "Discard all output of hardware-detect if a part is malformed, for hook extra-hardware")
    known_accelerators: str | None = option(None, "YAML file with a list pci_devices of {vendor_id, device_id, type, device_info}, for hook accelerators; empty: a built-in list", check=inspection_pci.read)
    pci_device_alias: tuple[str, ...] = option((), "vendor:product:name of PCI devices that become capabilities, for hook pci-devices", check=inspection_pci.check_aliases)
    physical_network_cidr_map: tuple[str, ...] = option((), "CIDR:physical network pairs, for hook physical-network", check=cidr_map)


@dataclass(frozen=True, slots=True)
class AutoDiscovery:
    enabled: bool = option(False, "Enroll unknown machines that post an inventory")
    driver: str = option("", "Driver of discovered nodes")
    max_per_hour: int = count(100, "Most machines enrolled in an hour; reports of others are refused; 0: no limit. Not in Ironic")
    max_enrolled: int = count(1000, "Most discovered nodes that are still in enroll; reports of other unknown machines are refused; 0: no limit. Not in Ironic")


@dataclass(frozen=True, slots=True)
class InspectionRules:
    built_in_rules: str | None = option(None, "YAML file of built-in rules", check=inspection_rules.read)
    mask_secrets: str = option("always", "Hide passwords from rules", choices=("always", "never", "sensitive"))
    supported_inspect_interfaces: tuple[str, ...] = option(("agent",), "Inspect interfaces that run rules")


@dataclass(frozen=True, slots=True)
class Inventory:
    data_backend: str = option("database", "Storage of inventories", choices=("database", "none"))


@dataclass(frozen=True, slots=True)
class SensorData:
    send_sensor_data: bool = option(False, "Read the sensors of machines, for metrics, history and notifications")
    interval: float = seconds(600, "Seconds between two reads of a machine's sensors", minimum=1)
    wait_timeout: float = seconds(300, "Seconds after which a sweep of a conductor's machines ends; the rest is read first by the next one", minimum=1)
    workers: int = count(64, "Number of BMCs whose sensors are read at a time", minimum=1)
    enable_for_undeployed_nodes: bool = option(False, "Read the sensors of nodes in all states, not only of active ones")
    history: int = count(60, "Readings of each sensor that are kept in the database, the newest ones; 0: only the last. Not in Ironic", maximum=1000)


@dataclass(frozen=True, slots=True)
class Fake:
    power_delay: str = fake_delay("power")
    boot_delay: str = fake_delay("boot")
    deploy_delay: str = fake_delay("deploy")
    vendor_delay: str = fake_delay("vendor")
    management_delay: str = fake_delay("management")
    inspect_delay: str = fake_delay("inspect")
    bios_delay: str = fake_delay("BIOS")
    rescue_delay: str = fake_delay("rescue")
    firmware_delay: str = fake_delay("firmware")
