"""Request schemas of baselines."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.api.values.value_types import NOT_EMPTY, Flag, Name, PageQuery, Text, creation
from app.baselines import rules
from app.baselines.rules import LONGEST_FIELD, MOST_RULES, MOST_VALUES, Operator, RuleError
from app.errors import Invalid
from app.models import Compliance, FailedBenchmark
from app.selection import conditions, grammar
from app.selection.tree import fields_of


class Selection(Text):
    """Expression of selection."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(grammar.LONGEST, shortest=1, **kwargs)

    def _normalized(self, text: str) -> str:
        try:
            tree = conditions.parse(text)
        except Invalid as error:
            raise ValidationError(str(error).replace(" of where", " of {name}")) from None
        if conditions.DIFFERS in fields_of(tree):
            raise ValidationError(
                f"{{name}}: a baseline cannot be for nodes by {conditions.DIFFERS}, its own result"
            )
        return text


class Value(fields.Field[Any]):
    """Expected value: a number, a text, or a list of them."""

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> object:
        items = value if isinstance(value, list) else [value]
        if not all(type(item) in (int, float, str) for item in items) or len(items) > MOST_VALUES:
            raise ValidationError(
                f"Expected for {{name}} a number, a text, or a list of at most {MOST_VALUES}"
                " of them"
            )
        return value


class Expectation(Schema):
    """A rule of a baseline."""

    field = Text(
        LONGEST_FIELD, required=True, metadata={"description": "Fact, as memory_mb, firmware.bmc"}
    )
    operator = Text(choices=Operator, required=True)
    value = Value(required=True, metadata={"description": "Number, text, or a list for `in`"})

    @validates_schema(skip_on_field_errors=True)
    def _is_rule(self, data: dict[str, object], **_kwargs: object) -> None:
        try:
            rules.parse(data)
        except RuleError as error:
            raise ValidationError(str(error), error.member) from None


class BaselineChange(Schema):
    name = Name(null=False)
    description = Text(allow_none=True)
    selection = Selection(
        metadata={"description": "Nodes that it is for, as resource_class=compute"}
    )
    expected = fields.List(
        fields.Nested(Expectation),
        validate=[NOT_EMPTY, validate.Length(max=MOST_RULES)],
        metadata={"description": "Rules: field, operator and value of each expected fact"},
    )
    acceptance = Flag(
        metadata={"description": "A node that does not comply at its inspection gets a hold"}
    )
    failed_benchmark = Text(
        choices=FailedBenchmark,
        metadata={"description": "Effect of a measured number that differs"},
    )


BaselineCreate = creation(BaselineChange, "name", "selection", "expected")


class BaselineNodesQuery(PageQuery):
    class Meta:
        exclude = ("sort_key",)

    state = Text(choices=Compliance)
