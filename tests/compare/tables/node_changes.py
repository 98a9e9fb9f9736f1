"""Changes of a node by JSON patches: fields, values, states and versions that allow them."""

from app.api.declarations.node_fields import SINCE
from tests.compare.asks import UUID, Raw, around, available, change, get, node, patch, put, verb

_NODE = "/v1/nodes/{node}"

#: Patches of one operation, sent one after the other for one node.
_SINGLE = (
    ("replace", "/extra", {"a": 1}), ("add", "/extra/b", {"c": [1, 2]}),
    ("replace", "/extra/b/c/0", 5), ("add", "/extra/b/c/-", 9),
    ("remove", "/extra/b/c/0"), ("remove", "/extra/missing"), ("replace", "/extra/missing", 1),
    ("add", "/extra/x/y", 1),
    ("replace", "/extra", None), ("remove", "/extra"), ("replace", "/extra", "text"),
    ("replace", "/extra", []),
    ("add", "/extra/a.b", 1), ("add", "/extra/a~0b", 1), ("add", "/extra/a~1b", 1),
    ("add", "/extra/a b", 1), ("replace", "/extra", {}), ("add", "/extra/ü", 1),
    ("add", "/extra/", 1), ("add", "/extra//a", 1), ("add", "extra/a", 1), ("add", "/", 1),
    ("add", "", 1),
    ("add", "/extra/a-b_c", 1), ("add", "/extra/nul", "a\0b"), ("replace", "/extra", {}),
    ("add", "/extra/utf", "ü€"),
    ("test", "/extra/a", 1), ("move", "/extra/a", 1), ("copy", "/extra/a", 1),
    ("ADD", "/extra/a", 1), (None, "/extra/a", 1),
    ("add", None, 1), ("add", "/extra/v"), ("replace", "/extra/v"), ("replace", "/name"),
    ("remove", "/name", "x"),
    ("replace", "/name", "changed"), ("replace", "/name", "other"), ("replace", "/name", None),
    ("replace", "/name", "a b"), ("replace", "/name", ""),
    ("replace", "/name", "detail"), ("replace", "/name", UUID), ("replace", "/name", "x" * 256),
    ("remove", "/name"), ("add", "/name", "again"),
    ("replace", "/uuid", UUID), ("replace", "/driver", "fake-hardware"),
    ("replace", "/driver", "missing"), ("remove", "/driver"),
    ("replace", "/driver", None), ("replace", "/driver", ""),
    ("replace", "/driver_info", {"password": "x"}), ("add", "/driver_info/address", "y"),
    ("replace", "/driver_info/password", "******"), ("remove", "/driver_info"),
    ("replace", "/driver_info", []),
    ("replace", "/properties", {"local_gb": "x"}), ("replace", "/properties/local_gb", 5),
    ("add", "/properties/local_gb", 5),
    ("add", "/properties/memory_mb", -1), ("add", "/properties/memory_mb", "17"),
    ("remove", "/properties"),
    ("replace", "/instance_info", {"display_name": "shown"}), ("remove", "/instance_info"),
    ("add", "/instance_info/configdrive", "x"),
    ("replace", "/instance_uuid", UUID),
    ("replace", "/instance_uuid", "22222222-2222-4333-8444-555555555555"),
    ("replace", "/instance_uuid", UUID),
    ("remove", "/instance_uuid"), ("replace", "/instance_uuid", "x"),
    ("replace", "/instance_uuid", None), ("add", "/instance_uuid", UUID),
    ("replace", "/instance_name", "vm"), ("replace", "/instance_name", ""),
    ("remove", "/instance_name"),
    ("replace", "/chassis_uuid", UUID), ("remove", "/chassis_uuid"),
    ("replace", "/chassis_uuid", "x"),
    ("replace", "/resource_class", "a"), ("replace", "/resource_class", "b"),
    ("replace", "/resource_class", "x" * 81), ("remove", "/resource_class"),
    ("replace", "/conductor_group", "missing"), ("replace", "/conductor_group", ""),
    ("remove", "/conductor_group"), ("replace", "/conductor_group", None),
    ("replace", "/owner", "me"), ("replace", "/owner", "x" * 256), ("remove", "/owner"),
    ("replace", "/lessee", "you"), ("remove", "/lessee"),
    ("replace", "/description", "text"), ("replace", "/description", "x" * 4097),
    ("remove", "/description"), ("replace", "/description", 5),
    ("replace", "/shard", "s"), ("remove", "/shard"), ("replace", "/parent_node", "{other}"),
    ("replace", "/parent_node", "other-node"),
    ("replace", "/parent_node", "{node}"), ("replace", "/parent_node", UUID),
    ("replace", "/parent_node", "x"), ("remove", "/parent_node"),
    ("replace", "/automated_clean", True), ("replace", "/automated_clean", "no"),
    ("replace", "/automated_clean", "x"), ("remove", "/automated_clean"),
    ("replace", "/automated_clean", None), ("replace", "/protected", True),
    ("replace", "/protected", False), ("replace", "/protected_reason", "x"),
    ("remove", "/protected"), ("remove", "/protected_reason"), ("replace", "/retired_reason", "x"),
    ("replace", "/retired", True), ("replace", "/retired_reason", "why"),
    ("remove", "/retired_reason"), ("replace", "/retired", "maybe"), ("replace", "/retired", False),
    ("remove", "/retired"), ("replace", "/retired", False),
    ("replace", "/network_data", {"links": [], "networks": [], "services": []}),
    ("replace", "/network_data", {"what": 1}),
    ("replace", "/network_data", {"links": [{}], "networks": [], "services": []}),
    ("remove", "/network_data"),
    ("replace", "/disable_power_off", True), ("replace", "/disable_power_off", False),
    ("remove", "/disable_power_off"), ("replace", "/disable_power_off", False),
    ("replace", "/maintenance", True),
    ("replace", "/maintenance_reason", "x"), ("replace", "/maintenance", False),
    ("remove", "/maintenance"), ("replace", "/maintenance", "x"),
    ("replace", "/console_enabled", True), ("replace", "/power_state", "power on"),
    ("replace", "/target_power_state", "power on"),
    ("replace", "/provision_state", "active"), ("replace", "/target_provision_state", "active"),
    ("replace", "/traits", ["CUSTOM_A"]),
    ("add", "/traits/-", "CUSTOM_A"), ("replace", "/boot_mode", "uefi"),
    ("replace", "/secure_boot", True), ("replace", "/last_error", "x"),
    ("remove", "/last_error"), ("replace", "/reservation", "x"), ("remove", "/reservation"),
    ("replace", "/fault", "x"), ("remove", "/fault"),
    ("replace", "/driver_internal_info", {}), ("replace", "/raid_config", {}),
    ("replace", "/target_raid_config", {}), ("replace", "/clean_step", {}),
    ("replace", "/created_at", "x"), ("replace", "/links", []), ("replace", "/id", 5),
    ("replace", "/health", "OK"), ("add", "/colour", "red"),
    ("replace", "/colour", "red"), ("remove", "/colour"), ("replace", "/conductor", "x"),
    ("replace", "/allocation_uuid", UUID),
    ("replace", "/bios_interface", "no-bios"), ("remove", "/bios_interface"),
    ("replace", "/bios_interface", "missing"), ("replace", "/bios_interface", None),
    ("replace", "/deploy_interface", "direct"), ("remove", "/deploy_interface"),
    ("replace", "/network_interface", "flat"),
    ("replace", "/network_interface", "noop"), ("replace", "/storage_interface", "fake"),
    ("remove", "/storage_interface"), ("replace", "/vendor_interface", 5),
)  # fmt: skip
#: Fields that older versions lack -> a value
_NEWER = {
    "name": "aged", "resource_class": "x", "network_interface": "noop", "boot_interface": "fake",
    "storage_interface": "noop", "rescue_interface": "fake", "bios_interface": "fake",
    "conductor_group": "", "automated_clean": True, "protected": False, "owner": "x",
    "description": "x", "retired": False, "lessee": "x",
    "network_data": {"links": [], "networks": [], "services": []}, "shard": "x",
    "parent_node": None, "firmware_interface": "fake", "disable_power_off": False,
    "instance_name": "x",
}  # fmt: skip
#: Patches that depend on the provision state of the node.
_IN_STATE = (
    ("replace", "/bios_interface", "no-bios"), ("replace", "/bios_interface", "fake"),
    ("replace", "/resource_class", "b"), ("replace", "/instance_uuid", UUID),
    ("remove", "/instance_uuid"), ("replace", "/protected", True),
    ("replace", "/protected_reason", "x"), ("replace", "/protected", False),
    ("replace", "/retired", True), ("replace", "/retired", False), ("replace", "/name", "in-state"),
    ("replace", "/driver", "fake-hardware"),
    ("replace", "/owner", "new"), ("replace", "/extra", {"a": 1}),
    ("replace", "/properties", {"cpus": 1}), ("replace", "/conductor_group", ""),
)  # fmt: skip


def _in_state(state, *asks):
    return [
        *asks,
        *[change(_NODE, edit, note=state) for edit in _IN_STATE],
        get(_NODE, note=state),
    ]


TABLE = [
    node("other", name="other-node"), node("taken", name="other"), node(),
    *[change(_NODE, edit) for edit in _SINGLE],
    get(_NODE),
    # patches of several operations
    change(
        _NODE, ("replace", "/extra", {}), ("add", "/extra/a", 1), ("add", "/extra/b", 2),
        ("remove", "/extra/a")
    ),
    change(_NODE, ("replace", "/extra", {}), ("remove", "/extra/a")),
    change(_NODE, ("replace", "/name", "one"), ("replace", "/name", "two")),
    change(_NODE, ("replace", "/protected_reason", "x"), ("replace", "/protected", True)),
    change(_NODE, ("replace", "/retired", True), ("replace", "/retired_reason", "x")),
    change(_NODE, ("replace", "/retired", False)), get(_NODE, note="no reason"),
    change(
        _NODE, ("replace", "/driver", "fake-hardware"), ("replace", "/bios_interface", "no-bios")
    ),
    patch(_NODE, []), patch(_NODE, {}), patch(_NODE, [1]), patch(_NODE, [[]]), patch(_NODE, [{}]),
    patch(_NODE, [None]), patch(_NODE, "x"),
    patch(_NODE, [{"op": "replace", "path": "/extra", "value": {}, "colour": "red"}]),
    patch(_NODE, [{"path": "/extra", "value": {}}]),
    patch(_NODE, [{"op": "replace", "value": {}}]),
    patch(_NODE, Raw(b'[{"op": "replace", "path": "/extra", "value": {}}]', "text/plain")),
    patch(f"{_NODE}?colour=red", []), patch("/v1/nodes/missing", []),
    patch("/v1/nodes/missing", [{"op": "replace", "path": "/extra", "value": {}}]),
    patch("/v1/nodes/a%20b", []),
    patch("/v1/nodes/two", [{"op": "replace", "path": "/extra", "value": {}}]),
    # resetting interfaces
    change(_NODE, ("replace", "/bios_interface", "no-bios")),
    *[change(f"{_NODE}?reset_interfaces={value}", ("replace", "/driver", "fake-hardware"))
      for value in ("true", "false", "x")],
    change(f"{_NODE}?reset_interfaces=true", ("replace", "/extra", {})),
    get(f"{_NODE}?fields=bios_interface"),
    *around(change(f"{_NODE}?reset_interfaces=true", ("replace", "/driver", "fake-hardware")), 45),
    # versions
    *[ask
      for field, value in _NEWER.items() for ask in around(change(_NODE, ("replace", f"/{field}", value)), SINCE[field])],
    *[ask
      for field, value in _NEWER.items() if field not in ("name", "automated_clean")
      for ask in (
          change(_NODE, ("remove", f"/{field}"), at=f"1.{SINCE[field] - 1}"),
          *([change(_NODE, ("replace", f"/{field}", False))] if value is False else [])
      )],
    *around(change(_NODE, ("remove", "/chassis_uuid")), 25),
    change(_NODE, ("add", "/network_data/links", []), at="1.65"),
    change(_NODE, ("add", "/extra/a~1b", 1), at="1.97"),
    # states
    *_in_state("enroll", node("node", resource_class="a")),
    *_in_state("manageable", verb("manage")),
    *_in_state("available", verb("provide")),
    change(_NODE, ("remove", "/instance_uuid"), note="before"),
    *_in_state("active", verb("active")),
    *_in_state("active, maintenance", put(f"{_NODE}/maintenance", {})),
    *available("waits", deploy_interface="fake", inspect_interface="fake"),
    change("/v1/nodes/{waits}", ("replace", "/retired", True)),
    verb("manage", "waits"), change("/v1/nodes/{waits}", ("replace", "/retired", True)),
    verb("provide", "waits"),
    change("/v1/nodes/{waits}", ("replace", "/retired", False)), verb("provide", "waits"),
]  # fmt: skip
