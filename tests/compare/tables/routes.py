"""Every route, with wrong bodies, arguments and versions, and with variants of its path."""

from dataclasses import replace

from tests.compare.asks import STEP, UUID, Raw, delete, get, node, patch, post, put

_NODE = "/v1/nodes/{node}"

_READ = (
    "/v1", "/v1/nodes", "/v1/nodes/detail", _NODE, f"{_NODE}/states", f"{_NODE}/states/console",
    f"{_NODE}/validate", f"{_NODE}/traits", f"{_NODE}/vifs", f"{_NODE}/bios", f"{_NODE}/firmware",
    f"{_NODE}/history", f"{_NODE}/inventory", f"{_NODE}/children", f"{_NODE}/allocation",
    f"{_NODE}/ports", f"{_NODE}/portgroups", f"{_NODE}/volume", f"{_NODE}/volume/connectors",
    f"{_NODE}/volume/targets", f"{_NODE}/management/indicators",
    f"{_NODE}/management/indicators/led@system", f"{_NODE}/management/boot_device",
    f"{_NODE}/management/boot_device/supported", f"{_NODE}/vmedia",
    f"{_NODE}/vendor_passthru/methods", "/v1/ports", "/v1/ports/detail", "/v1/ports/{port}",
    "/v1/portgroups", "/v1/portgroups/detail", "/v1/portgroups/{group}",
    "/v1/portgroups/{group}/ports", "/v1/chassis", "/v1/chassis/detail", "/v1/chassis/{chassis}",
    "/v1/chassis/{chassis}/nodes", "/v1/volume", "/v1/volume/connectors",
    "/v1/volume/connectors/{connector}", "/v1/volume/targets", "/v1/volume/targets/{target}",
    "/v1/drivers", "/v1/drivers/fake-hardware", "/v1/drivers/fake-hardware/properties",
    "/v1/drivers/fake-hardware/raid/logical_disk_properties",
    "/v1/drivers/fake-hardware/vendor_passthru/methods", "/v1/conductors", "/v1/conductors/rack-1",
    "/v1/shards", "/v1/deploy_templates", "/v1/deploy_templates/{template}", "/v1/runbooks",
    "/v1/runbooks/{book}", "/v1/runbooks/{book}/traits", "/v1/inspection_rules",
    "/v1/inspection_rules/{rule}", "/v1/allocations", "/v1/allocations/{allocation}",
)  # fmt: skip
#: Routes with a body; the bodies fit none of them.
_WRITTEN = (
    post("/v1/nodes"), patch(_NODE), put(f"{_NODE}/maintenance"), put(f"{_NODE}/states/power"),
    put(f"{_NODE}/states/provision"), put(f"{_NODE}/states/raid"), put(f"{_NODE}/states/boot_mode"),
    put(f"{_NODE}/states/secure_boot"), put(f"{_NODE}/states/console"),
    put(f"{_NODE}/management/boot_device"), put(f"{_NODE}/management/inject_nmi"),
    put(f"{_NODE}/management/indicators/led@system"), post(f"{_NODE}/vifs"), put(f"{_NODE}/traits"),
    put(f"{_NODE}/traits/CUSTOM_A"), post(f"{_NODE}/vmedia"), post("/v1/ports"),
    patch("/v1/ports/{port}"), post("/v1/portgroups"), patch("/v1/portgroups/{group}"),
    post("/v1/chassis"), patch("/v1/chassis/{chassis}"), post("/v1/volume/connectors"),
    patch("/v1/volume/connectors/{connector}"), post("/v1/volume/targets"),
    patch("/v1/volume/targets/{target}"), post("/v1/deploy_templates"),
    patch("/v1/deploy_templates/{template}"), post("/v1/runbooks"), patch("/v1/runbooks/{book}"),
    put("/v1/runbooks/{book}/traits"), put("/v1/runbooks/{book}/traits/CUSTOM_A"),
    post("/v1/inspection_rules"), patch("/v1/inspection_rules/{rule}"), post("/v1/allocations"),
    patch("/v1/allocations/{allocation}"), post("/v1/events"), post("/v1/heartbeat/{node}"),
    post("/v1/continue_inspection"),
)  # fmt: skip
_BODIES = (
    None, [], {}, "text", 5, None, [[]], [5], [{}], {"": 1}, {"colour": "red"},
    [{"op": "replace", "path": "/colour", "value": "red"}], Raw(b""), Raw(b"null"), Raw(b"{"),
    Raw(b"{}", "text/plain"), Raw(b"\xff"), Raw(b'{"a": 1}{}'),
    Raw(b'{"a": ' + b"[" * 30 + b"]" * 30 + b"}"),
)  # fmt: skip
#: Routes that remove; their names and UUIDs exist nowhere.
_REMOVED = (
    _NODE, f"{_NODE}/vifs/{{port}}", f"{_NODE}/traits/{{port}}", "/v1/ports/{port}",
    "/v1/portgroups/{group}", "/v1/chassis/{chassis}", "/v1/volume/connectors/{connector}",
    "/v1/volume/targets/{target}", "/v1/deploy_templates/{template}", "/v1/runbooks/{book}",
    "/v1/runbooks/{book}/traits/{port}", "/v1/inspection_rules/{rule}",
    "/v1/allocations/{allocation}",
)  # fmt: skip
#: Routes that accept any body, or empty a collection.
_SILENT = {
    ("DELETE", f"{_NODE}/traits"), ("DELETE", f"{_NODE}/vmedia"),
    ("DELETE", f"{_NODE}/allocation"), ("DELETE", "/v1/inspection_rules"),
    ("DELETE", "/v1/runbooks/{book}/traits"),
}  # fmt: skip
_TAKEN = {(ask.method, ask.path) for ask in _WRITTEN} | {("DELETE", path) for path in _REMOVED}


def _read(path):
    """Variants of a request that reads."""
    writes = [ask(path, {}) for ask in (post, put, patch, delete)]
    return [
        get(path, at=None), get(path, at="1.1"), get(path, at="latest"), get(path, at="1.116"),
        get(f"{path}/"), get(f"{path}.json", at="1.90"), get(f"{path}.json"), get(f"{path}.xml"),
        get(path.removeprefix("/v1") or "/v1/?"), get(f"{path}?colour=red"),
        get(f"{path}?limit=1&limit=2"), get(f"{path}/colour"), get(path, {"a": 1}),
        get(path.replace("/v1", "/V1")),
        *[write for write in writes if (write.method, path) not in _TAKEN | _SILENT],
    ]  # fmt: skip


def _with_prose(asks):
    """Mark the requests whose responses describe properties."""
    return [replace(ask, prose="properties" in ask.path) for ask in asks]


def _written(ask):
    """Variants of a request that writes."""
    return [
        *[replace(ask, body=body, settle="/v1/nodes/{node}") for body in _BODIES],
        replace(ask, path=f"{ask.path}/", body={"colour": "red"}),
        replace(ask, path=f"{ask.path}?colour=red", body={}),
        replace(ask, version=None, body={"colour": "red"}),
        replace(ask, version="1.1", body={"colour": "red"}),
    ]  # fmt: skip


def _removed(path):
    """Variants of a request that removes."""
    stem = path.rpartition("/")[0]
    return [
        *[delete(f"{stem}/{ident}") for ident in (UUID, "missing", "a%20b", "%00", "x" * 300)],
        delete(f"{stem}/{UUID}", at=None), delete(f"{stem}/{UUID}/"),
        delete(f"{stem}/{UUID}?colour=red"), delete(f"{stem}/{UUID}/colour"),
        delete(f"{stem}/missing.json", at="1.90"), delete(f"{stem}/{UUID}", {"a": 1}),
    ]  # fmt: skip


TABLE = [
    post("/v1/chassis", {"description": "a rack"}, save={"chassis": "uuid"}),
    node(name="named"),
    post("/v1/portgroups", {"node_uuid": "{node}", "name": "group"}, save={"group": "uuid"}),
    post(
        "/v1/ports", {"node_uuid": "{node}", "address": "52:54:00:00:08:01"}, save={"port": "uuid"}
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
    post("/v1/runbooks", {"name": "book", "steps": [{**STEP, "order": 1}]}, save={"book": "uuid"}),
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
    *[variant for path in _READ for variant in _with_prose(_read(path))],
    *[variant for ask in _WRITTEN for variant in _written(ask)],
    *[variant for path in _REMOVED for variant in _removed(path)],
]  # fmt: skip
