"""Request schema of audit records."""

from app.api.values.value_types import Moment, SequencePageQuery, Text
from app.models import Outcome


class AuditFilters(SequencePageQuery):
    since = Moment(metadata={"description": "Recorded at this time or later"})
    until = Moment(metadata={"description": "Recorded before this time"})
    user = Text(metadata={"description": "Id of the user"})
    project = Text(metadata={"description": "Id of the user's project"})
    target = Text(metadata={"description": "UUID of the target"})
    action = Text(metadata={"description": "Action, or its beginning up to a slash"})
    outcome = Text(choices=Outcome)
    address = Text(metadata={"description": "Address of the client"})
