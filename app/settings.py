"""
Settings: what can be set, group by group, with defaults and meaning.

An option that Ironic has keeps Ironic's group and name. `INGOT_<GROUP>_<NAME>` sets it from the
environment (`INGOT_<NAME>` in group DEFAULT), `[group] name = value` from a TOML file. Adding a
setting is adding a line here; `app.options` knows how it gets its value.
"""

# ruff: noqa: E501, RUF009 - the groups are a table: an option, a line

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from app import options
from app.ironic_options import IRONIC_ONLY
from app.options import SettingsError, group, option
from drivers.core.kinds import KINDS
from drivers.inspection import hooks as inspection_hooks
from drivers.inspection import pci as inspection_pci
from drivers.inspection import rules as inspection_rules

__all__ = ["Described", "Settings", "SettingsError", "describe", "load"]

#: What database URLs begin with; which driver is used is not a choice.
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
            f"{scheme + colon if colon else 'a text without ://'} is no database that is supported:"
            " those are SQLite (sqlite:///FILE) and PostgreSQL"
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
        raise ValueError("there is no object store here: it must be false")


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
    return option(None, f"The {kind} interfaces that nodes may use; empty: all that are built{but}")


def preferred(kind: str) -> Any:
    return option(None, f"The {kind} interface of nodes that name none, where their driver has it")


def fake_delay(kind: str) -> Any:
    about = "Seconds that fake {} work takes: 'a', or 'a,b' for a random time"
    return option("0", about.format(kind), check=delay)


# fmt: off
@dataclass(frozen=True, slots=True)
class Default:
    """Group DEFAULT."""

    data_dir: str = option("", "Where `ingot up` keeps all that lasts; empty: .ingot here, if it exists or can be made, else $XDG_STATE_HOME/ingot")
    host: str = option("", "The name of this conductor; empty: the host's name")
    my_ip: str = option("", "This host's address as machines reach it; empty: found out")
    auth_strategy: str = option("noauth", "How callers of the API prove who they are", choices=("noauth", "http_basic", "keystone"))
    http_basic_auth_user_file: str = option("/etc/ingot/htpasswd", "htpasswd file, bcrypt only")
    debug_tracebacks_in_api: bool = option(False, "Show tracebacks to callers of the API")
    isolinux_bin: str = option("/usr/lib/ISOLINUX/isolinux.bin", "What legacy BIOS boots of the images that are made for BMCs")
    ldlinux_c32: str = option("/usr/lib/syslinux/modules/bios/ldlinux.c32", "What isolinux needs to run")
    esp_image: str | None = option(None, "Image of an EFI system partition for those images; empty: made of the next")
    efi_loader_by_arch: dict[str, str] = option({"x86_64": "/usr/lib/grub/x86_64-efi/monolithic/gcdx64.efi", "aarch64": "/usr/lib/grub/arm64-efi/monolithic/gcdaa64.efi"}, "architecture:file pairs of what UEFI boots of those images")
    grub_config_path: str = option("/boot/grub/grub.cfg", "Where on those images the boot loader in the EFI system partition looks for its configuration")
    webserver_verify_ca: str = option("True", "CA file for servers of images, or True: the system's, or False: none")
    webserver_connection_timeout: float = seconds(60, "Seconds for a server of images to answer", minimum=1)
    log_level: str = option("info", "The least severe messages to log", choices=("debug", "info", "warning", "error"))
    log_format: str = option("auto", "JSON lines, key=value, or whichever suits standard error", choices=("auto", "json", "text"))
    default_conductor_group: str = option("", "Conductor group of nodes created with none")
    default_portgroup_mode: str = option("active-backup", "Mode of port groups created with none")
    default_resource_class: str | None = option(None, "Resource class of nodes created with none")
    rbac_service_role_elevated_access: bool = option(False, "Let the service role of one project do everything")
    rbac_service_project_name: str = option("service", "That project")
    kill_points: tuple[str, ...] = option((), "For tests: name=action of points in the code at which a process dies or stalls", check=kill_points)
    enabled_hardware_types: tuple[str, ...] | None = option(None, "The hardware types (node.driver) to load; empty: all that are built")
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
        """kind -> the only names to accept; kinds without limit are missing."""
        named = {kind: getattr(self, f"enabled_{kind}_interfaces") for kind in KINDS}
        return {kind: names for kind, names in named.items() if names}

    @property
    def default_interfaces(self) -> dict[str, str]:
        """kind -> the name to prefer; kinds without preference are missing."""
        named = {kind: getattr(self, f"default_{kind}_interface") for kind in KINDS}
        return {kind: name for kind, name in named.items() if name}


@dataclass(frozen=True, slots=True)
class Database:
    connection: str = option("", "URL of a SQLite file (sqlite:///FILE) or of a PostgreSQL database (postgresql://USER:PASSWORD@HOST/NAME); empty: SQLite in the data directory", check=database_url, secret=True)
    max_pool_size: int = count(5, "Connections kept open per process", minimum=1)
    max_overflow: int = count(5, "Connections beyond those, closed after use")
    pool_timeout: float = seconds(30, "Seconds to wait for a free connection")
    busy_timeout: float = seconds(10, "Seconds that SQLite waits for its writer")
    connect_timeout: float = seconds(5, "Seconds to reach PostgreSQL", minimum=1)
    statement_timeout: float = seconds(15, "Seconds for PostgreSQL to carry out a statement; 0: no limit")

    @property
    def limits(self) -> dict[str, Any]:
        """All but where it is, as `app.db.connect` takes it."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "connection"}


@dataclass(frozen=True, slots=True)
class Broker:
    url: str = option("", "Redis URL (redis://, rediss:// or redis+socket://); empty: `ingot up` starts its own", secret=True)
    messages_url: str = option("", "RabbitMQ URL (amqp:// or amqps://) to carry messages instead of Redis, which then keeps leases and questions only; empty: Redis carries them, too", check=messages_url, secret=True)
    prefix: str = option("ingot", "What every key in Redis begins with")
    connect_timeout: float = seconds(5, "Seconds to reach Redis or RabbitMQ, and for it to answer", minimum=0.1)
    events: bool = option(False, "Tell Flower of every task; costs conductors time")


@dataclass(frozen=True, slots=True)
class Api:
    host_ip: str = option("127.0.0.1", "Address to listen on")
    port: int = option(6385, "Port to listen on; 0: any free one", minimum=0, maximum=65535)
    api_workers: int = count(2, "Processes that serve requests", minimum=1)
    blocking_threads: int = count(2, "Threads per process for requests that answer at once", minimum=1)
    waiting_threads: int = count(32, "Threads per process for requests that wait for something", minimum=1)
    backlog: int = count(1024, "Connections that may wait to be accepted", minimum=1)
    max_connections: int = count(10000, "Connections that a process keeps open at once; others wait until one is closed", minimum=1)
    keep_alive_time: float = seconds(200, "Seconds for which a connection is kept open without a request; agents call again within 0.6 of ramdisk_heartbeat_timeout, and do so on the same one", minimum=1)
    body_timeout: float = seconds(10, "Seconds for the body of a request to arrive, and one more for each MiB of it; then its connection is closed", minimum=0.1)
    max_limit: int = count(1000, "Most items on a page", minimum=1)
    public_endpoint: str | None = option(None, "The URL to build links with; empty: the request's")
    enable_ssl_api: bool = option(False, "Serve HTTPS with the certificate below")
    cert_file: str | None = option(None, "Certificate chain, PEM", deprecated=("ssl.cert_file",))
    key_file: str | None = option(None, "Key of the certificate, PEM, unencrypted", deprecated=("ssl.key_file",))
    enable_ramdisk_endpoints: bool = option(True, "Answer lookup, heartbeat and continue_inspection")
    restrict_lookup: bool = option(True, "Answer lookups only for nodes that expect an agent")
    lookup_repeat_time: float = seconds(600, "Seconds in which an agent that has not called yet gets its token again at the same address, as the answer to its lookup may be lost; the default is how long agents ask; 0: never, as in Ironic")
    ramdisk_heartbeat_timeout: int = seconds(300, "Longest seconds between heartbeats of an agent")
    ask_timeout: float = seconds(60, "Seconds to wait for a conductor's answer about hardware")
    max_wait: float = seconds(600, "Longest seconds that ?wait= may ask for")
    idempotency_key_lifetime: float = seconds(86400, "Seconds that the answer to a request with an Idempotency-Key is remembered")
    disallow_clean_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that no caller may ask for when cleaning")
    disallow_deploy_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that no caller may ask for when deploying")
    disallow_service_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that no caller may ask for when servicing")
    disallowed_enrollment_boot_modes: tuple[str, ...] = option((), "Boot modes of nodes that are refused")
    project_admin_can_manage_own_nodes: bool = option(True, "Admins of a project may create and delete nodes that it owns")


@dataclass(frozen=True, slots=True)
class Conductor:
    automated_clean: bool = option(True, "Clean nodes before they become available", deprecated=("conductor.clean_nodes", "conductor.automated_clean_enable", "DEFAULT.clean_nodes"))
    automated_cleaning_step_source: str = option("autogenerated", "Where the steps of automated cleaning come from", choices=("autogenerated", "runbook", "hybrid"))
    automated_cleaning_runbook: str | None = option(None, "Runbook that cleans, by name or UUID")
    automated_cleaning_runbook_by_resource_class: dict[str, str] = option({}, "resource class:runbook pairs")
    automated_cleaning_runbook_from_node: bool = option(False, "Let driver_info/cleaning_runbook of a node choose")
    automated_cleaning_runbook_validate_traits: bool = option(True, "Clean only by runbooks that match a trait of the node")
    clean_step_priority_override: dict[str, float] = option({}, "interface.step:priority pairs of clean steps; 0 leaves a step out")
    verify_step_priority_override: dict[str, float] = option({}, "interface.step:priority pairs of verify steps; 0 leaves a step out")
    conductor_group: str = option("", "The group of nodes that this conductor serves")
    workers_pool_size: int = count(16, "Threads that run steps", minimum=1)
    ask_threads: int = count(32, "Threads that answer what the API asks about machines", minimum=1)
    max_concurrent_deploy: int = count(250, "Nodes being deployed at once; others wait", minimum=1)
    max_concurrent_clean: int = count(50, "Nodes being cleaned or deleted at once; others wait", minimum=1)
    max_concurrent_per_conductor_group: bool = option(True, "Those two count for each conductor group; else for all of them together")
    graceful_shutdown_timeout: float = seconds(60, "Seconds for running steps to end at shutdown", deprecated=("DEFAULT.graceful_shutdown_timeout",))
    # liveness, ownership
    heartbeat_interval: float = seconds(5, "Seconds between a conductor's signs of life", minimum=0.1)
    heartbeat_timeout: float = seconds(15, "Seconds of silence after which a conductor is dead", minimum=0.2)
    lease_ttl: float = seconds(10, "Seconds that a node's lease lasts unrenewed", minimum=0.5)
    reconcile_interval: float = seconds(2, "Seconds between looks for work that got lost", minimum=0.1)
    resend_after: float = seconds(5, "Seconds before a message is sent again; doubles each time", minimum=0.1)
    step_timeout: float = seconds(600, "Seconds that one call of a step may take before it is taken over", minimum=1)
    step_attempts: int = count(3, "Tries of a step whose machine or agent is out of reach for a moment", minimum=1)
    step_backoff: float = seconds(5, "Seconds before the second of those tries; doubles each time")
    max_step_deaths: int = count(3, "Deaths of its process after which a step fails", minimum=1)
    max_conductor_wait_step_seconds: float = seconds(30, "Longest wait step run by a conductor")
    conductor_cleanup_interval: float = seconds(86400, "Seconds between removals of conductors that died long ago; 0: none")
    conductor_cleanup_timeout: float = seconds(1209600, "Seconds of silence after which one is removed; at least three times heartbeat_timeout")
    # how long to wait
    deploy_callback_timeout: float = seconds(1800, "Seconds to wait for the agent; 0: for ever")
    clean_callback_timeout: float = seconds(1800, "As above, while cleaning")
    service_callback_timeout: float = seconds(1800, "As above, while servicing")
    rescue_callback_timeout: float = seconds(1800, "As above, while rescuing")
    inspect_wait_timeout: float = seconds(1800, "As above, in an inspection; not since that began, as in Ironic: it may have been in a queue")
    soft_power_off_timeout: float = seconds(600, "Seconds for a system to shut down", minimum=1)
    power_state_change_timeout: float = seconds(60, "Seconds for power to change", minimum=1)
    check_allocations_interval: float = seconds(5, "Seconds between looks for allocations that got lost")
    # power
    sync_power_state_interval: float = seconds(120, "Seconds between power sweeps; 0: none")
    sync_power_state_workers: int = count(64, "BMCs asked for their power state at once", minimum=1)
    power_state_sync_max_retries: int = count(3, "Failed sweeps after which a node goes into maintenance")
    force_power_state_during_sync: bool = option(True, "Make a machine's power as recorded; else record what it is")
    power_failure_recovery_interval: float = seconds(300, "Seconds between looks whether BMCs that failed answer again; 0: none")
    power_off_after_manage: bool = option(False, "Power machines off once verified")
    poweroff_in_servicefail: bool = option(False, "Power off when servicing failed before any step")
    poweroff_in_cleanfail: bool = option(False, "Power off when cleaning failed before any step")
    # rules
    allow_provisioning_in_maintenance: bool = option(True, "Begin to deploy or clean nodes in maintenance; they pause")
    allow_deleting_available_nodes: bool = option(True, "Delete nodes that are available")
    node_locked_retry_attempts: int = count(3, "Tries before a 409 for a locked node")
    node_locked_retry_interval: float = seconds(1, "Seconds between those tries")
    disable_deep_image_inspection: bool = option(False, "Trust an image's declared format")
    permitted_image_formats: tuple[str, ...] = option(("raw", "gpt", "qcow2", "iso"), "Image formats that may be deployed")
    file_url_allowed_paths: tuple[str, ...] = option(("/var/lib/ingot-images",), "Directories below which file URLs may name regular files; those below /dev, /proc, /sys, /run, /etc, /boot and the data directory are refused all the same")
    disallowed_deployment_boot_modes: tuple[str, ...] = option((), "Boot modes that are not deployed")
    automatic_lessee: bool = option(True, "Make the project that deploys a node its lessee")
    automatic_lessee_source: str = option("instance", "Who that is", choices=("instance", "request", "none"))
    permit_child_node_step_async_result: bool = option(False, "Do not wait for steps of child nodes")
    enable_health_monitoring: bool = option(True, "Read the health of machines in power sweeps")
    # the ramdisk
    deploy_kernel: str | None = option(None, "URL of the agent's kernel, where a node has none")
    deploy_ramdisk: str | None = option(None, "URL of the agent's ramdisk")
    deploy_kernel_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    deploy_ramdisk_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    rescue_kernel: str | None = option(None, "URL of the kernel to rescue with")
    rescue_ramdisk: str | None = option(None, "URL of the ramdisk to rescue with")
    rescue_kernel_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    rescue_ramdisk_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    rescue_password_hash_algorithm: str = option("sha256", "Hash of rescue passwords", choices=("sha256", "sha512"))
    bootloader: str | None = option(None, "URL of an EFI system partition image for ISO images")
    bootloader_by_arch: dict[str, str] = option({}, "architecture:URL pairs")
    # history
    node_history: bool = option(True, "Record what happens to nodes")
    node_history_max_entries: int = count(300, "Entries kept per node; 0: all")
    node_history_cleanup_interval: float = seconds(86400, "Seconds between prunings; 0: none")
    node_history_cleanup_batch_count: int = count(1000, "Entries removed in one go; 0: none")
    record_step_flows_in_history: bool = option(True, "Record the beginning and end of steps there")
    node_history_minimum_days: int = count(0, "Days for which an entry is kept whatever happens")


@dataclass(frozen=True, slots=True)
class Deploy:
    http_url: str | None = option(None, "URL at which machines fetch files from this conductor; empty: `ingot up` serves them itself, and others believe that `ingot files` does at http_port")
    http_root: str = option("", "The directory that is served there; empty: httpboot in the data directory")
    served_group: str = option("", "Group of a web or TFTP server of another user, which may then read http_root and [pxe]tftp_root; empty: only the user of the service reads them")
    http_port: int = option(0, "Port at which `ingot up` and `ingot files` serve it; 0: any free one", minimum=0, maximum=65535)
    external_http_url: str | None = option(None, "The same, as BMCs reach it")
    external_callback_url: str | None = option(None, "URL of the API for agents outside")
    fast_track: bool = option(False, "Go on with an agent that already runs, without a reboot")
    fast_track_timeout: float = seconds(300, "Age of a heartbeat up to which an agent still runs")
    default_boot_mode: str = option("uefi", "Boot mode of nodes that say none", choices=("uefi", "bios"))
    power_off_after_deploy_failure: bool = option(True, "Power a node off when deploying failed")
    erase_devices_priority: float | None = option(None, "Priority of erasing whole disks; empty: the agent's; 0: not at all")
    erase_devices_metadata_priority: float | None = option(None, "The same, of erasing partition tables")
    delete_configuration_priority: float | None = option(None, "The same, of deleting RAID")
    create_configuration_priority: float | None = option(None, "The same, of creating RAID")
    shred_random_overwrite_iterations: int = count(1, "Random passes over a disk")
    shred_final_overwrite_with_zeros: bool = option(True, "One more pass of zeros")
    continue_if_disk_secure_erase_fails: bool = option(False, "Overwrite when secure erase fails")
    disk_erasure_concurrency: int = count(4, "Disks erased at once", minimum=1)
    enable_ata_secure_erase: bool = option(True, "Use ATA secure erase")
    enable_nvme_secure_erase: bool = option(True, "Use NVMe format")
    erase_skip_read_only: bool = option(False, "Leave out read-only disks instead of failing")
    configdrive_use_object_store: bool = option(False, "Not available: must stay false", check=must_be_false)


@dataclass(frozen=True, slots=True)
class Agent:
    require_tls: bool = option(True, "Refuse agents that do not speak HTTPS")
    verify_ca: str = option("True", "CA file for agents that announce no certificate, or True: the system's, or False: none")
    api_ca_file: str | None = option(None, "CA of the API, handed to agents at boot")
    command_timeout: float = seconds(60, "Seconds for an agent to take a command", minimum=1)
    max_command_attempts: int = count(3, "Tries of a command when the network fails", minimum=1)
    poll_interval: float = seconds(1, "Seconds between first polls of a command; the gaps grow", minimum=0.05)
    max_poll_interval: float = seconds(30, "Longest seconds between polls", minimum=0.05)
    image_download_source: str = option("http", "http: agents fetch images themselves; local: conductors keep copies", choices=("http", "local"))
    stream_raw_images: bool = option(True, "Write raw images without a copy in memory")
    memory_consumed_by_agent: int = count(0, "MiB that the ramdisk itself needs")
    manage_agent_boot: bool = option(True, "Ingot boots the ramdisk")
    deploy_logs_collect: str = option("on_failure", "When to keep the agent's logs", choices=("always", "on_failure", "never"))
    deploy_logs_local_path: str = option("", "Where; empty: in the data directory")
    post_deploy_get_power_state_retries: int = count(6, "Looks whether a system has shut down")
    post_deploy_get_power_state_retry_interval: float = seconds(5, "Seconds between those looks")
    enable_bios_bootloader_install: bool = option(False, "Install a boot loader for legacy BIOS")
    tls_minimum_version: str = option("1.3", "Least TLS version that agents offer", choices=("1.2", "1.3"))
    tls_ciphers: str | None = option(None, "OpenSSL cipher list that agents offer")
    allow_md5_checksum: bool = option(True, "Let agents check images by MD5")


@dataclass(frozen=True, slots=True)
class Pxe:
    tftp_root: str = option("", "The directory that the TFTP server serves; empty: tftpboot in the data directory")
    tftp_server: str = option("", "Its address, where it is not that of the DHCP server")
    kernel_append_params: str = option("nofb vga=normal", "Kernel arguments of systems booted", deprecated=("pxe.pxe_append_params",))
    instance_master_path: str = option("", "Copies of kernels, ramdisks and boot loaders; empty: master_images in the data directory", deprecated=("pxe.tftp_master_path",))
    image_cache_size: int = count(20480, "MiB of those copies")
    image_cache_ttl: int = count(10080, "Minutes that an unused copy is kept")
    loader_file_paths: dict[str, str] = option({}, "name:file pairs of boot loaders that are handed out by TFTP and HTTP")
    ipxe_timeout: int = seconds(0, "Seconds for iPXE to download an image; 0: for ever")
    ipxe_bootfile_name: str = option("undionly.kpxe", "What legacy BIOS boots to get iPXE")
    uefi_ipxe_bootfile_name: str = option("snponly.efi", "What UEFI boots to get iPXE")
    pxe_bootfile_name: str = option("pxelinux.0", "What legacy BIOS boots without iPXE")
    uefi_pxe_bootfile_name: str = option("bootx64.efi", "What UEFI boots without iPXE")
    pxe_bootfile_name_by_arch: dict[str, str] = option({}, "architecture:name pairs of what machines of others boot without iPXE")
    ipxe_bootfile_name_by_arch: dict[str, str] = option({"aarch64": "snponly-arm64.efi"}, "architecture:name pairs of what machines of others boot to get iPXE")
    pxe_config_subdir: str = option("pxelinux.cfg", "Directory of per-machine boot files")
    boot_retry_timeout: float | None = option(None, "Seconds without an agent after which the boot is tried again; empty: never", minimum=1)
    boot_retry_check_interval: float = seconds(90, "Seconds between looks for that", minimum=1)
    boot_file_sweep_interval: float = seconds(300, "Seconds between removals of boot files that no node needs; 0: none")
    default_ephemeral_format: str = option("ext4", "File system of ephemeral partitions")
    enable_netboot_fallback: bool = option(False, "Let machines that boot from the network in spite of all go on to their disk")


@dataclass(frozen=True, slots=True)
class Anaconda:
    default_ks_template: str | None = option(None, "URL of the template of kickstart files; a file must lie in [conductor]file_url_allowed_paths; empty: our own")
    insecure_heartbeat: bool = option(False, "Let installers call an API whose certificate they cannot check")


@dataclass(frozen=True, slots=True)
class Redfish:
    auth_type: str = option("auto", "How to log in to BMCs", choices=("basic", "session", "auto"))
    verify_ca: str | None = option(None, "CA file for BMCs that name none")
    connect_timeout: float = seconds(10, "Seconds to reach a BMC", minimum=0.1)
    read_timeout: float = seconds(60, "Seconds for a BMC to answer an order", minimum=0.1)
    sync_timeout: float = seconds(10, "Seconds for a BMC to tell its power state", minimum=0.1)
    min_command_interval: float = seconds(0, "Least seconds between two requests to one BMC")
    kernel_append_params: str = option("nofb vga=normal", "Kernel arguments of virtual media boots")
    file_permission: str = option("0o644", "Mode of ISO images made for BMCs")
    firmware_update_status_interval: float = seconds(5, "Seconds between looks at an update", minimum=0.1)
    firmware_update_overall_timeout: float = seconds(7200, "Longest seconds of an update; 0: none")
    firmware_update_bmc_timeout: float = seconds(300, "Seconds that a BMC may be silent while it is updated")
    firmware_update_required_successes: int = count(3, "Good answers in a row after which an updated BMC counts as back; 0: it is not waited for")
    firmware_update_validation_interval: float = seconds(30, "Seconds between those answers", minimum=0.1)
    firmware_update_resource_validation_timeout: float = seconds(480, "Seconds since its update for a BMC to answer well; later, a bad answer fails the step")
    boot_mode_config_timeout: float = seconds(900, "Seconds for boot mode or secure boot to change by the restart that it may need; 0: it is not waited for")
    inspection_hooks: tuple[str, ...] = option(("validate-interfaces", "ports", "architecture"), "What is made of what out-of-band inspection has found, in order", check=inspection_hooks.check)


@dataclass(frozen=True, slots=True)
class Ipmi:
    client: str = option("pyghmi", "What speaks IPMI", choices=("pyghmi", "ipmitool"))
    min_command_interval: float = seconds(0, "Least seconds between two commands to one BMC")
    command_timeout: float = seconds(20, "Seconds for a command, login and repetitions included; what hangs is killed then", minimum=0.1)
    disable_boot_timeout: bool = option(True, "Tell BMCs not to forget the boot device")
    cipher_suite_versions: tuple[str, ...] = option((), "Cipher suites to try where a node names none, the best last; empty: negotiated", check=cipher_suites)


@dataclass(frozen=True, slots=True)
class Bmc:
    """Manners towards every BMC, whatever it speaks; Ingot's own group."""

    failure_threshold: int = count(3, "Failures in a row after which a BMC is left alone a while", minimum=1)
    retry_after: float = seconds(5, "Seconds that it is left alone at first; doubles each time")
    max_retry_after: float = seconds(300, "Longest seconds that it is left alone")


@dataclass(frozen=True, slots=True)
class Inspector:
    power_off: bool = option(True, "Power a node off after inspection")
    extra_kernel_params: str = option("", "Kernel arguments of the inspection ramdisk")
    require_managed_boot: bool = option(True, "Inspect only machines that Ingot can boot")
    pre_create_ports: bool = option(True, "Before in-band inspection, create the ports that the BMC knows")
    add_ports: str = option("pxe", "Ports to create", choices=("all", "active", "pxe", "disabled"))
    keep_ports: str = option("all", "Ports to keep", choices=("all", "present", "added"))
    update_pxe_enabled: bool = option(True, "Mark the ports that booted")
    hooks: tuple[str, ...] = option(("ramdisk-error", "validate-interfaces", "ports", "architecture"), "What is made of what an agent has found, in order", check=inspection_hooks.check)
    cpu_capabilities: dict[str, str] = option({"vmx": "cpu_vt", "svm": "cpu_vt", "aes": "cpu_aes", "pse": "cpu_hugepages", "pdpe1gb": "cpu_hugepages_1g", "smx": "cpu_txt"}, "flag of a processor:capability pairs, for hook cpu-capabilities")
    extra_hardware_strict: bool = option(False, "Take nothing of what hardware-detect says when a part is malformed, for hook extra-hardware")
    known_accelerators: str | None = option(None, "YAML file with a list pci_devices of {vendor_id, device_id, type, device_info}, for hook accelerators; empty: a built-in list", check=inspection_pci.read)
    pci_device_alias: tuple[str, ...] = option((), "vendor:product:name of PCI devices that become capabilities, for hook pci-devices", check=inspection_pci.check_aliases)
    physical_network_cidr_map: tuple[str, ...] = option((), "CIDR:physical network pairs, for hook physical-network", check=cidr_map)


@dataclass(frozen=True, slots=True)
class AutoDiscovery:
    enabled: bool = option(False, "Enroll machines that report themselves and are not known")
    driver: str = option("", "Their driver")


@dataclass(frozen=True, slots=True)
class InspectionRules:
    built_in_rules: str | None = option(None, "YAML file of rules that are always there", check=inspection_rules.read)
    mask_secrets: str = option("always", "Hide passwords from rules", choices=("always", "never", "sensitive"))
    supported_inspect_interfaces: tuple[str, ...] = option(("agent",), "Inspect interfaces that run rules")


@dataclass(frozen=True, slots=True)
class Inventory:
    data_backend: str = option("database", "Where inventories are kept", choices=("database", "none"))


@dataclass(frozen=True, slots=True)
class Healthcheck:
    enabled: bool = option(True, "Answer GET /healthcheck")


@dataclass(frozen=True, slots=True)
class KeystoneAuthtoken:
    auth_url: str | None = option(None, "Keystone's URL")
    www_authenticate_uri: str | None = option(None, "Keystone's URL as told to callers")
    auth_type: str = option("password", "Plugin of keystoneauth", deprecated=("keystone_authtoken.auth_plugin",))
    username: str | None = option(None, "Our user")
    password: str | None = option(None, "Our password", secret=True)
    user_domain_name: str = option("Default", "Our user's domain")
    user_domain_id: str | None = option(None, "The same by its id")
    project_name: str = option("service", "Our project")
    project_domain_name: str = option("Default", "Our project's domain")
    project_domain_id: str | None = option(None, "The same by its id")
    system_scope: str | None = option(None, "all: work with the whole system instead of a project", choices=("all",))
    application_credential_id: str | None = option(None, "Our credential, for auth_type v3applicationcredential")
    application_credential_secret: str | None = option(None, "Its secret", secret=True)
    region_name: str | None = option(None, "Region")
    interface: str = option("internal", "Which of Keystone's endpoints")
    cafile: str | None = option(None, "CA file for Keystone")
    certfile: str | None = option(None, "Client certificate for Keystone")
    keyfile: str | None = option(None, "Its key")
    insecure: bool = option(False, "Do not check Keystone's certificate")
    memcached_servers: tuple[str, ...] = option((), "host:port of caches of tokens")
    token_cache_time: int = seconds(300, "Seconds that a token is believed without asking")
    service_token_roles: tuple[str, ...] = option(("service",), "Roles that make a service token")
    service_token_roles_required: bool = option(True, "Believe no other service token")
    service_type: str | None = option("baremetal", "Our name in access rules of application credentials")
    http_connect_timeout: int | None = option(None, "Seconds for Keystone to answer", minimum=1)
    http_request_max_retries: int = count(3, "Tries to reach Keystone")


@dataclass(frozen=True, slots=True)
class OsloPolicy:
    policy_file: str = option("/etc/ingot/policy.yaml", "Rules that replace those of docs/policy.md, YAML; read again when it changes")
    policy_dirs: tuple[str, ...] = option(("/etc/ingot/policy.d",), "Directories of more such files")
    enforce_scope: bool = option(True, "Refuse tokens of a scope that a rule is not made for")


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
    """
    Every setting. `Settings()` has the defaults; `load` reads them.

    origins: "group.name" -> where the value came from. warnings: lines for the log.
    """

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
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def options(self) -> dict[str, dict[str, Any]]:
        """Plain values by group and name, as `drivers.core.target.Target.options` has them."""
        return {
            name: {each.name: getattr(getattr(self, attribute), each.name) for each in fields(kind)}
            for attribute, name, kind in options.groups(Settings)
        }


@dataclass(frozen=True, slots=True)
class Described:
    """One setting as `ingot config` shows it; secrets are masked."""

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
    Read the settings: flag ("group.name": value), environment, TOML file, default.

    Raises SettingsError, one line that names what is wrong.
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
    """Every setting in the order of declaration."""
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
    """A secret without what is secret: of a URL only the password."""
    if value and "://" in value:
        return re.sub(r"(://[^/@]*?:)[^/]*@", r"\1******@", value)
    return "******" if value else value
