"""What comes in about deploy templates and runbooks."""

from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.api.schemas.common import FILLED, Document, Flag, Name, Text, Trait, Uuid, within
from app.api.schemas.nodes import Step

LARGEST = 2**31 - 1


class Rank(fields.Float):
    """A number from 0 on, or its text; a whole one stays whole, and with `whole` it must be one."""

    def __init__(self, *, whole: bool = False, **kwargs: Any) -> None:
        super().__init__(validate=within(0, LARGEST), **kwargs)
        self._whole = whole

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        number = super()._deserialize(value, attr, data, **kwargs)
        if number is None or number != int(number):
            if self._whole:
                raise ValidationError("Not a whole number.")
            return number
        return int(number)


class KeptStep(Step):
    """A step that is kept under a name."""

    class Meta:
        exclude = ("execute_on_child_nodes", "limit_child_node_execution")

    interface = Text(required=True)


class TemplateStep(KeptStep):
    """A step of a deploy template."""

    args = fields.Dict(keys=fields.String(), required=True)
    priority = Rank(required=True)


class RunbookStep(KeptStep):
    """A step of a runbook."""

    args = fields.Dict(keys=fields.String(), load_default=dict)
    order = Rank(whole=True, required=True)


class Steps(fields.List[dict[str, Any]]):
    """At least one step, and none twice."""

    def __init__(self, step: type[KeptStep], **kwargs: Any) -> None:
        super().__init__(
            fields.Nested(step),
            validate=[FILLED, self._each_once],
            **kwargs,
        )

    @staticmethod
    def _each_once(steps: list[dict[str, Any]]) -> None:
        names = [f"{step['interface']}.{step['step']}" for step in steps]
        for name in names:
            if names.count(name) > 1:
                raise ValidationError(f"{name} is there more than once.")


class TemplateChange(Schema):
    """What may be set when a deploy template is made, and changed later."""

    name = Trait()
    description = Text(allow_none=True)
    steps = Steps(TemplateStep)
    extra = Document()


TemplateCreate = TemplateChange.from_dict(
    {
        "uuid": Uuid(allow_none=True),
        "name": Trait(required=True),
        "steps": Steps(TemplateStep, required=True),
    },
    name="TemplateCreate",
)


class RunbookChange(Schema):
    """What may be set when a runbook is made, and changed later."""

    name = Name()
    description = Text(allow_none=True)
    steps = Steps(RunbookStep)
    disable_ramdisk = Flag(allow_none=True)
    public = Flag(allow_none=True)
    owner = Text(allow_none=True)
    extra = Document()


RunbookCreate = RunbookChange.from_dict(
    {
        "uuid": Uuid(allow_none=True),
        "name": Name(required=True),
        "steps": Steps(RunbookStep, required=True),
    },
    name="RunbookCreate",
)


class Traits(Schema):
    """All traits of something."""

    traits = fields.List(Trait(), required=True)
