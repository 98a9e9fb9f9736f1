"""The first user, who administers the system."""

from sqlalchemy import Engine, select

from app.db import transactions
from app.errors import AlreadyExists
from app.identity import accounts, roles
from app.identity.caller import Role
from app.identity.roles import Holder, Scope
from app.models import User

NAME = "admin"


def is_missing(engine: Engine) -> bool:
    """Whether there are no users at all."""
    with transactions.reading(engine) as session:
        return session.scalar(select(User.id).limit(1)) is None


def create(engine: Engine, password_hash: str) -> bool:
    """
    Create the user `NAME` with the role admin in the system; False: there are users already.

    Of several processes at the same time, one creates it: its name is unique.
    """
    try:
        with transactions.transaction(engine) as session:
            if session.scalar(select(User.id).limit(1)) is not None:
                return False
            accounts.create_user(session, NAME, password_hash)
            roles.grant(session, Role.ADMIN, Holder(user=NAME), Scope(system=True))
    except AlreadyExists:
        return False
    return True
