"""
Fill a database of Ironic with nodes in each state, by Ironic's own code.

Ironic's Python runs it, as `python ironic_rows.py FILE`, with FILE an ironic.conf whose database has
its tables. It prints {provision state: UUID of the node}.
"""

import json
import sys

from ironic.common import states
from ironic.conf import CONF
from ironic.db import api
from oslo_utils import timeutils

STABLE = (
    states.ENROLL, states.MANAGEABLE, states.AVAILABLE, states.ACTIVE, states.RESCUE, states.ERROR,
    states.DEPLOYFAIL, states.CLEANFAIL, states.INSPECTFAIL, states.RESCUEFAIL,
    states.UNRESCUEFAIL, states.ADOPTFAIL, states.SERVICEFAIL,
)  # fmt: skip
BUSY = (states.CLEANWAIT, states.DEPLOYWAIT)
#: State -> its target, as Ironic leaves it.
TARGETS = {
    states.DEPLOYFAIL: states.ACTIVE, states.CLEANFAIL: states.AVAILABLE,
    states.INSPECTFAIL: states.MANAGEABLE, states.RESCUEFAIL: states.RESCUE,
    states.UNRESCUEFAIL: states.ACTIVE, states.ADOPTFAIL: states.ACTIVE,
    states.SERVICEFAIL: states.ACTIVE, states.CLEANWAIT: states.AVAILABLE,
    states.DEPLOYWAIT: states.ACTIVE,
}  # fmt: skip
WITH_INSTANCE = {states.ACTIVE, states.RESCUE}
FAKE = ("boot", "console", "deploy", "management", "power")
NONE = ("bios", "firmware", "inspect", "raid", "rescue", "vendor")
INTERFACES = {
    **{f"{kind}_interface": "fake" for kind in FAKE},
    **{f"{kind}_interface": f"no-{kind}" for kind in NONE},
    "network_interface": "noop",
    "storage_interface": "noop",
}
STEP = {"interface": "bios", "step": "apply_configuration", "args": {"settings": []}}


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def main() -> None:
    CONF([], project="ironic", default_config_files=[sys.argv[1]])
    db = api.get_instance()
    chassis = db.create_chassis({"uuid": uuid(1), "description": "rack 1", "extra": {"row": 3}})
    nodes = {}
    for number, state in enumerate((*STABLE, *BUSY), 100):
        node = db.create_node({
            "uuid": uuid(number),
            "name": f"node-{number}",
            "driver": "fake-hardware",
            "chassis_id": chassis.id,
            "driver_info": {"address": "198.51.100.7", "fake_password": f"pass-{number}"},
            "driver_internal_info": {
                "agent_url": "https://192.0.2.9:9999",
                "agent_secret_token": "agent's",
                "is_whole_disk_image": True,
                "last_power_state_change": "2026-03-01T00:00:00.000000",
                "clean_steps": None,
            },
            "properties": {"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"},
            "extra": {"asset": f"A{number}"},
            "instance_info": {"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"},
            "resource_class": "baremetal",
            "conductor_group": "rack1",
            "owner": "project-1",
            "lessee": "project-2",
            "description": "the machine",
            "shard": "blue",
            "automated_clean": False,
            "power_state": states.POWER_ON,
            "provision_state": state,
            "target_provision_state": TARGETS.get(state),
            "provision_updated_at": timeutils.parse_isotime("2026-03-01T10:00:00Z").replace(
                tzinfo=None
            ),
            "maintenance": state == states.CLEANFAIL,
            "maintenance_reason": "cleaning failed" if state == states.CLEANFAIL else None,
            "fault": "clean failure" if state == states.CLEANFAIL else None,
            "last_error": "it broke" if state in TARGETS else None,
            "instance_uuid": uuid(number + 100) if state in WITH_INSTANCE else None,
            **INTERFACES,
        })  # fmt: skip
        _parts(db, node, number, associated=state == states.ACTIVE)
        nodes[state] = node.uuid
    _resources(db)
    db.register_conductor({"hostname": "rack-1", "drivers": ["fake-hardware"]})
    db.unregister_conductor("rack-1")
    print(json.dumps(nodes))


def _parts(db: api.Connection, node: object, number: int, *, associated: bool) -> None:
    """Add what belongs to a node."""
    group = db.create_portgroup({
        "uuid": uuid(number + 1000), "node_id": node.id, "name": f"bond-{number}",
        "address": f"52:54:00:00:01:{number - 100:02x}", "mode": "802.3ad",
        "properties": {"xmit_hash_policy": "layer3+4"},
    })  # fmt: skip
    db.create_port({
        "uuid": uuid(number + 2000), "node_id": node.id, "portgroup_id": group.id,
        "address": f"52:54:00:00:00:{number - 100:02x}", "physical_network": "physnet1",
        "internal_info": {"tenant_vif_port_id": uuid(number + 3000)} if associated else {},
        "local_link_connection": {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"},
    })  # fmt: skip
    db.create_volume_connector({
        "uuid": uuid(number + 4000), "node_id": node.id, "type": "iqn",
        "connector_id": f"iqn.2026-03.org.example:{number}",
    })  # fmt: skip
    db.create_volume_target({
        "uuid": uuid(number + 5000), "node_id": node.id, "volume_type": "iscsi", "boot_index": 0,
        "volume_id": uuid(number + 6000),
        "properties": {"target_portal": "192.0.2.3:3260", "auth_password": "volume's"},
    })  # fmt: skip
    db.set_node_traits(node.id, ["CUSTOM_GPU", "HW_CPU_X86_VMX"], "1.0")
    db.create_bios_setting_list(
        node.id,
        [{"name": "Boot", "value": "Uefi", "allowable_values": ["Uefi"], "read_only": False}],
        "1.1",
    )
    db.create_firmware_component({
        "node_id": node.id, "component": "bios", "initial_version": "1.0", "current_version": "1.1",
    })  # fmt: skip
    db.create_node_inventory({
        "node_id": node.id, "inventory_data": {"memory": {"physical_mb": 65536}},
        "plugin_data": {"valid_macs": []}, "version": "1.0",
    })  # fmt: skip
    db.create_node_history({
        "uuid": uuid(number + 7000), "node_id": node.id, "conductor": "rack-1",
        "event_type": "provisioning", "severity": "ERROR", "event": "it broke", "user": "u-1",
        "project": "project-1", "state": node.provision_state,
    })  # fmt: skip
    if associated:
        allocation = db.create_allocation({
            "uuid": node.instance_uuid, "name": "for-me", "state": "allocating",
            "resource_class": "baremetal", "traits": ["CUSTOM_GPU"], "owner": "project-1",
        })  # fmt: skip
        db.update_node(node.id, {"instance_uuid": None})
        db.update_allocation(allocation.id, {"node_id": node.id, "state": "active"})


def _resources(db: api.Connection) -> None:
    """Add what belongs to no node."""
    db.create_deploy_template({
        "uuid": uuid(2), "name": "CUSTOM_RAID", "extra": {"of": "us"}, "version": "1.1",
        "steps": [{**STEP, "priority": 90}],
    })  # fmt: skip
    db.create_runbook({
        "uuid": uuid(3), "name": "CUSTOM_BURN_IN", "public": False, "owner": "project-1",
        "disable_ramdisk": True, "version": "1.1", "steps": [{**STEP, "order": 1}],
        "traits": ["CUSTOM_GPU"], "description": "for a night", "extra": {},
    })  # fmt: skip
    db.create_inspection_rule({
        "uuid": uuid(4), "description": "name by serial", "priority": 10, "phase": "main",
        "sensitive": False, "conditions": [{"op": "is-empty", "args": {"value": "{node.name}"}}],
        "actions": [{"op": "set-attribute", "args": {"path": "/description", "value": "new"}}],
    })  # fmt: skip
    db.create_allocation({
        "uuid": uuid(5), "name": "nobody", "state": "error", "last_error": "no node",
        "resource_class": "gpu", "traits": [], "candidate_nodes": [],
    })  # fmt: skip


if __name__ == "__main__":
    main()
