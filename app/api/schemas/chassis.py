"""What comes in about chassis."""

from marshmallow import Schema

from app.api.schemas.common import Document, Text, Uuid


class ChassisChange(Schema):
    """What may be set when a chassis is made, and changed later."""

    description = Text(allow_none=True)
    extra = Document()


ChassisCreate = ChassisChange.from_dict({"uuid": Uuid(allow_none=True)}, name="ChassisCreate")
