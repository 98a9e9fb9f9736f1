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
        return [(each["interface"], each["step"]) for each in answer.json["steps"]]

    return deleted


@pytest.mark.parametrize(
    "chosen", [{"deploy_interface": "noop"}, {"bios_interface": "no-bios"},
               {"deploy_interface": "noop", "bios_interface": "no-bios", "raid_interface": "no-raid"}]
)  # fmt: skip
def test_a_lessee_leaves_no_step_of_the_cleaning_out(deleted, chosen):
    usual = deleted({})
    assert ("deploy", "await_clean_agent") in usual
    assert tuple(ENABLED.split(".")) in usual
    cleaning = usual[usual.index(("network", "add_cleaning_network")) :]
    assert cleaning == deleted(chosen)[-len(cleaning) :]


def test_a_node_of_which_nothing_is_erased_can_be_deleted(deleted):
    assert [("power", "read")] == deleted({}, deploy_interface="noop", bios_interface="no-bios")
