"""Fields of each resource by version: shown, in lists, and as choices of `fields` and `sort_key`."""

from app.api.declarations.node_fields import FIELDS
from tests.compare.asks import STEP, around, at_each, available, get, node, post, put, verb

_BIOS = {**STEP, "args": {"settings": [{"name": "virt", "value": "on"}]}}

#: One resource of each kind, with values in the fields that callers can set.
_MADE = (
    post("/v1/chassis", {"description": "a rack"}, save={"chassis": "uuid"}),
    node(
        name="whole", chassis_uuid="{chassis}", resource_class="none", shard="s", extra={"a": 1},
        description="d", driver_info={"a": 1}, properties={"cpus": 1}, instance_info={"a": 1},
        instance_name="vm", automated_clean=True
    ),
    node("child", parent_node="{node}"),
    post(
        "/v1/portgroups", {"node_uuid": "{node}", "name": "group", "mode": "802.3ad"},
        save={"group": "uuid"}
    ),
    post(
        "/v1/ports",
        {
            "node_uuid": "{node}", "portgroup_uuid": "{group}", "address": "52:54:00:00:07:01",
            "name": "port"
        },
        save={"port": "uuid"}
    ),
    post(
        "/v1/volume/connectors", {"node_uuid": "{node}", "type": "iqn", "connector_id": "c"},
        save={"connector": "uuid"}
    ),
    post(
        "/v1/volume/targets",
        {"node_uuid": "{node}", "volume_type": "iscsi", "volume_id": "v", "boot_index": 0},
        save={"target": "uuid"}
    ),
    post(
        "/v1/deploy_templates", {"name": "CUSTOM_T", "steps": [{**STEP, "priority": 1}]},
        save={"template": "uuid"}
    ),
    post(
        "/v1/runbooks", {"name": "CUSTOM_R", "description": "d", "steps": [{**STEP, "order": 1}]},
        save={"book": "uuid"}
    ),
    post(
        "/v1/inspection_rules",
        {
            "actions": [{"op": "fail", "args": {"msg": "x"}}],
            "conditions": [{"op": "eq", "args": [1, 2]}]
        },
        save={"rule": "uuid"}
    ),
    post(
        "/v1/allocations", {"resource_class": "nothing", "name": "a"},
        save={"allocation": "uuid"}, settle="/v1/allocations/{allocation}"
    ),
    put("/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A"]}),
    verb("manage"), verb("clean", clean_steps=[_BIOS]), verb("inspect"), verb("provide"),
    *available("used", resource_class="used"), verb("active", "used"),
    get("/v1/nodes/{used}/history?limit=1", save={"entry": "history.0.uuid"}),
)  # fmt: skip
_NODE = "/v1/nodes/{node}"
#: Read in all versions.
_EVERY = ("/v1", _NODE, "/v1/nodes/detail")
#: path -> minor versions that add a field to it, or the path itself
_SINCE = {
    "/v1/nodes": (2, 5), f"{_NODE}/states": (2, 12, 75), "/v1/nodes/whole": (5,),
    f"{_NODE}/validate": (31,), f"{_NODE}/traits": (37,), f"{_NODE}/vifs": (28,),
    f"{_NODE}/bios": (40, 74), f"{_NODE}/bios/virt": (40, 74), f"{_NODE}/firmware": (86, 114),
    "/v1/nodes/{used}/history": (78, 113, 115), "/v1/nodes/{used}/history?detail=true": (113, 115),
    "/v1/nodes/{used}/history/{entry}": (78, 113, 115), f"{_NODE}/inventory": (81,),
    f"{_NODE}/allocation": (52, 60), f"{_NODE}/ports": (2, 6), f"{_NODE}/portgroups": (24,),
    f"{_NODE}/ports?detail=true": (43,), f"{_NODE}/volume": (32,),
    f"{_NODE}/volume/connectors": (32,), f"{_NODE}/volume/targets": (32,),
    f"{_NODE}/management/indicators": (63,), f"{_NODE}/management/boot_device": (2,),
    f"{_NODE}/states/console": (2,), f"{_NODE}/vendor_passthru/methods": (2,),
    "/v1/ports": (2, 24), "/v1/ports/detail": (18, 19, 24, 34, 53, 88, 97, 100, 101, 111),
    "/v1/ports/{port}": (18, 19, 24, 34, 53, 88, 97, 100, 101, 111), "/v1/ports/port": (5, 88),
    "/v1/portgroups": (23,), "/v1/portgroups/detail": (23, 24, 26, 102, 103, 111),
    "/v1/portgroups/{group}": (23, 24, 26, 102, 103, 111), "/v1/portgroups/group": (23,),
    "/v1/portgroups/{group}/ports": (24,), "/v1/chassis": (8,), "/v1/chassis/detail": (8,),
    "/v1/chassis/{chassis}": (8,), "/v1/chassis/{chassis}/nodes": (5,), "/v1/volume": (32,),
    "/v1/volume/connectors": (32,), "/v1/volume/connectors/{connector}": (32,),
    "/v1/volume/connectors?detail=true": (32, 43), "/v1/volume/targets?detail=true": (32, 43),
    "/v1/volume/targets": (32,), "/v1/volume/targets/{target}": (32,),
    "/v1/drivers": (14, 30), "/v1/drivers/fake-hardware": (14, 30, 33, 38, 40, 86),
    "/v1/drivers?detail=true": (30, 33, 38, 40, 86),
    "/v1/drivers/fake-hardware/raid/logical_disk_properties": (12,),
    "/v1/conductors": (49,), "/v1/conductors?detail=true": (49,), "/v1/conductors/rack-1": (49,),
    "/v1/shards": (82,), "/v1/deploy_templates": (55,), "/v1/deploy_templates?detail=true": (55,),
    "/v1/deploy_templates/{template}": (55,), "/v1/deploy_templates/CUSTOM_T": (55,),
    "/v1/runbooks": (92, 112), "/v1/runbooks?detail=true": (92, 112), "/v1/runbooks/{book}": (92, 112),
    "/v1/runbooks/{book}/traits": (92, 112), "/v1/inspection_rules": (96,),
    "/v1/inspection_rules?detail=true": (96,), "/v1/inspection_rules/{rule}": (96,),
    "/v1/allocations": (52, 60), "/v1/allocations/{allocation}": (52, 60), "/v1/allocations/a": (52,),
}  # fmt: skip
#: Paths whose values are texts or events, which differ between the services.
_PROSE = ("/history", "/logical_disk_properties")
#: collection -> field -> minor version from which it can be chosen and sorted by
_FIELDS = {
    "nodes": {
        **{field.name: field.since for field in FIELDS if field.since > 1
           and field.name not in ("driver_internal_info", "inspection_finished_at")},
        "clean_step": 8,  # older versions have no parameter `fields`
    },
    "ports": {
        "internal_info": 18, "local_link_connection": 19, "pxe_enabled": 19, "portgroup_uuid": 24,
        "physical_network": 34, "is_smartnic": 53, "name": 88, "description": 97, "vendor": 100,
        "category": 101, "available_for_dynamic_portgroup": 111,
    },
    "portgroups": {
        "mode": 26, "properties": 26, "physical_network": 102, "category": 103,
        "dynamic_portgroup": 111,
    },
    "allocations": {"owner": 60}, "runbooks": {"description": 112, "traits": 112},
}  # fmt: skip
_FIRST = {"nodes": "node", "ports": "port", "portgroups": "group", "allocations": "allocation",
          "runbooks": "book"}  # fmt: skip

TABLE = [
    *_MADE,
    *[ask for path in _EVERY for ask in at_each(get(path), *range(1, 116))],
    *[ask
      for path, minors in _SINCE.items() for minor in minors
      for ask in around(get(path, prose=any(part in path for part in _PROSE)), minor)],
    *[get(path, at=None) for path in _SINCE],
    *[ask
      for collection, fields in _FIELDS.items() for field, minor in fields.items()
      for path in (
          f"/v1/{collection}?fields={field}", f"/v1/{collection}?sort_key={field}",
          f"/v1/{collection}/{{{_FIRST[collection]}}}?fields={field}",
      )
      for ask in around(get(path), minor)],
    *[ask
      for name in ("chassis", "ports", "portgroups", "nodes", "deploy_templates", "runbooks",
                   "inspection_rules", "allocations", "conductors", "volume/targets")
      for ask in around(get(f"/v1/{name}?detail=true"), 43)],
    *[ask
      for name in ("attribute_type", "value")
      for ask in around(get(f"{_NODE}/bios?fields={name}"), 74)],
    *[ask
      for name in ("vendor", "model", "serial_number", "component")
      for ask in around(get(f"{_NODE}/firmware?fields={name}"), 114)],
]  # fmt: skip
