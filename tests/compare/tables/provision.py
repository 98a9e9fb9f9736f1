"""Verbs: each in every state that fake hardware reaches, with their arguments and versions."""

from tests.compare.asks import around, available, change, delete, get, node, put, verb

_PATH = "/v1/nodes/{node}/states/provision"
_VERBS = (
    "active", "deploy", "rebuild", "deleted", "undeploy", "manage", "provide", "inspect", "abort",
    "clean", "adopt", "rescue",
    "unrescue", "service", "unhold", "nothing", "cleaned", "verify", "",
)  # fmt: skip
#: Verbs that a state refuses, and verbs that it accepts without their required arguments.
_REFUSED = {
    "enroll": set(_VERBS) - {"manage"},
    "manageable": set(_VERBS) - {"inspect", "provide", "adopt"},
    "available": set(_VERBS) - {"active", "deploy", "manage"},
    "active": set(_VERBS) - {"rebuild", "deleted", "undeploy"},
    "rescue": set(_VERBS) - {"deleted", "undeploy", "unrescue"},
    "clean failed": set(_VERBS) - {"manage", "provide", "clean"},
}  # fmt: skip
_STEP = {"interface": "deploy", "step": "erase_devices"}
_RESET = {"interface": "bios", "step": "factory_reset"}
_BIOS = {
    "interface": "bios",
    "step": "apply_configuration",
    "args": {"settings": [{"name": "a", "value": "b"}]},
}
_BAD_STEPS = (
    [], {}, "x", None, [{}], [{"step": "x"}], [{"interface": "deploy"}],
    [{"interface": "odd", "step": "x"}], [{"interface": "deploy", "step": "missing"}],
    [{**_STEP, "colour": "red"}], [{**_STEP, "args": []}], [{**_STEP, "priority": 10}],
    [{"interface": "network", "step": "x"}], [_STEP, 5],
    [{**_BIOS, "args": {}}], [{**_BIOS, "args": {"what": 1}}],
)  # fmt: skip


def _refused(state, of="node"):
    path = f"/v1/nodes/{{{of}}}/states/provision"
    return [put(path, {"target": verb}, note=state) for verb in _VERBS if verb in _REFUSED[state]]


def _shown(state, of="node"):
    return [get(f"/v1/nodes/{{{of}}}", note=state), get(f"/v1/nodes/{{{of}}}/states", note=state)]


def _bad_steps(target, back, *cases):
    """Send steps that are refused, or fail; the verb `back` returns to the state before."""
    asks = []
    for steps in (*_BAD_STEPS, *cases):
        asks += [
            verb(target, **{f"{'deploy' if target == 'active' else target}_steps": steps}),
            get("/v1/nodes/{node}/states", note=f"{target} {steps}"),
            delete("/v1/nodes/{node}/maintenance", note=f"after {target} {steps}"),
            put(_PATH, {"target": back}, settle="/v1/nodes/{node}", note=f"after {target} {steps}"),
        ]
    return asks


TABLE = [
    node(), *_refused("enroll"),
    put(_PATH), put(_PATH, {}), put(_PATH, {"target": None}), put(_PATH, {"target": 5}),
    put(_PATH, []), put(_PATH, {"target": "manage", "colour": "red"}),
    put("/v1/nodes/missing/states/provision", {"target": "manage"}),
    put(f"{_PATH}?target=manage&colour=red"), get(_PATH),
    *around(put(_PATH, {"target": "manage"}), 4)[:1],
    verb("manage"), *_shown("manageable"), *_refused("manageable"),
    # verbs by version
    *[put(_PATH, {"target": name}, at=f"1.{since - 1}") for name, since in (
        ("provide", 4), ("inspect", 6), ("abort", 13), ("clean", 15), ("adopt", 17), ("rescue", 38),
        ("unrescue", 38), ("deploy", 73),
        ("undeploy", 73), ("unhold", 85), ("service", 87), ("manage", 4))],
    # misplaced arguments
    *[put(_PATH, {"target": "inspect", name: value}, settle="/v1/nodes/{node}") for name, value in (
        ("configdrive", "YQ=="), ("clean_steps", [_STEP]),
        ("deploy_steps", [{**_STEP, "args": {}, "priority": 1}]), ("service_steps", [_STEP]),
        ("rescue_password", "x"), ("disable_ramdisk", True), ("runbook", "missing"))],
    *_bad_steps("clean", "manage"),
    put(_PATH, {"target": "clean", "clean_steps": [_RESET], "runbook": "x"}),
    put(_PATH, {"target": "clean", "runbook": "missing"}),
    *around(put(_PATH, {"target": "clean", "runbook": "missing"}), 92),
    put(_PATH, {"target": "clean", "clean_steps": [_STEP], "disable_ramdisk": "x"}),
    *around(
        put(
            _PATH,
            {
                "target": "clean", "clean_steps": [{"interface": "odd", "step": "x"}],
                "disable_ramdisk": True
            }
        ),
        70
    ),
    verb("clean", clean_steps=[_RESET]), *_shown("after a manual clean"),
    verb("clean", clean_steps=[_BIOS]), *_shown("after a manual clean of bios"),
    verb("clean", clean_steps=[_BIOS], disable_ramdisk=True), *_shown("cleaned without a ramdisk"),
    delete("/v1/nodes/{node}/maintenance"), verb("manage"),
    verb("inspect"), *_shown("inspected"), verb("adopt"), *_shown("adopted"),
    delete("/v1/nodes/{node}"), node(), verb("manage"), put("/v1/nodes/{node}/maintenance", {}),
    put(_PATH, {"target": "provide"}, note="in maintenance", settle="/v1/nodes/{node}"),
    put(_PATH, {"target": "inspect"}, note="in maintenance", settle="/v1/nodes/{node}"),
    put(_PATH, {"target": "adopt"}, note="in maintenance", settle="/v1/nodes/{node}"),
    put(
        _PATH, {"target": "clean", "clean_steps": [_RESET]}, note="in maintenance",
        settle="/v1/nodes/{node}"
    ),
    delete("/v1/nodes/{node}/maintenance"),
    change("/v1/nodes/{node}", ("replace", "/retired", True)),
    put(_PATH, {"target": "provide"}, note="retired", settle="/v1/nodes/{node}"),
    change("/v1/nodes/{node}", ("replace", "/retired", False)),
    verb("provide"), *_shown("available"), *_refused("available"),
    get("/v1/nodes/{node}", at="1.1", note="available"),
    get("/v1/nodes/{node}/states", at="1.1", note="available"),
    # configdrive
    *[ask for value, at in (
        ({}, "1.55"), ({"meta_data": {}}, "1.55"), ({"vendor_data": {}}, "1.58"),
        ({"odd": 1}, "1.115"), (5, "1.115"), ([], "1.115"),
        ("not base64!", "1.115"), ({"meta_data": "x"}, "1.115"), ({"network_data": "x"}, "1.115"), ({"user_data": 5}, "1.115"), ("", "1.115"))
      for ask in (put(_PATH, {"target": "active", "configdrive": value}, at=at, settle="/v1/nodes/{node}"), put(_PATH, {"target": "deleted"}, settle="/v1/nodes/{node}", note=f"after {value}"))],
    *_bad_steps(
        "active", "deleted", [{**_STEP, "args": {}, "priority": "x"}],
        [{**_STEP, "args": {}, "priority": -1}]
    ),
    put(
        _PATH, {"target": "active", "deploy_steps": [{**_STEP, "args": {}, "priority": 1}]},
        at="1.68"
    ),
    put(_PATH, {"target": "active", "rescue_password": "x"}),
    put(_PATH, {"target": "active", "clean_steps": [_STEP]}),
    put("/v1/nodes/{node}/maintenance", {}),
    put(_PATH, {"target": "active"}, note="in maintenance"), delete("/v1/nodes/{node}/maintenance"),
    change(
        "/v1/nodes/{node}", ("replace", "/instance_uuid", "33333333-2222-4333-8444-555555555555"),
        ("replace", "/instance_info", {"display_name": "vm", "project_id": "p"})
    ),
    verb("active", configdrive={"meta_data": {"a": "b"}}), *_shown("active"), *_refused("active"),
    # rebuild, rescue, service
    put(_PATH, {"target": "rebuild", "configdrive": "YQ=="}, at="1.34"),
    put(_PATH, {"target": "rebuild", "configdrive": {}}, at="1.55", settle="/v1/nodes/{node}"),
    verb("rebuild"), *_shown("rebuilt"), verb("rebuild", configdrive="YQ=="),
    *_shown("rebuilt with a configdrive"),
    put(_PATH, {"target": "rescue", "rescue_password": ""}),
    put(_PATH, {"target": "rescue", "rescue_password": "  "}),
    put(_PATH, {"target": "rescue", "rescue_password": 5}),
    put(_PATH, {"target": "rescue", "rescue_password": "x"}, at="1.37"),
    put(_PATH, {"target": "rescue", "rescue_password": None}),
    verb("rescue", rescue_password="sesame"), *_shown("rescue"), *_refused("rescue"),
    verb("unrescue"), *_shown("unrescued"),
    verb("service", service_steps=[_BIOS]), *_shown("serviced"),
    change("/v1/nodes/{node}", ("replace", "/protected", True)),
    put(_PATH, {"target": "deleted"}, note="protected"),
    put(_PATH, {"target": "rebuild"}, note="protected"),
    put(_PATH, {"target": "undeploy"}, note="protected"),
    change("/v1/nodes/{node}", ("replace", "/protected", False)),
    put("/v1/nodes/{node}/maintenance", {}),
    put(_PATH, {"target": "rebuild"}, note="in maintenance"),
    put(_PATH, {"target": "rescue", "rescue_password": "x"}, note="in maintenance"),
    put(_PATH, {"target": "deleted"}, settle="/v1/nodes/{node}", note="in maintenance"),
    *_shown("deleted"),
    delete("/v1/nodes/{node}/maintenance"),
    change("/v1/nodes/{node}", ("remove", "/instance_uuid")),
    get("/v1/nodes/{node}/states", note="at the end"),
    put(_PATH, {"target": "deploy"}, settle="/v1/nodes/{node}"),
    put(_PATH, {"target": "undeploy"}, settle="/v1/nodes/{node}"), *_shown("undeployed"),
    # operations that wait for a ramdisk
    *available("waits"), verb("manage", "waits"),
    change("/v1/nodes/{waits}", ("replace", "/deploy_interface", "direct")),
    verb("provide", "waits"),
    get("/v1/nodes/{waits}/states", note="clean wait"),
    get("/v1/nodes/{waits}/states", at="1.1", note="clean wait"),
    *[put("/v1/nodes/{waits}/states/provision", {"target": target}, note="clean wait")
      for target in ("provide", "manage", "active", "deleted", "inspect", "clean", "rebuild")],
    put("/v1/nodes/{waits}/states/power", {"target": "power on"}, note="clean wait"),
    change("/v1/nodes/{waits}", ("replace", "/extra", {}), note="clean wait"),
    delete("/v1/nodes/{waits}", note="clean wait"),
    change("/v1/nodes/{waits}", ("replace", "/retired", True), note="clean wait"),
    put("/v1/nodes/{waits}/states/provision", {"target": "abort"}, at="1.12"),
    verb("abort", "waits"), *_shown("clean failed", "waits"), *_refused("clean failed", "waits"),
    change("/v1/nodes/{waits}", ("replace", "/extra", {"a": 1}), note="clean failed"),
    verb("manage", "waits"), *_shown("after clean failed", "waits"),
    # services that fail
    *available("node"), verb("active"), *_bad_steps("service", "abort"),
    # history
    get("/v1/nodes/{waits}/history"), *around(get("/v1/nodes/{waits}/history"), 78),
]  # fmt: skip
