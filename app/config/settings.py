"""
Settings by group, with defaults and meaning.

An option that Ironic has keeps Ironic's group and name. `INGOT_<GROUP>_<NAME>` sets it from the
environment (`INGOT_<NAME>` in group DEFAULT), `[group] name = value` from a TOML file. To add
a setting, add a line here; `app.config.options` reads its value.
"""

# ruff: noqa: E501, RUF009 - the groups are a table: an option, a line

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from app.config import options
from app.config.ironic_options import IRONIC_ONLY
from app.config.options import SettingsError, group, option
from drivers.core.kinds import KINDS
from drivers.inspection import hooks as inspection_hooks
from drivers.inspection import pci as inspection_pci
from drivers.inspection import rules as inspection_rules

__all__ = ["Described", "Settings", "SettingsError", "describe", "load"]

#: Accepted schemes of database URLs; the driver is not configurable.
DATABASES = ("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg")


def delay(text: str) -> None:
    """Check "a" or "a,b" seconds, fractions allowed, 0 <= a <= b."""
    number = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*"
    match = re.fullmatch(rf"{number}(?:,{number})?", text)
    if not match or float(match[1]) > float(match[2] or match[1]):
        raise ValueError(f"{text!r} is not a delay: 'a' or 'a,b' seconds with a <= b")


def database_url(url: str) -> None:
    scheme, colon, _ = url.partition("://")
    if url and (not colon or scheme not in DATABASES):
        raise ValueError(
            f"{scheme + colon if colon else 'a text without ://'} is not a supported database:"
            " expected SQLite (sqlite:///FILE) or PostgreSQL"
            " (postgresql://USER:PASSWORD@HOST/NAME)"
        )


def messages_url(url: str) -> None:
    if url and not url.startswith(("amqp://", "amqps://")):
        raise ValueError("expected a URL that begins with amqp:// or amqps://")


def kill_points(points: tuple[str, ...]) -> None:
    for point in points:
        if not re.fullmatch(r"[\w.:-]+=[\w.:/-]+", point):
            raise ValueError(f"{point!r} is not of the form name=action")


def must_be_false(value: bool) -> None:
    if value:
        raise ValueError("must be false: Ingot has no object store")


def cipher_suites(numbers: tuple[str, ...]) -> None:
    for number in numbers:
        if not re.fullmatch(r"\d{1,3}", number, re.ASCII) or int(number) > 255:
            raise ValueError(f"{number!r} is not a cipher suite: a number from 0 to 255")


def cidr_map(pairs: tuple[str, ...]) -> None:
    for pair in pairs:
        cidr, _, name = pair.rpartition(":")
        ipaddress.ip_network(cidr)
        if not name:
            raise ValueError(f"{pair!r} is not of the form CIDR:physical network")


def seconds(default: float, help: str, **about: Any) -> Any:  # noqa: A002 - as `option`
    return option(default, help, **{"minimum": 0, **about})


def count(default: int, help: str, **about: Any) -> Any:  # noqa: A002 - as `option`
    return option(default, help, **{"minimum": 0, **about})


def enabled(kind: str, but: str = "") -> Any:
    return option(None, f"{kind} interfaces that nodes may use; empty: all that are installed{but}")


def preferred(kind: str) -> Any:
    return option(None, f"{kind} interface of nodes without one, if their driver has it")


def fake_delay(kind: str) -> Any:
    about = "Duration of fake {} work in seconds: 'a', or 'a,b' for a random time"
    return option("0", about.format(kind), check=delay)


# fmt: off
@dataclass(frozen=True, slots=True)
class Default:
    """Group DEFAULT."""

    data_dir: str = option("", "Data directory of `ingot up`; empty: .ingot in the working directory, if it exists or can be created, else $XDG_STATE_HOME/ingot")
    host: str = option("", "Name of this conductor; empty: the host's name")
    my_ip: str = option("", "Address at which machines reach this host; empty: detected")
    auth_strategy: str = option("noauth", "Authentication of the API's callers", choices=("noauth", "http_basic", "keystone"))
    http_basic_auth_user_file: str = option("/etc/ingot/htpasswd", "htpasswd file, bcrypt only")
    debug_tracebacks_in_api: bool = option(False, "Show tracebacks to callers of the API")
    isolinux_bin: str = option("/usr/lib/ISOLINUX/isolinux.bin", "Boot loader for legacy BIOS in boot images")
    ldlinux_c32: str = option("/usr/lib/syslinux/modules/bios/ldlinux.c32", "Module that isolinux requires")
    esp_image: str | None = option(None, "Image of an EFI system partition for boot images; empty: made from efi_loader_by_arch")
    efi_loader_by_arch: dict[str, str] = option({"x86_64": "/usr/lib/grub/x86_64-efi/monolithic/gcdx64.efi", "aarch64": "/usr/lib/grub/arm64-efi/monolithic/gcdaa64.efi"}, "architecture:file pairs of UEFI boot loaders in boot images")
    grub_config_path: str = option("/boot/grub/grub.cfg", "Path in boot images from which the EFI boot loader reads its configuration")
    webserver_verify_ca: str = option("True", "CA file for image servers, or True: the system's, or False: no verification")
    webserver_connection_timeout: float = seconds(60, "Seconds for an image server to answer", minimum=1)
    log_level: str = option("info", "Lowest level of logged messages", choices=("debug", "info", "warning", "error"))
    log_format: str = option("auto", "Format of log lines: JSON, key=value, or auto: key=value on a terminal", choices=("auto", "json", "text"))
    default_conductor_group: str = option("", "Conductor group of nodes created without one")
    default_portgroup_mode: str = option("active-backup", "Mode of port groups created without one")
    default_resource_class: str | None = option(None, "Resource class of nodes created without one")
    rbac_service_role_elevated_access: bool = option(False, "Give the service role of rbac_service_project_name access to everything")
    rbac_service_project_name: str = option("service", "Project of rbac_service_role_elevated_access")
    kill_points: tuple[str, ...] = option((), "For tests: name=action of points in the code where a process dies or stalls", check=kill_points)
    enabled_hardware_types: tuple[str, ...] | None = option(None, "Hardware types (node.driver) to load; empty: all that are installed")
    enabled_bios_interfaces: tuple[str, ...] | None = enabled("bios")
    enabled_boot_interfaces: tuple[str, ...] | None = enabled("boot")
    enabled_console_interfaces: tuple[str, ...] | None = enabled("console")
    enabled_deploy_interfaces: tuple[str, ...] | None = enabled("deploy", but=", but for anaconda")
    enabled_firmware_interfaces: tuple[str, ...] | None = enabled("firmware")
    enabled_inspect_interfaces: tuple[str, ...] | None = enabled("inspect")
    enabled_management_interfaces: tuple[str, ...] | None = enabled("management")
    enabled_network_interfaces: tuple[str, ...] | None = enabled("network")
    enabled_power_interfaces: tuple[str, ...] | None = enabled("power")
    enabled_raid_interfaces: tuple[str, ...] | None = enabled("raid")
    enabled_rescue_interfaces: tuple[str, ...] | None = enabled("rescue")
    enabled_storage_interfaces: tuple[str, ...] | None = enabled("storage")
    enabled_vendor_interfaces: tuple[str, ...] | None = enabled("vendor")
    default_bios_interface: str | None = preferred("bios")
    default_boot_interface: str | None = preferred("boot")
    default_console_interface: str | None = preferred("console")
    default_deploy_interface: str | None = preferred("deploy")
    default_firmware_interface: str | None = preferred("firmware")
    default_inspect_interface: str | None = preferred("inspect")
    default_management_interface: str | None = preferred("management")
    default_network_interface: str | None = preferred("network")
    default_power_interface: str | None = preferred("power")
    default_raid_interface: str | None = preferred("raid")
    default_rescue_interface: str | None = preferred("rescue")
    default_storage_interface: str | None = preferred("storage")
    default_vendor_interface: str | None = preferred("vendor")

    @property
    def enabled_interfaces(self) -> dict[str, tuple[str, ...]]:
        """Accepted interface names by kind, without the kinds that accept all."""
        named = {kind: getattr(self, f"enabled_{kind}_interfaces") for kind in KINDS}
        return {kind: names for kind, names in named.items() if names}

    @property
    def default_interfaces(self) -> dict[str, str]:
        """Default interface name by kind, without the kinds that have none."""
        named = {kind: getattr(self, f"default_{kind}_interface") for kind in KINDS}
        return {kind: name for kind, name in named.items() if name}


@dataclass(frozen=True, slots=True)
class Database:
    connection: str = option("", "URL of a SQLite file (sqlite:///FILE) or of a PostgreSQL database (postgresql://USER:PASSWORD@HOST/NAME); empty: SQLite in the data directory", check=database_url, secret=True)
    max_pool_size: int = count(5, "Connections kept open per process", minimum=1)
    max_overflow: int = count(5, "Additional connections, closed after use")
    pool_timeout: float = seconds(30, "Seconds to wait for a free connection")
    busy_timeout: float = seconds(10, "Seconds that SQLite waits for its writer lock")
    connect_timeout: float = seconds(5, "Seconds to reach PostgreSQL", minimum=1)
    statement_timeout: float = seconds(15, "Seconds for PostgreSQL to execute a statement; 0: no limit")

    @property
    def limits(self) -> dict[str, Any]:
        """Pool sizes and timeouts: keyword arguments of `app.db.connections.connect`."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "connection"}


@dataclass(frozen=True, slots=True)
class Broker:
    url: str = option("", "Redis URL (redis://, rediss:// or redis+socket://); empty: `ingot up` starts its own", secret=True)
    messages_url: str = option("", "RabbitMQ URL (amqp:// or amqps://) for messages, so that Redis keeps leases and calls only; empty: Redis carries messages, too", check=messages_url, secret=True)
    prefix: str = option("ingot", "Prefix of all keys in Redis")
    connect_timeout: float = seconds(5, "Seconds to connect to Redis or RabbitMQ, and for an answer", minimum=0.1)
    events: bool = option(False, "Send task events to Flower; costs conductors time")


@dataclass(frozen=True, slots=True)
class Api:
    host_ip: str = option("127.0.0.1", "Address to listen on")
    port: int = option(6385, "Port to listen on; 0: any free one", minimum=0, maximum=65535)
    api_workers: int = count(2, "Processes that serve requests", minimum=1)
    blocking_threads: int = count(2, "Threads per process for requests that do not wait for conductors", minimum=1)
    waiting_threads: int = count(32, "Threads per process for requests that wait for conductors or ?wait=", minimum=1)
    backlog: int = count(1024, "Connections that may wait to be accepted", minimum=1)
    max_connections: int = count(10000, "Connections that a process keeps open at once; others wait until one is closed", minimum=1)
    keep_alive_time: float = seconds(200, "Seconds that a connection is kept open without a request; agents send heartbeats within 0.6 of ramdisk_heartbeat_timeout, on the same connection", minimum=1)
    body_timeout: float = seconds(10, "Seconds for the body of a request to arrive, plus one per MiB; then its connection is closed", minimum=0.1)
    max_limit: int = count(1000, "Most items on a page", minimum=1)
    public_endpoint: str | None = option(None, "Base URL of links; empty: the request's")
    enable_ssl_api: bool = option(False, "Serve HTTPS with cert_file and key_file")
    cert_file: str | None = option(None, "Certificate chain, PEM", deprecated=("ssl.cert_file",))
    key_file: str | None = option(None, "Key of the certificate, PEM, unencrypted", deprecated=("ssl.key_file",))
    enable_ramdisk_endpoints: bool = option(True, "Answer lookup, heartbeat and continue_inspection")
    restrict_lookup: bool = option(True, "Answer lookups only for nodes that expect an agent")
    lookup_repeat_time: float = seconds(600, "Seconds during which a repeated lookup from the same address returns the token again, until the first heartbeat, because the first answer may be lost; the default is how long agents retry; 0: never, as in Ironic")
    ramdisk_heartbeat_timeout: int = seconds(300, "Maximum seconds between heartbeats of an agent")
    ask_timeout: float = seconds(60, "Seconds to wait for a conductor's answer about hardware")
    max_wait: float = seconds(600, "Maximum seconds of ?wait=")
    idempotency_key_lifetime: float = seconds(86400, "Seconds for which the answer to a request with an Idempotency-Key is kept")
    disallow_clean_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that callers may not request for cleaning")
    disallow_deploy_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that callers may not request for deploying")
    disallow_service_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that callers may not request for servicing")
    disallowed_enrollment_boot_modes: tuple[str, ...] = option((), "Boot modes refused at enrolment")
    project_admin_can_manage_own_nodes: bool = option(True, "Admins of a project may create and delete nodes that it owns")


@dataclass(frozen=True, slots=True)
class Conductor:
    automated_clean: bool = option(True, "Clean nodes before they become available", deprecated=("conductor.clean_nodes", "conductor.automated_clean_enable", "DEFAULT.clean_nodes"))
    automated_cleaning_step_source: str = option("autogenerated", "Source of the steps of automated cleaning", choices=("autogenerated", "runbook", "hybrid"))
    automated_cleaning_runbook: str | None = option(None, "Runbook of automated cleaning, by name or UUID")
    automated_cleaning_runbook_by_resource_class: dict[str, str] = option({}, "resource class:runbook pairs")
    automated_cleaning_runbook_from_node: bool = option(False, "Let driver_info/cleaning_runbook of a node select the runbook")
    automated_cleaning_runbook_validate_traits: bool = option(True, "Use only runbooks that match a trait of the node")
    clean_step_priority_override: dict[str, float] = option({}, "interface.step:priority pairs of clean steps; 0 leaves a step out")
    verify_step_priority_override: dict[str, float] = option({}, "interface.step:priority pairs of verify steps; 0 leaves a step out")
    conductor_group: str = option("", "Conductor group that this conductor serves")
    workers_pool_size: int = count(16, "Threads that run steps", minimum=1)
    ask_threads: int = count(32, "Threads for calls from the API", minimum=1)
    max_concurrent_deploy: int = count(250, "Most nodes in deployment at a time; others wait", minimum=1)
    max_concurrent_clean: int = count(50, "Most nodes in cleaning or deletion at a time; others wait", minimum=1)
    max_concurrent_per_conductor_group: bool = option(True, "Apply max_concurrent_deploy and max_concurrent_clean to each conductor group, else to all groups together")
    graceful_shutdown_timeout: float = seconds(60, "Seconds for running steps to end at shutdown", deprecated=("DEFAULT.graceful_shutdown_timeout",))
    # liveness, ownership
    heartbeat_interval: float = seconds(5, "Seconds between a conductor's heartbeats", minimum=0.1)
    heartbeat_timeout: float = seconds(15, "Seconds without a heartbeat after which a conductor counts as dead", minimum=0.2)
    lease_ttl: float = seconds(10, "Seconds until a node's lease expires unless renewed", minimum=0.5)
    reconcile_interval: float = seconds(2, "Seconds between passes of the reconciler", minimum=0.1)
    resend_after: float = seconds(5, "Seconds before a message is sent again; doubles each time", minimum=0.1)
    step_timeout: float = seconds(600, "Seconds that one call of a step may take before the step is taken over", minimum=1)
    step_attempts: int = count(3, "Attempts of a step after transient errors", minimum=1)
    step_backoff: float = seconds(5, "Seconds before the second attempt; doubles each time")
    max_step_deaths: int = count(3, "Number of process deaths during a step after which it fails", minimum=1)
    max_conductor_wait_step_seconds: float = seconds(30, "Longest wait step run by a conductor")
    conductor_cleanup_interval: float = seconds(86400, "Seconds between removals of conductors dead for conductor_cleanup_timeout; 0: none")
    conductor_cleanup_timeout: float = seconds(1209600, "Seconds without a heartbeat after which a conductor is removed; at least three times heartbeat_timeout")
    # how long to wait
    deploy_callback_timeout: float = seconds(1800, "Seconds to wait for the agent in a deployment; 0: for ever")
    clean_callback_timeout: float = seconds(1800, "Seconds to wait for the agent in cleaning; 0: for ever")
    service_callback_timeout: float = seconds(1800, "Seconds to wait for the agent in service; 0: for ever")
    rescue_callback_timeout: float = seconds(1800, "Seconds to wait for the agent in rescue; 0: for ever")
    inspect_wait_timeout: float = seconds(1800, "Seconds to wait for the agent in an inspection; 0: for ever. Unlike in Ironic, time in a queue does not count")
    soft_power_off_timeout: float = seconds(600, "Seconds for a system to shut down", minimum=1)
    power_state_change_timeout: float = seconds(60, "Seconds for power to change", minimum=1)
    check_allocations_interval: float = seconds(5, "Seconds between searches for lost allocations")
    # power
    sync_power_state_interval: float = seconds(120, "Seconds between power syncs; 0: none")
    sync_power_state_workers: int = count(64, "Number of BMCs queried for power states at a time", minimum=1)
    power_state_sync_max_retries: int = count(3, "Number of failed power syncs after which a node goes into maintenance")
    force_power_state_during_sync: bool = option(True, "Correct a machine's power to the recorded state; else record the actual state")
    power_failure_recovery_interval: float = seconds(300, "Seconds between checks for the recovery of failed BMCs; 0: none")
    power_off_after_manage: bool = option(False, "Power machines off after verification")
    poweroff_in_servicefail: bool = option(False, "Power off if service failed before its first step")
    poweroff_in_cleanfail: bool = option(False, "Power off if cleaning failed before its first step")
    # rules
    allow_provisioning_in_maintenance: bool = option(True, "Accept deployment and cleaning of nodes in maintenance; they pause")
    allow_deleting_available_nodes: bool = option(True, "Allow deletion of available nodes")
    node_locked_retry_attempts: int = count(3, "Attempts before a 409 for a locked node")
    node_locked_retry_interval: float = seconds(1, "Seconds between these attempts")
    disable_deep_image_inspection: bool = option(False, "Trust the declared format of images")
    permitted_image_formats: tuple[str, ...] = option(("raw", "gpt", "qcow2", "iso"), "Image formats that may be deployed")
    file_url_allowed_paths: tuple[str, ...] = option(("/var/lib/ingot-images",), "Directories below which file URLs may name regular files; files below /dev, /proc, /sys, /run, /etc, /boot and the data directory are always refused")
    disallowed_deployment_boot_modes: tuple[str, ...] = option((), "Boot modes refused at deployment")
    automatic_lessee: bool = option(True, "Make the project that deploys a node its lessee")
    automatic_lessee_source: str = option("instance", "Source of the lessee", choices=("instance", "request", "none"))
    permit_child_node_step_async_result: bool = option(False, "Do not wait for the end of steps on child nodes")
    enable_health_monitoring: bool = option(True, "Read the health of machines in power syncs")
    # the ramdisk
    deploy_kernel: str | None = option(None, "URL of the agent's kernel for nodes without deploy_kernel")
    deploy_ramdisk: str | None = option(None, "URL of the agent's ramdisk for nodes without deploy_ramdisk")
    deploy_kernel_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    deploy_ramdisk_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    rescue_kernel: str | None = option(None, "URL of the rescue kernel")
    rescue_ramdisk: str | None = option(None, "URL of the rescue ramdisk")
    rescue_kernel_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    rescue_ramdisk_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    rescue_password_hash_algorithm: str = option("sha256", "Hash of rescue passwords", choices=("sha256", "sha512"))
    bootloader: str | None = option(None, "URL of an EFI system partition image for ISO images")
    bootloader_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    # history
    node_history: bool = option(True, "Record the history of nodes")
    node_history_max_entries: int = count(300, "Entries kept per node; 0: all")
    node_history_cleanup_interval: float = seconds(86400, "Seconds between prunings; 0: none")
    node_history_cleanup_batch_count: int = count(1000, "Entries removed per transaction; 0: none")
    record_step_flows_in_history: bool = option(True, "Record the beginning and end of flows in the history")
    node_history_minimum_days: int = count(0, "Days for which no entry is removed")


@dataclass(frozen=True, slots=True)
class Deploy:
    http_url: str | None = option(None, "URL at which machines fetch files from this conductor; empty: `ingot up` serves them itself, and other roles expect `ingot files` at http_port")
    http_root: str = option("", "Directory served at http_url; empty: httpboot in the data directory")
    served_group: str = option("", "Group with read access to http_root and [pxe]tftp_root, for web and TFTP servers of other users; empty: only the user of the service")
    http_port: int = option(0, "Port at which `ingot up` and `ingot files` serve http_root; 0: any free one", minimum=0, maximum=65535)
    external_http_url: str | None = option(None, "URL at which BMCs fetch files from this conductor; empty: http_url")
    external_callback_url: str | None = option(None, "URL of the API for agents booted from images; empty: [api]public_endpoint")
    fast_track: bool = option(False, "Use a running agent without a reboot")
    fast_track_timeout: float = seconds(300, "Maximum age of the last heartbeat of a running agent, in seconds")
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
    verify_ca: str = option("True", "CA file for agents that announce no certificate, or True: the system's, or False: no verification")
    api_ca_file: str | None = option(None, "CA file of the API, put on boot images for agents")
    command_timeout: float = seconds(60, "Seconds for an agent to accept a command", minimum=1)
    max_command_attempts: int = count(3, "Attempts of a command after network errors", minimum=1)
    poll_interval: float = seconds(1, "Seconds between the first polls of a command; the interval grows", minimum=0.05)
    max_poll_interval: float = seconds(30, "Maximum seconds between polls", minimum=0.05)
    image_download_source: str = option("http", "http: agents fetch images themselves; local: conductors keep copies", choices=("http", "local"))
    stream_raw_images: bool = option(True, "Write raw images without a copy in memory")
    memory_consumed_by_agent: int = count(0, "Memory of the ramdisk itself, in MiB")
    manage_agent_boot: bool = option(True, "Boot the ramdisk by Ingot; else the site's own boot server does")
    deploy_logs_collect: str = option("on_failure", "When to keep the agent's logs", choices=("always", "on_failure", "never"))
    deploy_logs_local_path: str = option("", "Directory of agent logs; empty: in the data directory")
    post_deploy_get_power_state_retries: int = count(6, "Number of checks for the shutdown of the agent")
    post_deploy_get_power_state_retry_interval: float = seconds(5, "Seconds between these checks")
    enable_bios_bootloader_install: bool = option(False, "Install a boot loader for legacy BIOS")
    tls_minimum_version: str = option("1.3", "Lowest TLS version that agents offer", choices=("1.2", "1.3"))
    tls_ciphers: str | None = option(None, "OpenSSL cipher list that agents offer")
    allow_md5_checksum: bool = option(True, "Allow MD5 checksums of images")


@dataclass(frozen=True, slots=True)
class Pxe:
    tftp_root: str = option("", "Directory of the TFTP server; empty: tftpboot in the data directory")
    tftp_server: str = option("", "Address of the TFTP server, if it differs from the DHCP server's")
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
    boot_file_sweep_interval: float = seconds(300, "Seconds between removals of boot files that no node needs; 0: none")
    default_ephemeral_format: str = option("ext4", "File system of ephemeral partitions")
    enable_netboot_fallback: bool = option(False, "Let machines that ignore the boot device continue from the network to their disk")


@dataclass(frozen=True, slots=True)
class Anaconda:
    default_ks_template: str | None = option(None, "URL of the kickstart template; a file must lie in [conductor]file_url_allowed_paths; empty: the built-in one")
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
    boot_mode_config_timeout: float = seconds(900, "Seconds for a change of boot mode or secure boot, including a restart; 0: do not wait")
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

    failure_threshold: int = count(3, "Consecutive failures after which a BMC is not contacted for retry_after", minimum=1)
    retry_after: float = seconds(5, "First pause in seconds; doubles each time")
    max_retry_after: float = seconds(300, "Maximum pause in seconds")


@dataclass(frozen=True, slots=True)
class Inspector:
    power_off: bool = option(True, "Power a node off after inspection")
    extra_kernel_params: str = option("", "Kernel arguments of the inspection ramdisk")
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


@dataclass(frozen=True, slots=True)
class InspectionRules:
    built_in_rules: str | None = option(None, "YAML file of built-in rules", check=inspection_rules.read)
    mask_secrets: str = option("always", "Hide passwords from rules", choices=("always", "never", "sensitive"))
    supported_inspect_interfaces: tuple[str, ...] = option(("agent",), "Inspect interfaces that run rules")


@dataclass(frozen=True, slots=True)
class Inventory:
    data_backend: str = option("database", "Storage of inventories", choices=("database", "none"))


@dataclass(frozen=True, slots=True)
class Healthcheck:
    enabled: bool = option(True, "Answer GET /healthcheck")


@dataclass(frozen=True, slots=True)
class KeystoneAuthtoken:
    auth_url: str | None = option(None, "Keystone's URL")
    www_authenticate_uri: str | None = option(None, "Keystone's URL for callers, in WWW-Authenticate")
    auth_type: str = option("password", "Plugin of keystoneauth", deprecated=("keystone_authtoken.auth_plugin",))
    username: str | None = option(None, "User name of the service")
    password: str | None = option(None, "Password of the service", secret=True)
    user_domain_name: str = option("Default", "Domain of the user")
    user_domain_id: str | None = option(None, "Domain of the user, by ID")
    project_name: str = option("service", "Project of the service")
    project_domain_name: str = option("Default", "Domain of the project")
    project_domain_id: str | None = option(None, "Domain of the project, by ID")
    system_scope: str | None = option(None, "all: use a system-scoped token instead of a project's", choices=("all",))
    application_credential_id: str | None = option(None, "Application credential of the service, for auth_type v3applicationcredential")
    application_credential_secret: str | None = option(None, "Secret of the application credential", secret=True)
    region_name: str | None = option(None, "Region")
    interface: str = option("internal", "Interface of Keystone's endpoint")
    cafile: str | None = option(None, "CA file for Keystone")
    certfile: str | None = option(None, "Client certificate for Keystone")
    keyfile: str | None = option(None, "Key of the client certificate")
    insecure: bool = option(False, "Do not verify Keystone's certificate")
    memcached_servers: tuple[str, ...] = option((), "host:port of token caches")
    token_cache_time: int = seconds(300, "Seconds for which a validated token is cached")
    service_token_roles: tuple[str, ...] = option(("service",), "Roles of a service token")
    service_token_roles_required: bool = option(True, "Reject service tokens without these roles")
    service_type: str | None = option("baremetal", "Service type in access rules of application credentials")
    http_connect_timeout: int | None = option(None, "Seconds for Keystone to answer", minimum=1)
    http_request_max_retries: int = count(3, "Attempts to reach Keystone")


@dataclass(frozen=True, slots=True)
class OsloPolicy:
    policy_file: str = option("/etc/ingot/policy.yaml", "Rules that replace those of docs/policy.md, YAML; read again when it changes")
    policy_dirs: tuple[str, ...] = option(("/etc/ingot/policy.d",), "Directories of additional policy files")
    enforce_scope: bool = option(True, "Refuse tokens whose scope the rule does not list")


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


# fmt: on
@dataclass(frozen=True)
class Settings:
    """All settings. `Settings()` has the defaults; `load` reads configured values."""

    default: Default = group(Default, "DEFAULT")
    database: Database = group(Database)
    broker: Broker = group(Broker)
    api: Api = group(Api)
    conductor: Conductor = group(Conductor)
    deploy: Deploy = group(Deploy)
    agent: Agent = group(Agent)
    pxe: Pxe = group(Pxe)
    anaconda: Anaconda = group(Anaconda)
    redfish: Redfish = group(Redfish)
    ipmi: Ipmi = group(Ipmi)
    bmc: Bmc = group(Bmc)
    inspector: Inspector = group(Inspector)
    auto_discovery: AutoDiscovery = group(AutoDiscovery)
    inspection_rules: InspectionRules = group(InspectionRules)
    inventory: Inventory = group(Inventory)
    healthcheck: Healthcheck = group(Healthcheck)
    keystone_authtoken: KeystoneAuthtoken = group(KeystoneAuthtoken)
    oslo_policy: OsloPolicy = group(OsloPolicy)
    fake: Fake = group(Fake)
    #: "group.name" -> source of its value, for `ingot config`
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: lines for the log
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def options(self) -> dict[str, dict[str, Any]]:
        """Values by group and name, for `drivers.core.target.Target.options`."""
        return {
            name: {each.name: getattr(getattr(self, attribute), each.name) for each in fields(kind)}
            for attribute, name, kind in options.groups(Settings)
        }


@dataclass(frozen=True, slots=True)
class Described:
    """A setting with its value, for `ingot config`; secrets are masked."""

    group: str
    name: str
    variable: str
    value: Any
    default: Any
    help: str
    choices: tuple[str, ...]
    origin: str


def load(
    environ: Mapping[str, str],
    path: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """
    Read the settings from flags ("group.name": value), environment, TOML file and defaults.

    Raises SettingsError: a setting is wrong; the message is one line that names it.
    """
    loaded = options.load(Settings, environ, path, flags, IRONIC_ONLY)
    made = {
        attribute: kind(**loaded.values[name]) for attribute, name, kind in options.groups(Settings)
    }
    settings = Settings(**made, origins=loaded.origins, warnings=loaded.warnings)
    if settings.conductor.heartbeat_timeout < 2 * settings.conductor.heartbeat_interval:
        raise SettingsError(
            f"[conductor]heartbeat_timeout: {settings.conductor.heartbeat_timeout:g} is less than"
            f" twice heartbeat_interval, which is {settings.conductor.heartbeat_interval:g}"
        )
    if settings.conductor.conductor_cleanup_timeout < 3 * settings.conductor.heartbeat_timeout:
        raise SettingsError(
            "[conductor]conductor_cleanup_timeout:"
            f" {settings.conductor.conductor_cleanup_timeout:g} is less than three times"
            f" heartbeat_timeout, which is {settings.conductor.heartbeat_timeout:g}"
        )
    return settings


def describe(settings: Settings) -> Iterator[Described]:
    """Yield all settings with their values, in the order of declaration."""
    values = settings.options()
    for each in options.options(Settings):
        value = values[each.group][each.name]
        yield Described(
            group=each.group,
            name=each.name,
            variable=each.variable,
            value=masked(value) if each.about.secret else value,
            default=each.default,
            help=each.about.help,
            choices=each.about.choices,
            origin=settings.origins.get(f"{each.group}.{each.name}", "default"),
        )


def masked(value: str | None) -> str | None:
    """Mask a secret; of a URL, the password only."""
    if value and "://" in value:
        return re.sub(r"(://[^/@]*?:)[^/]*@", r"\1******@", value)
    return "******" if value else value
