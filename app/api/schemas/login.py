"""Request schemas of a browser's login."""

from marshmallow import Schema

from app.api.schemas.common import Text
from app.identity.accounts import LONGEST_NAME

#: Most characters of a password, which is more than local users may have.
LONGEST_PASSWORD = 4096


def _project() -> Text:
    return Text(
        LONGEST_NAME,
        1,
        metadata={
            "description": "Scope of the session: identifier or name of a project; without it the"
            " system, if the user has a role there, else the user's only project"
        },
    )


class Credentials(Schema):
    username = Text(LONGEST_NAME, 1, required=True)
    password = Text(LONGEST_PASSWORD, required=True)
    project = _project()


class OidcQuery(Schema):
    project = _project()
