"""
Read a database of Ironic by Ironic's own objects, and print what they are.

Ironic's Python runs it, as `python ironic_objects.py FILE`, with FILE an ironic.conf. It prints
{"objects": {class: [object as a dictionary]}, "versions": {table: version},
"types": {hardware type: {kind: [interface]}}}.
"""

import importlib.metadata
import json
import sys

from ironic import objects
from ironic.common import context
from ironic.conf import CONF
from ironic.db.sqlalchemy import models

KINDS = (
    "bios", "boot", "console", "deploy", "firmware", "inspect", "management", "network", "power",
    "raid", "rescue", "storage", "vendor",
)  # fmt: skip
#: Classes of objects that are listed, and those that are read node by node.
LISTED = (
    "Node", "Port", "Portgroup", "Chassis", "VolumeConnector", "VolumeTarget", "Allocation",
    "DeployTemplate", "Runbook", "InspectionRule", "NodeHistory",
)  # fmt: skip
OF_NODES = ("TraitList", "BIOSSettingList", "FirmwareComponentList")
#: Class -> class of its rows, where their names differ.
ROWS = {"Trait": "NodeTrait", "FirmwareComponent": "FirmwareComponent"}


def main() -> None:
    CONF([], project="ironic", default_config_files=[sys.argv[1]])
    objects.register_all()
    admin = context.get_admin_context()
    read = {name: [_plain(item) for item in getattr(objects, name).list(admin)] for name in LISTED}
    for node in objects.Node.list(admin):
        for name in OF_NODES:
            rows = getattr(objects, name).get_by_node_id(admin, node.id)
            read.setdefault(name, []).extend(_plain(row) for row in rows)
        inventory = objects.NodeInventory.get_by_node_id(admin, node.id)
        read.setdefault("NodeInventory", []).append(_plain(inventory))
    print(json.dumps({"objects": read, "versions": _versions(), "types": _types()}, default=str))


def _plain(item: object) -> dict:
    return {name: value for name, value in item.as_dict().items() if name != "links"}


def _versions() -> dict[str, str]:
    names = (*LISTED, "NodeInventory", "BIOSSetting", "FirmwareComponent", "Trait", "RunbookTrait")
    return {
        getattr(models, ROWS.get(name, name)).__tablename__: getattr(objects, name).VERSION
        for name in names
    }


def _types() -> dict[str, dict[str, list[str]]]:
    names = {
        kind: {
            point.load(): point.name
            for point in importlib.metadata.entry_points(group=f"ironic.hardware.interfaces.{kind}")
        }
        for kind in KINDS
    }
    types = {}
    for point in importlib.metadata.entry_points(group="ironic.hardware.types"):
        hardware = point.load()()
        types[point.name] = {
            kind: [
                names[kind][cls]
                for cls in getattr(hardware, f"supported_{kind}_interfaces")
                if cls in names[kind]
            ]
            for kind in KINDS
        }
    return types


if __name__ == "__main__":
    main()
