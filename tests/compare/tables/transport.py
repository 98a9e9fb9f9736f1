"""All requests: versions, paths, methods, bodies; and the discovery documents."""

from tests.compare.asks import (
    Raw,
    around,
    at_each,
    delete,
    get,
    head,
    node,
    options,
    patch,
    post,
    put,
)

_STANDARD = "OpenStack-API-Version"
_DEEP = b'{"driver": "fake-hardware", "extra": ' + b'{"a":' * 30 + b"1" + b"}" * 31
_FITTING = b'{"driver": "fake-hardware", "extra": ' + b'{"a":' * 20 + b"1" + b"}" * 21
_LARGE = b'{"driver": "fake-hardware", "extra": {"a": "' + b"x" * (1 << 20) + b'"}}'

TABLE = [
    # discovery
    get("/"), get("/", at=None), head("/"), get("/v1"), get("/v1/"), get("/v1", at=None),
    head("/v1"),
    *at_each(get("/v1"), 1, 10, 22, 23, 32, 49, 52, 54, 55, 82, 84, 92, 96, 110),
    post("/", {}), put("/"), delete("/"), options("/"),
    post("/v1", {}), put("/v1"), delete("/v1"), patch("/v1", []), options("/v1"),
    get("/v1?colour=red"), get("/?colour=red"),
    # versions
    *[get(path, at=version)
      for path in ("/", "/v1", "/v1/nodes")
      for version in ("latest", "LATEST", "abc", "1", "1.2.3", "2.1", "0.9", "1.0", "1.116", "1.-1", "")],
    get("/v1/nodes", at=None),
    get("/v1/nodes", at=None, headers={_STANDARD: "baremetal 1.60"}),
    get("/v1/nodes", at=None, headers={_STANDARD: "baremetal latest"}),
    get("/v1/nodes", at=None, headers={_STANDARD: "compute 2.1, baremetal 1.60"}),
    get("/v1/nodes", at=None, headers={_STANDARD: "compute 2.1"}),
    get("/v1/nodes", at=None, headers={_STANDARD: "baremetal 1.999"}),
    get("/v1/nodes", at=None, headers={_STANDARD: "baremetal"}),
    get("/v1/nodes", at="1.9", headers={_STANDARD: "baremetal 1.60"}),
    # paths
    get("/nodes"), get("/nodes/"), get("/v1/nodes/"), get("/v1//nodes"), get("/v1/nodes//"),
    get("/v2/nodes"), get("/v1/nowhere"), get("/nowhere"), get("/v1/nodes.json"),
    get("/v1/nodes.json", at="1.90"), get("/v1/nodes.xml", at="1.90"), get("/v1.json"),
    get("/v1/nowhere", headers={"Accept": "text/html"}),
    get("/v1/nodes/missing", headers={"Accept": "text/html"}),
    get("/v1/nodes", headers={"Accept": "text/plain"}), get("/v1/nodes", headers={"Accept": "*/*"}),
    get("/v1/nodes", headers={"Accept": "application/xml"}),
    # methods
    *[ask(path)
      for ask in (put, patch, delete, options)
      for path in ("/v1/nodes", "/v1/ports", "/v1/drivers", "/v1/lookup")],
    post("/v1/drivers", {}), post("/v1/conductors", {}), put("/v1/conductors"),
    delete("/v1/drivers/fake-hardware"), patch("/v1/drivers/fake-hardware", []),
    post("/v1/nowhere", {}), options("/v1/nowhere"), head("/v1/nodes"), head("/v1/nowhere"),
    head("/v1/nodes/missing"), head("/v1/drivers/fake-hardware"), head("/v1/ports"),
    # bodies
    post("/v1/nodes"), post("/v1/nodes", {}), post("/v1/nodes", []), post("/v1/nodes", "text"),
    post("/v1/nodes", 7), post("/v1/nodes", [{}]),
    post("/v1/nodes", Raw(b"null")), post("/v1/nodes", Raw(b"{")),
    post("/v1/nodes", Raw(b"\xff\xfe")),
    post("/v1/nodes", Raw(b"{}{}")), post("/v1/nodes", Raw(b"   ")),
    post("/v1/nodes", Raw(b'{"driver": "fake-hardware", "driver": "fake-hardware"}')),
    post("/v1/nodes", Raw(b'{"driver": "fake-hardware", "extra": {"a": NaN}}')),
    post("/v1/nodes", Raw(_DEEP)), post("/v1/nodes", Raw(_FITTING)), post("/v1/nodes", Raw(_LARGE)),
    post("/v1/nodes", Raw(b'{"driver": "fake-hardware"}', "text/plain")),
    post("/v1/nodes", Raw(b'{"driver": "fake-hardware"}', None)),
    post("/v1/nodes", Raw(b'{"driver": "fake-hardware"}', "application/x-www-form-urlencoded")),
    post("/v1/nodes", Raw(b"driver=fake-hardware", "application/x-www-form-urlencoded")),
    post("/v1/nodes", Raw(b'{"driver": "fake-hardware"}', "application/json; charset=utf-8")),
    post("/v1/nodes", Raw(b'{"driver": "fake-hardware"}', "application/vnd.api+json")),
    node(),
    patch("/v1/nodes/{node}"), patch("/v1/nodes/{node}", {}), patch("/v1/nodes/{node}", Raw(b"[")),
    patch("/v1/nodes/{node}", Raw(b"[]", "application/json-patch+json")),
    patch("/v1/nodes/{node}", []), get("/v1/nodes", {"a": 1}), get("/v1/nodes/{node}", []),
    delete("/v1/nodes/missing", {"a": 1}),
    # a simple body may be sent as query arguments
    put("/v1/nodes/{node}/maintenance?reason=why"),
    get("/v1/nodes/{node}?fields=maintenance_reason"),
    put("/v1/nodes/{node}/maintenance?reason=why", {"reason": "other"}),
    put("/v1/nodes/{node}/maintenance", Raw(b"reason=form", "application/x-www-form-urlencoded")),
    get("/v1/nodes/{node}?fields=maintenance_reason", note="after"),
    put("/v1/nodes/{node}/states/provision?target=manage", settle="/v1/nodes/{node}"),
    put("/v1/nodes/{node}/states/power?target=power%20on", settle="/v1/nodes/{node}"),
    # identifiers
    get("/v1/nodes/{node}/"), head("/v1/nodes/{node}"), get("/v1/nodes/{node}.json"),
    get("/v1/nodes/{node}.json", at="1.90"), get("/v1/nodes/{node}.json", at=None),
    *[get(f"/v1/nodes/{ident}") for ident in (
        "missing", "%00", "a%00b", "with%20space", "a/b", "%E2%82%AC", "%FF", "a" * 255, "a" * 256,
        "a" * 2000, "00000000-0000-0000-0000-000000000000", "{node}%20", "a%2Fb", "a;b", "a+b", "~",
        "..",
    )],
    *around(get("/v1/nodes/a_name"), 5),
    get("/v1/nodes?colour=red"), get("/v1/ports?colour=red"), get("/v1/drivers?colour=red"),
    get("/v1/nodes/{node}?colour=red"), delete("/v1/nodes/{node}?colour=red"),
    get("/v1/nodes?limit=1&limit=2"), get("/v1/nodes?fields=%00"), get("/v1/nodes?owner=%00"),
    get("/v1/nodes?owner=%FF"), get("/v1/nodes?owner=%E2%82%AC"), get("/v1/nodes?=x"),
    get("/v1/nodes?"),
    get("/v1/nodes?&"), get("/healthcheck"),
]  # fmt: skip
