"""Chassis."""

from tests.compare.asks import UUID, around, at_each, change, delete, get, node, patch, post, put

_AT = "/v1/chassis"
_VALUES = {
    "uuid": ("x", UUID, UUID, None),
    "description": ("d", None, "", "x" * 255, "x" * 256, 5, "ü"),
    "extra": ({"a": 1}, None, "x", []),
    "colour": ("red",),
    "nodes": ([],),
    "name": ("x",),
}

TABLE = [
    get(_AT), get(f"{_AT}/detail"), post(_AT), post(_AT, {}), post(_AT, []),
    *[post(_AT, {field: value}) for field, values in _VALUES.items() for value in values],
    post(_AT, {"description": "a rack", "extra": {"row": 1}}, save={"chassis": "uuid"}),
    *at_each(get(f"{_AT}/{{chassis}}"), 1, 8, 115), get(f"{_AT}/{{chassis}}", at=None),
    get(f"{_AT}/{{chassis}}?fields=uuid"), *around(get(f"{_AT}/{{chassis}}?fields=uuid"), 8),
    get(f"{_AT}/{{chassis}}?fields=colour"), get(f"{_AT}/{{chassis}}?fields=nodes"),
    get(f"{_AT}/missing"), get(f"{_AT}/{UUID[:-1]}9"), get(f"{_AT}/{{chassis}}.json", at="1.80"),
    *[change(f"{_AT}/{{chassis}}", edit) for edit in (
        ("replace", "/description", "new"), ("remove", "/description"),
        ("replace", "/description", "x" * 256), ("replace", "/extra", {"a": 1}),
        ("add", "/extra/b", 1), ("remove", "/extra/zzz"), ("remove", "/extra"),
        ("replace", "/uuid", UUID), ("add", "/colour", 1),
        ("replace", "/nodes", []), ("replace", "/created_at", "x"), ("replace", "/uuid", "x"), ("replace", "/description", None), ("remove", "/uuid"))],
    get(f"{_AT}/{{chassis}}", note="changed"), patch(f"{_AT}/{{chassis}}", []),
    patch(f"{_AT}/{{chassis}}", {}), patch(f"{_AT}/missing", []), patch(f"{_AT}/{UUID[:-1]}9", []),
    node(chassis_uuid="{chassis}"), get("/v1/nodes/{node}?fields=chassis_uuid"),
    get("/v1/nodes/{node}", note="in a chassis"), get("/v1/nodes?chassis_uuid={chassis}"),
    get("/v1/nodes/detail?chassis_uuid={chassis}"), get(f"{_AT}/{{chassis}}/nodes"),
    get(f"{_AT}/{{chassis}}/nodes?limit=1"),
    get(f"{_AT}/{{chassis}}/nodes?fields=uuid"), get(f"{_AT}/{{chassis}}/nodes?detail=true"),
    get(f"{_AT}/{{chassis}}/nodes/{{node}}"), get(f"{_AT}/{{chassis}}/nodes/detail"),
    get(f"{_AT}/{UUID[:-1]}9/nodes"), get(f"{_AT}/missing/nodes"),
    post(f"{_AT}/{{chassis}}/nodes", {}),
    delete(f"{_AT}/{{chassis}}", note="with a node"),
    *around(change("/v1/nodes/{node}", ("remove", "/chassis_uuid")), 25),
    change("/v1/nodes/{node}", ("replace", "/chassis_uuid", "{chassis}")),
    change("/v1/nodes/{node}", ("replace", "/chassis_uuid", None)),
    *[get(f"{_AT}?{query}")
      for query in (
          "limit=1", "limit=0", "limit=x", "marker={chassis}", "marker=x", f"marker={UUID[:-1]}9",
          "sort_key=description", "sort_key=extra", "sort_key=colour", "sort_dir=desc&limit=2",
          "sort_dir=x", "fields=uuid,extra", "fields=colour", "detail=true&limit=1",
          "detail=true&fields=uuid", "colour=red"
      )],
    get(f"{_AT}/detail?limit=1"), get(f"{_AT}/detail?fields=uuid"),
    get(f"{_AT}/{{chassis}}/detail"), *around(get(f"{_AT}?detail=true&limit=1"), 43),
    delete(f"{_AT}/{{chassis}}"), delete(f"{_AT}/{{chassis}}", note="gone"),
    delete(f"{_AT}/missing"), delete(_AT), put(f"{_AT}/x", {}), delete(f"{_AT}/{UUID}?x=1"),
]  # fmt: skip
