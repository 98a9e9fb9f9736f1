"""
Settings about services of OpenStack: Keystone, the volume service, the file of the policy, and
notifications.
`app/config/settings.py` has the others, and says how a setting is added.
"""

# ruff: noqa: E501 - the groups are a table: an option, a line

from dataclasses import dataclass

from app.config import hosts
from app.config.option_types import count, seconds, topics, transport_url, web_url
from app.config.options import option


# fmt: off
@dataclass(frozen=True, slots=True)
class KeystoneAuthtoken:
    auth_url: str | None = option(None, "Keystone's URL", check=web_url)
    www_authenticate_uri: str | None = option(None, "Keystone's URL for callers, in WWW-Authenticate", check=web_url)
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
    memcached_servers: tuple[str, ...] = option((), "host:port of token caches", check=hosts.cache_servers)
    token_cache_time: int = seconds(300, "Seconds for which a validated token is cached")
    service_token_roles: tuple[str, ...] = option(("service",), "Roles of a service token")
    service_token_roles_required: bool = option(True, "Reject service tokens without these roles")
    service_type: str | None = option("baremetal", "Service type in access rules of application credentials")
    http_connect_timeout: int | None = option(None, "Seconds for Keystone to answer", minimum=1)
    http_request_max_retries: int = count(3, "Attempts to reach Keystone")


@dataclass(frozen=True, slots=True)
class ServiceSession:
    """Common part of the groups of OpenStack's services: a session of keystoneauth."""

    auth_url: str | None = option(None, "Keystone's URL", check=web_url)
    auth_type: str = option("password", "Plugin of keystoneauth; none: no authentication, with endpoint_override")
    username: str | None = option(None, "User name of the service")
    password: str | None = option(None, "Password of the service", secret=True)
    user_domain_name: str = option("Default", "Domain of the user")
    project_name: str = option("service", "Project of the service")
    project_domain_name: str = option("Default", "Domain of the project")
    application_credential_id: str | None = option(None, "Application credential, for auth_type v3applicationcredential")
    application_credential_secret: str | None = option(None, "Secret of the application credential", secret=True)
    valid_interfaces: tuple[str, ...] = option(("internal", "public"), "Interfaces of the endpoint in Keystone's catalog, the preferred one first")
    insecure: bool = option(False, "Do not verify their certificates")


@dataclass(frozen=True, slots=True)
class Cinder(ServiceSession):
    auth_url: str | None = option(None, "Keystone's URL, for storage interface cinder", check=web_url)
    region_name: str | None = option(None, "Region of the volume service")
    endpoint_override: str | None = option(None, "URL of the volume service's API, version 3; empty: from Keystone's catalog", check=web_url)
    cafile: str | None = option(None, "CA file for Keystone and the volume service")
    timeout: float = seconds(60, "Seconds for an answer", minimum=1)
    connect_retries: int = count(2, "Further attempts to connect")


@dataclass(frozen=True, slots=True)
class Glance(ServiceSession):
    auth_url: str | None = option(None, "Keystone's URL, for images of Glance", check=web_url)
    project_name: str = option("service", "Project of the service; nodes may use its images")
    region_name: str | None = option(None, "Region of Glance")
    endpoint_override: str | None = option(None, "URL of Glance's API; empty: from Keystone's catalog", check=web_url)
    cafile: str | None = option(None, "CA file for Keystone and Glance")
    timeout: float = seconds(60, "Seconds for Glance to connect and for each pause in its answer; [conductor]fetch_timeout limits the whole", minimum=1)
    num_retries: int = count(3, "Further attempts of a request that Glance did not receive, or answered by 503")


@dataclass(frozen=True, slots=True)
class Oci:
    authentication_config: str | None = option(None, 'File with secrets of container registries, as container engines have it: {"auths": {HOST: {"auth": ...}}}; read for each image')
    permit_fallback_to_http_transport: bool = option(False, "Use http for registries that do not answer by https")


@dataclass(frozen=True, slots=True)
class OsloPolicy:
    policy_file: str = option("/etc/ingot/policy.yaml", "Rules that replace those of docs/policy.md, YAML; read again when it changes")
    policy_dirs: tuple[str, ...] = option(("/etc/ingot/policy.d",), "Directories of additional policy files")
    enforce_scope: bool = option(True, "Refuse tokens whose scope the rule does not list")


@dataclass(frozen=True, slots=True)
class OsloMessagingNotifications:
    topics: tuple[str, ...] = option(("notifications",), "Topics of notifications without a version: those of sensors; each is sent to all of them", check=topics)
    transport_url: str = option("", "RabbitMQ of the notifications, as rabbit://USER:PASSWORD@HOST:5672/ with more USER:PASSWORD@HOST:5672 after commas; amqps:// for TLS. Needed with [DEFAULT]notification_level; the transport_url of the group DEFAULT is not used", check=transport_url, secret=True)


@dataclass(frozen=True, slots=True)
class OsloMessagingRabbit:
    amqp_durable_queues: bool = option(False, "Declare exchange and queues of notifications as durable, so that they outlive a restart of RabbitMQ; consumers must declare them in the same way")
    rabbit_quorum_queue: bool = option(False, "Declare quorum queues, which are durable; consumers must declare them in the same way")
    ssl_ca_file: str = option("", "CA file for amqps://; empty: the system's")


@dataclass(frozen=True, slots=True)
class Notifications:
    """Group notifications. Not in Ironic."""

    timeout: float = seconds(10, "Seconds to connect to RabbitMQ, and for it to confirm a batch of notifications. Not in Ironic", minimum=0.1)
# fmt: on
