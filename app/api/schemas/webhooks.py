"""Request schemas of webhooks."""

from marshmallow import Schema, ValidationError, fields, validate

from app.api.values.value_types import Flag, ListQuery, Name, Text, Uuid, creation
from app.models import TYPES
from drivers.net import signed

#: Fewest and most characters of a secret.
SECRET = (16, 255)


def _check_secret(text: str) -> None:
    if not (text.isascii() and text.isprintable() and SECRET[0] <= len(text) <= SECRET[1]):
        raise ValidationError(
            f"must be {SECRET[0]} to {SECRET[1]} printable ASCII characters, such as the output of"
            " `openssl rand -hex 32`"
        )
    if text.startswith(signed.PREFIX):
        try:
            signed.decoded(text)
        except ValueError as error:
            raise ValidationError(str(error)) from None


class WebhookChange(Schema):
    name = Name()
    url = Text(longest=2048)
    types = fields.List(Text(choices=TYPES), allow_none=True)
    node_uuid = Uuid(allow_none=True)
    enabled = Flag()
    secret = fields.String(validate=_check_secret)


WebhookCreate = creation(WebhookChange, "name", "url", "secret", owner=Text(allow_none=True))


class WebhooksQuery(ListQuery):
    owner = Text(metadata={"description": "Those of this project"})


class Replay(Schema):
    """Body of a replay."""

    after = fields.Integer(
        strict=True,
        validate=validate.Range(0),
        metadata={"description": "Events after this number; by default from the oldest failure on"},
    )
