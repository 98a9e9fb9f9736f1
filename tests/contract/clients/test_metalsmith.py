"""metalsmith, which deploys through allocations, reserves, deploys and releases a node."""

import pytest
from metalsmith import Provisioner, sources

IMAGE = "http://files/disk.raw"


@pytest.fixture
def provisioner(connection):
    return Provisioner(cloud_region=connection.config)


@pytest.fixture
def ready(cloud):
    """An available node."""
    properties = {"local_gb": "100", "capabilities": "kind:fast"}
    fields = {"driver": "fake-hardware", "resource_class": "of-metalsmith"}
    node = cloud.create_node(name="of-metalsmith", properties=properties, **fields)
    for verb in ("manage", "provide"):
        cloud.set_node_provision_state(node, verb, wait=True, timeout=60)
    yield node
    cloud.delete_node("of-metalsmith")


def test_a_node_is_reserved_deployed_and_released(provisioner, cloud, ready):
    node = provisioner.reserve_node(
        "of-metalsmith", capabilities={"kind": "fast"}, hostname="host-1"
    )
    assert ready.id == node.id
    assert node.instance_id == node.allocation_id == cloud.get_allocation("host-1").id

    image = sources.HttpWholeDiskImage(IMAGE, checksum="0" * 64)
    instance = provisioner.provision_node(node, image, hostname="host-1", wait=60)

    assert ("active", "host-1") == (instance.state.value, instance.hostname)
    assert instance.is_deployed
    assert IMAGE == instance.node.instance_info["image_source"]
    assert ready.id == provisioner.show_instance("host-1").node.id
    assert [ready.id] == [
        listed_instance.node.id for listed_instance in provisioner.list_instances()
    ]

    released_node = provisioner.unprovision_node("host-1", wait=60)

    assert ("available", None) == (released_node.provision_state, released_node.allocation_id)
    assert [] == provisioner.list_instances()
