"""
What a route answers when it succeeds, as its declaration says and the OpenAPI document shows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from marshmallow import Schema

from app.api.answers import JSON
from app.api.openapi.shapes import ANYTHING, Shape, exactly, many, one_of, page
from app.kit.json_patch import OPERATIONS


@dataclass(frozen=True, slots=True)
class Returns:
    """
    The successful answers of a route.

    bodies: status -> schema of the body, None for an empty one. headers: header -> its meaning.
    types: media types of the bodies. fields, sortable: the values that the query parameters
    `fields` and `sort_key` accept.
    """

    bodies: Mapping[int, Shape | None]
    headers: Mapping[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = (JSON,)
    fields: Iterable[str] = ()
    sortable: Iterable[str] = ()


#: Header of what was created, and of what was begun.
LOCATION = {"Location": "Where it can be seen"}
PROGRESS = {"Location": "Where it can be followed"}

NO_CONTENT = Returns({204: None})
ADDED = Returns({204: None}, LOCATION)
ACCEPTED = Returns({202: None})
STARTED = Returns({202: None}, PROGRESS)


def listed(name: str, item: Shape, fields: Iterable[str], sortable: Iterable[str]) -> Returns:
    """Pages of a list, whose items show the fields that are asked for."""
    sorts = ("id", *sorted(sortable))
    return Returns({200: page(name, item)}, fields=(*fields, "links"), sortable=sorts)


def json_patch(schema: Schema) -> Shape:
    """The body of a PATCH: changes of the fields of a schema."""
    fields = "|".join(sorted(schema.fields))
    change = {
        "op": one_of(OPERATIONS),
        "path": {"type": "string", "pattern": f"^/({fields})(/.+)?$"},
        "value": ANYTHING,
    }
    return many(exactly(change, optional=["value"]))
