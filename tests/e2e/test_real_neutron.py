"""Network interfaces flat and neutron against a real Neutron, which configures a real switch."""

import time
from dataclasses import replace

import pytest

from drivers.core.steps import Done, Failed, Wait
from drivers.core.target import Nic
from drivers.neutron import service
from tests.e2e import real_neutron
from tests.unit.drivers.machines import OPTIONS, new_registry, target

pytestmark = pytest.mark.slow

LINK = {"switch_id": real_neutron.SWITCH, "port_id": "p7", "switch_info": "leaf-1"}
NIC = Nic("p1", "52:54:00:00:00:01", local_link_connection=LINK)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with real_neutron.serving(tmp_path_factory.mktemp("neutron")) as started_site:
        yield started_site
    service._connect.cache_clear()


@pytest.fixture
def neutron(site):
    yield site
    site.clear()


def machine(neutron, network="neutron", nic=NIC, **fields):
    options = {
        **OPTIONS,
        "deploy": {**OPTIONS["deploy"], "http_url": "http://192.0.2.1:8080"},
        "agent": {**OPTIONS["agent"], "neutron_agent_status_retry_interval": 0.5},
        "neutron": {
            **OPTIONS["neutron"],
            "auth_type": "none",
            "endpoint_override": neutron.url,
            "cleaning_network": "cleaning" if network == "neutron" else "free",
            "provisioning_network": "provisioning",
            "servicing_network": "servicing",
        },
    }
    interfaces = {"network": network, "boot": "ipxe", "deploy": "direct"}
    return target(
        interfaces=interfaces, registry=new_registry(), options=options, nics=(nic,), **fields
    )


def run(it, method):
    """Run a frame step to its end, and return the outcome."""
    outcome = it.driver.network.run(it, method, {})
    while isinstance(outcome, Wait):
        time.sleep(outcome.poll_after)
        outcome = it.driver.network.run(replace(it, progress=outcome.progress), method, {})
    return outcome


def holding(vif):
    return replace(NIC, internal_info={"tenant_vif_port_id": vif})


def test_the_switch_follows_the_life_of_a_machine(neutron):
    vif = neutron.add_port()
    it = machine(neutron, nic=holding(vif))
    it.driver.network.plug_vif(it, vif)
    assert None is neutron.vlan("p7"), "an attached VIF is connected by the deployment"
    for method, network in (
        ("add_cleaning_network", "cleaning"),
        ("remove_cleaning_network", None),
        ("unconfigure_tenant_networks", None),
        ("add_provisioning_network", "provisioning"),
        ("remove_provisioning_network", None),
        ("configure_tenant_networks", "tenant"),
        ("unconfigure_tenant_networks", None),
        ("add_servicing_network", "servicing"),
        ("remove_servicing_network", None),
        ("configure_tenant_networks", "tenant"),
    ):
        assert isinstance(run(it, method), Done), method
        assert real_neutron.VLANS.get(network) == neutron.vlan("p7"), method
        agents = 1 if network in ("cleaning", "provisioning", "servicing") else 0
        assert 1 + agents == len(neutron.ports()), method
    port = neutron.ports()[vif]
    assert (it.uuid, "ACTIVE", NIC.address) == (
        port["binding:host_id"],
        port["status"],
        port["mac_address"],
    )


def test_an_agent_is_not_put_beside_a_tenant(neutron):
    vif = neutron.add_port()
    it = machine(neutron, nic=holding(vif))
    run(it, "configure_tenant_networks")
    assert real_neutron.VLANS["tenant"] == neutron.vlan("p7")
    run(it, "add_cleaning_network")
    assert real_neutron.VLANS["cleaning"] == neutron.vlan("p7")
    assert "unbound" == neutron.ports()[vif]["binding:vif_type"]


def test_a_machine_on_an_unknown_switch_is_not_connected(neutron):
    link = {**LINK, "switch_id": "0c:c4:7a:ff:ff:ff", "switch_info": "leaf-9"}
    it = machine(neutron, nic=replace(NIC, local_link_connection=link))
    outcome = run(it, "add_cleaning_network")
    assert isinstance(outcome, Failed)
    assert "binding_failed" in outcome.reason
    run(it, "remove_cleaning_network")
    assert {} == neutron.ports()


def test_a_port_of_a_crashed_conductor_is_replaced(neutron):
    it = machine(neutron)
    run(it, "add_cleaning_network")
    (first_port,) = neutron.ports()
    run(it, "add_cleaning_network")  # nothing of the first attempt was recorded
    (second_port,) = neutron.ports()
    assert first_port != second_port
    assert real_neutron.VLANS["cleaning"] == neutron.vlan("p7")


def test_flat_gives_addresses_and_boot_files(neutron):
    vif = neutron.add_port("free")
    it = machine(neutron, "flat", holding(vif))
    run(it, "add_provisioning_network")
    port = neutron.ports()[vif]
    assert (NIC.address, it.uuid) == (port["mac_address"], port["binding:host_id"])
    assert "tag:ipxe,67" in {option["opt_name"] for option in port["extra_dhcp_opts"]}
    run(it, "remove_provisioning_network")
    run(it, "configure_tenant_networks")
    assert [] == neutron.ports()[vif]["extra_dhcp_opts"]
    run(it, "unconfigure_tenant_networks")
    assert NIC.address != neutron.ports()[vif]["mac_address"]
