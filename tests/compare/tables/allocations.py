"""Allocations."""

from tests.compare.asks import (
    UUID,
    around,
    at_each,
    available,
    change,
    delete,
    get,
    node,
    patch,
    post,
    put,
    verb,
)

_AT = "/v1/allocations"
_VALUES = {
    "uuid": (UUID, UUID), "name": ("n", "n", "a b", "", None, "x" * 256, UUID),
    "resource_class": ("", None, "x" * 80, "x" * 81, 5),
    "traits": (["CUSTOM_X"], ["x"], "x", None, []),
    "candidate_nodes": (["missing"], [UUID], "x", None, [], ["{spare}"], ["spare"]),
    "extra": ({"a": 1}, None, "x"), "owner": ("me", None, 5), "state": ("active",),
    "node_uuid": ("{spare}",), "colour": ("red",),
}  # fmt: skip


def _new(**fields):
    return post(_AT, {"resource_class": "none", **fields})


def _sought(number, **fields):
    """Request an allocation, and read its result."""
    body = {"resource_class": "both", **fields, "name": f"sought-{number}"}
    variable = f"sought_{number}"
    return [
        post(_AT, body, save={variable: "uuid"}, settle=f"{_AT}/{{{variable}}}"),
        get(f"{_AT}/sought-{number}", note=f"{fields}"),
    ]


#: Requests on the nodes `{one}` (with a trait and a name) and `{two}`.
_SOUGHT = (
    {"candidate_nodes": ["{spare}"]}, {"candidate_nodes": ["{one}", "{spare}"], "traits": ["CUSTOM_Z"]},
    {"traits": ["CUSTOM_A", "CUSTOM_B"]}, {"candidate_nodes": ["two"], "traits": ["CUSTOM_A"]},
    {"candidate_nodes": ["one", "{two}"], "traits": ["CUSTOM_A"], "owner": "me"},
    {"candidate_nodes": ["one", "{one}"], "traits": ["CUSTOM_A"]},
    {"candidate_nodes": ["{two}", "one"]}, {"candidate_nodes": ["two"]},
)  # fmt: skip
TABLE = [
    get(_AT), *around(get(_AT), 52), *around(_new(), 52),
    *available("spare", name="spare", resource_class="x"),
    *[_new(**{field: value}) for field, values in _VALUES.items() for value in values],
    post(_AT, {}), post(_AT, []), post(_AT), *around(_new(owner="me"), 60),
    # successful
    *available("node", resource_class="found"),
    put("/v1/nodes/{node}/states/power", {"target": "power off"}, settle="/v1/nodes/{node}"),
    post(
        _AT, {"resource_class": "found", "name": "first", "extra": {"a": 1}},
        save={"first": "uuid"}, settle=f"{_AT}/{{first}}"
    ),
    get(f"{_AT}/first", settle=f"{_AT}/first", note="wait"), get(f"{_AT}/{{first}}"),
    *at_each(get(f"{_AT}/{{first}}"), 51, 52, 59, 60),
    get("/v1/nodes/{node}"), get("/v1/nodes/{node}/allocation"),
    get("/v1/nodes/{node}?fields=allocation_uuid,instance_uuid,instance_info"),
    get(f"{_AT}/first?fields=name,state"), get(f"{_AT}/first?fields=colour"), get(f"{_AT}/missing"),
    get(f"{_AT}/a%20b"), get(f"{_AT}/first.json", at="1.80"),
    *[change(f"{_AT}/{{first}}", edit) for edit in (("replace", "/name", "second"), ("replace", "/name", "n"), ("remove", "/name"), ("add", "/name", "first"), ("replace", "/extra", {"b": 1}), ("add", "/extra/c", 1), ("remove", "/extra"), ("replace", "/resource_class", "y"), ("replace", "/owner", "x"), ("replace", "/state", "error"), ("add", "/colour", 1),
                                                          ("replace", "/name", "a b"), ("replace", "/name", None))],
    patch(f"{_AT}/first", []), patch(f"{_AT}/first", {}), patch(f"{_AT}/missing", []),
    *around(patch(f"{_AT}/first", []), 57), *around(patch(f"{_AT}/first", []), 52),
    delete("/v1/nodes/{node}", note="allocated"),
    change("/v1/nodes/{node}", ("replace", "/instance_uuid", UUID)),
    change("/v1/nodes/{node}", ("replace", "/owner", "o")),
    # failed
    post(
        _AT, {"resource_class": "found", "name": "late"}, save={"late": "uuid"},
        settle=f"{_AT}/{{late}}"
    ),
    get(f"{_AT}/late"),
    # backfilled
    *available("used", resource_class="used"), verb("active", "used"),
    *around(post(_AT, {"node": "{used}", "name": "back"}), 58), get(f"{_AT}/back"),
    get("/v1/nodes/{used}?fields=allocation_uuid,instance_uuid"),
    post(_AT, {"node": "{used}"}, note="again"), post(_AT, {"node": "missing"}),
    post(_AT, {"node": "{spare}"}), post(_AT, {"node": "{spare}", "resource_class": "wrong"}),
    post(_AT, {"node": 5}), delete(f"{_AT}/back", note="of an active node"),
    *around(delete("/v1/nodes/{used}/allocation", note="of an active node"), 52),
    # lists
    *[get(f"{_AT}?{query}") for query in ("state=active", "state=error&limit=2", "state=x", "state=", "resource_class=found", "resource_class=zzz", "owner=me", "node={node}", "node=missing", "node=spare", "limit=2", "limit=0", "marker={first}", "marker=x", f"marker={UUID[:-1]}9", "sort_key=name&limit=2", "sort_key=extra", "sort_key=candidate_nodes", "sort_key=traits", "sort_key=colour",
                                          "sort_key=node_uuid", "sort_key=owner&limit=2", "fields=uuid,name", "fields=colour", "fields=&node={node}", "detail=true", "colour=red", "sort_dir=x", "limit=2&state=error")],
    *around(get(f"{_AT}?owner=me"), 60), *around(get(f"{_AT}?limit=2"), 52), get(f"{_AT}/detail"),
    delete("/v1/nodes/{node}/allocation"), get("/v1/nodes/{node}/allocation", note="gone"),
    get("/v1/nodes/{node}?fields=instance_uuid,allocation_uuid", note="gone"),
    delete(f"{_AT}/first", note="gone"), delete(f"{_AT}/late"), delete(f"{_AT}/missing"),
    *around(delete(f"{_AT}/n"), 52), delete(_AT), put(f"{_AT}/x", {}),
    post("/v1/nodes/{node}/allocation", {}), node("bare", resource_class="r"),
    post(_AT, {"node": "{bare}"}), post(_AT, {"resource_class": "r", "node": "{used}"}),
    # candidates
    *[ask
      for name, traits in (("one", ["CUSTOM_A"]), ("two", []))
      for ask in (
          *available(name, name=name, resource_class="both"),
          put(f"/v1/nodes/{{{name}}}/states/power", {"target": "power off"}, settle=f"/v1/nodes/{{{name}}}"),
          put(f"/v1/nodes/{{{name}}}/traits", {"traits": traits})
      )],
    *[ask
      for number, fields in enumerate(_SOUGHT) for ask in _sought(number, **fields)],
    get("/v1/nodes/one/allocation"), get("/v1/nodes/two/allocation"),
    get("/v1/nodes/{one}?fields=instance_info,instance_uuid,traits"),
    *[get("/v1/nodes/one/allocation?fields=" + fields) for fields in ("uuid", "name,state", "colour", "owner", "")],
    *around(get("/v1/nodes/one/allocation?fields=owner"), 60), get("/v1/nodes/one/allocation?x=1"),
    get("/v1/nodes/one/allocation/x"), verb("active", "one"),
    delete("/v1/nodes/one/allocation", note="of an active node"),
    change("/v1/nodes/{one}", ("remove", "/instance_uuid"), note="of an allocation"),
    verb("deleted", "one"), get("/v1/nodes/one/allocation", note="after its end"),
    *_sought(20, candidate_nodes=["one"]),
    put("/v1/nodes/one/maintenance", {}), delete("/v1/nodes/one/allocation", note="in maintenance"),
    *_sought(21, candidate_nodes=["one"]),
    _new(uuid="x"),  # at the end: Ironic makes one that no path can name
]  # fmt: skip
