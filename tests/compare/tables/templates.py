"""Deploy templates and runbooks."""

from tests.compare.asks import (
    STEP,
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

_DEPLOY, _RUNBOOK = "/v1/deploy_templates", "/v1/runbooks"
_DEPLOY_STEP, _ORDERED = {**STEP, "priority": 10}, {**STEP, "order": 1}


def _steps(step, rank):
    return (
        [], None, "x", [5], [{}], [step, step], [{**step, "interface": "odd"}],
        [{**step, "interface": "network"}], [{**step, rank: "7"}], [{**step, rank: -1}],
        [{**step, rank: "x"}], [{**step, rank: 1.5}], [{**step, rank: None}],
        [{**step, "args": None}], [{**step, "args": []}],
        [{**step, "args": {"password": "x"}}], [{**step, "colour": "red"}], [{**step, "step": ""}],
        *[[{key: value for key, value in step.items() if key != without}] for without in step],
        [{**step, "step": "a"}, {**step, "step": "b"}], [{**step, "step": "x" * 256}],
    )  # fmt: skip


def _of(at, steps, bad):
    patches = (
        ("replace", "/name", "CUSTOM_NEW"), ("replace", "/name", "CUSTOM_SECOND"),
        ("remove", "/name"), ("replace", "/name", ""), ("replace", "/extra", {"a": 1}),
        ("remove", "/extra"), ("replace", "/steps", steps), ("replace", "/steps", []),
        ("remove", "/steps"), ("add", "/steps/-", {**steps[0], "step": "more"}),
        ("replace", "/steps/0/args", {"a": 1}), ("remove", "/steps/0"),
        ("replace", "/steps", steps), ("remove", "/steps/0", None), ("replace", "/steps/9/args", {}),
        ("replace", "/description", "d"), ("remove", "/description"), ("replace", "/uuid", UUID),
        ("add", "/colour", 1), ("replace", "/created_at", "x"), ("replace", "/owner", "o"),
        ("replace", "/public", True), ("replace", "/disable_ramdisk", True),
        ("replace", "/traits", []),
    )  # fmt: skip
    return [
        get(at), post(at), post(at, {}), post(at, []), post(at, {"name": "CUSTOM_A"}),
        post(at, {"steps": steps}),
        *[post(at, {"name": name, "steps": steps})
          for name in (
              "CUSTOM_A", "CUSTOM_A", "a", "", None, 5, "a b", "CUSTOM_" + "X" * 249,
              "HW_CPU_X86_VMX", UUID
          )],
        *[post(at, {"name": f"CUSTOM_S{i}", "steps": bad_steps}) for i, bad_steps in enumerate(bad)],
        *[post(at, {"name": f"CUSTOM_{field.upper()}", "steps": steps, field: value})
          for field, value in (
              ("uuid", "x"), ("uuid", UUID), ("extra", {"a": 1}), ("extra", "x"),
              ("description", "d"), ("owner", "o"), ("public", True), ("disable_ramdisk", True),
              ("traits", []), ("colour", "red"), ("created_at", "x")
          )],
        post(at, {"name": "CUSTOM_FIRST", "steps": steps, "extra": {"a": 1}}, save={"one": "uuid"}),
        post(at, {"name": "CUSTOM_SECOND", "steps": steps}), get(f"{at}/{{one}}"),
        get(f"{at}/CUSTOM_FIRST"), get(f"{at}/missing"), get(f"{at}/a%20b"),
        get(f"{at}/{{one}}?fields=name,steps"), get(f"{at}/{{one}}?fields=colour"),
        get(f"{at}/CUSTOM_FIRST.json", at="1.80"),
        *[change(f"{at}/{{one}}", edit) for edit in patches], get(f"{at}/{{one}}", note="changed"),
        patch(f"{at}/{{one}}", []), patch(f"{at}/{{one}}", {}), patch(f"{at}/missing", []),
        *[get(f"{at}?{query}")
          for query in (
              "limit=2", "limit=0", "marker={one}", "marker=x", "detail=true&limit=2",
              "detail=false&limit=1", "detail=x", "fields=uuid,name", "fields=steps&limit=1",
              "fields=colour", "detail=true&fields=uuid", "sort_key=name&limit=2", "sort_key=extra",
              "sort_key=steps", "sort_key=traits", "sort_key=colour", "sort_dir=x", "colour=red"
          )],
        get(f"{at}/detail"), delete(f"{at}/CUSTOM_SECOND"), delete(f"{at}/missing"), delete(at),
        put(f"{at}/x", {}), delete(f"{at}/{{one}}"), delete(f"{at}/{{one}}", note="gone"),
    ]  # fmt: skip


_TRAITS = f"{_RUNBOOK}/{{book}}/traits"
_VERB = "/v1/nodes/{node}/states/provision"
TABLE = [
    *around(get(_DEPLOY), 55),
    *around(post(_DEPLOY, {"name": "CUSTOM_T", "steps": [_DEPLOY_STEP]}), 55),
    *around(delete(f"{_DEPLOY}/CUSTOM_T"), 55), *around(patch(f"{_DEPLOY}/x", []), 55),
    *_of(_DEPLOY, [_DEPLOY_STEP], _steps(_DEPLOY_STEP, "priority")),
    *around(get(_RUNBOOK), 92),
    *around(post(_RUNBOOK, {"name": "CUSTOM_T", "steps": [_ORDERED]}), 92),
    *around(get(f"{_RUNBOOK}/CUSTOM_T"), 92), *around(delete(f"{_RUNBOOK}/CUSTOM_T"), 92),
    *_of(_RUNBOOK, [_ORDERED], _steps(_ORDERED, "order")),
    *around(post(_RUNBOOK, {"name": "free.name", "steps": [_ORDERED]}), 112),
    *around(post(_RUNBOOK, {"name": "CUSTOM_D", "description": "d", "steps": [_ORDERED]}), 112),
    post(_RUNBOOK, {"name": "both", "owner": "o", "public": True, "steps": [_ORDERED]}),
    post(_RUNBOOK, {"name": "book", "steps": [_ORDERED]}, save={"book": "uuid"}),
    *at_each(get(f"{_RUNBOOK}/{{book}}"), 92, 111, 112),
    change(f"{_RUNBOOK}/{{book}}", ("replace", "/public", True)),
    change(f"{_RUNBOOK}/{{book}}", ("replace", "/public", False)),
    change(f"{_RUNBOOK}/{{book}}", ("replace", "/owner", "p")),
    *around(get(_TRAITS), 112), put(_TRAITS, {"traits": ["CUSTOM_B", "CUSTOM_A"]}),
    get(_TRAITS, note="two"), put(_TRAITS, {"traits": ["x"]}), put(_TRAITS, {}),
    put(f"{_TRAITS}/CUSTOM_C"), put(f"{_TRAITS}/x"), delete(f"{_TRAITS}/CUSTOM_C"),
    delete(f"{_TRAITS}/CUSTOM_C", note="again"), delete(_TRAITS), get(_TRAITS, note="none"),
    get(f"{_RUNBOOK}/missing/traits"),
    node(),
    put("/v1/nodes/{node}/states/provision", {"target": "manage"}, settle="/v1/nodes/{node}"),
    put("/v1/nodes/{node}/states/provision", {"target": "clean", "runbook": "book"}),
    put(_TRAITS, {"traits": ["CUSTOM_A"]}), put("/v1/nodes/{node}/traits/CUSTOM_A"),
    put(
        "/v1/nodes/{node}/states/provision", {"target": "clean", "runbook": "book"},
        settle="/v1/nodes/{node}", note="with its trait"
    ),
    get("/v1/nodes/{node}/states", note="after the runbook"),
    # arguments beside a runbook, and runbooks that a verb accepts
    *[put(_VERB, {"target": "clean", **fields}, settle="/v1/nodes/{node}")
      for fields in (
          {"runbook": "{book}"}, {"runbook": ""}, {"runbook": None}, {"runbook": 5},
          {"runbook": "a b"}, {"runbook": UUID}, {"runbook": "book", "clean_steps": [STEP]},
          {"runbook": "book", "clean_steps": []}, {"runbook": "book", "disable_ramdisk": True},
          {"runbook": "book", "disable_ramdisk": False},
          {"runbook": "book", "service_steps": [STEP]}, {"runbook": "book", "deploy_steps": []}
      )],
    *around(put(_VERB, {"target": "clean", "runbook": "book"}, settle="/v1/nodes/{node}"), 92),
    get("/v1/nodes/{node}/states", note="after many"),
    *[put(_VERB, {"target": target, "runbook": "book"}, note="not for it", settle="/v1/nodes/{node}")
      for target in ("manage", "inspect", "provide", "adopt", "abort")],
    post(
        _RUNBOOK,
        {"name": "fails", "steps": [{**_ORDERED, "step": "missing"}]}, save={"fails": "uuid"}
    ),
    put("/v1/runbooks/fails/traits", {"traits": ["CUSTOM_A"]}),
    *available("other"), verb("manage", "other"),
    put("/v1/nodes/{other}/states/provision", {"target": "clean", "runbook": "fails"},
        settle="/v1/nodes/{other}", note="no trait"),
    put("/v1/nodes/{other}/traits/CUSTOM_A"),
    put("/v1/nodes/{other}/states/provision", {"target": "clean", "runbook": "fails"},
        settle="/v1/nodes/{other}"),
    get("/v1/nodes/{other}/states", note="no such step"),
    *available("used"), put("/v1/nodes/{used}/traits/CUSTOM_A"), verb("active", "used"),
    verb("service", "used", runbook="book"), get("/v1/nodes/{used}/states", note="serviced"),
    verb("service", "used", runbook="missing"), verb("service", "used", runbook="book", service_steps=[STEP]),
    verb("rebuild", "used", runbook="book"), verb("deleted", "used", runbook="book"),
    change(f"{_RUNBOOK}/{{book}}", ("replace", "/steps/0/interface", "odd")),
    change(f"{_RUNBOOK}/{{book}}", ("replace", "/steps/0/order", 5)),
    change(f"{_RUNBOOK}/{{book}}", ("replace", "/steps/0/order", -5)),
    change(f"{_RUNBOOK}/{{book}}", ("replace", "/disable_ramdisk", True)),
    *around(change(f"{_RUNBOOK}/{{book}}", ("replace", "/description", "d")), 112),
    *around(change(f"{_RUNBOOK}/{{book}}", ("replace", "/name", "free.name.2")), 112),
    *around(put(f"{_TRAITS}/CUSTOM_Q"), 112), *around(put(_TRAITS, {"traits": []}), 112),
    *around(delete(f"{_TRAITS}/CUSTOM_Q"), 112), *around(delete(_TRAITS), 112),
    *[put(_TRAITS, body) for body in ({"traits": None}, {"traits": "CUSTOM_A"}, {"traits": [5]}, [], {"traits": ["CUSTOM_A", "CUSTOM_A"]}, {"traits": [], "x": 1})],
    put(_TRAITS), post(_TRAITS, {}), get(f"{_TRAITS}/CUSTOM_A"), put(f"{_TRAITS}/CUSTOM_A", {"a": 1}),
    # templates that an instance requests by its traits
    post(_DEPLOY, {"name": "CUSTOM_WANTED", "steps": [{**_DEPLOY_STEP, "args": {"settings": [{"name": "a", "value": "b"}]}}]}),
    post(_DEPLOY, {"name": "CUSTOM_BROKEN", "steps": [{**_DEPLOY_STEP, "step": "missing"}]}),
    *[ask
      for number, traits in enumerate((["CUSTOM_WANTED"], ["CUSTOM_BROKEN"], ["CUSTOM_ABSENT"], "x"))
      for ask in (
          *available(f"of_{number}"),
          put(f"/v1/nodes/{{of_{number}}}/traits", {"traits": ["CUSTOM_WANTED", "CUSTOM_BROKEN"]}),
          change(f"/v1/nodes/{{of_{number}}}", ("replace", "/instance_info", {"traits": traits})),
          get(f"/v1/nodes/{{of_{number}}}/validate", note=f"{traits}"),
          verb("active", f"of_{number}"), get(f"/v1/nodes/{{of_{number}}}/states", note=f"{traits}"),
          get(f"/v1/nodes/{{of_{number}}}/bios", note=f"{traits}")
      )],
]  # fmt: skip
