"""Request schema of operations."""

from app.api.schemas.common import Flag, PageQuery, Text
from app.models import OperationKind, OperationState


class OperationFilters(PageQuery):
    """Query parameters of lists of operations."""

    kind = Text(choices=OperationKind)
    state = Text(choices=OperationState)
    active = Flag(metadata={"description": "true: unfinished operations, false: finished ones"})
