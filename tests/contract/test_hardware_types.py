"""Hardware types of Ironic: nodes keep the names of their driver and interfaces."""

import pytest

from .conftest import fault

IDRAC = {"redfish_address": "https://192.0.2.9", "redfish_username": "root", "redfish_password": 1}
PLUG = {
    "webhook_power_on_url": "http://192.0.2.9/on",
    "webhook_power_off_url": "http://192.0.2.9/off",
    "webhook_power_state_url": "http://192.0.2.9/state",
    "webhook_power_secret": "a secret of the plug",
}


def created(api, **fields):
    answer = api("POST", "/v1/nodes", fields)
    assert 201 == answer.status_code, answer.json
    return api("GET", f"/v1/nodes/{answer.json['uuid']}").json


def validated(api, node):
    return api("GET", f"/v1/nodes/{node['uuid']}/validate").json


def test_a_row_of_ironics_idrac_driver_keeps_its_names(api):
    names = {
        f"{kind}_interface": "idrac-redfish"
        for kind in ("bios", "inspect", "management", "power", "raid", "vendor")
    } | {"boot_interface": "idrac-redfish-virtual-media", "deploy_interface": "direct"}
    node = created(api, driver="idrac", driver_info=IDRAC, **names)
    assert {"driver": "idrac", **names}.items() <= node.items()
    results = validated(api, node)
    assert all(
        results[kind]["result"] for kind in ("bios", "inspect", "management", "power", "raid")
    )


def test_an_idrac_node_gets_ironics_names_by_default(api):
    node = created(api, driver="idrac", driver_info=IDRAC)
    assert ("idrac-redfish", "idrac-redfish") == (
        node["power_interface"],
        node["management_interface"],
    )
    results = validated(api, created(api, driver="idrac"))
    assert "driver_info/redfish_address" in results["power"]["reason"]


@pytest.mark.parametrize(
    ("driver", "kind", "name"),
    [
        ("redfish", "power", "idrac-redfish"),
        ("ipmi", "management", "intel-ipmitool"),
        ("idrac", "management", "noop"),
        ("manual-management", "power", "ipmitool"),
    ],
)
def test_an_interface_of_another_hardware_type_is_refused(api, driver, kind, name):
    answer = api("POST", "/v1/nodes", {"driver": driver, f"{kind}_interface": name})
    assert 400 == answer.status_code
    assert name in fault(answer)["faultstring"]


def test_intels_machines_have_their_management(api):
    info = {"ipmi_address": "192.0.2.9", "ipmi_username": 1001, "ipmi_password": 12345678}
    node = created(api, driver="intel-ipmi", driver_info=info)
    assert "intel-ipmitool" == node["management_interface"]
    assert {"result": True} == validated(api, node)["management"]
    assert "******" == node["driver_info"]["ipmi_password"]


def test_a_machine_without_a_bmc_has_the_power_of_its_agent_or_of_a_webhook(api):
    node = created(api, driver="manual-management")
    assert ("agent", "noop") == (node["power_interface"], node["management_interface"])
    assert "fast track" in validated(api, node)["power"]["reason"]
    plug = created(api, driver="manual-management", power_interface="webhook", driver_info=PLUG)
    assert {"result": True} == validated(api, plug)["power"]
    assert "******" == plug["driver_info"]["webhook_power_secret"]


@pytest.mark.parametrize(
    ("kind", "field", "key"),
    [
        ("boot", "driver_info", "pxe_template"),
        ("deploy", "driver_info", "image_pull_secret"),
        ("power", "driver_info", "redfish_tls_ciphers"),
    ],
)
def test_validation_names_a_key_that_is_refused(api, kind, field, key):
    node = created(api, driver="fake-hardware", **{field: {key: "x"}})
    results = validated(api, node)
    assert results[kind]["reason"].startswith(f"{field}/{key}: ")
    assert all(
        result["result"]
        for other, result in results.items()
        if other not in (kind, "deploy", "console", "rescue")
    )
