"""What comes in about VIFs."""

from marshmallow import INCLUDE, Schema

from app.api.schemas.common import Ident, Text


class Vif(Schema):
    """A VIF to attach, and whatever else a network interface understands of it."""

    class Meta:
        unknown = INCLUDE

    id = Ident(required=True)
    port_uuid = Text()
    portgroup_uuid = Text()
