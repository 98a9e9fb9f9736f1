"""Request schemas of volume connectors and targets."""

from marshmallow import Schema, fields

from app.api.values.value_types import Document, Ident, ListQuery, Text, Uuid, within

LARGEST = 2**31 - 1
_new_uuid = {"uuid": Uuid(allow_none=True), "node_uuid": Uuid(required=True)}


class ConnectorChange(Schema):
    """Fields of a volume connector that may be set and changed."""

    node_uuid = Uuid()
    type = Text(32, metadata={"description": "iqn, ip, mac, wwnn, wwpn or another"})
    connector_id = Text()
    extra = Document()


ConnectorCreate = ConnectorChange.from_dict(
    {
        **_new_uuid,
        "type": Text(32, required=True),
        "connector_id": Text(required=True),
    },
    name="ConnectorCreate",
)


class BootIndex(fields.Integer):
    """Integer; not its digits as text."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(strict=True, validate=within(-LARGEST, LARGEST), **kwargs)  # type: ignore[arg-type]


class TargetChange(Schema):
    """Fields of a volume target that may be set and changed."""

    node_uuid = Uuid()
    volume_type = Text(64, metadata={"description": "iscsi, fibre_channel, ..."})
    volume_id = Text()
    boot_index = BootIndex()
    properties = Document()
    extra = Document()


TargetCreate = TargetChange.from_dict(
    {
        **_new_uuid,
        "volume_type": Text(64, required=True),
        "volume_id": Text(required=True),
        "boot_index": BootIndex(required=True),
    },
    name="TargetCreate",
)


class VolumeFilters(ListQuery):
    node = Ident()
