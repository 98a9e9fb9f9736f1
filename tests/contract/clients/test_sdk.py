"""Functions of the Python SDK that the command lacks, for every resource."""

import pytest
from openstack import exceptions

from drivers.builtin import HARDWARE_TYPES
from tests.support.fleet import until

STEP = {"interface": "bios", "step": "factory_reset", "args": {}}


@pytest.fixture
def machine(cloud):
    """A node of the SDK, manageable."""
    node = cloud.create_node(driver="fake-hardware", name="of-sdk")
    yield cloud.set_node_provision_state(node, "manage", wait=True, timeout=60)
    cloud.set_node_maintenance("of-sdk")
    cloud.delete_node("of-sdk")


def test_a_node_is_created_changed_found_and_listed(cloud, machine):
    changed = cloud.update_node(machine, resource_class="large", owner="sdk", shard="sdk")
    assert ("large", "sdk") == (changed.resource_class, changed.owner)
    patch = [{"op": "add", "path": "/extra/a", "value": {"b": 1}}]
    assert {"a": {"b": 1}} == cloud.patch_node(machine, patch).extra
    assert machine.id == cloud.find_node("of-sdk").id
    assert cloud.find_node("no-such") is None
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_node("no-such")
    for filters in ({"shard": "sdk"}, {"resource_class": "large"}):
        assert [machine.id] == [node.id for node in cloud.nodes(**filters)], filters
    assert ["sdk"] == [node.owner for node in cloud.nodes(details=True, shard="sdk")]
    node = cloud.get_node(machine.id, fields=["name", "owner"])
    assert ("of-sdk", "sdk") == (node.name, node.owner)


def test_nodes_are_listed_in_pages(cloud, machine):
    nodes = [cloud.create_node(driver="fake-hardware") for _ in range(3)]
    everything = {node.id for node in cloud.nodes()}
    assert {machine.id, *(node.id for node in nodes)} <= everything
    paged = [node.id for node in cloud.nodes(limit=2)]
    assert sorted(everything) == sorted(paged)
    for node in nodes:
        cloud.delete_node(node)
    for node in nodes:
        cloud.wait_for_delete(node)


def test_a_node_goes_through_its_life_cycle(cloud, machine):
    def order(target, expected, **more):
        node = cloud.set_node_provision_state(machine, target, wait=True, timeout=60, **more)
        assert expected == node.provision_state

    order("inspect", "manageable")
    order("clean", "manageable", clean_steps=[STEP])
    order("provide", "available")
    order("active", "active", config_drive={"meta_data": {"a": 1}})
    order("rebuild", "active")
    order("rescue", "rescue", rescue_password="let me in")
    cloud.set_node_provision_state(machine, "unrescue")  # the SDK cannot wait for it
    cloud.wait_for_nodes_provision_state([machine], "active", timeout=60)
    order("deleted", "available")
    (node,) = cloud.wait_for_nodes_provision_state([machine], "available", timeout=60)
    assert machine.id == node.id
    cloud.wait_for_node_reservation(machine, timeout=60)


def test_a_machine_is_managed(cloud, machine):
    cloud.set_node_power_state(machine, "power on", wait=True, timeout=60)
    assert "power on" == cloud.get_node(machine.id).power_state
    cloud.set_node_power_state(machine, "power off")
    cloud.wait_for_node_power_state(machine, "power off", timeout=60)

    cloud.set_node_boot_device(machine, "pxe", persistent=True)
    assert {"boot_device": "pxe", "persistent": True} == cloud.get_node_boot_device(machine)
    assert ["pxe"] == cloud.get_node_supported_boot_devices(machine)["supported_boot_devices"]
    cloud.set_node_boot_mode(machine, "uefi")
    until(lambda: "uefi" == cloud.get_node(machine.id).boot_mode, "uefi")
    cloud.set_node_secure_boot(machine, True)
    until(lambda: cloud.get_node(machine.id).is_secure_boot, "secure boot")
    cloud.inject_nmi_to_node(machine)

    assert not cloud.get_node_console(machine)["console_enabled"]
    cloud.enable_node_console(machine)
    until(lambda: cloud.get_node_console(machine)["console_enabled"], "console")
    cloud.disable_node_console(machine)
    until(lambda: not cloud.get_node_console(machine)["console_enabled"], "no console")

    cloud.attach_vmedia_to_node(machine, "cdrom", "http://files/image.iso")
    cloud.detach_vmedia_from_node(machine, ["cdrom"])


def test_facts_about_a_node_are_read(cloud, machine):
    assert "third_method_sync" in cloud.list_node_vendor_passthru(machine)
    answer = cloud.call_node_vendor_passthru(machine, "POST", "third_method_sync", {"bar": "meow"})
    assert answer.json() is True
    assert cloud.validate_node(machine)["power"].result
    assert [] == cloud.list_node_firmware(machine)["firmware"]
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_node_inventory(machine)
    node = cloud.set_node_maintenance(machine, "a fan")
    assert (True, "a fan") == (node.is_maintenance, node.maintenance_reason)
    assert not cloud.unset_node_maintenance(machine).is_maintenance

    cloud.set_node_traits(machine, ["CUSTOM_A", "CUSTOM_B"])
    cloud.add_node_trait(machine, "CUSTOM_C")
    cloud.remove_node_trait(machine, "CUSTOM_A")
    assert {"CUSTOM_B", "CUSTOM_C"} == {*cloud.get_node(machine.id).traits}


def test_the_connections_of_a_node_are_managed(cloud, machine):
    chassis = cloud.create_chassis(description="rack 2")
    cloud.update_node(machine, chassis_id=chassis.id)
    assert chassis.id == cloud.get_node("of-sdk").chassis_id
    cloud.update_chassis(chassis, description="rack 3")
    assert {"rack 3"} == {
        listed_chassis.description
        for listed_chassis in cloud.chassis(details=True)
        if listed_chassis.id == chassis.id
    }
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert {"a": 1} == cloud.patch_chassis(chassis, patch).extra
    assert chassis.id == cloud.find_chassis(chassis.id).id

    group = cloud.create_port_group(node_id=machine.id, name="bond1")
    cloud.update_port_group(group, mode="802.3ad")
    assert "802.3ad" == cloud.get_port_group("bond1").mode
    assert {"a": 1} == cloud.patch_port_group(group, patch).extra
    assert [group.id] == [
        listed_group.id for listed_group in cloud.port_groups(details=True, node=machine.id)
    ]
    port = cloud.create_port(
        node_id=machine.id, address="52:54:00:00:00:dd", port_group_id=group.id, name="p"
    )
    assert group.id == cloud.find_port(port.id).port_group_id
    assert "left" == cloud.update_port(port, description="left").description
    assert {"a": 1} == cloud.patch_port(port, patch).extra
    assert [port.id] == [
        listed_port.id for listed_port in cloud.ports(details=True, node=machine.id)
    ]

    cloud.attach_vif_to_node(machine, "vif-1")
    assert [] == cloud.list_node_vifs(machine)
    assert cloud.detach_vif_from_node(machine, "vif-1")

    cloud.set_node_power_state(machine, "power off", wait=True, timeout=60)
    connector = cloud.create_volume_connector(node_id=machine.id, type="iqn", connector_id="iqn.h2")
    assert {"a": 1} == cloud.patch_volume_connector(connector, patch).extra
    assert "iqn.h3" == cloud.update_volume_connector(connector, connector_id="iqn.h3").connector_id
    assert "iqn.h3" == cloud.find_volume_connector(connector.id).connector_id
    target = cloud.create_volume_target(
        node_id=machine.id, volume_type="iscsi", volume_id="v2", boot_index=0
    )
    assert {"a": 1} == cloud.patch_volume_target(target, patch).extra
    assert "v3" == cloud.update_volume_target(target, volume_id="v3").volume_id
    assert [connector.id] == [
        listed_connector.id for listed_connector in cloud.volume_connectors(node=machine.id)
    ]
    assert [target.id] == [
        listed_target.id for listed_target in cloud.volume_targets(details=True, node=machine.id)
    ]
    cloud.delete_volume_target(target)
    cloud.delete_volume_connector(connector)
    cloud.delete_port(port)
    cloud.delete_port_group(group)
    assert cloud.find_port_group("bond1") is None
    cloud.update_node(machine, chassis_id=None)
    cloud.delete_chassis(chassis)
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_chassis(chassis.id)


def test_deploy_templates_and_runbooks_are_managed(cloud):
    template = cloud.create_deploy_template(name="CUSTOM_A", steps=[{**STEP, "priority": 1}])
    changed = [{"op": "replace", "path": "/steps/0/priority", "value": 2}]
    assert 2 == cloud.patch_deploy_template(template, changed).steps[0]["priority"]
    assert "CUSTOM_B" == cloud.update_deploy_template(template, name="CUSTOM_B").name
    assert template.id == cloud.find_deploy_template("CUSTOM_B").id
    assert template.id in {
        listed_template.id for listed_template in cloud.deploy_templates(details=True)
    }
    cloud.delete_deploy_template(template)

    runbook = cloud.create_runbook(name="my-book", steps=[{**STEP, "order": 1}])
    assert "why" == cloud.update_runbook(runbook, description="why").description
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert {"a": 1} == cloud.patch_runbook(runbook, patch).extra
    cloud.set_runbook_traits(runbook, ["CUSTOM_A"])
    cloud.add_runbook_trait(runbook, "CUSTOM_B")
    cloud.remove_runbook_trait(runbook, "CUSTOM_A")
    assert ["CUSTOM_B"] == cloud.get_runbook(runbook.id).traits
    assert runbook.id in {listed_runbook.id for listed_runbook in cloud.runbooks(details=True)}
    cloud.delete_runbook(runbook)


def test_inspection_rules_are_managed(cloud):
    actions = [{"op": "fail", "args": {"msg": "no"}}]
    rule = cloud.create_inspection_rule(actions=actions, description="of sdk", priority=5)
    assert (5, "of sdk") == (rule.priority, rule.description)
    assert rule.id in {listed_rule.id for listed_rule in cloud.inspection_rules(details=True)}
    assert "changed" == cloud.update_inspection_rule(rule, description="changed").description
    patch = [{"op": "replace", "path": "/priority", "value": 6}]
    assert 6 == cloud.patch_inspection_rule(rule, patch).priority
    assert "changed" == cloud.get_inspection_rule(rule.id).description
    cloud.delete_inspection_rule(rule)


def test_a_node_is_allocated(cloud, machine):
    cloud.update_node(machine, resource_class="of-sdk")
    cloud.set_node_provision_state(machine, "provide", wait=True, timeout=60)
    created_allocation = cloud.create_allocation(resource_class="of-sdk", name="s1")
    created_allocation = cloud.wait_for_allocation(created_allocation, timeout=60)
    assert ("active", machine.id) == (created_allocation.state, created_allocation.node_id)
    assert "s2" == cloud.update_allocation(created_allocation, name="s2").name
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert {"a": 1} == cloud.patch_allocation(created_allocation, patch).extra
    assert [created_allocation.id] == [
        allocation.id for allocation in cloud.allocations(node=machine.id)
    ]
    cloud.delete_allocation("s2")
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_allocation(created_allocation.id)


def test_drivers_and_conductors_are_shown(cloud):
    assert {hardware_type.name for hardware_type in HARDWARE_TYPES} == {
        driver.name for driver in cloud.drivers()
    }
    assert "redfish" == cloud.get_driver("redfish").default_power_interface
    detailed = {driver.name: driver for driver in cloud.drivers(details=True)}
    assert "fake" in detailed["fake-hardware"].enabled_power_interfaces
    assert {} == cloud.list_driver_vendor_passthru("fake-hardware")
    with pytest.raises(exceptions.SDKException, match="no_such"):
        cloud.call_driver_vendor_passthru("fake-hardware", "GET", "no_such")
    (conductor,) = cloud.conductors(detail=True)
    assert ("fleet-1", True) == (conductor.hostname, conductor.alive)
    assert {*conductor.drivers} == {*cloud.get_conductor("fleet-1").drivers}
