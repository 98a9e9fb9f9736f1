"""Groups of ports."""

from tests.compare.asks import UUID, around, at_each, change, delete, get, node, patch, post, put

_AT = "/v1/portgroups"
_VALUES = {
    "uuid": ("x", UUID, UUID), "name": ("g", "g", "a b", "", None, "x" * 256),
    "address": ("52:54:00:00:00:01", "52:54:00:00:00:01", "x", None, ""),
    "extra": ({"a": 1}, None, "x"), "internal_info": ({},),
    "standalone_ports_supported": (False, None, "x", "yes"),
    "mode": ("802.3ad", "", None, 5, "x" * 256), "properties": ({"a": 1}, None, "x"),
    "physical_network": ("p", "", None, "x" * 65), "category": ("c", None, "x" * 81),
    "dynamic_portgroup": (True,), "node_uuid": ("x", UUID, None), "colour": ("red",),
}  # fmt: skip
_PATCHES = (
    ("replace", "/extra", {"a": 1}), ("remove", "/extra"), ("replace", "/name", "n"),
    ("replace", "/name", "second"), ("remove", "/name"),
    ("replace", "/address", "52:54:00:00:00:77"), ("replace", "/address", "x"),
    ("remove", "/address"),
    ("replace", "/mode", "802.3ad"), ("remove", "/mode"), ("replace", "/mode", None),
    ("replace", "/mode", "balance-rr"),
    ("replace", "/properties", {"a": 1}), ("add", "/properties/b", 1), ("remove", "/properties"),
    ("replace", "/standalone_ports_supported", False),
    ("remove", "/standalone_ports_supported"), ("replace", "/standalone_ports_supported", True),
    ("replace", "/node_uuid", "{other}"),
    ("replace", "/node_uuid", UUID), ("remove", "/node_uuid"),
    ("replace", "/physical_network", "p"), ("remove", "/physical_network"),
    ("replace", "/category", "c"),
    ("replace", "/uuid", UUID), ("replace", "/internal_info", {}), ("add", "/colour", "red"),
    ("replace", "/dynamic_portgroup", True), ("replace", "/created_at", "x"),
)  # fmt: skip

TABLE = [
    node(name="named"), node("other"), get(_AT), *around(get(_AT), 23),
    *around(post(_AT, {"node_uuid": "{node}"}), 23), get(f"{_AT}/detail"),
    *[post(_AT, {"node_uuid": "{node}", field: value})
      for field, values in _VALUES.items() for value in values],
    post(_AT, {}), post(_AT, []), post(_AT, {"name": "alone"}), post(_AT, {"node_uuid": "named"}),
    *[ask
      for field, value, since in (("mode", "802.3ad", 26), ("properties", {"a": 1}, 26), ("physical_network", "p", 102), ("category", "c", 103)) for ask in around(post(_AT, {"node_uuid": "{node}", field: value}), since)],
    post(
        _AT, {"node_uuid": "{node}", "name": "first", "address": "52:54:00:00:01:01"},
        save={"group": "uuid"}
    ),
    post(_AT, {"node_uuid": "{node}", "name": "second"}, save={"second": "uuid"}),
    *at_each(get(f"{_AT}/{{group}}"), 22, 23, 24, 26, 102, 103, 111), get(f"{_AT}/{{group}}"),
    get(f"{_AT}/first"), get(f"{_AT}/missing"), get(f"{_AT}/a%20b"),
    get(f"{_AT}/{{group}}?fields=uuid,name"), get(f"{_AT}/{{group}}?fields=colour"),
    get(f"{_AT}/first.json"), get(f"{_AT}/first.json", at="1.80"),
    get(f"{_AT}/{{group}}?fields=node_uuid,ports"),
    *[change(f"{_AT}/{{group}}", edit) for edit in _PATCHES],
    get(f"{_AT}/{{group}}", note="changed"), patch(f"{_AT}/{{group}}", []),
    patch(f"{_AT}/{{group}}", {}), patch(f"{_AT}/missing", []),
    *around(change(f"{_AT}/{{group}}", ("replace", "/mode", "a")), 26),
    *around(patch(f"{_AT}/{{group}}", []), 23),
    # members
    change(f"{_AT}/{{group}}", ("replace", "/node_uuid", "{node}"), note="back"),
    *around(
        post(
            "/v1/ports",
            {"node_uuid": "{node}", "address": "52:54:00:00:04:01", "portgroup_uuid": "{group}"},
            save={"port": "uuid"}
        ),
        24
    ),
    post(
        "/v1/ports",
        {"node_uuid": "{other}", "address": "52:54:00:00:04:02", "portgroup_uuid": "{group}"}
    ),
    get("/v1/ports/{port}"), *around(get(f"{_AT}/{{group}}/ports"), 24), get(f"{_AT}/first/ports"),
    get(f"{_AT}/n/ports"), get(f"{_AT}/{{group}}/ports/x"),
    get("/v1/ports?portgroup={group}"), get("/v1/ports?portgroup=second"),
    get("/v1/ports?portgroup={group}&node={node}"), get(f"{_AT}/{{group}}/ports?detail=true"),
    get(f"{_AT}/{{group}}/ports?fields=uuid"), delete(f"{_AT}/{{group}}", note="with a member"),
    change("/v1/ports/{port}", ("replace", "/physical_network", "q")),
    change(f"{_AT}/{{group}}", ("replace", "/physical_network", "z")),
    get("/v1/ports/{port}", note="physical network"),
    change(f"{_AT}/{{group}}", ("replace", "/node_uuid", "{other}"), note="with a member"),
    change("/v1/ports/{port}", ("remove", "/portgroup_uuid")), get("/v1/ports/{port}", note="left"),
    post(
        _AT, {"node_uuid": "{node}", "name": "bound", "standalone_ports_supported": False},
        save={"bound": "uuid"}
    ),
    change("/v1/ports/{port}", ("replace", "/portgroup_uuid", "{bound}")),
    post(
        "/v1/ports",
        {
            "node_uuid": "{node}", "address": "52:54:00:00:04:03", "portgroup_uuid": "{bound}",
            "pxe_enabled": True
        }
    ),
    post("/v1/nodes/{node}/vifs", {"id": "v", "portgroup_uuid": "{group}"}),
    # lists
    *[get(f"{_AT}?{query}") for query in ("node={other}", "node=named&limit=2", "node=missing", "address=52:54:00:00:00:77", "address=x", "shard=s", "conductor_groups=x", "node={node}&address=52:54:00:00:00:77", "fields=uuid", "fields=uuid,colour", "detail=true&limit=2", "detail=true&fields=uuid",
                                          "limit=2", "limit=0", "marker={group}", "marker=x", f"marker={UUID}", "sort_key=name&limit=2", "sort_key=extra", "sort_key=properties", "sort_key=internal_info", "sort_key=colour", "colour=red", "sort_dir=x")],
    *around(get(f"{_AT}?shard=s"), 106), *around(get(f"{_AT}?conductor_groups=x"), 99),
    get(f"{_AT}/detail?limit=2"), get(f"{_AT}/detail?fields=uuid"),
    *around(get("/v1/nodes/{node}/portgroups?limit=2"), 24),
    get("/v1/nodes/named/portgroups?limit=2"),
    delete(f"{_AT}/second"), delete(f"{_AT}/missing"), delete(f"{_AT}/{{bound}}"),
    *around(delete(f"{_AT}/{{group}}"), 23), delete(f"{_AT}/{{group}}", note="gone"), delete(_AT),
    put(f"{_AT}/x", {}),
]  # fmt: skip
