"""Request schemas of a browser's login."""

from marshmallow import Schema

from app.api.values.value_types import Text
from app.identity.accounts import LONGEST_NAME

#: Most characters of a password, which is more than local users may have.
LONGEST_PASSWORD = 4096


def _scope(*, required: bool = False) -> Text:
    return Text(
        LONGEST_NAME,
        1,
        required=required,
        metadata={
            "description": "Scope of the session: `system`, or identifier or name of a project;"
            " without it the user's only one, or none until one is chosen"
        },
    )


class Credentials(Schema):
    username = Text(LONGEST_NAME, 1, required=True)
    password = Text(LONGEST_PASSWORD, required=True)
    scope = _scope()


class OidcQuery(Schema):
    scope = _scope()


class ScopeChoice(Schema):
    scope = _scope(required=True)
