"""The users of the roles in a PostgreSQL server of tests, which trusts every local client."""

from contextlib import suppress

import psycopg

from app.config import settings as app_settings
from app.rows import database_users


def create(session):
    """Create the users, unless another test has."""
    for user in database_users.USERS.values():
        with suppress(psycopg.errors.DuplicateObject):
            session.execute(f"CREATE ROLE {user} LOGIN")


def grant(url, **settings):
    """Create the users, and give them their rights on a database. settings: by variable."""
    with psycopg.connect(url, autocommit=True) as session:
        create(session)
        with session.transaction():
            for statement in database_users.statements(app_settings.load(settings)):
                session.execute(statement)


def url_of(role, url):
    """The URL of a database for the user of a role."""
    return url.replace("user=postgres", f"user={database_users.USERS[role]}")
