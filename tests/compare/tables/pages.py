"""Lists of all resources, page by page, in every order."""

from tests.compare.asks import STEP, get, node, post, put, verb

#: Three of each kind, created in another order than that of their UUIDs.
_ORDER = ("b", "c", "a")


def _uuid(kind, letter):
    return f"{letter * 8}-{kind:04}-4333-8444-555555555555"


def _each(kind, path, name, body):
    """Create items; body: function of the letter. They are saved as `{<name>_<letter>}`."""
    return [
        post(path, {"uuid": _uuid(kind, letter), **body(letter)}, save={f"{name}_{letter}": "uuid"})
        for letter in _ORDER
    ]


def _node_uuid(letter):
    return {"node_uuid": "{node_a}" if letter == "a" else "{node_b}"}


#: collection -> (variables of its items, its sort keys)
_COLLECTIONS = {
    "nodes": ("node", (
        "uuid", "name", "created_at", "updated_at", "provision_state", "power_state", "driver",
        "resource_class", "owner", "shard", "description", "maintenance", "instance_uuid",
        "conductor_group", "last_error", "provision_updated_at", "parent_node", "automated_clean",
    )),
    "ports": ("port", (
        "uuid", "address", "name", "created_at", "updated_at", "pxe_enabled", "physical_network",
        "is_smartnic", "description", "vendor", "category", "available_for_dynamic_portgroup",
        "node_uuid", "portgroup_uuid",
    )),
    "portgroups": ("group", (
        "uuid", "address", "name", "created_at", "updated_at", "mode", "standalone_ports_supported",
        "physical_network", "category", "dynamic_portgroup", "node_uuid", "ports",
    )),
    "chassis": ("chassis", ("uuid", "description", "created_at", "updated_at", "nodes", "extra")),
    "allocations": ("allocation", (
        "uuid", "name", "state", "resource_class", "owner", "created_at", "updated_at",
        "last_error", "node_uuid", "extra",
    )),
    "deploy_templates": ("template", (
        "uuid", "name", "created_at", "updated_at", "extra", "steps", "description"
    )),
    "runbooks": ("book", (
        "uuid", "name", "created_at", "updated_at", "owner", "public", "disable_ramdisk",
        "description", "extra", "steps",
    )),
    "inspection_rules": ("rule", (
        "uuid", "description", "priority", "phase", "sensitive", "created_at", "updated_at",
        "actions", "conditions",
    )),
    "volume/connectors": ("connector", (
        "uuid", "type", "connector_id", "created_at", "updated_at", "extra", "node_uuid"
    )),
    "volume/targets": ("target", (
        "uuid", "volume_type", "volume_id", "boot_index", "created_at", "updated_at", "extra",
        "properties", "node_uuid",
    )),
}  # fmt: skip
#: Subcollection -> variables of its items
_PARTS = {
    "nodes/{node_b}/ports": "port", "nodes/{node_b}/portgroups": "group",
    "nodes/{node_b}/volume/connectors": "connector", "nodes/{node_b}/volume/targets": "target",
    "chassis/{chassis_b}/nodes": "node", "portgroups/{group_b}/ports": "port",
}  # fmt: skip


def _walked(path, items):
    """Read all pages of a list."""
    end = f"{{{items}_b}}"
    return [
        get(f"/v1/{path}"),
        *[get(f"/v1/{path}?limit=1&marker={{{items}_{letter}}}") for letter in _ORDER],
        *[get(f"/v1/{path}?{query}")
          for query in (
              "limit=1", "limit=2", "limit=3", "limit=4", "limit=1001", "limit=-1", "limit=",
              "limit=1.0", "limit=+1", "limit=0x1", "limit=%201", "marker=", f"marker={end}",
              f"marker={end.replace('_b', '_c')}", f"marker={end}&limit=0",
              f"marker={end}&sort_key=uuid", f"marker={end}&sort_key=uuid&sort_dir=desc",
              f"marker={end}&sort_dir=desc", "sort_dir=asc", "sort_dir=desc", "sort_dir=ASC",
              "sort_dir=", "sort_key=", "sort_key=id", "sort_key=UUID", "sort_key=links",
              "sort_key=uuid,name", "limit=2&sort_key=uuid", "limit=2&sort_key=uuid&sort_dir=desc",
              "limit=2&fields=uuid", "limit=2&detail=false", "limit=2&detail=true",
              "fields=uuid&sort_key=created_at", "fields=uuid,uuid", "fields=UUID",
              "fields=uuid,%20created_at", "fields=uuid%2Ccreated_at", "fields=created_at,links",
              "fields=uuid&fields=created_at", "detail=TRUE", "detail=1", "detail=no", "detail=",
          )],
        get(f"/v1/{path}/"),
    ]  # fmt: skip


TABLE = [
    *_each(1, "/v1/chassis", "chassis", lambda letter: {"description": letter}),
    *_each(2, "/v1/nodes", "node", lambda letter: {
        "driver": "fake-hardware", "name": f"node-{letter}", "chassis_uuid": "{chassis_b}",
        "resource_class": letter, "shard": letter, "description": letter}),
    *_each(3, "/v1/portgroups", "group", lambda letter: {
        **_node_uuid(letter), "name": f"group-{letter}",
        "address": f"52:54:00:00:0{letter}:00"}),
    *_each(4, "/v1/ports", "port", lambda letter: {
        **_node_uuid(letter), "address": f"52:54:00:00:0{letter}:01", "name": f"port-{letter}",
        "portgroup_uuid": "{group_a}" if letter == "a" else "{group_b}"}),
    *_each(5, "/v1/volume/connectors", "connector", lambda letter: {
        **_node_uuid(letter), "type": "iqn", "connector_id": letter}),
    *_each(6, "/v1/volume/targets", "target", lambda letter: {
        **_node_uuid(letter), "volume_type": "iscsi", "volume_id": letter,
        "boot_index": ord(letter)}),
    *_each(7, "/v1/deploy_templates", "template", lambda letter: {
        "name": f"CUSTOM_{letter.upper()}", "steps": [{**STEP, "priority": 1}]}),
    *_each(8, "/v1/runbooks", "book", lambda letter: {
        "name": f"book-{letter}", "steps": [{**STEP, "order": 1}]}),
    *_each(9, "/v1/inspection_rules", "rule", lambda letter: {
        "description": letter, "priority": ord(letter),
        "actions": [{"op": "fail", "args": {"msg": "x"}}],
        "conditions": [{"op": "eq", "args": [1, 2]}]}),
    *[post(
        "/v1/allocations",
        {"uuid": _uuid(10, letter), "name": f"allocation-{letter}", "resource_class": f"no-{letter}"},
        save={f"allocation_{letter}": "uuid"}, settle=f"/v1/allocations/{{allocation_{letter}}}"
    ) for letter in _ORDER],
    *[ask for path, (items, _) in _COLLECTIONS.items() for ask in _walked(path, items)],
    *[ask for path, items in _PARTS.items() for ask in _walked(path, items)],
    *[get(f"/v1/{path}?sort_key={key}{suffix}")
      for path, (items, keys) in _COLLECTIONS.items() for key in keys
      for suffix in ("&fields=uuid", "&fields=uuid&sort_dir=desc", f"&limit=1&marker={{{items}_b}}")],
    # history
    verb("manage", "node_a"), verb("provide", "node_a"), verb("manage", "node_a"),
    *[get(f"/v1/nodes/{{node_a}}/history?{query}")
      for query in (
          "limit=0", "limit=-1", "limit=", "limit=1001", "sort_key=uuid&limit=0", "sort_key=event&limit=0",
          "sort_key=created_at&limit=0", "sort_dir=desc&limit=0", "sort_key=conductor&limit=0",
          "sort_key=user&limit=0", "sort_key=node_id&limit=0", "sort_key=event_type&limit=0",
          "sort_key=id&limit=0", "marker=x", "detail=&limit=0", "detail=false&limit=0"
      )],
    # conductors and drivers
    *[get(f"/v1/conductors?{query}")
      for query in (
          "limit=2", "limit=-1", "limit=", "marker=", "marker=rack-1&limit=1", "sort_key=id",
          "sort_key=created_at", "sort_key=links", "sort_dir=", "detail=", "detail=0",
          "fields=hostname,hostname", "fields=HOSTNAME", "fields=created_at", "fields=id"
      )],
    *[get(f"/v1/drivers?{query}")
      for query in ("limit=0", "marker=x", "sort_key=name", "sort_dir=asc", "detail=", "fields=NAME")],
    put("/v1/nodes/{node_b}/maintenance", {}), get("/v1/nodes?maintenance=true&limit=1"),
    get("/v1/nodes?maintenance=true&limit=1&sort_key=name&sort_dir=desc&fields=name"),
    get("/v1/nodes?maintenance=false&limit=1"), get("/v1/nodes/detail?limit=1&maintenance=true"),
    get("/v1/nodes?associated=false&limit=2&marker={node_b}"), node("alone"),
    get("/v1/nodes?chassis_uuid={chassis_b}&limit=1"),
    get("/v1/nodes?shard=a&limit=1"), get("/v1/ports?node={node_b}&limit=1&fields=uuid"),
    get("/v1/ports?address=52:54:00:00:0b:01&limit=1"), get("/v1/portgroups?node={node_b}&limit=1"),
    get("/v1/portgroups?address=52:54:00:00:0b:00&limit=1"),
    get("/v1/volume/targets?node={node_b}&limit=1"),
    get("/v1/allocations?resource_class=no-a&limit=1"),
    get("/v1/allocations?state=error&limit=1&sort_key=uuid"),
]  # fmt: skip
