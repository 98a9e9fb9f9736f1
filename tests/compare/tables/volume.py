"""Volume connectors and targets."""

from tests.compare.asks import UUID, around, at_each, change, delete, get, node, patch, post, put

_CONNECTORS, _TARGETS = "/v1/volume/connectors", "/v1/volume/targets"
_CONNECTOR = {"node_uuid": "{node}", "type": "iqn", "connector_id": "iqn.2026-01.org:1"}
_TARGET = {
    "node_uuid": "{node}",
    "volume_type": "iscsi",
    "volume_id": "v",
    "boot_index": 0,
    "properties": {"auth_password": "x", "target_iqn": "y"},
}


def _of(at, whole, values, patches):
    return [
        get(at), *around(get(at), 32), *around(post(at, whole), 32), post(at, {}), post(at, []),
        post(at),
        *[post(at, {key: value for key, value in whole.items() if key != without})
          for without in whole],
        *[post(at, {**whole, field: value}) for field, cases in values.items() for value in cases],
        post(at, {**whole, **_other(whole, 7)}, save={"one": "uuid"}),
        post(at, {**whole, **_other(whole, 8)}), *at_each(get(f"{at}/{{one}}"), 31, 32, 115),
        get(f"{at}/{{one}}?fields=uuid,node_uuid"), get(f"{at}/{{one}}?fields=colour"),
        get(f"{at}/missing"), get(f"{at}/{UUID}"), get(f"{at}/{{one}}?detail=true"),
        *[change(f"{at}/{{one}}", edit) for edit in patches], get(f"{at}/{{one}}", note="changed"),
        patch(f"{at}/{{one}}", []), patch(f"{at}/{{one}}", {}), patch(f"{at}/missing", []),
        patch(f"{at}/{UUID}", []),
        *[get(f"{at}?{query}")
          for query in (
              "limit=1", "limit=0", "marker={one}", "marker=x", f"marker={UUID}", "node={node}",
              "node=named", "node=missing", "detail=true", "detail=true&fields=uuid", "fields=uuid",
              "fields=extra&limit=1", "fields=colour", "sort_key=extra",
              "marker={one}&fields=node_uuid", "sort_key=node_uuid", "sort_key=colour",
              "sort_key=properties", "sort_dir=x", "colour=red"
          )],
        get(f"{at}/detail"),
        put("/v1/nodes/{node}/states/power", {"target": "power on"}, settle="/v1/nodes/{node}"),
        change(f"{at}/{{one}}", ("replace", "/extra", {"on": 1}), note="powered on"),
        put("/v1/nodes/{node}/states/power", {"target": "power off"}, settle="/v1/nodes/{node}"),
        change(f"{at}/{{one}}", ("replace", "/extra", {"off": 1}), note="powered off"),
        delete(f"{at}/{UUID}"), delete(f"{at}/missing"), delete(f"{at}/{{one}}", at="1.31"),
        delete(f"{at}/{{one}}"), delete(f"{at}/{{one}}", note="gone"), delete(at),
        put(f"{at}/{{one}}", {}),
    ]  # fmt: skip


def _other(whole, number):
    return (
        {"connector_id": f"other-{number}"} if "connector_id" in whole else {"boot_index": number}
    )


TABLE = [
    node(name="named"),
    put("/v1/nodes/{node}/states/power", {"target": "power off"}, settle="/v1/nodes/{node}"),
    *around(get("/v1/volume"), 32), post("/v1/volume", {}), get("/v1/volume/nothing"),
    get("/v1/volume?x=1"), get("/v1/volume/"),
    *_of(_CONNECTORS, _CONNECTOR, {"uuid": ("x", None), "node_uuid": ("x", UUID, None, "named"), "type": ("ip", "odd", "", None, "x" * 33, 5), "connector_id": ("", None, 5, "x" * 256), "extra": ({"a": 1}, None, "x"), "colour": ("red",), "created_at": ("x",)},
         (("replace", "/extra", {"a": 1}), ("remove", "/extra"), ("replace", "/type", "ip"), ("remove", "/type"), ("replace", "/connector_id", "other-8"), ("replace", "/connector_id", "iqn.2026-01.org:1"), ("replace", "/node_uuid", UUID), ("replace", "/uuid", UUID), ("add", "/colour", 1), ("remove", "/node_uuid"))),
    *_of(_TARGETS, _TARGET, {"uuid": ("x", None), "node_uuid": ("x", UUID, None), "volume_type": ("odd", "", None, 5), "volume_id": ("", None, 5), "boot_index": (0, "1", "x", None, -1, 1.5, True), "properties": ({}, None, "x"), "extra": ({"a": 1}, "x"), "colour": ("red",)},
         (("replace", "/extra", {"a": 1}), ("replace", "/boot_index", 8), ("replace", "/boot_index", 9), ("replace", "/boot_index", "x"), ("remove", "/boot_index"), ("replace", "/properties", {"a_secret": 1}), ("add", "/properties/b", 1), ("remove", "/properties"), ("replace", "/volume_id", "w"), ("replace", "/volume_type", "fc"), ("replace", "/uuid", UUID), ("remove", "/volume_id"))),
    get("/v1/nodes/{node}/volume"), get("/v1/nodes/{node}/volume/connectors"),
    get("/v1/nodes/{node}/volume/targets"), get("/v1/nodes/{node}/volume/targets?detail=true"),
    get("/v1/nodes/{node}/volume/targets?fields=uuid"), get("/v1/nodes/named/volume/connectors"),
    post("/v1/nodes/{node}/volume/connectors", {}),
]  # fmt: skip
