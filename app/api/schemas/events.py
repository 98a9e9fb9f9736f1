"""Request schema of events, which other services report."""

from marshmallow import Schema, fields

from app.api.values.value_types import NOT_EMPTY, Mac, Text, Uuid

KINDS = ("network.bind_port", "network.unbind_port", "network.delete_port")


class Event(Schema):
    """Event of a port of the network service."""

    event = Text(required=True, choices=KINDS)
    port_id = Uuid(required=True)
    mac_address = Mac(required=True)
    status = Text(required=True)
    device_id = Uuid(allow_none=True)
    host_id = Text(data_key="binding:host_id", allow_none=True)
    vnic_type = Text(data_key="binding:vnic_type", allow_none=True)


class Events(Schema):
    """Events in their order."""

    events = fields.List(fields.Nested(Event), required=True, validate=NOT_EMPTY)
