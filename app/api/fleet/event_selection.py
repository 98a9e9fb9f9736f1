"""Selection of change events by the filters of a request and the rights of its caller."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, or_

from app.api.feed.event_frames import EVENTS
from app.api.policy.access import Access, Extent
from app.api.request.context import RequestContext
from app.events.change_events import ALL
from app.models import ChangeEvent, ChangeType
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
#: Type of events that is not one of a resource's three -> rule for reading it.
READ_BY: Mapping[str, str] = {ChangeType.DRAINED: "baremetal:conductor:get"}


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of a request, and the request for the rights of its caller."""

    context: RequestContext
    type: str | None = None
    node: str | None = None  # UUID

    def query(self) -> Select[Any]:
        """Select the events that the caller may see."""
        statement = self.context.scope.narrowed(ALL, ChangeEvent)
        concealed, own_types = _limits(self.context.access)
        if concealed:
            statement = statement.where(EVENTS.type.not_in(concealed))
        if own_types:
            project = self.context.caller.project_id
            of_project = or_(EVENTS.owner == project, EVENTS.lessee == project)
            statement = statement.where(or_(EVENTS.type.not_in(own_types), of_project))
        if self.type is not None:
            statement = statement.where(EVENTS.type == self.type)
        if self.node is not None:
            statement = statement.where(EVENTS.node_uuid == self.node)
        return statement

    def condition(self) -> "Condition":
        """Return the condition of `query` for rows that are read without it."""
        context = self.context
        concealed, own_types = _limits(context.access)
        return Condition(
            self.type,
            self.node,
            context.scope.project,
            context.caller.project_id,
            concealed,
            own_types,
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """
    Condition for the events of a request. Equal conditions select the same events.

    narrow_to: project whose events alone are selected, if the list is limited to one.
    concealed, own_types: types that are not selected, or only for events of `project`.
    """

    type: str | None
    node: str | None
    narrow_to: str | None
    project: str | None
    concealed: frozenset[str]
    own_types: frozenset[str]

    def __call__(self, row: Row[object]) -> bool:
        projects = (row.owner, row.lessee)
        return (
            (self.type is None or row.type == self.type)
            and (self.node is None or row.node_uuid == self.node)
            and (self.narrow_to is None or self.narrow_to in projects)
            and row.type not in self.concealed
            and (row.type not in self.own_types or self.project in projects)
        )


def _limits(access: Access) -> tuple[frozenset[str], frozenset[str]]:
    """Return the types of events that the caller may not see, and sees of its project only."""
    extents = {kind: access.extent(rule) for kind, rule in LISTED_BY.items()}
    of_types = {name: access.extent(rule) for name, rule in READ_BY.items()}

    def types(limit: Extent) -> frozenset[str]:
        kinds = [kind for kind, kind_extent in extents.items() if kind_extent is limit]
        resource_types = [f"{kind}.{change}" for kind in kinds for change in CHANGES]
        single_types = [name for name, extent in of_types.items() if extent is limit]
        return frozenset((*resource_types, *single_types))

    return types(Extent.NONE), types(Extent.OWN)
