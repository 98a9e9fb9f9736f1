"""Inspection rules."""

from tests.compare.asks import around, change, delete, get, patch, post, put

_UUID = "11111111-2222-4333-8444-555555555555"
_AT = "/v1/inspection_rules"
_ACTION = {"op": "set-attribute", "args": {"path": "/extra/a", "value": "b"}}
_CONDITION = {"op": "eq", "args": ["{inventory.cpu.count}", 4]}
_VALUES = {
    "uuid": ("x", _UUID, _UUID), "description": ("d", None, "x" * 256, 5),
    "phase": ("main", "odd", None, "", "x" * 17),
    "priority": (0, 5, 9999, 10000, -1, "5", "x", None, 1.5), "sensitive": (True, False, "x", None),
    "conditions": (
        [], None, "x", [{}], [{"op": "odd", "args": []}], [{"op": "!eq", "args": [1, 2]}],
        [{"op": "eq"}], [{**_CONDITION, "loop": [1]}], [{**_CONDITION, "multiple": "any"}],
        [{**_CONDITION, "multiple": "odd"}], [{**_CONDITION, "colour": 1}],
        [{"op": "is-true", "args": {"value": "x"}}],
        [{"op": "in-net", "args": ["1.2.3.4", "1.0.0.0/8"]}]
    ),
    "actions": (
        [], None, "x", [{}], [{"op": "odd", "args": {}}], [{"op": "fail", "args": {"msg": "x"}}],
        [{"op": "fail", "args": ["x"]}], [{"op": "log", "args": {"msg": "x", "level": "info"}}],
        [{"op": "set-attribute"}], [{"op": "set-attribute", "args": {"path": "/a"}}],
        [{**_ACTION, "loop": [1]}], [{"op": "add-trait", "args": {"name": "CUSTOM_A"}}],
        [{**_ACTION, "colour": 1}]
    ),
    "colour": ("red",), "scope": ("s",), "created_at": ("x",),
}  # fmt: skip
_PATCHES = (
    ("replace", "/description", "d"), ("remove", "/description"), ("replace", "/priority", 7),
    ("replace", "/priority", -1), ("remove", "/priority"), ("replace", "/sensitive", True),
    ("replace", "/sensitive", False), ("replace", "/phase", "x"), ("replace", "/conditions", []),
    ("remove", "/conditions"), ("replace", "/actions", []),
    ("replace", "/actions", [_ACTION]), ("remove", "/actions"), ("add", "/actions/-", _ACTION),
    ("replace", "/actions/0/op", "odd"), ("replace", "/uuid", _UUID), ("add", "/colour", 1),
    ("replace", "/created_at", "x"),
)  # fmt: skip

TABLE = [
    get(_AT), *around(get(_AT), 96), *around(post(_AT, {"actions": [_ACTION]}), 96), post(_AT),
    post(_AT, {}), post(_AT, []),
    *[post(_AT, {"actions": [_ACTION], field: value})
      for field, values in _VALUES.items() for value in values],
    post(
        _AT,
        {"actions": [_ACTION], "conditions": [_CONDITION], "description": "first", "priority": 3},
        save={"rule": "uuid"}
    ),
    get(f"{_AT}/{{rule}}"), *around(get(f"{_AT}/{{rule}}"), 96),
    get(f"{_AT}/{{rule}}?fields=uuid,actions"), get(f"{_AT}/{{rule}}?fields=colour"),
    get(f"{_AT}/missing"), get(f"{_AT}/{_UUID[:-1]}9"),
    *[change(f"{_AT}/{{rule}}", each) for each in _PATCHES], get(f"{_AT}/{{rule}}", note="changed"),
    patch(f"{_AT}/{{rule}}", []), patch(f"{_AT}/{{rule}}", {}), patch(f"{_AT}/missing", []),
    patch(f"{_AT}/{_UUID[:-1]}9", []),
    *[get(f"{_AT}?{query}")
      for query in (
          "limit=2", "limit=0", "marker={rule}", "marker=x", "detail=true&limit=2", "detail=x",
          "fields=uuid", "fields=colour", "detail=true&fields=uuid", "sort_key=priority&limit=2",
          "sort_key=actions", "sort_key=conditions", "sort_key=colour", "sort_dir=x",
          "phase=main&limit=2", "phase=odd", "colour=red"
      )],
    get(f"{_AT}/detail"), delete(f"{_AT}/missing"), delete(f"{_AT}/{_UUID[:-1]}9"),
    *around(delete(f"{_AT}/{{rule}}"), 96), delete(f"{_AT}/{{rule}}", note="gone"),
    put(f"{_AT}/x", {}), around(delete(_AT), 96)[0], delete(_AT),
    get(_AT, note="after all were removed"),
]  # fmt: skip
