"""A node's BMC: boot device, interrupts, indicators, virtual media, vendor methods."""

from tests.compare.asks import around, delete, get, node, post, put, verb

_AT = "/v1/nodes/{node}/management"
_VMEDIA = "/v1/nodes/{node}/vmedia"
_VENDOR = "/v1/nodes/{node}/vendor_passthru"
_IMAGE = {"device_type": "cdrom", "image_url": "http://127.0.0.1:9/image.iso"}

TABLE = [
    node(name="named"), node("plain", vendor_interface="no-vendor"),
    get(f"{_AT}/boot_device"), get(f"{_AT}/boot_device", at="1.1"),
    get("/v1/nodes/named/management/boot_device"), get("/v1/nodes/{plain}/management/boot_device"),
    get(f"{_AT}/boot_device/supported"), get("/v1/nodes/{plain}/management/boot_device/supported"),
    get(f"{_AT}"), get(f"{_AT}/nothing"), get(f"{_AT}/boot_device/nothing"),
    *[put(f"{_AT}/boot_device", {"boot_device": device})
      for device in (
          "pxe", "disk", "cdrom", "bios", "safe", "wanboot", "floppy", "uefihttp", "nothing", "",
          None, 5
      )],
    *[put(f"{_AT}/boot_device", {"boot_device": "pxe", "persistent": value})
      for value in (True, False, "yes", "maybe", None, 5)],
    put(f"{_AT}/boot_device"), put(f"{_AT}/boot_device", {}), put(f"{_AT}/boot_device", []),
    put(f"{_AT}/boot_device", {"boot_device": "pxe", "colour": "red"}),
    put(f"{_AT}/boot_device?boot_device=pxe&persistent=true"),
    put(f"{_AT}/boot_device", {"persistent": True}), get(f"{_AT}/boot_device", note="after"),
    put("/v1/nodes/{plain}/management/boot_device", {"boot_device": "pxe"}),
    get("/v1/nodes/missing/management/boot_device"),
    put("/v1/nodes/missing/management/boot_device", {"boot_device": "pxe"}),
    *around(put(f"{_AT}/inject_nmi", {}), 29), put(f"{_AT}/inject_nmi"),
    put(f"{_AT}/inject_nmi", {"a": 1}), get(f"{_AT}/inject_nmi"),
    put("/v1/nodes/{plain}/management/inject_nmi", {}),
    put("/v1/nodes/missing/management/inject_nmi", {}), *around(get(f"{_AT}/indicators"), 63),
    get(f"{_AT}/indicators"),
    *[get(f"{_AT}/indicators/{name}")
      for name in (
          "led@system", "led-0@chassis", "power@chassis", "alert@system", "x", "x@y", "@",
          "led-0@x", "x@system"
      )],
    *[put(f"{_AT}/indicators/led-0@system", {"state": state})
      for state in ("on", "off", "blinking", "unknown", "x", None)],
    put(f"{_AT}/indicators/x@system", {"state": "on"}),
    put(f"{_AT}/indicators/led@system"), put(f"{_AT}/indicators/x", {"state": "on"}),
    get("/v1/nodes/{plain}/management/indicators"), get("/v1/nodes/missing/management/indicators"),
    # virtual media
    *around(get(_VMEDIA), 93), *around(post(_VMEDIA, _IMAGE), 89), post(_VMEDIA, {}), post(_VMEDIA),
    post(_VMEDIA, {**_IMAGE, "device_type": "x"}),
    post(_VMEDIA, {**_IMAGE, "image_url": "ftp://x"}),
    post(_VMEDIA, {**_IMAGE, "image_url": "x"}),
    post(_VMEDIA, {**_IMAGE, "image_download_source": "http"}),
    post(_VMEDIA, {**_IMAGE, "image_download_source": "x"}), post(_VMEDIA, {**_IMAGE, "x": 1}),
    *around(delete(_VMEDIA), 89), delete(f"{_VMEDIA}?device_types=cdrom"),
    delete(f"{_VMEDIA}?device_types=cdrom,floppy"), delete(f"{_VMEDIA}?device_types=x"),
    delete(f"{_VMEDIA}?x=1"),
    put(_VMEDIA, {}), get("/v1/nodes/missing/vmedia"), post("/v1/nodes/missing/vmedia", _IMAGE),
    get("/v1/nodes/{node}/states", note="vmedia"),
    # vendor methods
    get(f"{_VENDOR}/methods"), get("/v1/nodes/{plain}/vendor_passthru/methods"), get(f"{_VENDOR}"),
    get(f"{_VENDOR}?method=missing"), post(f"{_VENDOR}/missing", {}), get(f"{_VENDOR}/missing"),
    post(f"{_VENDOR}/second_method", {"bar": "x"}),
    post(f"{_VENDOR}/second_method", {"bar": "baz"}), post(f"{_VENDOR}/second_method", {}),
    get(f"{_VENDOR}/second_method"),
    post(f"{_VENDOR}?method=second_method", {"bar": "baz"}),
    post(f"{_VENDOR}/third_method_sync", {"bar": "baz"}),
    post(f"{_VENDOR}/fourth_method_shared_lock", {"bar": "baz"}),
    put(f"{_VENDOR}/second_method", {"bar": "baz"}), post(f"{_VENDOR}/second_method", []),
    post("/v1/nodes/{plain}/vendor_passthru/second_method", {}),
    post("/v1/nodes/missing/vendor_passthru/x", {}),
    get("/v1/nodes/missing/vendor_passthru/methods"), delete(f"{_VENDOR}/second_method"),
    get(f"{_VENDOR}/methods?x=1"),
    # results of an inspection
    *around(get("/v1/nodes/{node}/inventory"), 81), get("/v1/nodes/missing/inventory"),
    verb("manage"), verb("inspect"), get("/v1/nodes/{node}/inventory", note="inspected"),
    put("/v1/nodes/{node}/inventory", {}), get("/v1/nodes/{node}/inventory?x=1"),
]  # fmt: skip
