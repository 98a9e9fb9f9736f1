"""Request schemas of inspection: reports of agents, and inspection rules."""

from typing import Any

from marshmallow import INCLUDE, Schema, ValidationError, fields

from app.api.values.value_types import NOT_EMPTY, Flag, ListQuery, Text, Uuid, creation, within
from app.inspection.rules import PHASES, problems

#: Most network interfaces in a report.
MOST_INTERFACES = 512


class Interface(Schema):
    """Network interface in an inventory; unknown members are kept."""

    class Meta:
        unknown = INCLUDE

    mac_address = Text(required=True)


class Interfaces(fields.List[dict[str, Any]]):
    """Network interfaces; their number is checked first, as loading each of them takes time."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(fields.Nested(Interface), validate=NOT_EMPTY, **kwargs)

    def _deserialize(
        self, value: object, attr: object, data: object, **kwargs: object
    ) -> list[Any]:
        if isinstance(value, list) and len(value) > MOST_INTERFACES:
            raise ValidationError(
                f"{len(value)} interfaces are too many: at most {MOST_INTERFACES}"
            )
        return super()._deserialize(value, attr, data, **kwargs)


class Inventory(Schema):
    """Hardware inventory of a machine; unknown members are kept."""

    class Meta:
        unknown = INCLUDE

    interfaces = Interfaces(required=True)
    bmc_address = Text(allow_none=True)
    bmc_v6address = Text(allow_none=True)


class Report(Schema):
    """Inspection data from an agent: the inventory, and members added by its collectors."""

    inventory = fields.Nested(Inventory, required=True)


class ReportQuery(Schema):
    node_uuid = Uuid()


class RulesQuery(ListQuery):
    phase = Text(metadata={"description": "Only rules of this phase"})


class IntegerOrText(fields.Integer):
    """Integer, or its decimal digits as text, which the command line client sends."""

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> Any:
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        return super()._deserialize(value, attr, data, **kwargs)


class Operations(fields.List[dict[str, Any]]):
    """
    Conditions or actions of a rule, validated by `app.inspection.rules`.

    kind: `conditions` or `actions`.
    """

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(fields.Dict(keys=fields.String()), **kwargs)
        self._kind = kind

    def _deserialize(
        self, value: object, attr: object, data: object, **kwargs: object
    ) -> list[Any]:
        items = super()._deserialize(value, attr, data, **kwargs)
        errors = problems({self._kind: items})
        if errors:
            raise ValidationError([error.partition("/")[2] for error in errors])
        return [_normalised(item or {}) for item in items] if self._kind == "conditions" else items


def _normalised(condition: dict[str, object]) -> dict[str, object]:
    """Set the default of `multiple` in a condition with a loop; remove it from others."""
    if condition.get("loop"):
        return {**condition, "multiple": condition.get("multiple", "any")}
    return {name: value for name, value in condition.items() if name not in ("loop", "multiple")}


class RuleChange(Schema):
    description = Text(allow_none=True)
    phase = Text(choices=PHASES, allow_none=True)
    priority = IntegerOrText(strict=True, allow_none=True, validate=within(0, 9999))
    sensitive = Flag(allow_none=True)
    conditions = Operations("conditions", allow_none=True)
    actions = Operations("actions", validate=NOT_EMPTY)


RuleCreate = creation(RuleChange, "actions")
