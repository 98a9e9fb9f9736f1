"""Drivers, conductors and events."""

from tests.compare.asks import around, at_each, delete, get, post, put

_DRIVER = "/v1/drivers/fake-hardware"
_EVENT = {
    "event": "network.bind_port",
    "port_id": "11111111-2222-4333-8444-555555555555",
    "mac_address": "52:54:00:00:00:01",
    "status": "ACTIVE",
}

TABLE = [
    *at_each(get("/v1/drivers"), 1, 13, 14, 29, 30, 115), get("/v1/drivers", at=None),
    get("/v1/drivers/"),
    *[get(f"/v1/drivers?{query}") for query in ("type=dynamic", "type=classic", "type=x", "type=", "detail=true", "detail=false", "detail=x", "detail=true&type=classic", "fields=name", "fields=name,hosts", "fields=colour", "fields=links", "fields=",
                                                "fields=name&detail=true", "fields=default_bios_interface", "limit=1", "colour=red")],
    *around(get("/v1/drivers?type=dynamic"), 30), *around(get("/v1/drivers?detail=true"), 30),
    *around(get("/v1/drivers?fields=name"), 77),
    *at_each(get("/v1/drivers?detail=true"), 30, 33, 38, 40, 86),
    *at_each(get(_DRIVER), 1, 14, 29, 30, 33, 38, 40, 86, 115), get(f"{_DRIVER}?fields=name"),
    *around(get(f"{_DRIVER}?fields=name"), 77), get(f"{_DRIVER}?fields=colour"),
    get(f"{_DRIVER}?detail=true"), get(f"{_DRIVER}?colour=red"), get("/v1/drivers/missing"),
    get("/v1/drivers/a%20b"),
    get(f"{_DRIVER}/properties", prose=True), get(f"{_DRIVER}/properties", at="1.1", prose=True),
    get("/v1/drivers/missing/properties"), get("/v1/drivers/properties"),
    get("/v1/drivers/properties?driver_name=fake-hardware"), get(f"{_DRIVER}/nothing"),
    *around(get(f"{_DRIVER}/raid/logical_disk_properties", prose=True), 12),
    get("/v1/drivers/missing/raid/logical_disk_properties"), get(f"{_DRIVER}/raid"),
    get(f"{_DRIVER}/raid/x"),
    get(f"{_DRIVER}/vendor_passthru/methods"), get("/v1/drivers/missing/vendor_passthru/methods"),
    get(f"{_DRIVER}/vendor_passthru"), post(f"{_DRIVER}/vendor_passthru/missing", {}),
    get(f"{_DRIVER}/vendor_passthru/missing"),
    post(f"{_DRIVER}/vendor_passthru?method=missing", {}),
    post("/v1/drivers/missing/vendor_passthru/x", {}), put(f"{_DRIVER}/properties", {}),
    delete(_DRIVER),
    # conductors
    *around(get("/v1/conductors"), 49), *[get(f"/v1/conductors?{query}") for query in ("detail=true", "detail=false", "detail=x", "fields=hostname", "fields=hostname,drivers", "fields=colour", "fields=links", "fields=", "detail=true&fields=hostname", "limit=1", "limit=0", "limit=x", "marker=rack-1", "marker=missing",
                                                                                       "sort_key=hostname", "sort_key=alive", "sort_key=drivers", "sort_key=colour", "sort_key=conductor_group", "sort_dir=x", "sort_dir=desc", "colour=red", "sort_key=updated_at")],
    get("/v1/conductors/rack-1"), *around(get("/v1/conductors/rack-1"), 49),
    get("/v1/conductors/missing"), get("/v1/conductors/a%20b"), get("/v1/conductors/RACK-1"),
    get("/v1/conductors/rack-1?fields=hostname,alive"), get("/v1/conductors/rack-1?fields=colour"),
    get("/v1/conductors/rack-1?detail=true"),
    get("/v1/conductors/rack-1.json", at="1.80"), get("/v1/conductors/rack-1/x"),
    post("/v1/conductors", {}), delete("/v1/conductors/rack-1"), get("/v1/conductors/detail"),
    # events
    *around(post("/v1/events", {"events": [_EVENT]}), 54),
    post(
        "/v1/events",
        {
            "events": [
                {
                    **_EVENT, "device_id": "x", "binding:host_id": "h",
                    "binding:vnic_type": "baremetal"
                }
            ]
        }
    ),
    post("/v1/events", {"events": []}), post("/v1/events", {}), post("/v1/events", []),
    post("/v1/events"),
    *[post("/v1/events", {"events": [{**_EVENT, key: value}]})
      for key, value in (
          ("event", "network.unbind_port"), ("event", "network.delete_port"), ("event", "odd"),
          ("event", None), ("port_id", "x"), ("port_id", None), ("mac_address", "x"), ("status", 5),
          ("status", ""), ("device_id", 5), ("colour", "red")
      )],
    *[post("/v1/events", {"events": [{name: value for name, value in _EVENT.items() if name != key}]})
      for key in _EVENT],
    post("/v1/events", {"events": [_EVENT], "x": 1}), post("/v1/events", {"events": "x"}),
    post("/v1/events", {"events": [5]}), get("/v1/events"), around(get("/v1/events"), 54)[0],
    post("/v1/events", {"events": [_EVENT, {"event": "odd"}]}), put("/v1/events", {}),
]  # fmt: skip
