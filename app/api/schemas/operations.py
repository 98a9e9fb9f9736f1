"""Query parameters of lists of operations."""

from app.api.schemas.common import Flag, PageQuery, Text
from app.models import OperationKind, OperationState


class OperationFilters(PageQuery):
    """Filters of operations."""

    kind = Text(choices=OperationKind)
    state = Text(choices=OperationState)
    active = Flag(metadata={"description": "Those that go on, or those that have ended"})
