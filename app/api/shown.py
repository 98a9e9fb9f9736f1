"""
What routes answer, and the bodies that no schema of marshmallow reads: one table.

A row is named after the handler that it is about. What a resource shows follows from its
declaration, and what columns hold from the models; only documents that are made otherwise are
written out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from marshmallow import Schema

from app.api import (
    conductors,
    drivers,
    hardware,
    history,
    node_view,
    nodes,
    operations,
    vendor,
    versions,
)
from app.api.allocations import ALLOCATION
from app.api.allocations import CHANGE as ALLOCATION_CHANGE
from app.api.chassis import CHANGE as CHASSIS_CHANGE
from app.api.chassis import CHASSIS
from app.api.inspection_rules import CHANGE as RULE_CHANGE
from app.api.inspection_rules import RULE
from app.api.management import COMPONENTS
from app.api.masking import DOCUMENTS
from app.api.portgroups import CHANGE as PORTGROUP_CHANGE
from app.api.portgroups import PORTGROUP
from app.api.ports import CHANGE as PORT_CHANGE
from app.api.ports import PORT
from app.api.resources import Resource
from app.api.runbooks import CHANGE as RUNBOOK_CHANGE
from app.api.runbooks import RUNBOOK
from app.api.schemas.management import INDICATOR_STATES
from app.api.shapes import (
    ANYTHING,
    DOCUMENT,
    FLAG,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    WHOLE,
    Shape,
    columns,
    exactly,
    many,
    mapped,
    maybe,
    one_of,
    page,
    ref,
    resource,
    some,
    versioned,
)
from app.api.templates import CHANGE as TEMPLATE_CHANGE
from app.api.templates import TEMPLATE
from app.api.volumes import CONNECTOR, CONNECTOR_CHANGE, TARGET, TARGET_CHANGE
from app.flows import QUEUES
from app.models import (
    AllocationState,
    BiosSetting,
    Conductor,
    FirmwareComponent,
    Node,
    NodeHistory,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    StepSource,
    StepState,
)
from app.services.patch import OPERATIONS
from app.states import State
from drivers.core.kinds import KINDS

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    answers: status -> shape of the answer, None for an empty one. takes: shape of a body that no
    marshmallow schema reads. query: the same for a parameter -> its meaning. types: of what is
    answered. headers: header -> what it says. fields, sortable: what may be asked for, sorted by.
    """

    answers: Mapping[int, Shape | None]
    takes: Shape | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = (JSON,)
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Iterable[str] = ()
    sortable: Iterable[str] = ()


def gives(shape: Shape, status: int = 200, **more: Any) -> Exchange:
    return Exchange({status: shape}, **more)


def patch(schema: Schema) -> Shape:
    """A JSON patch of what may be changed."""
    fields = "|".join(sorted(schema.fields))
    step = {
        "op": one_of(OPERATIONS),
        "path": {"type": "string", "pattern": f"^/({fields})(/.+)?$"},
        "value": ANYTHING,
    }
    return many(exactly(step, optional=["value"]))


DONE = Exchange({204: None})
WRITTEN = Exchange({204: None}, headers={"Location": "Where it can be seen"})
ACCEPTED = Exchange({202: None})
BEGUN = Exchange({202: None}, headers={"Location": "Where it can be followed"})
TAG = {"ETag": "Stands for all that callers can change of the node; for `If-Match`"}
NEW = {"Location": "Where it can be seen"}


def listed(name: str, shown: str, full: Iterable[str], sortable: Iterable[str]) -> Exchange:
    """A list, of whose items one may choose the fields."""
    sorts = ("id", *sorted(sortable))
    return gives(page(name, ref(shown)), fields=(*full, "links"), sortable=sorts)


def managed(
    one: str, plural: str, shown: str, of: Resource[Any], change: Schema, *lists: str
) -> dict[str, Exchange]:
    """
    The rows of a resource. one, plural: in the names of handlers. shown: its shape's name. lists:
    handlers of further lists of it.
    """
    items = listed(of.path.rpartition("/")[2], shown, of.full, of.sortable)
    return {
        f"create_{one}": gives(ref(shown), 201, headers=NEW),
        f"show_{one}": gives(ref(shown), fields=(*of.full, "links")),
        f"change_{one}": gives(ref(shown), takes=patch(change)),
        f"delete_{one}": DONE,
        **dict.fromkeys((f"list_{plural}", *lists), items),
    }


def _node_fields() -> dict[str, Shape]:
    """What is shown of nodes, by field."""
    stored = (*node_view.PLAIN, *node_view.OPEN, *DOCUMENTS)
    return {
        **columns(Node, stored),
        # older versions are told null for some states
        "provision_state": maybe(one_of(State)),
        "target_provision_state": maybe(one_of(State)),
        **{name: some(STEP) for name in node_view.STEPS},
        "allocation_uuid": maybe(UUID),
        "traits": many(TEXT),
        "conductor": maybe(TEXT),
    }


LINK = exactly({"href": TEXT, "rel": TEXT, "type": TEXT}, optional=["type"])
STEP = {
    "interface": maybe(TEXT), "step": TEXT, "args": maybe(DOCUMENT), "priority": NUMBER,
    "abortable": FLAG, "requires_ramdisk": FLAG,
}  # fmt: skip
VERSION = exactly(
    {"id": TEXT, "links": ref("Links"), "status": TEXT, "min_version": TEXT, "version": TEXT}
)
OFFERED_STEP = exactly({
    "interface": TEXT, "step": TEXT, "priority": NUMBER, "abortable": FLAG,
    "args": many(exactly(
        {"name": TEXT, "description": TEXT, "required": FLAG, "schema": DOCUMENT},
        optional=["schema"],
    )),
})  # fmt: skip
REHEARSAL = exactly(
    {
        "node_uuid": UUID, "target": TEXT, "from": one_of(State), "to": TEXT, "accepted": FLAG,
        "refused": many(exactly({"status": maybe(WHOLE), "reason": TEXT})),
        "steps": many(exactly(
            {**STEP, "source": one_of(StepSource), "in_band": FLAG, "child_node": maybe(UUID)},
        )),
    },
    optional=["to"],
)  # fmt: skip
WHY = exactly(
    {
        "node_uuid": UUID, "provision_state": one_of(State),
        "target_provision_state": maybe(one_of(State)), "summary": TEXT,
        "waiting_for": maybe(TEXT), "held_by": maybe(TEXT), "since": maybe(TIME),
        "next": maybe(TEXT), "next_at": maybe(TIME), "step": maybe(TEXT),
        "operation": maybe(UUID), "error": maybe(DOCUMENT), "verbs": many(TEXT),
        "admission": maybe(ref("Admission")), "links": ref("Links"),
    },
    optional=["links"],
)  # fmt: skip
DRIVER = some(
    {
        "name": TEXT, "hosts": many(TEXT), "type": one_of(["classic", "dynamic"]),
        "properties": ref("Links"),
        **{f"default_{kind}_interface": maybe(TEXT) for kind in KINDS},
        **{f"enabled_{kind}_interfaces": many(TEXT) for kind in KINDS},
        "links": ref("Links"),
    },
    always=["links"],
)  # fmt: skip
CONDUCTOR = some(
    {
        **columns(Conductor, set(conductors.FULL) - {"alive", "drivers"}),
        "alive": FLAG, "drivers": many(TEXT), "links": ref("Links"),
    },
    always=["links"],
)  # fmt: skip
OPERATION = exactly({
    **columns(Operation, operations.SHOWN),
    "kind": one_of(OperationKind), "state": one_of(OperationState),
    "arguments": DOCUMENT, "node_uuid": UUID, "node_name": maybe(TEXT), "links": ref("Links"),
})  # fmt: skip
OPERATION_STEP = exactly({
    **columns(OperationStep, operations.STEP_SHOWN),
    "source": one_of(StepSource), "state": one_of(StepState),
    "step": TEXT, "args": DOCUMENT,
})  # fmt: skip
ADMISSION = exactly({
    "class": one_of(sorted(QUEUES)), "conductor_group": maybe(TEXT),
    "limit": WHOLE, "place": WHOLE, "queued": WHOLE,
    "held_by": many(exactly({
        "kind": one_of(OperationKind), "state": one_of(OperationState),
        "operations": WHOLE, "since": TIME,
    })),
})  # fmt: skip
VENDOR_FUNCTION = exactly({
    "http_methods": many(one_of(vendor.METHODS)), "async": FLAG, "description": TEXT,
    "attach": FLAG, "require_exclusive_lock": FLAG,
})  # fmt: skip
INDICATOR = exactly({
    "name": TEXT, "component": one_of(COMPONENTS), "readonly": FLAG,
    "states": many(one_of(INDICATOR_STATES)), "links": ref("Links"),
})  # fmt: skip
VOLUME_LINKS = exactly({name: ref("Links") for name in ("connectors", "targets", "links")})

#: name -> shape; schemas of what comes in have names of their own.
SHAPES: Mapping[str, Shape] = {
    "Links": many(LINK),
    "Validation": mapped(exactly({"result": FLAG, "reason": TEXT}, optional=["reason"])),
    "Version": VERSION,
    "Node": versioned("node", some(
        {**_node_fields(), **{name: ref("Links") for name in (*node_view.LINKED, "links")}},
    )),
    "NodeStates": versioned("node", some(
        {name: shape for name, shape in _node_fields().items() if name in node_view.STATES},
    )),
    "Port": resource(PORT),
    "PortGroup": resource(PORTGROUP),
    "Chassis": resource(CHASSIS),
    "VolumeConnector": resource(CONNECTOR),
    "VolumeTarget": resource(TARGET),
    "Allocation": resource(ALLOCATION, state=one_of(AllocationState)),
    "DeployTemplate": resource(TEMPLATE),
    "Runbook": resource(RUNBOOK),
    "InspectionRule": resource(
        RULE, conditions=maybe(many(DOCUMENT)), actions=maybe(many(DOCUMENT))
    ),
    "Driver": versioned("driver", DRIVER),
    "Conductor": CONDUCTOR,
    "HistoryEntry": versioned("history", some(
        {**columns(NodeHistory, history.FULL), "links": ref("Links")}, always=["links"]
    )),
    "Operation": OPERATION,
    "OperationStep": OPERATION_STEP,
    "Admission": ADMISSION,
    "OfferedStep": OFFERED_STEP,
    "Rehearsal": REHEARSAL,
    "Why": WHY,
    "BiosSetting": some({
        **columns(BiosSetting, (*hardware.SETTING, *hardware.TIMES, *hardware.REGISTRY)),
        "links": ref("Links"),
    }),
    "Firmware": versioned("firmware", some(columns(FirmwareComponent, hardware.COMPONENT))),
    "VendorFunction": VENDOR_FUNCTION,
    "Indicator": INDICATOR,
    "AgentSettings": exactly({"node": ref("Node"), "config": DOCUMENT}),
}  # fmt: skip

#: Handler -> what it takes and answers.
EXCHANGES: Mapping[str, Exchange] = {
    "discover": gives(exactly({
        "name": TEXT, "description": TEXT, "default_version": ref("Version"),
        "versions": many(ref("Version")),
    })),
    "healthcheck": gives(exactly({
        "detailed": FLAG,
        "reasons": many(
            {"anyOf": [TEXT, exactly({"class": TEXT, "reason": TEXT, "details": TEXT})]}
        ),
    })),
    "show_v1": gives(some({
        "id": TEXT, "links": ref("Links"), "media_types": mapped(TEXT), "version": ref("Version"),
        **{name: ref("Links") for name in versions.COLLECTIONS},
    }, always=["id", "links", "media_types", "version"])),

    **dict.fromkeys(
        (
            "list_nodes", "list_node_details", "list_nodes_of_chassis",
            "list_node_details_of_chassis",
        ),
        listed("nodes", "Node", node_view.FULL, node_view.SORTABLE),
    ),
    "create_node": gives(ref("Node"), 201, headers=NEW | TAG),
    "show_node": gives(ref("Node"), headers=TAG, fields=(*node_view.FULL, "links")),
    "delete_node": DONE,
    "change_node": gives(ref("Node"), takes=patch(nodes.CHANGE), headers=TAG),
    "set_maintenance": ACCEPTED,
    "clear_maintenance": ACCEPTED,
    "list_children": gives(exactly({"children": many(UUID), "links": LINK})),
    "validate_node": gives(ref("Validation")),
    "validate_named_node": gives(ref("Validation")),
    "show_states": gives(ref("NodeStates")),
    "change_power": BEGUN,
    "change_provision_state": Exchange(
        {202: None, 200: ref("Rehearsal")}, headers=BEGUN.headers
    ),

    **managed(
        "port", "ports", "Port", PORT, PORT_CHANGE,
        "list_port_details", "list_ports_of_node", "list_port_details_of_node",
        "list_ports_of_portgroup", "list_port_details_of_portgroup",
    ),
    **managed(
        "portgroup", "portgroups", "PortGroup", PORTGROUP, PORTGROUP_CHANGE,
        "list_portgroup_details", "list_portgroups_of_node", "list_portgroup_details_of_node",
    ),
    **managed(
        "chassis", "chassis", "Chassis", CHASSIS, CHASSIS_CHANGE, "list_chassis_details",
    ),
    "show_volume": gives(VOLUME_LINKS),
    "show_volume_of_node": gives(VOLUME_LINKS),
    **managed(
        "connector", "connectors", "VolumeConnector", CONNECTOR, CONNECTOR_CHANGE,
        "list_connectors_of_node",
    ),
    **managed(
        "target", "targets", "VolumeTarget", TARGET, TARGET_CHANGE, "list_targets_of_node",
    ),
    **managed("allocation", "allocations", "Allocation", ALLOCATION, ALLOCATION_CHANGE),
    "show_allocation_of_node": gives(ref("Allocation")),
    "delete_allocation_of_node": DONE,
    **managed("template", "templates", "DeployTemplate", TEMPLATE, TEMPLATE_CHANGE),
    **managed("runbook", "runbooks", "Runbook", RUNBOOK, RUNBOOK_CHANGE),
    **managed(
        "inspection_rule", "inspection_rules", "InspectionRule", RULE, RULE_CHANGE,
    ),
    "delete_inspection_rules": DONE,

    **{f"list_{whose}traits": gives(exactly({"traits": many(TEXT)}))
       for whose in ("", "runbook_")},
    **{f"set_{whose}traits": DONE for whose in ("", "runbook_")},
    **{f"add_{whose}trait": WRITTEN for whose in ("", "runbook_")},
    **{f"remove_{whose}trait{s}": DONE for whose in ("", "runbook_") for s in ("", "s")},
    "list_vifs": gives(exactly({"vifs": many(exactly({"id": TEXT}))})),
    "attach_vif": DONE,
    "detach_vif": DONE,
    "list_shards": gives(exactly({"shards": many(exactly({"name": maybe(TEXT), "count": WHOLE}))})),
    "report_events": DONE,

    "list_drivers": gives(
        exactly({"drivers": many(ref("Driver"))}), fields=(*drivers.FULL, "links"),
    ),
    "show_driver": gives(ref("Driver"), fields=(*drivers.FULL, "links")),
    "show_driver_properties": gives(mapped(TEXT)),
    "show_logical_disk_properties": gives(mapped(TEXT)),
    "list_conductors": listed("conductors", "Conductor", conductors.FULL, conductors.SORTABLE),
    "show_conductor": gives(ref("Conductor"), fields=(*conductors.FULL, "links")),
    "list_operations": gives(exactly({"operations": many(ref("Operation"))})),
    "list_operations_of_all": listed("operations", "Operation", (), operations.SORTABLE),
    "show_operation": gives(exactly({**OPERATION["properties"],
                                     "admission": maybe(ref("Admission")),
                                     "steps": many(ref("OperationStep"))})),
    "list_history": listed("history", "HistoryEntry", (), history.SORTABLE),
    "show_history": gives(ref("HistoryEntry")),
    "show_why": gives(ref("Why")),
    "list_steps": Exchange(
        {200: many(ref("OfferedStep")), 202: exactly({"message": TEXT})},
        headers={"Retry-Request-After": "Of 202: in how many seconds to ask again; -1: unknown"},
    ),

    "look_up": gives(ref("AgentSettings")),
    "heartbeat": ACCEPTED,
    "heartbeat_of_named_node": ACCEPTED,
    "continue_inspection": gives(
        {"anyOf": [exactly({"uuid": UUID}), ref("AgentSettings")]}, 202
    ),

    "show_boot_device": gives(
        exactly({"boot_device": maybe(TEXT), "persistent": maybe(FLAG)})
    ),
    "set_boot_device": DONE,
    "list_boot_devices": gives(exactly({"supported_boot_devices": many(TEXT)})),
    "inject_nmi": DONE,
    "list_indicators": gives(exactly({"indicators": many(ref("Indicator"))})),
    "show_indicator": gives(exactly({"state": one_of(INDICATOR_STATES)})),
    "set_indicator": DONE,
    "list_virtual_media": gives(many(exactly(
        {"media_types": many(TEXT), "inserted": FLAG, "image": maybe(TEXT)},
    ))),
    "attach_virtual_media": DONE,
    "detach_virtual_media": DONE,
    "change_boot_mode": BEGUN,
    "change_secure_boot": BEGUN,
    "set_target_raid_config": DONE,
    "show_console": gives(exactly({"console_enabled": FLAG, "console_info": maybe(DOCUMENT)})),
    "change_console": BEGUN,

    "list_bios_settings": gives(exactly({"bios": many(ref("BiosSetting"))})),
    "show_bios_setting": gives(mapped(ref("BiosSetting"))),
    "list_firmware": gives(exactly({"firmware": many(ref("Firmware"))})),
    "show_inventory": gives(exactly({"inventory": DOCUMENT, "plugin_data": DOCUMENT})),

    "list_functions": gives(mapped(ref("VendorFunction"))),
    "list_driver_functions": gives(mapped(ref("VendorFunction"))),
    **{f"call_{named}{whose}function_by_{method.lower()}": Exchange(
        {200: ANYTHING, 202: None}, takes=DOCUMENT, types=(JSON, "application/octet-stream"),
        query={"method": "Name of the function"} if named else {})
       for named in ("", "named_") for whose in ("", "driver_") for method in vendor.METHODS},
}  # fmt: skip
