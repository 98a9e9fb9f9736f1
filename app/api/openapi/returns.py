"""Successful responses of routes, as routes declare them and the OpenAPI document shows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from marshmallow import Schema

from app.api.openapi.shapes import ANYTHING, Component, Shape, array, exactly, one_of, page
from app.api.transport.responses import JSON
from app.rows.json_patch import OPERATIONS


@dataclass(frozen=True, slots=True)
class Returns:
    """Successful responses of a route."""

    bodies: Mapping[int, Shape | None]  # status -> schema of the body, if there is one
    headers: Mapping[str, str] = field(default_factory=dict)  # header -> its description
    types: tuple[str, ...] = (JSON,)  # media types of the bodies
    fields: Iterable[str] = ()  # accepted values of the query parameter `fields`
    sortable: Iterable[str] = ()  # accepted values of the query parameter `sort_key`


LOCATION = {"Location": "URL of the created resource"}
PROGRESS = {"Location": "URL that shows the progress"}

NO_CONTENT = Returns({204: None})
ADDED = Returns({204: None}, LOCATION)
ACCEPTED = Returns({202: None})
STARTED = Returns({202: None}, PROGRESS)


def listed(
    name: str, item: Component, fields: Iterable[str] = (), sortable: Iterable[str] = ()
) -> Returns:
    """Response with a page of a list, whose items have the fields in the query."""
    sorts = ("id", *sorted(sortable))
    return Returns({200: page(name, item)}, fields=(*fields, "links"), sortable=sorts)


def json_patch(schema: Schema) -> Shape:
    """JSON Schema of a JSON patch that changes fields of a schema."""
    fields = "|".join(sorted(schema.fields))
    change = {
        "op": one_of(OPERATIONS),
        "path": {"type": "string", "pattern": f"^/({fields})(/.+)?$"},
        "value": ANYTHING,
    }
    return array(exactly(change, optional=["value"]))
