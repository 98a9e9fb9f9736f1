"""Network interfaces flat and neutron: the ports of each phase, as Neutron has them."""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest

from drivers.core.errors import InvalidDriverInfo, Refused, Unexpected, Unreachable
from drivers.core.steps import Done, Failed, Wait
from drivers.neutron.service import NetworkService
from tests.unit.drivers.neutron.conftest import FIRST, LINK, SECOND, bond, run, with_vif

PHASES = ("cleaning", "provisioning", "rescuing", "servicing", "inspection")


@pytest.mark.parametrize("purpose", PHASES)
def test_the_agent_gets_a_port_in_the_network_of_its_phase(neutron, machine, purpose):
    it = run(machine(), f"add_{purpose}_network")
    (port,) = neutron.on(purpose)
    assert {
        "mac_address": FIRST.address, "binding:host_id": it.uuid, "binding:vnic_type": "baremetal",
        "device_owner": "baremetal:none", "device_id": it.uuid,
        "binding:profile": {"local_link_information": [LINK]}, "status": "ACTIVE",
    }.items() <= port.items()  # fmt: skip
    assert {f"{purpose}_vif_port_id": port["id"]} == it.nics[0].internal_info
    assert {} == it.nics[1].internal_info
    it = run(it, f"remove_{purpose}_network")
    assert ({}, {}) == (neutron.ports, it.nics[0].internal_info)


def test_dhcp_leads_the_agent_to_its_loader(neutron, machine):
    run(machine(nics=(replace(FIRST, extra={"client-id": "ff:01"}),)), "add_cleaning_network")
    (port,) = neutron.ports.values()
    dhcp_options = {(option["opt_name"], option["opt_value"]) for option in port["extra_dhcp_opts"]}
    assert {
        ("tag:!ipxe,67", "snponly.efi"),
        ("tag:ipxe,67", "http://192.0.2.1:8080/boot.ipxe"),
        ("66", "192.0.2.1"), ("150", "192.0.2.1"), ("server-ip-address", "192.0.2.1"),
        ("61", "ff:01"),
    } == dhcp_options  # fmt: skip


@pytest.mark.parametrize(
    ("boot", "expected"),
    [
        ("pxe", {"67": "pxelinux.0", "66": "192.0.2.1", "150": "192.0.2.1", "server-ip-address": "192.0.2.1"}),
        ("http", {"67": "http://192.0.2.1:8080/bootx64.efi", "60": "HTTPClient"}),
        (
            "http-ipxe",
            {
                "tag:!ipxe,67": "http://192.0.2.1:8080/snponly.efi",
                "tag:ipxe,67": "http://192.0.2.1:8080/boot.ipxe",
                "60": "HTTPClient",
            },
        ),
    ],
)  # fmt: skip
def test_each_boot_interface_has_its_options(machine, boot, expected):
    mode = "bios" if boot == "pxe" else "uefi"
    it = machine(boot=boot, properties={"capabilities": f"boot_mode:{mode}"})
    options = it.driver.boot.dhcp_options(it)
    assert expected == {option["opt_name"]: option["opt_value"] for option in options}


def test_dhcp_over_ipv6_has_urls(machine):
    it = machine()
    pxe = {**it.options["pxe"], "tftp_server": "2001:db8::1"}
    it = replace(it, options={**it.options, "pxe": pxe})
    options = it.driver.boot.dhcp_options(it)
    assert {
        "tag:!ipxe6,59": "tftp://[2001:db8::1]/snponly.efi",
        "tag:ipxe6,59": "http://192.0.2.1:8080/boot.ipxe",
    } == {option["opt_name"]: option["opt_value"] for option in options}
    assert {6} == {option["ip_version"] for option in options}


def test_without_a_network_boot_all_ports_are_connected(neutron, machine):
    run(machine(boot="redfish-virtual-media"), "add_cleaning_network")
    ports = {port["mac_address"]: port for port in neutron.on("cleaning")}
    assert {FIRST.address, SECOND.address} == ports.keys()
    assert [] == ports[SECOND.address]["fixed_ips"]
    assert [] == ports[FIRST.address]["extra_dhcp_opts"]


def test_security_groups_are_those_of_the_phase(neutron, machine):
    run(machine(neutron_cleaning_network_security_groups=("s1",)), "add_cleaning_network")
    assert ["s1"] == neutron.on("cleaning")[0]["security_groups"]


def test_a_node_names_its_own_networks(neutron, machine):
    neutron.add_network("lab")
    run(machine(driver_info={"cleaning_network": "lab"}), "add_cleaning_network")
    assert 1 == len(neutron.on("lab"))


def test_a_deployment_moves_the_machine_from_one_network_to_the_other(neutron, machine):
    vif = neutron.add_port()
    it = machine(nics=(with_vif(FIRST, vif), SECOND))
    it.driver.network.plug_vif(it, vif)
    assert (it.uuid, {}) == (
        neutron.ports[vif]["binding:host_id"],
        neutron.ports[vif]["binding:profile"],
    )
    it = run(it, "unconfigure_tenant_networks")
    assert ("", "unbound") == tuple(
        neutron.ports[vif][key] for key in ("binding:host_id", "binding:vif_type")
    )
    assert FIRST.address != neutron.ports[vif]["mac_address"]
    it = run(it, "add_provisioning_network")
    it = run(it, "remove_provisioning_network")
    it = run(it, "configure_tenant_networks")
    assert {
        "mac_address": FIRST.address, "binding:host_id": it.uuid, "status": "ACTIVE",
        "binding:profile": {"local_link_information": [LINK]},
    }.items() <= neutron.ports[vif].items()  # fmt: skip
    assert {vif} == neutron.ports.keys()
    it = run(it, "unconfigure_tenant_networks")
    assert "" == neutron.ports[vif]["binding:host_id"]


def test_a_port_group_is_bound_as_a_bond(neutron, machine):
    vif = neutron.add_port()
    members = tuple(replace(nic, group="g1", physical_network="rack1") for nic in (FIRST, SECOND))
    it = machine(nics=members, nic_groups=(bond(internal_info={"tenant_vif_port_id": vif}),))
    mac = neutron.ports[vif]["mac_address"]
    run(it, "configure_tenant_networks")
    assert {
        "local_link_information": [LINK, {**LINK, "port_id": "Eth1/8"}],
        "physical_network": "rack1",
        "local_group_information": {
            "id": "g1", "name": "bond0", "bond_mode": "802.3ad",
            "bond_properties": {"bond_miimon": 100, "bond_xmit_hash_policy": "layer2"},
        },
    } == neutron.ports[vif]["binding:profile"]  # fmt: skip
    assert mac == neutron.ports[vif]["mac_address"]
    run(it, "unconfigure_tenant_networks")
    assert ("", mac) == (neutron.ports[vif]["binding:host_id"], neutron.ports[vif]["mac_address"])


def test_flat_leads_the_machine_to_its_agent_by_the_ports_of_the_tenant(neutron, machine):
    vif = neutron.add_port()
    it = machine("flat", nics=(with_vif(FIRST, vif),))
    run(it, "unconfigure_tenant_networks")
    run(it, "add_provisioning_network")
    port = neutron.ports[vif]
    assert {
        "mac_address": FIRST.address,
        "binding:host_id": it.uuid,
        "binding:profile": {},
    }.items() <= port.items()
    assert "tag:ipxe,67" in {option["opt_name"] for option in port["extra_dhcp_opts"]}
    run(it, "remove_provisioning_network")
    run(it, "configure_tenant_networks")
    assert ([], it.uuid) == (port["extra_dhcp_opts"], port["binding:host_id"])
    assert {vif} == neutron.ports.keys()


def test_options_of_the_tenant_stay(neutron, machine):
    option = {"opt_name": "26", "opt_value": "9000", "ip_version": 4}
    vif = neutron.add_port(extra_dhcp_opts=[option])
    it = machine("flat", nics=(with_vif(FIRST, vif),))
    run(it, "add_provisioning_network")
    run(it, "unconfigure_tenant_networks")
    assert [option] == neutron.ports[vif]["extra_dhcp_opts"]


def test_flat_without_a_vif_cannot_lead_a_machine(machine):
    it = machine("flat")
    outcome = it.driver.network.add_provisioning_network(it)
    assert isinstance(outcome, Failed)
    assert "has no VIF" in outcome.reason
    by_media = machine("flat", boot="redfish-virtual-media")
    assert isinstance(by_media.driver.network.add_provisioning_network(by_media), Done)


def test_an_agent_never_shares_the_machine_with_a_tenant(neutron, machine):
    vif = neutron.add_port()
    it = machine(nics=(with_vif(FIRST, vif),))
    run(it, "configure_tenant_networks")
    run(it, "add_cleaning_network")
    assert ("", "unbound") == tuple(
        neutron.ports[vif][key] for key in ("binding:host_id", "binding:vif_type")
    )


def test_inspection_stays_where_it_is_without_a_network(neutron, machine):
    it = machine(neutron_inspection_network=None)
    outcome = it.driver.network.add_inspection_network(it)
    assert "unchanged" in outcome.result["networks"]
    run(it, "remove_inspection_network")
    assert [] == neutron.requests


# waits


def test_a_step_waits_until_neutron_has_connected_the_port(neutron, machine):
    neutron.slow = 2
    it = machine()
    outcome = it.driver.network.add_cleaning_network(it)
    assert isinstance(outcome, Wait)
    assert "to connect port" in outcome.progress["waits_for"]
    run(replace(it, progress=outcome.progress), "add_cleaning_network")
    assert [("POST", "/v2.0/ports")] == neutron.orders()


@pytest.mark.parametrize("method", ["add_cleaning_network", "configure_tenant_networks"])
def test_a_failed_binding_fails_the_step(neutron, machine, method):
    vif = neutron.add_port()
    neutron.binds = "binding_failed"
    it = machine(nics=(with_vif(FIRST, vif),))
    outcome = it.driver.network.run(it, method, {})
    assert isinstance(outcome, Failed)
    assert "binding_failed" in outcome.reason


def test_a_port_that_stays_down_fails_the_step(neutron, machine):
    neutron.binds = "DOWN"
    it = machine()
    it = replace(
        it,
        options={**it.options, "agent": {**it.options["agent"], "neutron_agent_max_attempts": 2}},
    )
    outcome = it.driver.network.add_cleaning_network(it)
    outcome = it.driver.network.add_cleaning_network(replace(it, progress=outcome.progress))
    assert isinstance(outcome, Failed)
    assert "DOWN after 20 s" in outcome.reason


@pytest.mark.parametrize(
    "fields",
    [
        {"neutron_fail_on_port_binding_failure": False},
        {"driver_info": {"fail_on_binding_failure": "False"}},
    ],
)
def test_a_failed_binding_may_be_accepted_and_is_told(neutron, machine, fields):
    neutron.binds = "binding_failed"
    it = machine(**fields)
    outcome = it.driver.network.add_cleaning_network(it)
    (port,) = neutron.ports
    assert Done({"ports": [port], "unconnected": {port: "binding_failed"}}) == outcome


def test_a_port_deleted_meanwhile_fails_the_step(neutron, machine):
    neutron.slow = 1
    it = machine()
    outcome = it.driver.network.add_cleaning_network(it)
    neutron.ports.clear()
    outcome = it.driver.network.add_cleaning_network(replace(it, progress=outcome.progress))
    assert isinstance(outcome, Failed)
    assert "it is deleted" in outcome.reason


@pytest.mark.parametrize("status", ["ERROR", "DEGRADED"])
def test_a_trunk_that_failed_fails_the_step(neutron, machine, status):
    neutron.trunks["t1"] = {"id": "t1", "status": status}
    vif = neutron.add_port(trunk_details={"trunk_id": "t1", "sub_ports": []})
    it = machine(nics=(with_vif(FIRST, vif),))
    outcome = it.driver.network.configure_tenant_networks(it)
    assert f"its trunk t1 is {status}" in outcome.reason
    neutron.trunks["t1"]["status"] = "ACTIVE"
    assert isinstance(it.driver.network.configure_tenant_networks(it), Done)


@pytest.mark.parametrize("network", ["flat", "neutron"])
def test_dhcp_servers_get_time_to_learn_the_ports(machine, network):
    it = machine(network, neutron_port_setup_delay=15)
    outcome = it.driver.network.add_cleaning_network(it)
    assert 15 == outcome.poll_after
    assert isinstance(
        it.driver.network.add_cleaning_network(replace(it, progress=outcome.progress)), Done
    )


# faults


def test_a_lost_answer_leaves_one_port(neutron, machine):
    neutron.fail("POST", "/ports", "lost")
    run(machine(), "add_cleaning_network")
    assert 1 == len(neutron.ports)
    assert ["POST"] == [method for method, _ in neutron.orders()]


def test_an_unheard_request_is_repeated_by_the_service(neutron, machine):
    neutron.fail("POST", "/ports", "unheard")
    it = machine()
    with pytest.raises(Unreachable) as raised:
        it.driver.network.add_cleaning_network(it)
    assert raised.value.retryable
    run(it, "add_cleaning_network")
    assert 1 == len(neutron.ports)


@pytest.mark.parametrize(
    ("status", "error"), [(500, Unexpected), (503, Unexpected), (409, Refused), (403, Refused)]
)
def test_an_error_is_told_in_the_words_of_neutron(neutron, machine, status, error):
    neutron.fail("POST", "/ports", status)
    it = machine()
    with pytest.raises(error, match=f"Neutron answered {status} for a new port .*: out of order"):
        it.driver.network.add_cleaning_network(it)
    run(it, "remove_cleaning_network")
    assert {} == neutron.ports


def test_neutron_out_of_reach_is_told_without_secrets(machine):
    it = machine(neutron_endpoint_override="http://user:sesame@127.0.0.1:9")
    with pytest.raises(Unreachable, match="Neutron did not answer") as raised:
        it.driver.network.add_cleaning_network(it)
    assert "sesame" not in str(raised.value)


def test_ports_of_others_are_not_deleted(neutron, machine):
    """A tenant's port in the network for cleaning, or one with the machine's address."""
    other = neutron.add_port("cleaning", mac_address=SECOND.address)
    clash = neutron.add_port("cleaning", mac_address=FIRST.address, device_id="d1")
    it = machine()
    with pytest.raises(
        Refused, match=f"Port {clash} of device d1 .compute:az. has MAC address"
    ) as raised:
        it.driver.network.add_cleaning_network(it)
    assert "is in use" in str(raised.value)
    run(it, "remove_cleaning_network")
    assert {other, clash} == neutron.ports.keys()


def test_leftovers_of_any_phase_are_removed(neutron, machine):
    """Such as those of a conductor that died before their ids were recorded."""
    it = machine()
    for purpose in PHASES:
        neutron._create_port({
            "network_id": neutron.id_of(purpose), "mac_address": FIRST.address, "device_id": it.uuid,
            "device_owner": "baremetal:none",
        })  # fmt: skip
    run(it, "add_cleaning_network")
    assert ["cleaning"] == [
        neutron.networks[port["network_id"]]["name"] for port in neutron.ports.values()
    ]


def test_a_vif_that_is_deleted_is_unbound(neutron, machine):
    vif = neutron.add_port()
    it = machine(nics=(with_vif(FIRST, vif),))
    run(it, "configure_tenant_networks")
    del neutron.ports[vif]
    run(it, "unconfigure_tenant_networks")
    with pytest.raises(
        InvalidDriverInfo, match=f"no port {vif}, the VIF of port p1: detach the VIF"
    ):
        it.driver.network.configure_tenant_networks(it)


def test_a_vif_deleted_while_it_is_unbound_is_unbound(neutron, machine):
    vif = neutron.add_port()
    it = machine(nics=(with_vif(FIRST, vif),))
    run(it, "configure_tenant_networks")
    neutron.fail("PUT", vif, 404)
    run(it, "unconfigure_tenant_networks")


def test_a_vif_that_moved_to_another_host_is_left_alone(neutron, machine):
    vif = neutron.add_port(**{"binding:host_id": "elsewhere"})
    it = machine(nics=(with_vif(FIRST, vif),))
    run(it, "unconfigure_tenant_networks")
    assert "elsewhere" == neutron.ports[vif]["binding:host_id"]
    with pytest.raises(InvalidDriverInfo, match="to host elsewhere"):
        it.driver.network.configure_tenant_networks(it)


def test_a_vif_that_is_bound_with_another_address_is_bound_again(neutron, machine):
    """As after a change of the machine's network card; Neutron refuses to change a bound port."""
    vif = neutron.add_port()
    it = machine(nics=(with_vif(FIRST, vif),))
    run(
        machine(nics=(replace(with_vif(FIRST, vif), address="52:54:00:00:00:77"),)),
        "configure_tenant_networks",
    )
    run(it, "configure_tenant_networks")
    port = neutron.ports[vif]
    assert (FIRST.address, it.uuid, "ACTIVE") == (
        port["mac_address"],
        port["binding:host_id"],
        port["status"],
    )


@pytest.mark.parametrize("number", [0, 2])
def test_a_network_must_be_one(neutron, machine, number):
    for _ in range(number):
        neutron.add_network("double")
    it = machine(neutron_cleaning_network="double")
    with pytest.raises(
        InvalidDriverInfo, match=r"\[neutron\]cleaning_network: Neutron has (no|2) network"
    ):
        it.driver.network.add_cleaning_network(it)


def test_a_network_may_be_given_by_its_uuid(neutron, machine):
    run(machine(neutron_cleaning_network=neutron.id_of("cleaning")), "add_cleaning_network")
    assert 1 == len(neutron.on("cleaning"))


# crashes


class Crash(BaseException):
    """Death of the conductor: nothing after it runs, and nothing is reported."""


STORIES = {
    "flat": ("add_cleaning_network", "remove_cleaning_network", "unconfigure_tenant_networks",
             "add_provisioning_network", "remove_provisioning_network", "configure_tenant_networks",
             "unconfigure_tenant_networks"),
    "neutron": ("add_cleaning_network", "remove_cleaning_network", "unconfigure_tenant_networks",
                "add_provisioning_network", "remove_provisioning_network",
                "configure_tenant_networks", "unconfigure_tenant_networks", "add_servicing_network",
                "remove_servicing_network", "configure_tenant_networks"),
}  # fmt: skip


@pytest.fixture
def deadly(monkeypatch):
    """`deadly.at`: number of the request at which the conductor dies; `answered`: after it."""
    state = SimpleNamespace(at=0, answered=False, count=0)

    def interrupted(method):
        def call(*args, **kwargs):
            state.count += 1
            if state.count == state.at and not state.answered:
                raise Crash
            result = method(*args, **kwargs)
            if state.count == state.at:
                raise Crash
            return result

        return call

    for name in ("network", "port", "ports", "create", "update", "delete"):
        monkeypatch.setattr(NetworkService, name, interrupted(getattr(NetworkService, name)))
    return state


@pytest.mark.parametrize("network", STORIES)
@pytest.mark.parametrize("answered", [False, True])
def test_a_death_between_any_two_requests_leaves_no_orphan_and_no_double(
    neutron, machine, network, answered, deadly
):
    """Each phase is interrupted at each of its requests, and run again without its reports."""
    vifs = [neutron.add_port(), neutron.add_port()]
    it = machine(network, nics=(with_vif(FIRST, vifs[0]), with_vif(SECOND, vifs[1])))
    deadly.answered, crashes = answered, 0
    for method in STORIES[network]:
        ports, deadly.at = deepcopy(neutron.ports), 0
        next_node = run(it, method)
        expected, deadly.at = wiring(neutron, next_node), 1
        while True:
            neutron.ports, deadly.count = deepcopy(ports), 0
            try:
                run(replace(it, reports={}), method)
            except Crash:
                crashes += 1
                again = run(replace(it, reports={}, resumed=True), method)
                assert expected == wiring(neutron, again), (method, deadly.at)
                deadly.at += 1
                continue
            break
        deadly.at = 0
        neutron.ports = deepcopy(ports)
        it = run(replace(it, reports={}), method)
        service_ports = neutron.ports.keys() - set(vifs)
        joined = method.startswith("add_") and (network == "neutron" or "cleaning" in method)
        assert len(service_ports) == int(joined), method
    assert crashes > 20


def wiring(neutron, it):
    """The ports of a machine in Neutron, and the recorded ones, without their ids."""

    def described(ident):
        port = neutron.ports[ident]
        mac = port["mac_address"] if port["binding:host_id"] else None
        network = neutron.networks[port["network_id"]]["name"]
        return (
            network,
            mac,
            port["binding:host_id"],
            str(port["binding:profile"]),
            str(port["extra_dhcp_opts"]),
        )

    recorded = [
        (nic.uuid, key, described(vif)) for nic in it.nics for key, vif in nic.internal_info.items()
    ]
    return sorted(map(described, neutron.ports)), sorted(recorded)
