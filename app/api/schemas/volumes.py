"""Request schemas of volume connectors and targets."""

from marshmallow import Schema, fields

from app.api.values.value_types import Document, Ident, ListQuery, Text, Uuid, creation, within

LARGEST = 2**31 - 1


class ConnectorChange(Schema):
    node_uuid = Uuid()
    type = Text(32, metadata={"description": "iqn, ip, mac, wwnn, wwpn or another"})
    connector_id = Text()
    extra = Document()


ConnectorCreate = creation(ConnectorChange, "node_uuid", "type", "connector_id")


class TargetChange(Schema):
    node_uuid = Uuid()
    volume_type = Text(64, metadata={"description": "iscsi, fibre_channel, ..."})
    volume_id = Text()
    boot_index = fields.Integer(strict=True, validate=within(-LARGEST, LARGEST))
    properties = Document()
    extra = Document()


TargetCreate = creation(TargetChange, "node_uuid", "volume_type", "volume_id", "boot_index")


class VolumeFilters(ListQuery):
    node = Ident()
