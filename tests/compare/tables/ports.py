"""Ports."""

from tests.compare.asks import (
    UUID,
    around,
    at_each,
    available,
    change,
    delete,
    get,
    head,
    node,
    patch,
    post,
    put,
    verb,
)

_LLC = {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth0", "switch_info": "s"}
_VALUES = {
    "uuid": ("x", UUID, UUID, None),
    "address": (
        "x", "", None, 5, "52-54-00-aa-00-01", "525400AA0002", "52:54:00:AA:00:03",
        "52:54:00:aa:00:03", "52:54:00:00:00", "ü"
    ),
    "node_uuid": ("x", UUID, None), "extra": ({"a": 1}, None, "x", []), "internal_info": ({},),
    "local_link_connection": (
        {}, _LLC, None, "x", {"switch_id": "x", "port_id": "a"}, {"port_id": "a"},
        {"switch_id": "0a:1b:2c:3d:4e:5f"}, {**_LLC, "colour": "red"},
        {"network_type": "unmanaged"},
        {"network_type": "managed"}, {"network_type": "x"}, {**_LLC, "network_type": "managed"},
        {"port_id": "a", "hostname": "h"}, {"switch_id": "0000AABBCCDDEEFF", "port_id": "a"},
        {"switch_id": "0A-1B-2C-3D-4E-5F", "port_id": "a"}, {**_LLC, "vtep-logical-switch": "a", "vtep-physical-switch": "b"}, {"port_id": 5, "hostname": "h"}),
    "pxe_enabled": (False, "yes", "x", None, 1), "portgroup_uuid": (UUID, "x", None),
    "physical_network": ("p", "", None, "x" * 64, "x" * 65, 5, "a b"),
    "is_smartnic": (True, None, "x"), "name": ("p1", "p1", "", "a b", "x" * 256, None, UUID, "ü"),
    "description": ("d", "x" * 256, None, ""),
    "vendor": ("v", "x" * 33, None), "category": ("c", "x" * 81, None),
    "available_for_dynamic_portgroup": (False, None, "x"), "colour": ("red",), "created_at": ("x",),
    "links": ([],),
}  # fmt: skip
_SINCE = {
    "pxe_enabled": (19, True), "local_link_connection": (19, _LLC), "portgroup_uuid": (24, None),
    "physical_network": (34, "p"), "is_smartnic": (53, False), "name": (88, "aged"),
    "description": (97, "d"), "vendor": (100, "v"), "category": (101, "c"),
    "available_for_dynamic_portgroup": (111, True),
}  # fmt: skip
_PATCHES = (
    ("replace", "/extra", {"a": 1}), ("add", "/extra/b", 2), ("remove", "/extra/x"),
    ("remove", "/extra"), ("replace", "/address", "52:54:00:BB:00:01"),
    ("replace", "/address", "x"), ("remove", "/address"),
    ("replace", "/address", None), ("replace", "/address", "52:54:00:00:00:02"),
    ("replace", "/uuid", UUID), ("replace", "/node_uuid", "{other}"),
    ("replace", "/node_uuid", UUID), ("remove", "/node_uuid"),
    ("replace", "/node_uuid", "{node}"), ("replace", "/pxe_enabled", False),
    ("replace", "/pxe_enabled", "x"), ("remove", "/pxe_enabled"),
    ("replace", "/pxe_enabled", True),
    ("replace", "/local_link_connection", _LLC),
    ("replace", "/local_link_connection/port_id", "x"),
    ("remove", "/local_link_connection/port_id"), ("remove", "/local_link_connection"),
    ("replace", "/physical_network", "p"),
    ("replace", "/physical_network", ""), ("remove", "/physical_network"),
    ("replace", "/is_smartnic", True), ("remove", "/is_smartnic"),
    ("replace", "/is_smartnic", False), ("replace", "/name", "n"),
    ("replace", "/name", "second"), ("remove", "/name"),
    ("replace", "/description", "d"), ("remove", "/description"), ("replace", "/vendor", "v"),
    ("remove", "/vendor"), ("replace", "/category", "c"), ("remove", "/category"),
    ("replace", "/available_for_dynamic_portgroup", False),
    ("remove", "/available_for_dynamic_portgroup"), ("replace", "/internal_info", {}),
    ("add", "/colour", "red"), ("replace", "/portgroup_uuid", UUID),
    ("remove", "/portgroup_uuid"), ("replace", "/created_at", "x"), ("test", "/extra", {}),
    ("replace", "/name", None), ("replace", "/node_ident", "x"),
)  # fmt: skip
_SHOWN = (1, 8, 18, 19, 24, 34, 53, 88, 97, 100, 101, 111)
_QUERIES = (
    "node={node}", "node=named", "node=missing", "node=a%20b", "node_uuid={node}",
    "node_uuid=named", f"node_uuid={UUID}", "node_uuid=x", "address=52:54:00:00:00:01",
    "address=52:54:00:00:00:99", "address=x",
    "address=52:54:00:00:00:01&node={node}", "shard=s", "shard=x", "shard=", "shard=s&node={node}",
    "conductor_groups=", "conductor_groups=x", "conductor_groups=x&node={node}",
    "conductor_groups=x&address=52:54:00:00:00:01",
    "description_contains=x", "portgroup=x", f"portgroup={UUID}",
    f"portgroup={UUID}&node={{node}}", "fields=uuid", "fields=uuid,node_uuid",
    "fields=portgroup_uuid&node={node}", "fields=colour", "fields=links&node={node}", "fields=internal_info&node={node}", "fields=&node={node}",
    "fields=created_at,address&node={node}", "detail=true", "detail=false", "detail=true&fields=uuid",
    "limit=1", "limit=0", "limit=x", "marker={port}", f"marker={UUID}", "marker=x",
    "limit=1&node={node}", "limit=1&detail=true", "limit=1&fields=address",
    "sort_key=address", "sort_key=extra", "sort_key=internal_info",
    "sort_key=local_link_connection", "sort_key=colour", "sort_key=node_uuid",
    "sort_key=portgroup_uuid", "sort_key=name", "sort_key=node_id", "sort_dir=desc", "sort_dir=x",
    "name=x", "uuid={port}",
)  # fmt: skip


def _new(number, **fields):
    return post(
        "/v1/ports",
        {
            "node_uuid": "{node}",
            "address": f"52:54:00:{number >> 8:02x}:01:{number & 255:02x}",
            **fields,
        },
    )


TABLE = [
    node(name="named", shard="s"), node("other"), get("/v1/ports"), get("/v1/ports/detail"),
    *[_new(number, **{field: value})
      for number, (field, value) in enumerate((field, value) for field, values in _VALUES.items() for value in values)],
    *[ask
      for number, (field, (since, value)) in enumerate(_SINCE.items()) for ask in around(_new(1000 + number, **{field: value}), since)],
    post("/v1/ports", {}), post("/v1/ports", []), post("/v1/ports", {"node_uuid": "{node}"}),
    post("/v1/ports", {"address": "52:54:00:ff:00:01"}),
    *around(post("/v1/ports", {"node_ident": "named", "address": "52:54:00:ff:00:02"}), 94),
    post("/v1/ports", {"node_ident": "{node}", "address": "52:54:00:ff:00:03"}),
    post(
        "/v1/ports", {"node_ident": "named", "node_uuid": "{node}", "address": "52:54:00:ff:00:04"}
    ),
    post("/v1/ports", {"node_ident": "missing", "address": "52:54:00:ff:00:05"}),
    *[ask
      for at in (64,) for ask in around(_new(2000, local_link_connection={"network_type": "unmanaged"}), at)],
    *at_each(
        _new(
            2001,
            local_link_connection={"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "a", "vtep-logical-switch": "a", "vtep-physical-switch": "b"}
        ),
        89, 90, 104, 105
    ),
    post(
        "/v1/ports", {"node_uuid": "{node}", "address": "52:54:00:00:00:01", "name": "first"},
        save={"port": "uuid"}
    ),
    post("/v1/ports", {"node_uuid": "{node}", "address": "52:54:00:00:00:02", "name": "second"}),
    *at_each(get("/v1/ports/{port}"), *_SHOWN), get("/v1/ports/{port}", at=None),
    get("/v1/ports/{port}"), *around(get("/v1/ports/first"), 88), head("/v1/ports/{port}"),
    get("/v1/ports/missing"), get("/v1/ports/a%20b"),
    get("/v1/ports/52:54:00:00:00:01"), get("/v1/ports/{port}.json"),
    get("/v1/ports/{port}.json", at="1.80"), get("/v1/ports/{port}?fields=uuid,address"),
    get("/v1/ports/{port}?fields=colour"), *around(get("/v1/ports/{port}?fields=uuid"), 8),
    get("/v1/ports/{port}?fields=node_uuid,portgroup_uuid"), get("/v1/ports/{port}?detail=true"),
    get("/v1/ports/{port}/x"), get(f"/v1/ports/{UUID}"),
    *around(get("/v1/ports/{port}?fields=name"), 88),
    *[change("/v1/ports/{port}", edit) for edit in _PATCHES],
    get("/v1/ports/{port}", note="changed"), patch("/v1/ports/{port}", []),
    patch("/v1/ports/{port}", {}), patch("/v1/ports/missing", []),
    change("/v1/ports/second", ("replace", "/extra", {"a": 1})),
    patch("/v1/ports/{port}?x=1", []), change(f"/v1/ports/{UUID}", ("replace", "/extra", {})),
    *[ask
      for field, (since, value) in _SINCE.items() for ask in around(change("/v1/ports/{port}", ("replace", f"/{field}", value)), since)],
    delete("/v1/ports/second"), delete("/v1/ports/missing"), delete(f"/v1/ports/{UUID}"),
    delete("/v1/ports/a%20b"), delete("/v1/ports"), put("/v1/ports/{port}", {}),
    post("/v1/ports/{port}", {}), delete("/v1/ports/{port}?x=1"), delete("/v1/ports/{port}"),
    get("/v1/ports/{port}", note="gone"),
    # lists
    node("few", name="few", shard="t"),
    *[post("/v1/ports", {"node_uuid": "{few}", "address": f"52:54:00:00:02:0{i}"}, save={"port": "uuid"})
      for i in range(3)],
    *at_each(get("/v1/ports?node={few}"), 1, 5, 6, 19, 43, 115),
    *[get(f"/v1/ports?{query}".replace("{node}", "{few}").replace("named", "few").replace("limit=1", "limit=1").replace("shard=s", "shard=t"))
      for query in _QUERIES],
    *[get(f"/v1/ports/detail?{query}")
      for query in (
          "node={few}", "fields=uuid", "limit=1", "address=52:54:00:00:02:01", "shard=t",
          "detail=true", "node_uuid={few}", "sort_key=extra"
      )],
    *at_each(get("/v1/ports/detail?node={few}"), 1, 18, 19, 24, 34, 53, 88, 115),
    *around(get("/v1/ports?shard=t"), 82), *around(get("/v1/ports?conductor_groups=x"), 99),
    *around(get("/v1/ports?portgroup=x"), 24), *around(get("/v1/ports?detail=true&node={few}"), 43),
    get("/v1/nodes/{few}/ports"), get("/v1/nodes/few/ports"),
    get("/v1/nodes/{few}/ports?limit=1"), get("/v1/nodes/{few}/ports?fields=uuid"),
    get("/v1/nodes/{few}/ports?detail=true"), get("/v1/ports/x/detail"),
    # in use
    *available("busy"),
    post(
        "/v1/ports", {"node_uuid": "{busy}", "address": "52:54:00:00:03:01"}, save={"bound": "uuid"}
    ),
    verb("active", "busy"),
    change("/v1/ports/{bound}", ("replace", "/address", "52:54:00:00:03:02")),
    change("/v1/ports/{bound}", ("replace", "/extra", {"a": 1})),
    change("/v1/ports/{bound}", ("replace", "/pxe_enabled", False)),
    change("/v1/ports/{bound}", ("replace", "/physical_network", "q")),
    put("/v1/nodes/{busy}/maintenance", {}),
    change(
        "/v1/ports/{bound}", ("replace", "/address", "52:54:00:00:03:02"), note="in maintenance"
    ),
    change("/v1/ports/{bound}", ("replace", "/pxe_enabled", False), note="in maintenance"),
]  # fmt: skip
