"""Selection of change events by the filters of a request and the rights of its caller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select

from app.api.event_frames import EVENTS
from app.api.policy.enforce import is_listed, narrowed
from app.kit.change_events import ALL
from app.models import ChangeEvent


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of a request."""

    type: str | None = None
    node: str | None = None  # UUID

    def query(self) -> Select[Any]:
        """Select the events that the caller may see."""
        selected = narrowed(ALL, ChangeEvent)
        if self.type is not None:
            selected = selected.where(EVENTS.type == self.type)
        if self.node is not None:
            selected = selected.where(EVENTS.node_uuid == self.node)
        return selected

    def condition(self) -> Callable[[Row[Any]], bool]:
        """Return the condition of `query` for a row that was read without it."""
        may_see, kind, node = is_listed(ChangeEvent), self.type, self.node

        def is_selected(row: Row[Any]) -> bool:
            return (
                (kind is None or row.type == kind)
                and (node is None or row.node_uuid == node)
                and may_see(row)
            )

        return is_selected
