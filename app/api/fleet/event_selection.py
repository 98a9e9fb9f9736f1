"""Selection of change events by the filters of a request and the rights of its caller."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, or_

from app.api.authentication.strategies import caller
from app.api.feed.event_frames import EVENTS
from app.api.policy.enforce import Extent, extent, listed_project, narrowed
from app.kit.change_events import ALL
from app.models import ChangeEvent
from app.models.change_event import CHANGES

#: Kind of resources -> rule for listing them. Events of a kind are listed as its resources are.
LISTED_BY: Mapping[str, str] = {
    "port": "baremetal:port:list",
    "portgroup": "baremetal:portgroup:list",
    "volume_connector": "baremetal:volume:list",
    "volume_target": "baremetal:volume:list",
    "allocation": "baremetal:allocation:list",
    "chassis": "baremetal:chassis:get",
    "deploy_template": "baremetal:deploy_template:get",
    "runbook": "baremetal:runbook:list",
    "inspection_rule": "baremetal:inspection_rule:list_all",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of a request."""

    type: str | None = None
    node: str | None = None  # UUID

    def query(self) -> Select[Any]:
        """Select the events that the caller may see."""
        selected, (concealed, own) = narrowed(ALL, ChangeEvent), _limits()
        if concealed:
            selected = selected.where(EVENTS.type.not_in(concealed))
        if own:
            project = caller().project_id
            theirs = or_(EVENTS.owner == project, EVENTS.lessee == project)
            selected = selected.where(or_(EVENTS.type.not_in(own), theirs))
        if self.type is not None:
            selected = selected.where(EVENTS.type == self.type)
        if self.node is not None:
            selected = selected.where(EVENTS.node_uuid == self.node)
        return selected

    def condition(self) -> "Condition":
        """Return the condition of `query` for rows that are read without it."""
        narrow_to = listed_project()
        concealed, own = _limits()
        return Condition(self, narrow_to, caller().project_id, concealed, own)


@dataclass(frozen=True, slots=True)
class Condition:
    """
    Condition for the events of a request. Equal conditions select the same events.

    narrow_to: project whose events alone are selected; None: those of all.
    concealed, own: types that are not selected, and of which only those of `project` are.
    """

    selection: Selection
    narrow_to: str | None
    project: str | None
    concealed: frozenset[str]
    own: frozenset[str]

    def __call__(self, row: Row[Any]) -> bool:
        kind, node = self.selection.type, self.selection.node
        theirs = (row.owner, row.lessee)
        return (
            (kind is None or row.type == kind)
            and (node is None or row.node_uuid == node)
            and (self.narrow_to is None or self.narrow_to in theirs)
            and row.type not in self.concealed
            and (row.type not in self.own or self.project in theirs)
        )


def _limits() -> tuple[frozenset[str], frozenset[str]]:
    """Return the types of events that the caller may not see, and sees of its project only."""
    extents = {kind: extent(rule) for kind, rule in LISTED_BY.items()}

    def types(limit: Extent) -> frozenset[str]:
        kinds = [kind for kind, found in extents.items() if found is limit]
        return frozenset(f"{kind}.{change}" for kind in kinds for change in CHANGES)

    return types(Extent.NONE), types(Extent.OWN)
