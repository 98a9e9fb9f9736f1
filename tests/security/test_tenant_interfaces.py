"""Interfaces that a lessee names in `instance_info`: they have no part in the cleaning after it."""

import pytest

from tests.contract.policy.conftest import LESSEE, OWNER

INFO = {
    "redfish_address": "https://bmc.internal",
    "redfish_username": "bmc-user",
    "redfish_password": "BMC-PW",
}
#: Step that the operator has enabled.
ENABLED = "bios.factory_reset"


@pytest.fixture
def deleted(guarded):
    """deleted(instance_info, **interfaces) -> the steps of the deletion by the lessee."""
    ask = guarded.make(conductor={"clean_step_priority_override": {ENABLED: 10}})

    def deleted(instance_info, **interfaces):
        body = {"driver": "redfish", "bios_interface": "redfish"} | interfaces
        node = guarded.api("POST", "/v1/nodes", body).json["uuid"]
        guarded.api.set(
            node, driver_info=INFO, provision_state="active", owner=OWNER, lessee=LESSEE
        )
        change = [{"op": "add", "path": "/instance_info", "value": instance_info}]
        assert 200 == ask("lessee-admin", "PATCH", f"/v1/nodes/{node}", change).status_code
        path, body = f"/v1/nodes/{node}/states/provision", {"target": "deleted", "dry_run": True}
        answer = ask("lessee-admin", "PUT", path, body)
        assert 200 == answer.status_code, answer.text
        assert answer.json["accepted"], answer.text
        return [(step["interface"], step["step"]) for step in answer.json["steps"]]

    return deleted


@pytest.mark.parametrize(
    "interfaces", [{"deploy_interface": "noop"}, {"bios_interface": "no-bios"},
               {"deploy_interface": "noop", "bios_interface": "no-bios", "raid_interface": "no-raid"}]
)  # fmt: skip
def test_a_lessee_leaves_no_step_of_the_cleaning_out(deleted, interfaces):
    usual = deleted({})
    assert ("deploy", "await_clean_agent") in usual
    assert tuple(ENABLED.split(".")) in usual
    cleaning = usual[usual.index(("network", "add_cleaning_network")) :]
    assert cleaning == deleted(interfaces)[-len(cleaning) :]


def test_a_node_of_which_nothing_is_erased_can_be_deleted(deleted):
    assert [("power", "read")] == deleted({}, deploy_interface="noop", bios_interface="no-bios")


@pytest.mark.parametrize("name", ["none-such", ["direct"], {"name": "direct"}, 5, True])
def test_a_lessee_names_only_interfaces_of_the_driver(guarded, name):
    ask = guarded.make()
    node = guarded.api("POST", "/v1/nodes", {"driver": "fake-hardware"}).json["uuid"]
    guarded.api.set(node, provision_state="active", owner=OWNER, lessee=LESSEE)
    change = [{"op": "add", "path": "/instance_info/deploy_interface", "value": name}]
    answer = ask("lessee-admin", "PATCH", f"/v1/nodes/{node}", change)
    assert 400 == answer.status_code, answer.text
    assert "instance_info/deploy_interface" in answer.text
    path, body = f"/v1/nodes/{node}/states/provision", {"target": "deleted"}
    assert 202 == ask("lessee-admin", "PUT", path, body).status_code


def test_an_interface_of_the_instance_is_checked_with_the_new_driver(api):
    body = {"driver": "fake-hardware", "instance_info": {"power_interface": "fake"}}
    node = api("POST", "/v1/nodes", body).json["uuid"]
    change = [{"op": "add", "path": "/driver", "value": "redfish"}]
    answer = api("PATCH", f"/v1/nodes/{node}?reset_interfaces=true", change)
    assert 400 == answer.status_code, answer.text
    assert "instance_info/power_interface" in answer.text
