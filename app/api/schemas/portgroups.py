"""Request schemas of port groups."""

from marshmallow import Schema

from app.api.values.value_types import (
    CommaSeparated,
    Document,
    Flag,
    Ident,
    ListQuery,
    Mac,
    Name,
    Text,
    Uuid,
    creation,
)


class PortgroupChange(Schema):
    node_uuid = Uuid()
    name = Name(allow_none=True)
    address = Mac(allow_none=True)
    extra = Document()
    standalone_ports_supported = Flag(allow_none=True)
    mode = Text(metadata={"description": "active-backup, 802.3ad, ..."})
    properties = Document()
    physical_network = Text(64, shortest=1, allow_none=True)
    category = Text(80, allow_none=True)


PortgroupCreate = creation(PortgroupChange, "node_uuid", mode=Text(allow_none=True))


class PortgroupFilters(ListQuery):
    """Filters of port groups; at most one may be given."""

    node = Ident()
    address = Mac()
    shard = Text(4096)
    conductor_groups = CommaSeparated(lower=False)
