"""
Settings about the networks of machines: Neutron, switches and DHCP, and the power events for Nova.
`app/config/settings.py` has the others, and says how a setting is added.
"""

# ruff: noqa: E501 - the groups are a table: an option, a line

from dataclasses import dataclass

from app.config.openstack_settings import ServiceSession
from app.config.option_types import (
    address_ranges,
    addresses,
    count,
    optional_address,
    seconds,
    web_url,
)
from app.config.options import option


# fmt: off
@dataclass(frozen=True, slots=True)
class Neutron(ServiceSession):
    auth_url: str | None = option(None, "Keystone's URL, for network interfaces flat and neutron", check=web_url)
    project_name: str = option("service", "Project of the service; it owns the ports that the service creates")
    system_scope: str | None = option(None, "all: use a system-scoped token instead of a project's", choices=("all",))
    region_name: str | None = option(None, "Region of Neutron")
    endpoint_override: str | None = option(None, "URL of Neutron's API, without version; empty: from Keystone's catalog", check=web_url)
    cafile: str | None = option(None, "CA file for Keystone and Neutron")
    request_timeout: float = seconds(45, "Seconds for an answer; a Neutron that configures switches takes long", minimum=1)
    retries: int = count(3, "Further attempts of a request that Neutron did not receive, or answered by 503")
    cleaning_network: str | None = option(None, "Name or UUID of the network for cleaning; driver_info of a node may name another one, for this and the following four")
    provisioning_network: str | None = option(None, "Name or UUID of the network for deploying, with network interface neutron")
    rescuing_network: str | None = option(None, "Name or UUID of the network for rescuing, with network interface neutron")
    servicing_network: str | None = option(None, "Name or UUID of the network for servicing, with network interface neutron")
    inspection_network: str | None = option(None, "Name or UUID of the network for inspection; empty: machines are inspected in the network in which they are")
    cleaning_network_security_groups: tuple[str, ...] = option((), "UUIDs of security groups of the ports for cleaning, with network interface neutron")
    provisioning_network_security_groups: tuple[str, ...] = option((), "As before, for deploying")
    rescuing_network_security_groups: tuple[str, ...] = option((), "As before, for rescuing")
    servicing_network_security_groups: tuple[str, ...] = option((), "As before, for servicing")
    inspection_network_security_groups: tuple[str, ...] = option((), "As before, for inspection")
    add_all_ports: bool = option(False, "Connect all ports of a node to the network of its agent; else those with pxe_enabled, unless the machine boots from virtual media")
    fail_on_port_binding_failure: bool = option(True, "Fail if Neutron does not connect a port, with network interface neutron; driver_info/fail_on_binding_failure overrides it")
    port_setup_delay: float = seconds(0, "Seconds to wait after ports were set up, for DHCP servers that learn late")


@dataclass(frozen=True, slots=True)
class Dhcp:
    dhcp_provider: str = option("neutron", "Provider of boot files for machines with network interface flat or neutron. neutron: Neutron, by extra_dhcp_opts of their ports; none, dnsmasq: the site's DHCP servers know them, see `ingot dhcp-config`", choices=("neutron", "dnsmasq", "none"))


@dataclass(frozen=True, slots=True)
class DhcpServer:
    backend: str = option("", "DHCP and TFTP server that the conductor runs; empty: none. The group is not in Ironic", choices=("", "dnsmasq"))
    program: str = option("dnsmasq", "Path of the program, or its name in PATH")
    interfaces: tuple[str, ...] = option((), "Network interfaces of this host that it serves")
    ranges: tuple[str, ...] = option((), "Addresses that it gives: 192.0.2.100-192.0.2.200, with /24 for a network of which this host has no address; 192.0.2.0/24 for fixed addresses alone", check=address_ranges)
    lease_time: float = seconds(3600, "Seconds of a lease", minimum=120)
    router: str = option("", "Address of the machines' default router; empty: none", check=optional_address)
    dns_servers: tuple[str, ...] = option((), "Addresses of DNS servers for the machines", check=addresses)
    unknown_machines: str = option("ignore", "Machines whose MAC address no port has. ignore: they get no answer; answer: they get an address of the ranges, and unknown_boot_script", choices=("ignore", "answer"))
    unknown_boot_script: str | None = option(None, "URL of the script that iPXE runs at unknown machines, such as one that boots the agent for an inspection", check=web_url)
    refresh_interval: float = seconds(5, "Seconds between comparisons of the known machines with the ports in the database", minimum=0.1)


@dataclass(frozen=True, slots=True)
class Switch:
    cleaning_network: str | None = option(None, "Name or UUID of the network for cleaning with network interface switch, one of /v1/networks that is not for tenants; driver_info of a node may name another one, for this and the following four. The group is not in Ironic")
    provisioning_network: str | None = option(None, "As before, for deploying")
    rescuing_network: str | None = option(None, "As before, for rescuing")
    servicing_network: str | None = option(None, "As before, for servicing")
    inspection_network: str | None = option(None, "As before, for inspection; empty: machines are inspected in the network in which they are")
    add_all_ports: bool = option(False, "Connect all ports of a node to the network of its agent; else those with pxe_enabled, unless the machine boots from virtual media")
    connect_timeout: float = seconds(20, "Seconds for the login to a switch", minimum=1)
    command_timeout: float = seconds(60, "Seconds for the output of a command", minimum=1)
    check_interval: float = seconds(600, "Seconds between comparisons of switch ports with the last orders; 0: none")


@dataclass(frozen=True, slots=True)
class Nova(ServiceSession):
    send_power_notifications: bool = option(True, "Report changes of the power of machines with an instance to Nova; needs auth_url, or endpoint_override")
    region_name: str | None = option(None, "Region of Nova")
    endpoint_override: str | None = option(None, "URL of Nova's API, version 2.1; empty: from Keystone's catalog", check=web_url)
    cafile: str | None = option(None, "CA file for Keystone and Nova")
    timeout: float = seconds(10, "Seconds for an answer", minimum=1)

    @property
    def is_on(self) -> bool:
        """Whether changes of the power are reported."""
        return self.send_power_notifications and bool(self.auth_url or self.endpoint_override)
# fmt: on
