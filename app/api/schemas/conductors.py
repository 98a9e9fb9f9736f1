"""Request schemas of conductors."""

from marshmallow import Schema

from app.api.values.value_types import Text


class DrainReason(Schema):
    """Body of the request to drain a conductor."""

    reason = Text(allow_none=True, metadata={"description": "Reason, for other operators"})
