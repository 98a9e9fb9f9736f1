"""Request schemas of holds."""

from marshmallow import Schema, fields, validate

from app.api.values.value_types import Ident, ListQuery, Moment, Text, Uuid
from app.lifecycle.hold_kinds import HoldKind

#: Most seconds until the expiry: ten years.
LONGEST = 10 * 366 * 86400
_EXPIRY = {"description": "Time from which on it has no effect; without one, until it is ended"}


class HoldChange(Schema):
    reason = Text(4096, shortest=1)
    expires_at = Moment(allow_none=True, metadata=_EXPIRY)
    expires_in = fields.Integer(
        strict=True,
        validate=validate.Range(1, LONGEST, error="Expected {min} to {max} seconds for {{name}}"),
        metadata={"description": "Seconds until it expires, in place of expires_at"},
    )


class HoldCreate(HoldChange):
    uuid = Uuid(allow_none=True)
    kind = Text(choices=HoldKind, required=True)
    reason = Text(4096, shortest=1, required=True)


class HoldOfNodeCreate(HoldCreate):
    """Fields of a new hold, with its node."""

    node_uuid = Ident(required=True, metadata={"description": "UUID or name of the node"})


class HoldFilters(ListQuery):
    kind = Text(choices=HoldKind)
    owner = Text(metadata={"description": "Set by this project"})
    user = Text(metadata={"description": "Set by the user with this id"})
    expired_before = Moment(metadata={"description": "With an expiry before this time"})
