"""
The fields of a node, one row each.

The row declares all that the API knows of a field: the microversion that introduced it, the type
that requests may set, the policy rule for changing it, the filter of `GET /v1/nodes`, how the view
reads it, and its option of the command line. The request schemas, `versions`, the view, the policy,
the sort keys and the generated files derive from these rows; a column of the same name in
`app.models.Node` stores the value. A field without a column is computed in
`app.api.node.node_view`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import marshmallow
from sqlalchemy import ColumnElement, select

from app.api.declarations.policy_checks import (
    OPERATE,
    OWN,
    SET_UP,
    SYSTEM_ADMIN,
    SYSTEM_WORK,
    USE,
    Rule,
)
from app.api.values.node_values import GroupName, NetworkData, Properties
from app.api.values.value_types import Document, Flag, Ident, Name, Text, Uuid
from app.lifecycle.provision_states import State
from app.models import Fault, Node
from app.rows import uuid_or_name
from drivers.core.interface_kinds import KINDS

Value = marshmallow.fields.Field[Any]

UPDATE = "baremetal:node:update"


def equal(column: ColumnElement[Any], value: object) -> ColumnElement[bool]:
    """Compare with a value; a boolean is part of the statement, as partial indexes require."""
    if isinstance(value, bool):
        return column if value else ~column
    condition: ColumnElement[bool] = column == value
    return condition


def lowered(column: ColumnElement[str], value: str) -> ColumnElement[bool]:
    """Compare with a column that is stored in lower case."""
    return column == value.lower()


def listed(column: ColumnElement[str], value: str) -> ColumnElement[bool]:
    """Compare with any of the values, separated by commas."""
    return column.in_(value.split(","))


def named(column: ColumnElement[str], ident: str) -> ColumnElement[bool]:
    """Compare with the UUID of the node that a UUID or a name identifies."""
    query = select(Node.__table__.c.uuid).where(uuid_or_name.identified(ident))
    return column == query.scalar_subquery()


@dataclass(frozen=True, slots=True)
class Filter:
    """A parameter of `GET /v1/nodes` with the name of the field."""

    value: Value
    #: The microversion of the parameter; by default of the field.
    since: int | None = None
    matches: Callable[[ColumnElement[Any], Any], ColumnElement[bool]] = equal


@dataclass(frozen=True, slots=True)
class Option:
    """The command line option of `ingot node create`, `set` and `unset`."""

    help: str
    #: The flag; empty: the name of the field.
    flag: str = ""
    #: A document is given as one JSON value, not key by key.
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a node. Without `value` it is read-only."""

    name: str
    value: Value | None = None
    since: int = 1
    #: Part of the body of POST.
    created: bool = True
    #: Part of the patches of PATCH.
    changed: bool = True
    #: The policy rule for changing it. A check declares a separate rule; `UPDATE` by default.
    update: Rule | str | None = None
    filter: Filter | None = None
    option: Option | None = None
    #: Most nodes have a value of their own, so the view does not encode it once for many.
    varies: bool = False
    #: The sort key of its place in the view, which is alphabetical; empty: its name.
    place: str = ""

    @property
    def rule(self) -> Rule | None:
        if isinstance(self.update, str):
            return Rule(f"{UPDATE}:{self.name}", self.update, f"Change `{self.name}`")
        return self.update


_EXTRA = Rule(f"{UPDATE}_extra", USE, "Change `extra`")
_INSTANCE = Rule(
    f"{UPDATE}_instance_info", OPERATE, "Change `instance_info` and `instance_name`"
)  # fmt: skip
_RETIRE = Rule(f"{UPDATE}:retired", OWN, "Change `retired` and `retired_reason`")
_INTERFACES = Rule(f"{UPDATE}:driver_interfaces", SET_UP, "Change `driver` and interfaces")
#: Kind of interface -> the microversion of its field, where that is not 31.
_INTERFACES_SINCE = {"network": 20, "storage": 33, "rescue": 38, "bios": 40, "firmware": 86}


def _interface(kind: str) -> Field:
    return Field(
        f"{kind}_interface", Text(shortest=1, allow_none=True),
        since=_INTERFACES_SINCE.get(kind, 31), update=_INTERFACES,
        option=Option(f"Its {kind} interface"),
        place="inspection_z" if kind == "inspect" else "",
    )  # fmt: skip


_group = GroupName(
    allow_none=True, metadata={"description": "Letters, digits, underscores, dashes, dots"}
)
_boot_mode = Text(16, allow_none=True, metadata={"description": "uefi or bios"})

#: In the order of request schemas, policy rules and options.
FIELDS = (
    Field("name", Name(allow_none=True, null=False), since=5, update=OWN, varies=True,
          option=Option("A name that no other node has")),
    Field("driver", Text(shortest=1), update=_INTERFACES, filter=Filter(Text(), since=16),
          option=Option("The hardware type, as redfish")),
    Field("driver_info", Document(), update=OWN, option=Option("BMC address and credentials")),
    Field("properties", Properties(), update=OWN,
          option=Option("Hardware properties", "property")),
    Field("extra", Document(), update=_EXTRA,
          option=Option("Arbitrary metadata")),
    Field("instance_info", Document(), update=_INSTANCE, option=Option("Deploy parameters")),
    Field("instance_uuid", Uuid(allow_none=True), update=OWN, filter=Filter(Uuid()), varies=True,
          option=Option("The instance that runs on it")),
    Field("instance_name", Text(shortest=1, allow_none=True), since=104, update=_INSTANCE,
          filter=Filter(Text()), varies=True, option=Option("The name of that instance")),
    Field("resource_class", Text(80, allow_none=True), since=21, filter=Filter(Text()),
          option=Option("The resource class, for scheduling")),
    Field("conductor_group", _group, since=46, update=SYSTEM_WORK,
          filter=Filter(Text(), matches=lowered),
          option=Option("The conductors that may work on it")),
    Field("owner", Text(allow_none=True), since=50, update=SYSTEM_WORK, filter=Filter(Text()),
          varies=True, option=Option("The project that it belongs to")),
    Field("lessee", Text(allow_none=True), since=65, update=OWN, filter=Filter(Text()),
          varies=True, option=Option("The project that may use it")),
    Field("description", Text(4096, allow_none=True), since=51, varies=True,
          option=Option("A few words about it")),
    Field("shard", Text(allow_none=True), since=82, update=SYSTEM_ADMIN,
          filter=Filter(Text(4096), matches=listed),
          option=Option("The part of the fleet that it belongs to")),
    Field("parent_node", Ident(allow_none=True), since=83, update=SYSTEM_WORK,
          filter=Filter(Ident(), matches=named), option=Option("The node that it is a part of")),
    Field("chassis_uuid", Uuid(allow_none=True), update=SYSTEM_ADMIN, filter=Filter(Uuid()),
          option=Option("The chassis that it is in", "chassis")),
    Field("automated_clean", Flag(allow_none=True), since=47,
          option=Option("Clean it before it becomes available")),
    Field("protected", Flag(allow_none=True), since=48, created=False,
          option=Option("Nothing may destroy its instance")),
    Field("protected_reason", Text(4096, allow_none=True), since=48, created=False,
          option=Option("The reason for its protection")),
    Field("retired", Flag(allow_none=True), since=61, update=_RETIRE,
          filter=Filter(Flag(), since=1),
          option=Option("It is retired: no new instance is deployed on it")),
    Field("retired_reason", Text(4096, allow_none=True), since=61, update=_RETIRE,
          option=Option("The reason for its retirement")),
    Field("network_data", NetworkData(), since=66, update=OWN,
          option=Option("Static network configuration of its agent", whole=True)),
    Field("disable_power_off", Flag(allow_none=True), since=95, update=SYSTEM_ADMIN,
          option=Option("It must never be switched off"), place="deploy"),
    Field("maintenance", Flag(allow_none=True), filter=Filter(Flag())),
    *map(_interface, KINDS),
    # given on enrollment; later the routes below /states and /management change them
    Field("uuid", Uuid(allow_none=True), changed=False, varies=True),
    Field("boot_mode", _boot_mode, since=75, changed=False),
    Field("secure_boot", Flag(allow_none=True), since=75, changed=False),
    Field("console_enabled", Flag(allow_none=True), changed=False),
    # read-only
    Field("created_at"),
    Field("updated_at"),
    Field("driver_internal_info", since=3),
    Field("raid_config", since=12),
    Field("target_raid_config", since=12),
    Field("power_state"),
    Field("target_power_state"),
    Field("provision_state", filter=Filter(Text(choices=State), since=9)),
    Field("target_provision_state"),
    Field("provision_updated_at"),
    Field("inspection_started_at", since=6),
    Field("inspection_finished_at", since=6),
    Field("last_error"),
    Field("maintenance_reason"),
    Field("fault", since=42, filter=Filter(Text(choices=Fault))),
    Field("reservation"),
    Field("health", since=109),
    Field("clean_step", since=7),
    Field("deploy_step", since=44),
    Field("service_step", since=87),
    Field("traits", since=37),
    Field("conductor", since=49),
    Field("allocation_uuid", since=52),
)  # fmt: skip

#: Link to a sub-collection of a node -> its microversion.
LINKS = {"ports": 1, "states": 14, "portgroups": 24, "volume": 32}

#: Fields before and after all others in Ironic's order.
HEAD = ("uuid", "created_at", "updated_at")
TAIL = ("conductor", "allocation_uuid", "chassis_uuid")


def _order(field: Field) -> tuple[int, int, str]:
    for part, ends in ((0, HEAD), (2, TAIL)):
        if field.name in ends:
            return part, ends.index(field.name), ""
    return 1, 0, field.place or field.name


#: The names in Ironic's order: clients print the fields in the order of the document.
FULL = tuple(field.name for field in sorted(FIELDS, key=_order))
#: Field or link -> the microversion that introduced it, where that is not the first.
SINCE: Mapping[str, int] = {
    **{field.name: field.since for field in FIELDS if field.since > 1},
    **{name: since for name, since in LINKS.items() if since > 1},
}
#: Fields beyond Ironic's: only requests that name them get them.
NAMED_ONLY = ("holds",)
CREATED: dict[str, Value] = {
    field.name: field.value for field in FIELDS if field.value and field.created
}
CHANGED: dict[str, Value] = {
    field.name: field.value for field in FIELDS if field.value and field.changed
}
#: Field -> the rule for changing it, where that is not `UPDATE`.
RULES: Mapping[str, Rule] = {field.name: field.rule for field in FIELDS if field.rule}
FILTERS: Mapping[str, Filter] = {field.name: field.filter for field in FIELDS if field.filter}
#: Filter -> the microversion of the parameter, where that is not the first.
FILTERS_SINCE: Mapping[str, int] = {
    field.name: since
    for field in FIELDS
    if field.filter and (since := field.filter.since or field.since) > 1
}
VARYING = frozenset(field.name for field in FIELDS if field.varies)
