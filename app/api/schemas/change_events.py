"""Query schema of change events."""

from marshmallow import Schema, fields, validate

from app.api.values.value_types import Ident, Text
from app.models import TYPES


class EventStreamQuery(Schema):
    after = fields.Integer(
        validate=validate.Range(0),
        metadata={"description": "Number of the last event that is known; 0: all that are kept"},
    )
    node = Ident(metadata={"description": "Events of this node only; of a deleted one by its UUID"})
    type = Text(choices=TYPES)


class ChangeEventsQuery(EventStreamQuery):
    limit = fields.Integer(
        validate=validate.Range(1, error="Limit must be positive"),
        metadata={"description": "Maximum number of items"},
    )
    wait = fields.Float(
        validate=validate.Range(0),
        metadata={"description": "Seconds to wait for an event after `after`"},
    )
