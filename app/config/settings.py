"""
Settings by group, with defaults and meaning.

An option that Ironic has keeps Ironic's group and name. `INGOT_<GROUP>_<NAME>` sets it from the
environment (`INGOT_<NAME>` in group DEFAULT), `[group] name = value` from a TOML file. To add
a setting, add a line here or in the module of its group; `app.config.loading` reads its value.
"""

# ruff: noqa: E501, RUF009 - the groups are a table: an option, a line

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from typing import Any

from app.config import hosts, loading, options
from app.config.conductor_settings import Conductor
from app.config.console_settings import Console, Vnc
from app.config.identity_settings import Identity, Oidc
from app.config.ignored_options import IgnoredOptions
from app.config.ironic_options import IRONIC_ONLY
from app.config.machine_settings import (
    Agent,
    Anaconda,
    AutoDiscovery,
    Bmc,
    Deploy,
    Fake,
    InspectionRules,
    Inspector,
    Inventory,
    Ipmi,
    Pxe,
    Redfish,
    SensorData,
)
from app.config.monitoring_settings import (
    Audit,
    Healthcheck,
    Metrics,
    Sanitation,
    Tracing,
    Webhooks,
)
from app.config.network_settings import Dhcp, DhcpServer, Neutron, Nova, Switch
from app.config.openstack_settings import (
    Cinder,
    Glance,
    KeystoneAuthtoken,
    Notifications,
    Oci,
    OsloMessagingNotifications,
    OsloMessagingRabbit,
    OsloPolicy,
)
from app.config.option_types import (
    base_url,
    count,
    database_url,
    enabled,
    exchange,
    key_prefix,
    kill_points,
    messages_url,
    preferred,
    redis_address,
    seconds,
    topics,
)
from app.config.options import SettingsError, group, option
from app.config.removed_options import REMOVED
from app.config.vault_settings import VaultSettings
from drivers.core.interface_kinds import KINDS
from drivers.net import networks

__all__ = ["Settings", "SettingsError", "load"]


# fmt: off
@dataclass(frozen=True, slots=True)
class Default:
    data_dir: str = option("", "Data directory of `ingot up`; empty: .ingot in the working directory, if it exists or can be created, else $XDG_STATE_HOME/ingot")
    host: str = option("", "Name of this conductor; empty: the host's name")
    my_ip: str = option("", "Address at which machines reach this host; empty: detected", check=hosts.optional_host)
    auth_strategy: str = option("noauth", "Authentication of the API's callers; local: the users that `ingot user` manages. Without a value, `ingot up` that other hosts can reach uses local. Not in Ironic: local", choices=("noauth", "http_basic", "local", "keystone"))
    http_basic_auth_user_file: str = option("/etc/ingot/htpasswd", "htpasswd file, bcrypt only")
    debug_tracebacks_in_api: bool = option(False, "Show tracebacks to callers of the API")
    isolinux_bin: str = option("/usr/lib/ISOLINUX/isolinux.bin", "Boot loader for legacy BIOS in boot images")
    ldlinux_c32: str = option("/usr/lib/syslinux/modules/bios/ldlinux.c32", "Module that isolinux requires")
    esp_image: str | None = option(None, "Image of an EFI system partition for boot images; empty: made from efi_loader_by_arch")
    efi_loader_by_arch: dict[str, str] = option({"x86_64": "/usr/lib/grub/x86_64-efi/monolithic/gcdx64.efi", "aarch64": "/usr/lib/grub/arm64-efi/monolithic/gcdaa64.efi"}, "architecture:file pairs of UEFI boot loaders in boot images")
    grub_config_path: str = option("/boot/grub/grub.cfg", "Path in boot images from which the EFI boot loader reads its configuration")
    force_raw_images: bool = option(False, "Convert qcow2 images that agents fetch from conductors to raw ones, by qemu-img; Ironic's default is true")
    webserver_verify_ca: str = option("True", "CA file for image servers, or True: the system's, or False: no verification")
    webserver_connection_timeout: float = seconds(60, "Seconds for an image server to answer", minimum=1)
    log_level: str = option("info", "Lowest level of logged messages", choices=("debug", "info", "warning", "error"))
    log_format: str = option("auto", "Format of log lines: JSON, key=value, or auto: key=value on a terminal", choices=("auto", "json", "text"))
    log_file: str = option("", "File of the log of a role, absolute or in log_dir; it is opened again after logrotate has moved it. Empty: standard error, unless log_dir is set")
    log_dir: str = option("", "Folder of log_file; without log_file, each role logs to a file of its own in it: ingot-api.log, ingot-beat.log, ingot-conductor.log, ingot-files.log; `ingot up` to ingot.log")
    use_stderr: bool = option(False, "Log to standard error, too, if there is a log file")
    notification_level: str | None = option(None, "Lowest level of the notifications that are sent to RabbitMQ in Ironic's form; they have info and error. Empty: none are sent", choices=("debug", "info", "warning", "error", "critical"))
    versioned_notifications_topics: tuple[str, ...] = option(("ironic_versioned_notifications",), "Topics of notifications; each is sent to all of them", check=topics)
    control_exchange: str = option("ironic", "Exchange of notifications in RabbitMQ", check=exchange)
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
    def has_roles(self) -> bool:
        """Whether callers have roles, by which the policy decides."""
        return self.auth_strategy in ("local", "keystone")

    @property
    def enabled_interfaces(self) -> dict[str, tuple[str, ...]]:
        """Accepted interface names by kind, without the kinds that accept all."""
        names_by_kind = {kind: getattr(self, f"enabled_{kind}_interfaces") for kind in KINDS}
        return {kind: names for kind, names in names_by_kind.items() if names}

    @property
    def default_interfaces(self) -> dict[str, str]:
        """Default interface name by kind, without the kinds that have none."""
        names_by_kind = {kind: getattr(self, f"default_{kind}_interface") for kind in KINDS}
        return {kind: name for kind, name in names_by_kind.items() if name}


@dataclass(frozen=True, slots=True)
class Database:
    connection: str = option("", "URL of a SQLite file (sqlite:///FILE) or of a PostgreSQL database (postgresql://USER:PASSWORD@HOST/NAME); empty: SQLite in the data directory", check=database_url, secret=True)
    max_pool_size: int = count(5, "Connections kept open per process", minimum=1)
    max_overflow: int = count(5, "Additional connections, closed after use")
    pool_timeout: float = seconds(30, "Seconds to wait for a free connection")
    busy_timeout: float = seconds(10, "Seconds that SQLite waits for its writer lock")
    connect_timeout: float = seconds(5, "Seconds to reach PostgreSQL", minimum=1)
    statement_timeout: float = seconds(15, "Seconds for PostgreSQL to execute a statement; 0: no limit")

    secrets_key_file: str = option("", "File with the master keys that encrypt secrets, one per line, base64 of 32 bytes; the first one encrypts. Empty: `ingot up` with its own database creates one beside the data directory")
    secrets_key: str = option("", "Master keys as text, instead of secrets_key_file", secret=True)

    @property
    def has_key(self) -> bool:
        """Whether there are master keys."""
        return bool(self.secrets_key_file or self.secrets_key)

    @property
    def limits(self) -> dict[str, Any]:
        """Pool sizes and timeouts: keyword arguments of `app.db.connections.connect`."""
        excluded_names = ("connection", "secrets_key_file", "secrets_key")
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in excluded_names}


@dataclass(frozen=True, slots=True)
class Broker:
    url: str = option("", "Redis URL: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// with TLS, redis+socket://PATH[?db=DATABASE], or sentinel://HOST[:PORT],.../MASTER[/DATABASE]; empty: `ingot up` starts its own", check=redis_address, secret=True)
    messages_url: str = option("", "RabbitMQ URL (amqp:// or amqps://) for messages, so that Redis keeps leases and calls only; empty: Redis carries messages, too", check=messages_url, secret=True)
    prefix: str = option("ingot", "Prefix of all keys, queues and exchanges; services with different prefixes may share a Redis or RabbitMQ", check=key_prefix)
    connect_timeout: float = seconds(5, "Seconds to connect to Redis or RabbitMQ, and for an answer", minimum=0.1)
    events: bool = option(False, "Send task events to Flower; costs conductors time")
    remote_control: bool = option(False, "Answer Celery's remote control: `celery inspect`, Flower's workers, the check `duplicate names` of `ingot doctor`. Every client that may publish in Redis can then stop conductors, too")


@dataclass(frozen=True, slots=True)
class Api:
    host_ip: str = option("127.0.0.1", "Address to listen on", check=hosts.listening_host)
    port: int = option(6385, "Port to listen on; 0: any free one", minimum=0, maximum=65535)
    api_workers: int = count(2, "Processes that serve requests", minimum=1)
    blocking_threads: int = count(2, "Threads per process for reads that do not wait for conductors, and as many for writes", minimum=1)
    waiting_threads: int = count(32, "Threads per process for reads that wait for conductors, and as many for writes", minimum=1)
    polling_threads: int = count(64, "Threads per process for requests with ?wait=; further ones get 503. Not in Ironic", minimum=1)
    event_streams: int = count(512, "Open streams of change events per process, each a thread; further ones get 503. Not in Ironic")
    trusted_proxies: tuple[str, ...] = option(("127.0.0.0/8", "::1/128"), "Networks of proxies whose X-Forwarded-For names the client, for the limits of requests per minute. Not in Ironic", check=networks.parse)
    wrong_passwords_per_minute: int = count(10, "Wrong passwords of a user name from an address that a process checks in a minute (http_basic, local), a tenth of those of all names from an address; further ones get 429 (docs/security.md); 0: no limit. Not in Ironic")
    max_connections: int = count(10000, "Connections that a process keeps open at once; others wait until one is closed", minimum=1)
    keep_alive_time: float = seconds(200, "Seconds that a connection is kept open without a request; agents send heartbeats within 0.6 of ramdisk_heartbeat_timeout, on the same connection", minimum=1)
    body_timeout: float = seconds(10, "Seconds for the body of a request to arrive, plus one per MiB; then its connection is closed", minimum=0.1)
    max_limit: int = count(1000, "Most items on a page", minimum=1)
    public_endpoint: str | None = option(None, "Base URL of links; empty: the request's", check=base_url)
    flower_url: str | None = option(None, "Address of Flower for the link on the page of conductors; empty: no link. Not in Ironic", check=base_url)
    enable_ssl_api: bool = option(False, "Serve HTTPS with cert_file and key_file")
    cert_file: str | None = option(None, "Certificate chain, PEM", deprecated=("ssl.cert_file",))
    key_file: str | None = option(None, "Key of the certificate, PEM, unencrypted", deprecated=("ssl.key_file",))
    enable_ramdisk_endpoints: bool = option(True, "Answer lookup, heartbeat and continue_inspection")
    restrict_lookup: bool = option(True, "Answer lookups only for nodes that expect an agent")
    lookup_repeat_time: float = seconds(600, "Seconds during which a repeated lookup from the same address returns the token again, until the first heartbeat, because the first answer may be lost; the default is how long agents retry; 0: never, as in Ironic")
    ramdisk_heartbeat_timeout: int = seconds(300, "Maximum seconds between heartbeats of an agent")
    call_timeout: float = seconds(60, "Seconds to wait for a conductor's answer about hardware", deprecated=("api.ask_timeout",))
    max_wait: float = seconds(600, "Maximum seconds of ?wait=")
    allowed_hosts: tuple[str, ...] = option((), "Names of this service in the Host header besides those of loopback, public_endpoint and external_callback_url, for auth_strategy noauth, where other names are refused. Not in Ironic", check=hosts.host_names)
    disallow_clean_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that callers may not request for cleaning")
    disallow_deploy_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that callers may not request for deploying")
    disallow_service_steps: tuple[str, ...] = option(("vendor.send_raw",), "interface.step that callers may not request for servicing")
    disallowed_enrollment_boot_modes: tuple[str, ...] = option((), "Boot modes refused at enrolment")
    project_admin_can_manage_own_nodes: bool = option(True, "Admins of a project may create and delete nodes that it owns")


# fmt: on
@dataclass(frozen=True)
class Settings:
    """All settings. `Settings()` has the defaults; `load` reads configured values."""

    default: Default = group(Default, "DEFAULT")
    database: Database = group(Database)
    vault: VaultSettings = group(VaultSettings)
    broker: Broker = group(Broker)
    api: Api = group(Api)
    conductor: Conductor = group(Conductor)
    console: Console = group(Console)
    vnc: Vnc = group(Vnc)
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
    sensor_data: SensorData = group(SensorData)
    audit: Audit = group(Audit)
    sanitation: Sanitation = group(Sanitation)
    healthcheck: Healthcheck = group(Healthcheck)
    metrics: Metrics = group(Metrics)
    webhooks: Webhooks = group(Webhooks)
    tracing: Tracing = group(Tracing)
    keystone_authtoken: KeystoneAuthtoken = group(KeystoneAuthtoken)
    cinder: Cinder = group(Cinder)
    glance: Glance = group(Glance)
    oci: Oci = group(Oci)
    neutron: Neutron = group(Neutron)
    dhcp: Dhcp = group(Dhcp)
    dhcp_server: DhcpServer = group(DhcpServer)
    switch: Switch = group(Switch)
    nova: Nova = group(Nova)
    oslo_policy: OsloPolicy = group(OsloPolicy)
    oslo_messaging_notifications: OsloMessagingNotifications = group(OsloMessagingNotifications)
    oslo_messaging_rabbit: OsloMessagingRabbit = group(OsloMessagingRabbit)
    notifications: Notifications = group(Notifications)
    identity: Identity = group(Identity)
    oidc: Oidc = group(Oidc)
    fake: Fake = group(Fake)
    #: "group.name" -> source of its value, for `ingot config`
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: lines for the log
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_open(self) -> bool:
        """Whether other hosts can reach the API, and need no authentication."""
        return self.default.auth_strategy == "noauth" and self.is_reachable

    @property
    def trusts_host(self) -> bool:
        """Whether other hosts choose the links of answers, by the Host header of a request."""
        return (
            self.default.auth_strategy != "noauth"  # foreign names are refused
            and self.is_reachable
            and not self.api.public_endpoint
        )

    @property
    def is_reachable(self) -> bool:
        """Whether the API listens beyond loopback."""
        try:
            return not ip_address(self.api.host_ip).is_loopback
        except ValueError:
            return self.api.host_ip != "localhost"

    def options(self) -> dict[str, dict[str, Any]]:
        """Values by group and name, for `drivers.core.target.Target.options`."""
        return {
            name: {
                field.name: getattr(getattr(self, attribute), field.name) for field in fields(kind)
            }
            for attribute, name, kind in options.groups(Settings)
        }


def load(
    environ: Mapping[str, str],
    path: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """
    Read the settings from flags ("group.name": value), environment, TOML file and defaults.

    Raises SettingsError: a setting is wrong; the message is one line that names it.
    """
    result = loading.load(Settings, environ, path, flags, IgnoredOptions(IRONIC_ONLY, REMOVED))
    groups = {
        attribute: kind(**result.values[name]) for attribute, name, kind in options.groups(Settings)
    }
    settings = Settings(**groups, origins=result.origins, warnings=result.warnings)
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
    if (
        settings.default.notification_level
        and not settings.oslo_messaging_notifications.transport_url
    ):
        raise SettingsError(
            "[oslo_messaging_notifications]transport_url: [DEFAULT]notification_level needs it"
        )
    if settings.vault.address and (missing := settings.vault.missing_option):
        raise SettingsError(
            f"[vault]{missing}: [vault]auth_method {settings.vault.auth_method} needs it"
        )
    if settings.oidc.issuer and not settings.oidc.client_id:
        raise SettingsError("[oidc]client_id: [oidc]issuer needs it")
    if "openid" not in settings.oidc.scopes:
        raise SettingsError("[oidc]scopes: openid must be one of them")
    return settings
