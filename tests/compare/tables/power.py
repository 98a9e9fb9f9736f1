"""Power, boot mode, secure boot, RAID and console of a node."""

from tests.compare.asks import around, available, get, node, put, verb

_STATES = "/v1/nodes/{node}/states"


def _bad(path, *values, key="target"):
    return [put(path, {key: value}) for value in values]


TABLE = [
    node(), get(_STATES),
    *[put(f"{_STATES}/power", {"target": target}, settle="/v1/nodes/{node}") for target in (
        "power on", "power on", "rebooting", "soft rebooting", "soft power off", "power off", "power off", "rebooting")],
    get(_STATES, note="after power"), get("/v1/nodes/{node}", note="after power"),
    *_bad(f"{_STATES}/power", "on", "", None, 5, "POWER ON", "reboot", "nothing", "error"),
    put(f"{_STATES}/power"), put(f"{_STATES}/power", {}), put(f"{_STATES}/power", []),
    put(f"{_STATES}/power", {"target": "power on", "colour": "red"}),
    *[put(f"{_STATES}/power", {"target": "power on", "timeout": value}, settle="/v1/nodes/{node}")
      for value in (1, 0, -1, "x", "5", None, 1.5, True, 10**12)],
    *around(put(f"{_STATES}/power", {"target": "soft power off"}, settle="/v1/nodes/{node}"), 27),
    *around(
        put(f"{_STATES}/power", {"target": "power on", "timeout": 5}, settle="/v1/nodes/{node}"), 27
    ),
    put("/v1/nodes/missing/states/power", {"target": "power on"}), get(f"{_STATES}/power"),
    put("/v1/nodes/{node}/states", {}),
    put("/v1/nodes/{node}/maintenance", {}),
    put(
        f"{_STATES}/power", {"target": "power off"}, settle="/v1/nodes/{node}",
        note="in maintenance"
    ),
    put(f"{_STATES}/power/", {"target": "power on"}, settle="/v1/nodes/{node}"),
    get(_STATES, note="in maintenance"),
    node("kept", disable_power_off=True),
    *[put("/v1/nodes/{kept}/states/power", {"target": target}, settle="/v1/nodes/{kept}")
      for target in ("power off", "soft power off", "rebooting", "power on")],
    # boot mode and secure boot
    *around(put(f"{_STATES}/boot_mode", {"target": "uefi"}, settle="/v1/nodes/{node}"), 76),
    put(f"{_STATES}/boot_mode", {"target": "bios"}, settle="/v1/nodes/{node}"),
    *_bad(f"{_STATES}/boot_mode", "UEFI", "", None, 5), put(f"{_STATES}/boot_mode"),
    put(f"{_STATES}/boot_mode", {}), get(f"{_STATES}/boot_mode"),
    get(_STATES, note="boot mode"),
    *around(put(f"{_STATES}/secure_boot", {"target": True}, settle="/v1/nodes/{node}"), 76),
    put(f"{_STATES}/secure_boot", {"target": "off"}, settle="/v1/nodes/{node}"),
    *_bad(f"{_STATES}/secure_boot", "maybe", None, 5, ""), put(f"{_STATES}/secure_boot"),
    put(f"{_STATES}/secure_boot?target=true", settle="/v1/nodes/{node}"),
    get(_STATES, note="secure boot"), get("/v1/nodes/{node}", note="secure boot"),
    put("/v1/nodes/missing/states/boot_mode", {"target": "uefi"}),
    put("/v1/nodes/missing/states/secure_boot", {"target": True}),
    # RAID
    *around(put(f"{_STATES}/raid", {"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}), 12),
    put(f"{_STATES}/raid", {"logical_disks": [{"size_gb": "MAX", "raid_level": "5"}]}),
    get(_STATES, note="raid"), put(f"{_STATES}/raid", {}), get(_STATES, note="no raid"),
    put(f"{_STATES}/raid"), put(f"{_STATES}/raid", []),
    put(f"{_STATES}/raid", {"logical_disks": []}),
    put(f"{_STATES}/raid", {"logical_disks": [{}]}),
    put(f"{_STATES}/raid", {"logical_disks": [{"size_gb": -1, "raid_level": "1"}]}),
    put(f"{_STATES}/raid", {"logical_disks": [{"size_gb": 1, "raid_level": "9"}]}),
    put(f"{_STATES}/raid", {"colour": "red"}), put(f"{_STATES}/raid", {"target_raid_config": {}}),
    put(f"{_STATES}/raid", {"logical_disks": [{"size_gb": 1, "raid_level": "1", "colour": "red"}]}),
    put("/v1/nodes/missing/states/raid", {}), get(f"{_STATES}/raid"),
    put(f"{_STATES}/raid", {"logical_disks": [{"size_gb": 100, "raid_level": "1", "is_root_volume": True, "share_physical_disks": False, "disk_type": "ssd",
                                               "interface_type": "sata", "volume_name": "v", "number_of_physical_disks": 2, "controller": "c", "physical_disks": ["a", "b"]}]}),
    node("plain", raid_interface="no-raid", console_interface="no-console"),
    put("/v1/nodes/{plain}/states/raid", {}),
    # console
    get(f"{_STATES}/console"),
    put(f"{_STATES}/console", {"enabled": True}, settle="/v1/nodes/{node}"),
    get(f"{_STATES}/console", note="enabled"), get(_STATES, note="console"),
    put(f"{_STATES}/console", {"enabled": True}, settle="/v1/nodes/{node}", note="again"),
    put(f"{_STATES}/console", {"enabled": "false"}, settle="/v1/nodes/{node}"),
    get(f"{_STATES}/console", note="disabled"),
    *_bad(f"{_STATES}/console", "maybe", None, 5, key="enabled"), put(f"{_STATES}/console"),
    put(f"{_STATES}/console?enabled=true", settle="/v1/nodes/{node}"),
    put(f"{_STATES}/console", {"enabled": False, "x": 1}), get("/v1/nodes/missing/states/console"),
    put("/v1/nodes/missing/states/console", {"enabled": True}),
    get("/v1/nodes/{plain}/states/console"),
    put("/v1/nodes/{plain}/states/console", {"enabled": True}), get(f"{_STATES}/console", at="1.1"),
    *available("busy"), verb("active", "busy"),
    put("/v1/nodes/{busy}/states/power", {"target": "power off"}, settle="/v1/nodes/{busy}"),
    get("/v1/nodes/{busy}/states"),
]  # fmt: skip
