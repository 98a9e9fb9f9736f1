"""
Request schemas of operations, and of their records: sanitation reports and measured numbers.
"""

from marshmallow import Schema, ValidationError, fields, validates

from app.api.values.value_types import (
    CommaSeparated,
    Flag,
    Moment,
    PageQuery,
    SequencePageQuery,
    Text,
    within,
)
from app.inventory import benchmarks
from app.models import OperationKind, OperationState
from app.reports.fleet_operations import GROUPED


class OperationFilters(PageQuery):
    kind = Text(choices=OperationKind)
    state = Text(choices=OperationState)
    active = Flag(metadata={"description": "true: unfinished operations, false: finished ones"})


class LimitQuery(Schema):
    """Query parameters of lists without pages."""

    limit = fields.Integer(
        validate=within(1, 1000), metadata={"description": "Maximum number of items"}
    )


class FailuresQuery(LimitQuery):
    by = CommaSeparated(
        metadata={"description": f"Values that distinguish the groups: {', '.join(GROUPED)}"}
    )

    @validates("by")
    def _known(self, names: list[str], **_kwargs: object) -> None:
        unknown_names = [name for name in names if name not in GROUPED]
        if unknown_names or not names:
            raise ValidationError(
                f"{unknown_names[0] if unknown_names else ''!r} is not one of {list(GROUPED)}"
            )


class SanitationQuery(PageQuery):
    class Meta:
        exclude = ("sort_key",)


class BenchmarksQuery(SequencePageQuery):
    metric = Text(
        benchmarks.LONGEST_NAME,
        shortest=1,
        metadata={"description": "Name of a metric, or its beginning up to a full stop"},
    )
    since = Moment(metadata={"description": "Recorded at this time or later"})
    until = Moment(metadata={"description": "Recorded before this time"})
