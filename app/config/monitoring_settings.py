"""
Settings about the records and reports of the service: audit, sanitation, health check, metrics,
webhooks, traces. `app/config/settings.py` has the others, and says how a setting is added.
"""

# ruff: noqa: E501 - the groups are a table: an option, a line

from dataclasses import dataclass

from app.config import hosts
from app.config.option_types import collector_url, count, seconds
from app.config.options import option
from drivers.net import networks

#: Loopback, link-local, multicast and the metadata addresses of clouds.
_DENIED = (
    "0.0.0.0/8",
    "100.100.100.200/32",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "192.0.0.192/32",
    "224.0.0.0/3",
    "::/127",
    "fd00:ec2::/32",
    "fe80::/10",
    "ff00::/8",
)
#: Networks of a site, and of the provider's side of a translation (RFC 1918, 4193, 6598).
_PRIVATE = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
    "fec0::/10",
)


# fmt: off
@dataclass(frozen=True, slots=True)
class Audit:
    enabled: bool = option(True, "Record who asked for which change, and who was refused, in the database (docs/audit.md)")
    keep_days: int = count(90, "Days for which audit records are kept; 0: for ever. Not in Ironic")
    keep_refused: int = count(500_000, "Most audit records of requests without success, which strangers can cause; the oldest are deleted. 0: no limit. Not in Ironic")


@dataclass(frozen=True, slots=True)
class Sanitation:
    """Group sanitation. Not in Ironic."""

    keep_days: int = count(1096, "Days for which sanitation reports are kept, also after the deletion of their nodes; 0: for ever. Not in Ironic")


@dataclass(frozen=True, slots=True)
class Healthcheck:
    enabled: bool = option(True, "Answer GET /healthcheck")


@dataclass(frozen=True, slots=True)
class Metrics:
    port: int | None = option(None, "Port of the exporter, which answers Prometheus at /metrics; 0: any free one; empty: no metrics. Not in Ironic", minimum=0, maximum=65535)
    host_ip: str = option("127.0.0.1", "Address that the exporter listens on; it asks for no credentials, so let only Prometheus reach it. Not in Ironic", check=hosts.listening_host)


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Group webhooks. Not in Ironic."""

    timeout: float = seconds(10, "Seconds for a receiver to answer. Not in Ironic", minimum=0.1)
    max_retry_interval: float = seconds(300, "Longest pause between two attempts; the first is a second, and each is twice the one before. Not in Ironic", minimum=1)
    give_up_after: float = seconds(86400, "Seconds of failed attempts after which events become failures, which can be replayed. Not in Ironic")
    secret_overlap: float = seconds(86400, "Seconds for which the previous secret also signs after a change. Not in Ironic")
    max_per_project: int = count(10, "Most webhooks of a project; those of the system have no limit. Not in Ironic")
    denied_networks: tuple[str, ...] = option(_DENIED, "Networks to which no webhook of the system may lead; the default is loopback, link-local, multicast and the metadata addresses of clouds. Not in Ironic", check=networks.parse)
    project_denied_networks: tuple[str, ...] = option((*_DENIED, *_PRIVATE), "Networks to which no webhook of a project may lead; the default is that of denied_networks and the private networks. Not in Ironic", check=networks.parse)
    allowed_networks: tuple[str, ...] = option((), "The only networks to which webhooks may lead; empty: all that are not denied. Not in Ironic", check=networks.parse)


@dataclass(frozen=True, slots=True)
class Tracing:
    endpoint: str = option("", "URL that an OpenTelemetry collector receives traces at by OTLP over HTTP, as http://127.0.0.1:4318/v1/traces; empty: no traces. Not in Ironic", check=collector_url)
    sample_ratio: float = option(1.0, "Share of the API requests that are traced, with their operations: from 0 to 1. Not in Ironic", minimum=0, maximum=1)
# fmt: on
