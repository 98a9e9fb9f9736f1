"""Inspection rules."""

from tests.compare.asks import UUID, around, change, delete, get, patch, post, put

_AT = "/v1/inspection_rules"
_ACTION = {"op": "set-attribute", "args": {"path": "/extra/a", "value": "b"}}
_CONDITION = {"op": "eq", "args": ["{inventory.cpu.count}", 4]}
_RULE = {"actions": [_ACTION], "conditions": [_CONDITION]}
_VALUES = {
    "uuid": (UUID, UUID), "description": ("d", None, "x" * 256, 5),
    "phase": ("main", "odd", None, "", "x" * 17),
    "priority": (0, 5, 9999, 10000, -1, "5", "x", None, 1.5), "sensitive": (True, False, "x", None),
    "actions": (
        [], None, "x", [{}], [{"op": "odd", "args": {}}], [{"op": "fail", "args": {"msg": "x"}}],
        [{"op": "fail", "args": ["x"]}], [{"op": "log", "args": {"msg": "x", "level": "info"}}],
        [{"op": "set-attribute"}], [{"op": "set-attribute", "args": {"path": "/a"}}],
        [{**_ACTION, "loop": [1]}], [{"op": "add-trait", "args": {"name": "CUSTOM_A"}}],
        [{**_ACTION, "colour": 1}]
    ),
    "colour": ("red",), "scope": ("s",), "created_at": ("x",),
}  # fmt: skip
_LAST = {
    "uuid": ("x",),
    "conditions": (
        [], None, "x", [{}], [{"op": "odd", "args": []}], [{"op": "!eq", "args": [1, 2]}],
        [{"op": "eq"}], [{**_CONDITION, "loop": [1]}], [{**_CONDITION, "multiple": "any"}],
        [{**_CONDITION, "multiple": "odd"}], [{**_CONDITION, "colour": 1}],
        [{"op": "is-true", "args": {"value": "x"}}],
        [{"op": "in-net", "args": ["1.2.3.4", "1.0.0.0/8"]}]
    ),
}  # fmt: skip
#: op -> its arguments, good and bad
_CONDITIONS = {
    "eq": ([1], [1, 2, 3], {"values": [1, 2]}, {"values": [1], "force_strings": True}, {"a": 1}, {}),
    "ne": ([1, 2],), "lt": ([1, 2],), "gt": ([1, 2],), "le": ([1, 2],),
    "is-empty": (["x"], {"value": "x"}, []), "is-none": (["x"], []), "is-true": (["x"], []),
    "is-false": (["x"], ["x", "y"]), "in-net": (["1.2.3.4"], {"address": "x", "subnet": "y"}),
    "matches": (["a", "b"], {"value": "a", "regex": "("}, ["a"]), "contains": (["a", "b"], [5, 5]),
    "one-of": (["a", ["a"]], {"value": "a", "values": "b"}, ["a"]), "!is-none": (["x"],),
    "! eq": ([1, 2],), "!!eq": ([1, 2],), "EQ": ([1, 2],), "": ([1, 2],), None: ([1, 2],), 5: ([],),
}  # fmt: skip
_ACTIONS = {
    "fail": ({}, {"msg": 5}, [], ["x", "y"]), "log": ({"msg": "x", "level": "odd"}, ["x", "debug"], {}),
    "set-attribute": (["/extra/a", 1], ["/extra/a"], {"path": "extra.a", "value": None}),
    "extend-attribute": (
        {"path": "/extra/a", "value": 1}, {"path": "/extra/a", "value": 1, "unique": True}, {}
    ),
    "del-attribute": ({"path": "/extra/a"}, ["/extra/a"], {}, {"path": "/a", "value": 1}),
    "set-capability": ({"name": "a", "value": "b"}, {"name": "a"}),
    "unset-capability": ({"name": "a"}, {}), "add-trait": ({"name": "odd"}, ["CUSTOM_A"], {}),
    "remove-trait": ({"name": "CUSTOM_A"}, {}), "set-plugin-data": ({"path": "a", "value": 1}, ["a"]),
    "extend-plugin-data": ({"path": "a", "value": 1}, {"path": "a"}),
    "unset-plugin-data": ({"path": "a"}, {}),
    "set-port-attribute": (
        {"port_id": "x", "path": "extra/a", "value": 1}, {"path": "extra/a", "value": 1}
    ),
    "extend-port-attribute": ({"port_id": "x", "path": "extra/a", "value": 1}, {"port_id": "x"}),
    "del-port-attribute": ({"port_id": "x", "path": "extra/a"}, {"path": "extra/a"}),
    "api-call": ({"url": "http://x"}, {}, {"url": "http://x", "timeout": 5}, {"url": "x", "colour": 1}),
    "!fail": ({"msg": "x"},), "Fail": ({"msg": "x"},), None: ({},),
}  # fmt: skip
_LOOPS = ([], {}, "x", None, 5, [1], {"a": 1}, ["{inventory.disks}"], "{inventory.disks}")
_PATCHES = (
    ("replace", "/description", "d"), ("remove", "/description"), ("replace", "/priority", 7),
    ("replace", "/priority", -1), ("remove", "/priority"), ("replace", "/sensitive", True),
    ("replace", "/sensitive", False), ("replace", "/phase", "x"), ("replace", "/conditions", []),
    ("remove", "/conditions"), ("replace", "/actions", []),
    ("replace", "/actions", [_ACTION]), ("remove", "/actions"), ("add", "/actions/-", _ACTION),
    ("replace", "/actions/0/op", "odd"), ("replace", "/uuid", UUID), ("add", "/colour", 1),
    ("replace", "/created_at", "x"),
)  # fmt: skip


def _with(field, value):
    """A complete rule but for one field, which comes first so that reports show it."""
    return {field: value, **{name: default for name, default in _RULE.items() if name != field}}


TABLE = [
    get(_AT), *around(get(_AT), 96), *around(post(_AT, _RULE), 96), post(_AT),
    post(_AT, {}), post(_AT, []),
    *[post(_AT, _with(field, value))
      for field, values in _VALUES.items() for value in values],
    *[post(_AT, _with("conditions", [{"op": op, "args": args}]))
      for op, cases in _CONDITIONS.items() for args in cases],
    *[post(_AT, _with("actions", [{"op": op, "args": args}]))
      for op, cases in _ACTIONS.items() for args in cases],
    *[post(_AT, _with("actions", [{**_ACTION, "loop": loop}])) for loop in _LOOPS],
    *[post(_AT, _with("conditions", [{**_CONDITION, "loop": loop}]))
      for loop in _LOOPS],
    *[post(
        _AT, _with("conditions", [{**_CONDITION, "loop": [1], "multiple": multiple}])
    ) for multiple in ("all", "first", "last", "", None, 5)],
    post(
        _AT, {**_RULE, "description": "first", "priority": 3}, save={"rule": "uuid"}
    ),
    get(f"{_AT}/{{rule}}"), *around(get(f"{_AT}/{{rule}}"), 96),
    get(f"{_AT}/{{rule}}?fields=uuid,actions"), get(f"{_AT}/{{rule}}?fields=colour"),
    get(f"{_AT}/missing"), get(f"{_AT}/{UUID[:-1]}9"),
    *[change(f"{_AT}/{{rule}}", edit) for edit in _PATCHES], get(f"{_AT}/{{rule}}", note="changed"),
    patch(f"{_AT}/{{rule}}", []), patch(f"{_AT}/{{rule}}", {}), patch(f"{_AT}/missing", []),
    patch(f"{_AT}/{UUID[:-1]}9", []),
    *[get(f"{_AT}?{query}")
      for query in (
          "limit=2", "limit=0", "marker={rule}", "marker=x", "detail=true&limit=2", "detail=x",
          "fields=uuid", "fields=colour", "detail=true&fields=uuid", "sort_key=priority&limit=2",
          "sort_key=actions", "sort_key=conditions", "sort_key=colour", "sort_dir=x",
          "phase=main&limit=2", "phase=odd", "colour=red"
      )],
    # without conditions Ironic creates a rule that it cannot show
    post(_AT, {"actions": [_ACTION]}),
    *[post(_AT, _with(field, value))
      for field, values in _LAST.items() for value in values],
    get(f"{_AT}/detail"), delete(f"{_AT}/missing"), delete(f"{_AT}/{UUID[:-1]}9"),
    *around(delete(f"{_AT}/{{rule}}"), 96), delete(f"{_AT}/{{rule}}", note="gone"),
    put(f"{_AT}/x", {}), around(delete(_AT), 96)[0], delete(_AT),
    get(_AT, note="after all were removed"),
]  # fmt: skip
