"""What comes in about inspection: reports of agents, and rules."""

from typing import Any

from marshmallow import INCLUDE, Schema, ValidationError, fields

from app.api.schemas.common import FILLED, Flag, ListQuery, Text, Uuid, within
from drivers.inspection.rules import PHASES, problems


class Interface(Schema):
    """A network interface of a machine; whatever else is known of it is kept."""

    class Meta:
        unknown = INCLUDE

    mac_address = Text(required=True)


class Inventory(Schema):
    """What a machine is made of; whatever else is known of it is kept."""

    class Meta:
        unknown = INCLUDE

    interfaces = fields.List(fields.Nested(Interface), required=True, validate=FILLED)
    bmc_address = Text(allow_none=True)
    bmc_v6address = Text(allow_none=True)


class Report(Schema):
    """What an agent has found: the inventory, and whatever its collectors add."""

    inventory = fields.Nested(Inventory, required=True)


class ReportQuery(Schema):
    """Whose it is, if the agent knows."""

    node_uuid = Uuid()


class RulesQuery(ListQuery):
    """Which rules."""

    phase = Text(metadata={"description": "Only rules of this phase"})


class Whole(fields.Integer):
    """A whole number, or its text: the command line client sends that."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        return super()._deserialize(value, attr, data, **kwargs)


class Operations(fields.List[dict[str, Any]]):
    """Conditions or actions, as `drivers.inspection.rules` knows them."""

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(fields.Dict(keys=fields.String()), **kwargs)
        self._kind = kind

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> list[Any]:
        found = super()._deserialize(value, attr, data, **kwargs)
        wrong = problems({self._kind: found})
        if wrong:
            raise ValidationError([each.partition("/")[2] for each in wrong])
        return [_whole(each or {}) for each in found] if self._kind == "conditions" else found


def _whole(condition: dict[str, Any]) -> dict[str, Any]:
    """With `multiple` where there is a loop, and only there."""
    if condition.get("loop"):
        return {**condition, "multiple": condition.get("multiple", "any")}
    return {name: value for name, value in condition.items() if name not in ("loop", "multiple")}


class RuleChange(Schema):
    """What may be set when an inspection rule is made, and changed later."""

    description = Text(allow_none=True)
    phase = Text(choices=PHASES, allow_none=True)
    priority = Whole(strict=True, allow_none=True, validate=within(0, 9999))
    sensitive = Flag(allow_none=True)
    conditions = Operations("conditions", allow_none=True)
    actions = Operations("actions", validate=FILLED)


RuleCreate = RuleChange.from_dict(
    {
        "uuid": Uuid(allow_none=True),
        "actions": Operations("actions", required=True, validate=FILLED),
    },
    name="RuleCreate",
)
