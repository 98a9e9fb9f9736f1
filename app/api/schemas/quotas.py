"""Request schemas of quotas."""

from marshmallow import Schema, fields

from app.api.values.value_types import ListQuery, Text, Uuid, within

#: Largest number of the column.
MOST_NODES = 2**31 - 1


def _limit(*, required: bool = False) -> fields.Integer:
    return fields.Integer(
        strict=True,
        required=required,
        validate=within(0, MOST_NODES),
        metadata={"description": "Most nodes that the project may lease"},
    )


class QuotaChange(Schema):
    node_limit = _limit()


class QuotaCreate(Schema):
    uuid = Uuid(allow_none=True)
    project = Text(
        shortest=1,
        required=True,
        metadata={"description": "Identifier of the project, as `lessee` of nodes"},
    )
    node_limit = _limit(required=True)


class QuotasQuery(ListQuery):
    project = Text(metadata={"description": "Only that of this project"})
