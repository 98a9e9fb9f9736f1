"""Subresources of a node: traits, VIFs, BIOS settings, firmware, history."""

from tests.compare.asks import around, available, delete, get, node, patch, post, put, verb

_TRAITS = "/v1/nodes/{node}/traits"
_VIFS = "/v1/nodes/{node}/vifs"
_VIF = "44444444-2222-4333-8444-555555555555"
_BIOS = "/v1/nodes/{node}/bios"
_HISTORY = "/v1/nodes/{node}/history"
_SET_BIOS = [
    {
        "interface": "bios",
        "step": "apply_configuration",
        "args": {"settings": [{"name": "virt", "value": "on"}, {"name": "boot", "value": "x"}]},
    }
]

TABLE = [
    node(name="named"), get(_TRAITS), *around(get(_TRAITS), 37),
    put(_TRAITS, {"traits": ["CUSTOM_B", "CUSTOM_A"]}), get(_TRAITS, note="two"),
    get("/v1/nodes/{node}?fields=traits"), get("/v1/nodes?fields=uuid,traits"),
    *around(put(_TRAITS, {"traits": []}), 37), *around(delete(_TRAITS), 37),
    *[put(_TRAITS, body) for body in ({"traits": ["custom_a"]}, {"traits": ["CUSTOM_"]}, {"traits": ["CUSTOM_a"]}, {"traits": ["HW_CPU_X86_VMX"]}, {"traits": ["x"]}, {"traits": [""]},
                                      {"traits": "CUSTOM_A"}, {"traits": None}, {"traits": [5]}, {},
                                      [], {"traits": [], "x": 1},
                                      {"traits": ["CUSTOM_A", "CUSTOM_A"]},
                                      {"traits": [f"CUSTOM_{i}" for i in range(51)]}, {"traits": [f"CUSTOM_{i}" for i in range(50)]}, {"traits": ["CUSTOM_" + "A" * 249]})],
    put(_TRAITS), get(_TRAITS, note="full"), put(f"{_TRAITS}/CUSTOM_MORE"),
    put(_TRAITS, {"traits": []}), put(f"{_TRAITS}/CUSTOM_ONE"),
    put(f"{_TRAITS}/CUSTOM_ONE", note="again"),
    *around(put(f"{_TRAITS}/CUSTOM_TWO"), 37), put(f"{_TRAITS}/bad"),
    put(f"{_TRAITS}/CUSTOM_THREE", {}), put(f"{_TRAITS}/CUSTOM_THREE", {"a": 1}),
    get(f"{_TRAITS}/CUSTOM_ONE"),
    delete(f"{_TRAITS}/CUSTOM_ONE"), delete(f"{_TRAITS}/CUSTOM_ONE", note="again"),
    delete(f"{_TRAITS}/bad"), delete(_TRAITS), get(_TRAITS, note="none"), post(_TRAITS, {}),
    patch(_TRAITS, []),
    get("/v1/nodes/missing/traits"), put("/v1/nodes/missing/traits", {"traits": []}),
    delete("/v1/nodes/missing/traits"), put("/v1/nodes/missing/traits/CUSTOM_A"),
    put("/v1/nodes/named/traits/CUSTOM_A"),
    get("/v1/nodes/named/traits"), get(f"{_TRAITS}?x=1"),
    # VIFs
    *around(get(_VIFS), 28), post(_VIFS, {"id": _VIF}),
    post(
        "/v1/ports", {"node_uuid": "{node}", "address": "52:54:00:00:01:01"}, save={"port": "uuid"}
    ),
    *around(post(_VIFS, {"id": _VIF}), 28),
    post(_VIFS, {"id": _VIF}, note="again"), get(_VIFS, note="one"), post(_VIFS, {}), post(_VIFS),
    post(_VIFS, {"id": ""}), post(_VIFS, {"id": 5}), post(_VIFS, {"id": "name", "more": "x"}),
    post(_VIFS, []), *around(post(_VIFS, {"id": "a", "port_uuid": "{port}"}), 67),
    post(_VIFS, {"id": "a", "port_uuid": "{port}", "portgroup_uuid": "{port}"}),
    post(_VIFS, {"id": "a", "port_uuid": "x"}),
    get("/v1/ports/{port}"), delete("/v1/ports/{port}"), delete(f"{_VIFS}/missing"),
    *around(delete(f"{_VIFS}/{_VIF}"), 28), delete(f"{_VIFS}/{_VIF}", note="again"), delete(_VIFS),
    get(f"{_VIFS}/{_VIF}"),
    put(_VIFS, {}), get("/v1/nodes/missing/vifs"), post("/v1/nodes/missing/vifs", {"id": "a"}),
    delete("/v1/nodes/missing/vifs/a"), get(f"{_VIFS}?x=1"),
    # BIOS settings and firmware
    *around(get(_BIOS), 40), get(f"{_BIOS}/virt"), verb("manage"),
    verb("clean", clean_steps=_SET_BIOS), get(_BIOS, note="set"), get(f"{_BIOS}/virt", note="set"),
    *around(get(_BIOS, note="set"), 74),
    get(f"{_BIOS}?detail=true"), get(f"{_BIOS}?detail=false"), get(f"{_BIOS}?detail=x"),
    get(f"{_BIOS}?fields=name"), get(f"{_BIOS}?fields=name,value"), get(f"{_BIOS}?fields=colour"),
    get(f"{_BIOS}?detail=true&fields=name"), get(f"{_BIOS}/missing"), get("/v1/nodes/missing/bios"),
    get("/v1/nodes/missing/bios/x"), put(_BIOS, {}), delete(f"{_BIOS}/virt"), get(f"{_BIOS}?x=1"),
    *around(get("/v1/nodes/{node}/firmware"), 86),
    get("/v1/nodes/{node}/firmware?fields=component"), get("/v1/nodes/{node}/firmware?detail=true"),
    get("/v1/nodes/{node}/firmware/x"),
    *around(get("/v1/nodes/{node}/firmware?fields=vendor"), 114), get("/v1/nodes/missing/firmware"),
    put("/v1/nodes/{node}/firmware", {}),
    # history
    *around(get(_HISTORY), 78), *available("life"), verb("active", "life"), verb("deleted", "life"),
    get("/v1/nodes/{life}/history?limit=0"), get("/v1/nodes/{life}/history?limit=x"),
    get("/v1/nodes/{life}/history?sort_key=colour"),
    get("/v1/nodes/{life}/history?sort_key=severity&limit=1"),
    get("/v1/nodes/{life}/history?fields=uuid"), get("/v1/nodes/{life}/history?detail=x"),
    get("/v1/nodes/{life}/history?marker=x"),
    get("/v1/nodes/{life}/history?marker=11111111-2222-4333-8444-555555555555"),
    get("/v1/nodes/{life}/history?sort_dir=x"), get("/v1/nodes/{life}/history/x"),
    get("/v1/nodes/{life}/history/11111111-2222-4333-8444-555555555555"),
    get("/v1/nodes/missing/history"), get("/v1/nodes/{life}/history?colour=red"),
    post(_HISTORY, {}), delete(_HISTORY),
    get("/v1/nodes/{life}/history?sort_dir=desc&limit=1", save={"entry": "history.0.uuid"}),
    *around(get("/v1/nodes/{life}/history/{entry}"), 113),
    *around(get("/v1/nodes/{life}/history/{entry}"), 115),
    get("/v1/nodes/{life}/history?sort_dir=desc&detail=true&limit=1"), get("/v1/nodes/{node}/history/{entry}"),
    # allocation
    *around(get("/v1/nodes/{node}/allocation"), 52),
    *around(delete("/v1/nodes/{node}/allocation"), 52), get("/v1/nodes/missing/allocation"),
    put("/v1/nodes/{node}/allocation", {}),
    # other subresources
    get("/v1/nodes/{node}/ports"), get("/v1/nodes/named/ports"), get("/v1/nodes/missing/ports"),
    get("/v1/nodes/{node}/ports/x"), post("/v1/nodes/{node}/ports", {}),
    get("/v1/nodes/{node}/ports/detail"),
    *around(get("/v1/nodes/{node}/portgroups"), 24), get("/v1/nodes/named/portgroups"),
    get("/v1/nodes/{node}/portgroups/x"), post("/v1/nodes/{node}/portgroups", {}),
    get("/v1/nodes/{node}/portgroups/detail"),
    *around(get("/v1/nodes/{node}/volume"), 32), get("/v1/nodes/{node}/volume/connectors"),
    get("/v1/nodes/{node}/volume/targets"), get("/v1/nodes/{node}/volume/x"),
    get("/v1/nodes/named/volume/targets"),
    get("/v1/nodes/{node}/volume/targets/x"), get("/v1/nodes/{node}/cleaning/steps"),
    get("/v1/nodes/{node}/deploy/steps"), get("/v1/nodes/{node}/service/steps"),
    get("/v1/nodes/{node}/verify/steps"),
    get("/v1/nodes/{node}/operations"), get("/v1/operations"), get("/v1/events"),
    get("/v1/service"), get("/v1/login"), post("/v1/logout"), get("/v1/holds"),
    get("/v1/nodes/{node}/holds"), get("/v1/webhooks"),
    get("/v1/audit"), get("/v1/rollouts"),
]  # fmt: skip
