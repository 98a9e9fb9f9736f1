"""Request schemas of deploy templates, runbooks and traits."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from app.api.schemas.nodes import MOST_STEPS, Step
from app.api.values.value_types import (
    NOT_EMPTY,
    Document,
    Flag,
    Name,
    Text,
    Trait,
    creation,
    within,
)

LARGEST = 2**31 - 1


class Rank(fields.Float):
    """
    Number of 0 or more, or its text; integers stay integers.

    integer: whether it must be an integer.
    """

    def __init__(self, *, integer: bool = False, **kwargs: Any) -> None:
        super().__init__(validate=within(0, LARGEST), **kwargs)
        self._integer = integer

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> Any:
        number = super()._deserialize(value, attr, data, **kwargs)
        if number is None or number != int(number):
            if self._integer:
                raise ValidationError("Not a whole number.")
            return number
        return int(number)


class StoredStep(Step):
    """Step of a deploy template or a runbook."""

    class Meta:
        exclude = ("execute_on_child_nodes", "limit_child_node_execution")

    interface = Text(required=True)


class TemplateStep(StoredStep):
    args = fields.Dict(keys=fields.String(), required=True)
    priority = Rank(required=True)


class RunbookStep(StoredStep):
    args = fields.Dict(keys=fields.String(), load_default=dict)
    order = Rank(integer=True, required=True)


class Steps(fields.List[dict[str, Any]]):
    """List of at least one step, without duplicates."""

    def __init__(self, step: type[StoredStep], **kwargs: Any) -> None:
        super().__init__(
            fields.Nested(step),
            validate=[NOT_EMPTY, validate.Length(max=MOST_STEPS), self._check_unique],
            **kwargs,
        )

    @staticmethod
    def _check_unique(steps: list[dict[str, object]]) -> None:
        names: set[str] = set()
        for step in steps:
            name = f"{step['interface']}.{step['step']}"
            if name in names:
                raise ValidationError(f"{name} occurs more than once.")
            names.add(name)


class TemplateChange(Schema):
    name = Trait()
    description = Text(allow_none=True)
    steps = Steps(TemplateStep)
    extra = Document()


TemplateCreate = creation(TemplateChange, "name", "steps")


class RunbookChange(Schema):
    name = Name()
    description = Text(allow_none=True)
    steps = Steps(RunbookStep)
    disable_ramdisk = Flag(allow_none=True)
    public = Flag(allow_none=True)
    owner = Text(allow_none=True)
    extra = Document()


RunbookCreate = creation(RunbookChange, "name", "steps")


class Traits(Schema):
    """All traits of a node or a runbook."""

    traits = fields.List(Trait(), required=True)
