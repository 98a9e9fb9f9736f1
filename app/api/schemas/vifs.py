"""Request schema of VIFs."""

from marshmallow import INCLUDE, Schema

from app.api.values.value_types import Ident, Text


class Vif(Schema):
    """VIF to attach; unknown members are passed to the network interface."""

    class Meta:
        unknown = INCLUDE

    id = Ident(required=True)
    port_uuid = Text()
    portgroup_uuid = Text()
