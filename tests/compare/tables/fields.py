"""Every field of every resource, created and changed with a value of every type."""

from app.api.declarations.node_fields import CHANGED, CREATED
from drivers.core.kinds import KINDS
from tests.compare.asks import STEP, change, get, node, post

_VALUES = (None, True, 5, 1.5, "", "text", "two words", "true", [], {"a": 1})
_NODE = {"node_uuid": "{node}"}
#: collection -> (complete body for a unique number, fields that can be set)
_KINDS = {
    "chassis": (lambda number: {}, ("description", "extra")),
    "nodes": (lambda number: {"driver": "fake-hardware"}, (
        *sorted({*CREATED, *CHANGED} - {"uuid", *(f"{kind}_interface" for kind in KINDS)}),
        "bios_interface", "network_interface",
    )),
    "ports": (lambda number: {**_NODE, "address": f"52:54:00:09:{number >> 8:02x}:{number & 255:02x}"}, (
        "address", "node_uuid", "extra", "local_link_connection", "pxe_enabled", "portgroup_uuid",
        "physical_network", "is_smartnic", "name", "description", "vendor", "category",
        "available_for_dynamic_portgroup",
    )),
    "portgroups": (lambda number: {**_NODE}, (
        "node_uuid", "address", "name", "extra", "standalone_ports_supported", "mode",
        "properties", "physical_network", "category",
    )),
    "volume/connectors": (lambda number: {**_NODE, "type": "iqn", "connector_id": f"c{number}"}, (
        "node_uuid", "type", "connector_id", "extra",
    )),
    "volume/targets": (
        lambda number: {**_NODE, "volume_type": "iscsi", "volume_id": "v", "boot_index": number},
        ("node_uuid", "volume_type", "volume_id", "boot_index", "properties", "extra"),
    ),
    "deploy_templates": (
        lambda number: {"name": f"CUSTOM_T{number}", "steps": [{**STEP, "priority": 1}]},
        ("name", "steps", "extra", "description"),
    ),
    "runbooks": (
        lambda number: {"name": f"CUSTOM_R{number}", "steps": [{**STEP, "order": 1}]},
        ("name", "steps", "extra", "description", "owner", "public", "disable_ramdisk", "traits"),
    ),
    "inspection_rules": (
        lambda number: {
            "actions": [{"op": "fail", "args": {"msg": "x"}}],
            "conditions": [{"op": "eq", "args": [1, 2]}],
        },
        ("description", "phase", "priority", "sensitive", "actions", "conditions"),
    ),
    "allocations": (
        lambda number: {"resource_class": "nothing", "name": f"a{number}"},
        ("name", "resource_class", "traits", "candidate_nodes", "extra", "owner", "node"),
    ),
}  # fmt: skip


def _made(collection, complete, fields):
    path = f"/v1/{collection}"
    pairs = [(field, value) for field in fields for value in _VALUES]
    return [
        post(path, {**complete(100 + number), field: value})
        for number, (field, value) in enumerate(pairs)
    ]


def _changed(collection, complete, fields):
    """A new item for each field, so that its responses show no other field's changes."""
    path, asks = f"/v1/{collection}/{{one}}", []
    settle = path if collection == "allocations" else None
    for number, field in enumerate(fields):
        asks += [
            post(f"/v1/{collection}", complete(5000 + number), save={"one": "uuid"}, note=field, settle=settle),
            *[change(path, ("replace", f"/{field}", value)) for value in _VALUES],
            change(path, ("add", f"/{field}/a", 1)), change(path, ("remove", f"/{field}/a")),
            change(path, ("remove", f"/{field}")), get(path, note=field),
        ]  # fmt: skip
    return asks


TABLE = [
    node(name="named"),
    *[ask
      for collection, (complete, fields) in _KINDS.items()
      for ask in (
          *_made(collection, complete, fields), *_changed(collection, complete, fields)
      )],
]  # fmt: skip
