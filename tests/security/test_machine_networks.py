"""Networks of agents and BMCs: heartbeats and `driver_info` that point conductors elsewhere."""

import asyncio
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from types import SimpleNamespace

import pytest

from app.config.settings import Settings
from drivers.agent import client
from drivers.core.bmc import Bmcs
from drivers.core.errors import InvalidDriverInfo
from drivers.ipmi import credentials
from drivers.ipmi.client import Client
from drivers.net import networks
from drivers.redfish.transport import access
from tests.security.hostile import recording, with_body
from tests.security.machine_answers.conftest import node
from tests.unit.drivers.documents import sweep_of
from workers.conductor.poller import WaitMonitor

METADATA = "169.254.169.254"


def limited(url, *, group, **networks):
    """A machine at this URL, with settings of a group."""
    it = node(url)
    return replace(it, options={**it.options, group: {**it.options[group], **networks}})


def power_of(it):
    return it.driver.power.get_power_state(it)


def swept(it):
    outcome = sweep_of(it)
    if isinstance(outcome, Exception):
        raise outcome


def polled(it):
    """Read an agent's commands as the wait monitor does."""

    async def run():
        settings = SimpleNamespace(options=lambda: it.options)
        monitor = WaitMonitor(SimpleNamespace(settings=settings))
        try:
            await monitor._commands(it.agent.url, "token", trusted=False)
        finally:
            await monitor._http.close()
            monitor._threads.shutdown()
            monitor._loop.close()

    asyncio.run(run())


READERS = {
    "agent": (client.commands, "agent", "callback_url"),
    "poller": (polled, "agent", "callback_url"),
    "sushy": (power_of, "bmc", "driver_info/redfish_address"),
    "sweep": (swept, "bmc", "driver_info/redfish_address"),
}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize(("read", "group", "field"), READERS.values(), ids=READERS)
def test_a_machine_in_a_denied_network_is_not_contacted(read, group, field, host):
    with recording(with_body(b"{}")) as server:
        url = server.url.replace("127.0.0.1", host)
        with pytest.raises(InvalidDriverInfo, match=rf"{field}: .*\[{group}\]denied_networks"):
            read(limited(url, group=group, denied_networks=("127.0.0.0/8", "::1/128")))
        assert [] == server.request_log


@pytest.mark.parametrize(("read", "group", "field"), READERS.values(), ids=READERS)
def test_a_machine_outside_of_the_allowed_networks_is_not_contacted(read, group, field):
    with recording(with_body(b"{}")) as server:
        with pytest.raises(InvalidDriverInfo, match=rf"{field}: .*\[{group}\]allowed_networks"):
            read(limited(server.url, group=group, allowed_networks=("192.0.2.0/24",)))
        assert [] == server.request_log


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("program", ["pyghmi", "ipmitool"])
def test_an_ipmi_bmc_in_a_denied_network_is_not_contacted(host, program):
    it = limited("http://192.0.2.1", group="bmc", denied_networks=("127.0.0.0/8", "::1/128"))
    it = replace(it, driver_info={"ipmi_address": host, "ipmi_client": program})
    refused = r"driver_info/ipmi_address: .*\[bmc\]denied_networks"
    packets = []
    with pytest.raises(InvalidDriverInfo, match=refused):
        replace(Client.of(it, Bmcs()), transport=packets.append).power_state()
    assert [] == packets


def test_ipmi_contacts_the_address_that_was_checked():
    it = replace(node("http://192.0.2.1"), driver_info={"ipmi_address": "localhost"})
    contacted = []

    def transport(bmc, *_request):
        contacted.append(bmc.peer)
        return 0, b"\1"

    replace(Client.of(it, Bmcs()), transport=transport, suites=()).power_state()
    assert contacted[0] in ("127.0.0.1", "::1")


def test_metadata_addresses_are_refused_by_default_and_loopback_is_not():
    for host in (METADATA, "[fe80::1]", "100.100.100.200", "[::ffff:169.254.169.254]", "0.0.0.0"):
        with pytest.raises(InvalidDriverInfo, match=r"redfish_address: .*\[bmc\]denied_networks"):
            access.access(node(f"https://{host}"))
    for host in (METADATA, "fe80::1"):
        it = replace(node("https://x"), driver_info={"ipmi_address": host})
        with pytest.raises(InvalidDriverInfo, match=r"ipmi_address: .*\[bmc\]denied_networks"):
            credentials.read(it)
    assert "https://127.0.0.1" == access.access(node("https://127.0.0.1")).address


#: Addresses that lead to loopback, to the network of a link, or to a service of a cloud.
NEVER = (
    "127.0.0.1", "127.66.1.2", "::1", "::", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1", "64:ff9b:1::127.0.0.1", "64:ff9b:1:7f00:0:100::", "2002:7f00:1::",
    "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "fe80::5efe:127.0.0.1",
    "2001:db8::5efe:127.0.0.1", "2001:db8::200:5efe:169.254.169.254", "169.254.169.254",
    "64:ff9b:1::169.254.169.254", "168.63.129.16", "::ffff:0:168.63.129.16", "100.100.100.200",
    "fd00:ec2::254", "fd20:ce::254", "192.0.0.192", "0.0.0.0", "224.0.0.1", "ff02::1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("translated", "original"),
    [
        ("64:ff9b:1:a83f:81:1000::", "168.63.129.16"), ("64:ff9b:1:a83f:81:1100::", "168.63.129.17"),
        ("64:ff9b:1:a83f:181:1000::", "168.63.129.16"), ("64:ff9b:1:6464:64:c800::", "100.100.100.200"),
        ("64:ff9b:1:c000:0:c000::", "192.0.0.192"), ("64:ff9b:1:c000:2:c000::", "192.0.2.192"),
    ],
)  # fmt: skip
def test_an_address_that_a_site_translates_counts_as_all_four_of_its_bytes(translated, original):
    """RFC 6052, 2.2: with 48 bits of the site, the bytes lie around bits 64 to 71."""
    reach = networks.of_urls(Settings().options(), "instance_info/image_source")
    assert reach.refused_by(translated) or not reach.refused_by(original)
    assert IPv4Address(original) in networks._meanings(IPv6Address(translated))


@pytest.mark.parametrize("group", ["agent", "bmc", "conductor"])
def test_by_default_no_form_of_loopback_or_a_metadata_address_is_contacted(group):
    options = Settings().options()
    reach = {
        "agent": networks.of_agents(options),
        "bmc": networks.of_bmcs(options, "redfish_address"),
        "conductor": networks.of_urls(options, "instance_info/image_source"),
    }[group]
    assert [] == [address for address in NEVER if reach.refused_by(address) is None]
    usual = ("10.0.0.1", "192.168.1.1", "198.51.100.7", "2001:db8::1", "fd12:3456::1", "2a00::1")
    assert [] == [address for address in usual if reach.refused_by(address) is not None]
