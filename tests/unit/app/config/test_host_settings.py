"""Checks of settings that are hosts, addresses, networks or URLs."""

import re

import pytest

from app.config import options
from app.config.options import SettingsError
from app.config.settings import Settings, load

#: Hosts that no program can reach or listen on.
NO_HOSTS = (
    "999.1.1.1", "10.0.0", "10.0.0.256", "0x7f.0x1", "a b", "-", "host-", "a..b", ".", "a_b.-c.d",
    "[::1]", "1::2::3", "bücher.example", "x" * 64, ".".join(["abcdefgh"] * 29), "h/24", "h:80", "h\tx", "*",
)  # fmt: skip
HOSTS = (
    "192.0.2.1",
    "::1",
    "fe80::1%eth0",
    "localhost",
    "bm_1.example.org.",
    "rack-7",
    "7.example",
)
#: Hosts within URLs, which are written with a port after them.
NO_PLACES = ("", "999.1.1.1", "a b", "-", "a..b", "::1", "[10.0.0.1]", "[::1", "h:0", "h:70000", "h:x", "h:")  # fmt: skip


def within(url, places=NO_PLACES):
    """URLs with wrong places of their server."""
    return [url.replace("{}", place) for place in places]


#: Option -> values that are refused.
LISTENING = dict.fromkeys(("[api]host_ip", "[metrics]host_ip"), ("", *NO_HOSTS))
MACHINES = dict.fromkeys(("[DEFAULT]my_ip", "[pxe]tftp_server"), ("0.0.0.0", "::", *NO_HOSTS))
NETWORKS = ("10.0.0.7/8", "10.0.0.0/33", "999.0.0.0/8", "h", "::1/129", "a b")
WEB_URLS = (
    *within("https://{}/", NO_PLACES[:-1]), "ftp://h/", "//h/", "h", "https:h",
)  # fmt: skip
WRONG = {
    **LISTENING,
    **MACHINES,
    "[console]socat_address": NO_HOSTS,
    "[api]allowed_hosts": ("", *NO_HOSTS),
    "[keystone_authtoken]memcached_servers": (*NO_PLACES[1:], "unix:", "inet6:[::1"),
    "[dhcp_server]router": ("999.1.1.1", "::1", "h", "a b"),
    "[dhcp_server]dns_servers": ("999.1.1.1", "::1", "h", "a b"),
    "[inspector]physical_network_cidr_map": ("10.0.0.7/8:a", "999.0.0.0/8:a", "10.0.0.0/8", ":a"),
    "[database]connection": (*within("postgresql://u:p@{}/d", NO_PLACES[1:]), "postgresql://u:p@h1,a b/d", "sqlite://h/file",
        "postgresql://999.1.1.1"),
    "[broker]url": (*within("redis://u:p@{}/0"), "sentinel://h1,a b/m", "sentinel://999.1.1.1/m", "rediss://-"),
    "[broker]messages_url": (*within("amqp://u:p@{}/v"), "amqp:///", "amqp://", "amqps:///v", "amqp://u:p@/v", "amqp://?h",
        "redis://h"),
    "[oslo_messaging_notifications]transport_url":
        (*within("rabbit://u:p@{}/v"), "rabbit:///", "rabbit://u:p@h1,u:p@a b/", "rabbit://u:p@h1,u:p@999.1.1.1/"),
    "[oidc]issuer": (*WEB_URLS, "http://id.example/"),
    "[tracing]endpoint": WEB_URLS,
    "[vault]address": (*WEB_URLS, "http://vault.example/", "https://u:p@vault.example/"),
    **dict.fromkeys(
        (
            "[api]public_endpoint", "[api]flower_url", "[deploy]http_url",
            "[deploy]external_http_url", "[deploy]external_callback_url",
            "[keystone_authtoken]auth_url", "[keystone_authtoken]www_authenticate_uri",
            "[cinder]auth_url", "[cinder]endpoint_override", "[glance]auth_url",
            "[glance]endpoint_override", "[neutron]auth_url", "[neutron]endpoint_override",
            "[nova]auth_url", "[nova]endpoint_override", "[dhcp_server]unknown_boot_script",
            "[redfish]event_receiver_url",
        ),
        WEB_URLS,
    ),
    **dict.fromkeys(
        (
            "[api]trusted_proxies", "[conductor]fetch_denied_networks",
            "[conductor]fetch_allowed_networks", "[console]tcp_allowed_networks",
            "[agent]denied_networks", "[agent]allowed_networks", "[bmc]denied_networks",
            "[bmc]allowed_networks", "[webhooks]denied_networks",
            "[webhooks]project_denied_networks", "[webhooks]allowed_networks",
            "[oidc]denied_networks", "[oidc]allowed_networks",
        ),
        NETWORKS,
    ),
}  # fmt: skip
#: Options with such a name that are none.
OTHERS = {
    "[DEFAULT]host",  # name of the conductor
    *(
        f"[{group}]{flow}_network"
        for group in ("neutron", "switch")
        for flow in ("cleaning", "provisioning", "rescuing", "servicing", "inspection")
    ),  # names of networks
}
RIGHT = {
    "[broker]messages_url": (
        "amqp://h", "amqps://u:p@[::1]:5671/v", "amqp://u:p@10.0.0.1:5672//", "amqp://h?heartbeat=5",
    ),
    "[database]connection": (
        "postgresql:///d", "postgresql://u:p@/d?host=/run", "postgresql://[::1]:5432/d",
        "postgresql://h1:5432,h2:5433/d", "sqlite:////a/b", "sqlite:///a", "postgresql://h",
    ),
    "[broker]url": ("redis://[::1]:6379/0", "sentinel://h1:26379,10.0.0.1/m", "redis+socket:///r"),
    "[oslo_messaging_notifications]transport_url": ("rabbit://u:p@[::1]:5672,u:p@h/v", "amqp://h"),
    "[keystone_authtoken]memcached_servers": (
        "10.0.0.1:11211,cache", "inet6:[::1]:11211", "unix:/run/memcached.sock",
    ),
    "[console]socat_address": ("", *HOSTS),
    "[DEFAULT]my_ip": ("", *HOSTS),
    "[pxe]tftp_server": ("", *HOSTS),
    "[api]host_ip": ("0.0.0.0", "::", *HOSTS),
    "[api]allowed_hosts": ("", ",".join(HOSTS[:2])),
}  # fmt: skip
BY_NAME = {str(option): option for option in options.options(Settings)}
NAMES = r"host|(_?(url|uri|host|hosts|host_ip|my_ip|address|server|servers|endpoint|override|network|networks|proxies|issuer|router))$"  # fmt: skip


def test_the_table_has_all_hosts_addresses_networks_and_urls():
    host_options = {
        str(option)
        for option in BY_NAME.values()
        if re.search(NAMES, option.name) and "priority" not in option.name
    }
    assert set() == host_options - WRONG.keys() - OTHERS
    assert set() == WRONG.keys() - BY_NAME.keys()


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_work_is_refused_by_the_name_of_its_setting(name):
    variable = BY_NAME[name].variable
    for value in WRONG[name]:
        if not value and name != "[api]host_ip":  # empty: without a value
            continue
        with pytest.raises(SettingsError, match=f"^{variable}: ") as refusal:
            load({variable: value})
        text = str(refusal.value)
        assert re.search("expected|is not of the form|is not an IPv4 address, as", text), text
        assert text.isprintable()


@pytest.mark.parametrize("name", RIGHT)
def test_what_can_work_is_accepted(name):
    for value in RIGHT[name]:
        load({BY_NAME[name].variable: value})


def test_flags_and_files_are_checked_too(tmp_path):
    with pytest.raises(SettingsError, match=r"--host-ip: '999.1.1.1' is not a host: expected"):
        load({}, flags={"api.host_ip": "999.1.1.1"})
    file = tmp_path / "ingot.toml"
    file.write_text('[pxe]\ntftp_server = "a b"\n')
    with pytest.raises(SettingsError, match=r"tftp_server.*'a b' is not a host: expected an IPv4"):
        load({}, file)
