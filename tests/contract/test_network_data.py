"""A node's network configuration of the agent: refused where the boot cannot carry it."""

import pytest

NETWORK = {
    "links": [{"id": "p", "type": "phy", "ethernet_mac_address": "52:54:00:aa:00:01"}],
    "networks": [],
    "services": [],
}
IMAGES = {"deploy_kernel": "http://images/kernel", "deploy_ramdisk": "http://images/ramdisk"}


def created(api, boot, **driver_info):
    body = {
        "driver": "fake-hardware", "boot_interface": boot, "name": boot, "network_data": NETWORK,
        "driver_info": IMAGES | driver_info,
    }  # fmt: skip
    node = api("POST", "/v1/nodes", body).json["uuid"]
    port = {"node_uuid": node, "address": "52:54:00:aa:00:01"}
    assert 201 == api("POST", "/v1/ports", port).status_code
    return node


@pytest.mark.parametrize(
    ("boot", "driver_info", "reason"),
    [
        ("pxe", {}, "network_data: boot_interface pxe has no medium"),
        (
            "redfish-virtual-media",
            {"redfish_address": "https://bmc", "deploy_iso": "http://images/agent.iso"},
            "network_data: driver_info/deploy_iso names an image that is not made here",
        ),
    ],
)
def test_validation_names_the_field_and_accepts_the_node_without_it(api, boot, driver_info, reason):
    node = created(api, boot, **driver_info)
    result = api("GET", f"/v1/nodes/{node}/validate").json["boot"]
    assert result["result"] is False
    assert reason in result["reason"]
    change = [{"op": "replace", "path": "/network_data", "value": {}}]
    assert 200 == api("PATCH", f"/v1/nodes/{node}", change).status_code
    assert api("GET", f"/v1/nodes/{node}/validate").json["boot"]["result"] is True
