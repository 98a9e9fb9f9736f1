"""Request schema of audit records."""

from marshmallow import fields

from app.api.values.value_types import Moment, PageQuery, Text, within
from app.models import Outcome

#: Largest number that the databases have as an id.
LARGEST_ID = 2**63 - 1


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
