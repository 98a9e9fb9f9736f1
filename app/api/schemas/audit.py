"""Request schema of audit records."""

from datetime import UTC, datetime
from typing import Any

from marshmallow import ValidationError, fields

from app.api.schemas.common import PageQuery, Text, within
from app.models import Outcome

#: Largest number that the databases have as an id.
LARGEST_ID = 2**63 - 1


class Moment(fields.NaiveDateTime):
    """Time in ISO 8601; without an offset it is UTC."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("iso", timezone=UTC, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> datetime:
        try:
            return super()._deserialize(value, attr, data, **kwargs)
        except (ValidationError, OverflowError):
            raise ValidationError(
                f"Expected a time for {{name}}, as 2026-01-31T12:00:00Z: {value!r}"
            ) from None


class AuditFilters(PageQuery):
    """Query parameters of the list of audit records."""

    class Meta:
        exclude = ("sort_key",)

    marker = fields.Integer(  # type: ignore[assignment]
        validate=within(0, LARGEST_ID),
        error_messages={"invalid": "Expected an integer for {{name}}: {input}"},
        metadata={"description": "Sequence number of the last item of the previous page"},
    )
    since = Moment(metadata={"description": "Recorded at this time or later"})
    until = Moment(metadata={"description": "Recorded before this time"})
    user = Text(metadata={"description": "Id of the user"})
    project = Text(metadata={"description": "Id of the user's project"})
    target = Text(metadata={"description": "UUID of the target"})
    action = Text(metadata={"description": "Action, or its beginning up to a slash"})
    outcome = Text(choices=Outcome)
    address = Text(metadata={"description": "Address of the client"})
