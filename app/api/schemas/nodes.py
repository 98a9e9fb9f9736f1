"""What comes in about nodes."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates, validates_schema

from app.api.schemas import network_data
from app.api.schemas.common import (
    Document,
    Flag,
    Ident,
    ListQuery,
    Name,
    Text,
    Uuid,
    within,
)
from app.models import Fault
from app.services.power import TARGETS
from app.states import VERBS, State
from drivers.core import reserved
from drivers.core.kinds import KINDS

#: Interfaces whose steps may be asked for.
STEPPING = ("vendor", "power", "management", "firmware", "deploy", "bios", "raid")
#: Steps that every flow has; their interface does not matter.
RESERVED_STEPS = tuple(reserved.METHODS)


class NodeFields(Schema):
    """What may be set when a node is made, and changed later."""

    name = Name(allow_none=True, null=False)
    driver = Text(shortest=1)
    driver_info = Document()
    properties = Document()
    extra = Document()
    instance_info = Document()
    instance_uuid = Uuid(allow_none=True)
    instance_name = Text(shortest=1, allow_none=True)
    resource_class = Text(80, allow_none=True)
    conductor_group = Text(
        allow_none=True, metadata={"description": "Letters, digits, underscores, dashes, dots"}
    )
    owner = Text(allow_none=True)
    lessee = Text(allow_none=True)
    description = Text(4096, allow_none=True)
    shard = Text(allow_none=True)
    parent_node = Ident(allow_none=True)
    chassis_uuid = Uuid(allow_none=True)
    automated_clean = Flag(allow_none=True)
    retired = Flag(allow_none=True)
    retired_reason = Text(4096, allow_none=True)
    network_data = Document()
    disable_power_off = Flag(allow_none=True)
    maintenance = Flag(allow_none=True)

    @validates("properties")
    def _sizes(self, value: dict[str, Any] | None, **_kwargs: Any) -> None:
        for key in ("local_gb", "memory_mb"):
            size = (value or {}).get(key)
            if size is None:
                continue
            if isinstance(size, bool) or not str(size).isdecimal():
                raise ValidationError(
                    "The following properties for node should be non-negative integers, but"
                    f" provided values are: {{{key!r}: {size!r}}}"
                )

    @validates("network_data")
    def _network(self, value: dict[str, Any] | None, **_kwargs: Any) -> None:
        network_data.check(value or {})

    @validates("conductor_group")
    def _group(self, value: str | None, **_kwargs: Any) -> None:
        if value and not value.replace("_", "").replace("-", "").replace(".", "").isalnum():
            raise ValidationError("Must be letters, digits, underscores, dashes and dots.")


_interfaces = {f"{kind}_interface": Text(shortest=1, allow_none=True) for kind in KINDS}
NodeChange = NodeFields.from_dict(
    {
        **_interfaces,
        "protected": Flag(allow_none=True),
        "protected_reason": Text(4096, allow_none=True),
    },
    name="NodeChange",
)
NodeCreate = NodeFields.from_dict(
    {
        **_interfaces,
        "uuid": Uuid(allow_none=True),
        "driver": Text(shortest=1, required=True),
        "boot_mode": Text(16, allow_none=True, metadata={"description": "uefi or bios"}),
        "secure_boot": Flag(allow_none=True),
        "console_enabled": Flag(allow_none=True),
    },
    name="NodeCreate",
)


class NodeFilters(ListQuery):
    """Which nodes to list."""

    instance_uuid = Uuid()
    instance_name = Text()
    associated = Flag()
    maintenance = Flag()
    provision_state = Text(choices=State)
    driver = Text()
    resource_class = Text()
    fault = Text(choices=Fault)
    conductor_group = Text()
    conductor = Text()
    owner = Text()
    lessee = Text()
    project = Text()
    description_contains = Text()
    retired = Flag()
    shard = Text(4096)
    sharded = Flag()
    include_children = Flag()
    parent_node = Ident()
    chassis_uuid = Uuid()


class NodePatchQuery(Schema):
    """How a change is made."""

    reset_interfaces = Flag()


class StatesQuery(Schema):
    """How long to wait for a node to rest."""

    wait = fields.Float(
        validate=validate.Range(0),
        metadata={"description": "Answer once nothing is under way, or after so many seconds"},
    )


class PowerTarget(Schema):
    """A power state to reach."""

    target = Text(required=True, metadata={"enum": TARGETS})
    timeout = fields.Integer(allow_none=True, validate=within(1, 2**31 - 1))


class Step(Schema):
    """A step to run."""

    interface = Text()
    step = Text(shortest=1, required=True)
    args = fields.Dict(keys=fields.String())
    execute_on_child_nodes = Flag()
    limit_child_node_execution = fields.List(Uuid())

    @validates_schema
    def _interface(self, data: dict[str, Any], **_kwargs: Any) -> None:
        if data["step"] not in RESERVED_STEPS and data.get("interface") not in STEPPING:
            raise ValidationError(f"interface: must be one of {', '.join(STEPPING)}.")


class OrderedStep(Step):
    """A step of a manual clean or of a service."""

    order = fields.Integer(validate=within(0))


class DeployStep(Step):
    """A step to run with a deployment, in place of the driver's of that name."""

    args = fields.Dict(keys=fields.String(), required=True)
    priority = fields.Float(required=True, validate=within(0))


class ProvisionTarget(Schema):
    """A verb, and what it needs."""

    target = Text(required=True, metadata={"enum": list(VERBS)})
    configdrive = fields.Raw(allow_none=True, metadata={"description": "Object, base64, or URL"})
    clean_steps = fields.List(fields.Nested(OrderedStep), allow_none=True)
    deploy_steps = fields.List(fields.Nested(DeployStep), allow_none=True)
    service_steps = fields.List(fields.Nested(OrderedStep), allow_none=True)
    rescue_password = Text(1024, allow_none=True)
    disable_ramdisk = Flag(allow_none=True)
    runbook = Ident(allow_none=True)
    dry_run = Flag(metadata={"description": "Only tell what would be done, and what be refused"})


class MaintenanceReason(Schema):
    """Why nothing may be done to a node."""

    reason = Text(65535, allow_none=True)


class ValidateQuery(Schema):
    """Which node to check."""

    node = Ident()
    node_uuid = Uuid()


class HistoryQuery(ListQuery):
    """Which entries of a node's history to list."""

    class Meta:
        exclude = ("fields_",)
