"""
The main job on real input: the real `baremetal` CLI and openstacksdk take a Redfish machine, with an
independent BMC, from enrolment to an instance and back.
"""

import openstack
import pytest
import requests

from tests.contract.clients.cli import Baremetal
from tests.e2e import bare_metal
from tests.support.fleet import Fleet


@pytest.fixture(scope="module")
def machine_and_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("e2e")
    with (
        bare_metal.running(folder) as machine,
        Fleet(folder, conductors=1, INGOT_AGENT_REQUIRE_TLS="false") as fleet,
    ):
        machine.api_url = fleet.url
        yield machine, fleet.url


def test_the_baremetal_cli_takes_a_machine_from_enrolment_to_an_instance_and_back(machine_and_url):
    machine, url = machine_and_url
    baremetal = Baremetal(url)
    node = baremetal(
        "node", "create", "--driver", "redfish", "--name", "rack1-u7",
        "--driver-info", f"redfish_address={machine.bmc_url}",
        "--driver-info", f"redfish_system_id=/redfish/v1/Systems/{bare_metal.UUID}",
        "--driver-info", "redfish_username=admin",
        "--driver-info", "redfish_password=secret",
        "--driver-info", f"deploy_iso={machine.url}/agent.iso",
    )  # fmt: skip
    assert node["provision_state"] == "enroll"
    assert node["driver_info"]["redfish_password"] == "******"
    port = baremetal("port", "create", "--node", node["uuid"], bare_metal.MAC)
    assert port["address"] == bare_metal.MAC

    baremetal("node", "manage", "--wait", "60", "rack1-u7")
    node = baremetal("node", "show", "rack1-u7")
    assert (node["provision_state"], node["power_state"]) == ("manageable", "power off")

    baremetal("node", "provide", "--wait", "150", "rack1-u7")
    assert_available(baremetal)
    cleaned = [step["step"] for step in steps_done(url, "provide") if step["in_band"]]
    assert cleaned == ["erase_devices_metadata", "erase_devices"]

    image = [("--instance-info", f"{name}={value}") for name, value in machine.image_info.items()]
    baremetal("node", "set", "rack1-u7", *(word for pair in image for word in pair))
    baremetal("node", "deploy", "--wait", "150", "rack1-u7")
    node = baremetal("node", "show", "rack1-u7")
    assert (node["provision_state"], node["power_state"]) == ("active", "power on")

    connection = openstack.connect(
        auth_type="none", baremetal_endpoint_override=url, load_yaml_config=False
    )
    sdk_node = connection.baremetal.get_node("rack1-u7")
    assert (sdk_node.id, sdk_node.provision_state) == (node["uuid"], "active")
    assert [sdk_port.address for sdk_port in connection.baremetal.ports(node=sdk_node.id)] == [
        bare_metal.MAC
    ]
    connection.baremetal.set_node_provision_state(sdk_node, "deleted", wait=True, timeout=150)
    node = assert_available(baremetal)
    assert (node["instance_info"], node["power_state"]) == ({}, "power off")


def assert_available(baremetal):
    node = baremetal("node", "show", "rack1-u7")
    assert (node["provision_state"], node["last_error"]) == ("available", None)
    return node


def steps_done(url, kind):
    headers = {"X-OpenStack-Ironic-API-Version": "latest"}
    answer = requests.get(f"{url}/v1/nodes/rack1-u7/operations", headers=headers, timeout=10)
    newest = next(
        operation for operation in answer.json()["operations"] if operation["kind"] == kind
    )
    operation = requests.get(f"{url}/v1/operations/{newest['uuid']}", headers=headers, timeout=10)
    return operation.json()["steps"]
