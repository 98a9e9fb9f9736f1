"""Request schemas of nodes: fields, filters, states and steps."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.api.declarations import node_fields
from app.api.values.value_types import Flag, Ident, ListQuery, Text, Uuid, within
from app.engine.power import TARGETS
from app.lifecycle.hold_kinds import HoldKind
from app.lifecycle.provision_states import VERBS
from drivers.core import reserved

#: Interfaces whose steps may be requested.
STEPPING = ("vendor", "power", "management", "firmware", "deploy", "bios", "raid")
#: Names of steps that every flow has; their interface is not checked.
RESERVED_STEPS = tuple(reserved.METHODS)


NodeChange = Schema.from_dict(node_fields.CHANGED, name="NodeChange")
NodeCreate = Schema.from_dict(
    {**node_fields.CREATED, "driver": Text(shortest=1, required=True)}, name="NodeCreate"
)


class NodeQuery(ListQuery):
    """Query parameters of lists of nodes, without the filters by fields."""

    where = Text(4096, metadata={"description": "Expression of selection, as power_state=error"})
    associated = Flag()
    conductor = Text()
    project = Text()
    description_contains = Text()
    sharded = Flag()
    include_children = Flag()
    hold = Text(choices=HoldKind, metadata={"description": "Kind of a hold"})
    failure_code = Text(metadata={"description": "Code of the last failure"})
    failure_step = Text(metadata={"description": "Step of the last failure, as power.reboot"})


NodeFilters = NodeQuery.from_dict(
    {name: filter_.value for name, filter_ in node_fields.FILTERS.items()}, name="NodeFilters"
)


class CountedNodes(NodeFilters):  # type: ignore[misc, valid-type]
    """Filters of counts of nodes; not that by conductor, which reads each node."""

    class Meta:
        exclude = ("conductor", *ListQuery().fields)


class NodeCreateQuery(Schema):
    dry_run = Flag(metadata={"description": "Only return the node as it would be"})


class NodeDeleteQuery(Schema):
    dry_run = Flag(metadata={"description": "Only check whether it may be deleted"})


class NodePatchQuery(Schema):
    reset_interfaces = Flag()
    dry_run = Flag(metadata={"description": "Only return the names of the changed fields"})


class StatesQuery(Schema):
    wait = fields.Float(
        validate=validate.Range(0),
        metadata={"description": "Seconds to wait until no operation is active on the node"},
    )


class PowerTarget(Schema):
    target = Text(required=True, metadata={"enum": TARGETS})
    timeout = fields.Integer(allow_none=True, validate=within(1, 2**31 - 1))


class Step(Schema):
    """Requested step."""

    interface = Text()
    step = Text(shortest=1, required=True)
    args = fields.Dict(keys=fields.String())
    execute_on_child_nodes = Flag()
    limit_child_node_execution = fields.List(Uuid())

    @validates_schema
    def _interface(self, data: dict[str, Any], **_kwargs: object) -> None:
        if data["step"] not in RESERVED_STEPS and data.get("interface") not in STEPPING:
            raise ValidationError(f"interface: must be one of {', '.join(STEPPING)}.")


#: Most steps of a request, a template or a runbook: each becomes a row, and part of the node.
MOST_STEPS = 1000


def steps_of(kind: type[Step], **kwargs: Any) -> fields.List[dict[str, Any]]:
    """Return the field of a list of requested steps."""
    return fields.List(fields.Nested(kind), validate=validate.Length(max=MOST_STEPS), **kwargs)


class OrderedStep(Step):
    """Requested step of manual cleaning or servicing."""

    order = fields.Integer(validate=within(0))


class DeployStep(Step):
    """Requested deploy step; it replaces the driver's step of that name."""

    args = fields.Dict(keys=fields.String(), required=True)
    priority = fields.Float(required=True, validate=within(0))


class ProvisionTarget(Schema):
    """A verb and its arguments."""

    target = Text(required=True, metadata={"enum": list(VERBS)})
    configdrive = fields.Raw(allow_none=True, metadata={"description": "Object, base64, or URL"})
    clean_steps = steps_of(OrderedStep, allow_none=True)
    deploy_steps = steps_of(DeployStep, allow_none=True)
    service_steps = steps_of(OrderedStep, allow_none=True)
    rescue_password = Text(1024, allow_none=True)
    disable_ramdisk = Flag(allow_none=True)
    runbook = Ident(allow_none=True)
    dry_run = Flag(metadata={"description": "Only return the steps or the refusal of the verb"})


class MaintenanceReason(Schema):
    reason = Text(65535, allow_none=True)


class ValidateQuery(Schema):
    node = Ident()
    node_uuid = Uuid()


class HistoryQuery(ListQuery):
    class Meta:
        exclude = ("fields_",)
