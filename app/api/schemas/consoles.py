"""Request schemas of consoles."""

from marshmallow import Schema, fields, validate

from app.api.values.value_types import Flag, Moment, Text

#: Bytes of history in an answer: by default, and at most.
USUAL, MOST = 64 << 10, 256 << 10


class Ticket(Schema):
    write = Flag(load_default=False, metadata={"description": "Whether the caller may type"})
    after = fields.String(
        load_default="0",
        validate=validate.Regexp(r"\A\d{1,20}(-\d{1,20})?\Z"),
        metadata={"description": "Position after which the output begins; 0: all that is kept"},
    )


class StreamQuery(Schema):
    token = Text(255, metadata={"description": "Ticket, in place of a subprotocol"})


class HistoryQuery(Schema):
    since = Moment(metadata={"description": "Time at which the history begins"})
    until = Moment(metadata={"description": "Time at which the history ends"})
    operation = Text(36, metadata={"description": "UUID of the operation whose time it is"})
    size = fields.Integer(load_default=USUAL, validate=validate.Range(1, MOST))
