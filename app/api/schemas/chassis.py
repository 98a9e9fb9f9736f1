"""Request schemas of chassis."""

from marshmallow import Schema

from app.api.values.value_types import Document, Text, creation


class ChassisChange(Schema):
    description = Text(allow_none=True)
    extra = Document()


ChassisCreate = creation(ChassisChange)
