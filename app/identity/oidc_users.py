"""
Local accounts for OIDC identities.

A person is known by issuer and subject, from which the UUID of the local user is derived. So a
person who chooses a local user's name at the provider does not become that user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from app.config.identity_settings import Oidc
from app.db.transactions import connection_of
from app.errors import AlreadyExists, Forbidden, Invalid, Unauthorized
from app.identity import accounts, authentication
from app.identity.authentication import Account
from app.identity.roles import Provided
from app.models import Group, Membership, User
from app.observe import log

logger = log.get(__name__)

#: Most characters of a subject, by the standard.
LONGEST_SUBJECT = 255


@dataclass(frozen=True, slots=True)
class Person:
    """Facts of a verified token."""

    uuid: str  # of the local user
    name: Any  # claim of `[oidc]username_claim`, if there is one
    groups: Provided


def uuid_of(issuer: str, subject: str) -> str:
    """
    Return the UUID of the local user of a subject.

    Raises Invalid: there is no issuer, or the subject is malformed.
    """
    if not issuer:
        raise Invalid("--subject: [oidc]issuer is not set")
    if not (0 < len(subject) <= LONGEST_SUBJECT and subject.isprintable()):
        raise Invalid(f"sub: expected 1 to {LONGEST_SUBJECT} printable characters")
    return str(uuid5(NAMESPACE_URL, f"{issuer}\n{subject}"))


def person_of(oidc: Oidc, claims: Mapping[str, Any]) -> Person:
    """
    Return the person of the claims of a verified token.

    Raises Unauthorized: a claim is malformed.
    """
    group_names = claims.get(oidc.groups_claim, [])
    group_names = [group_names] if isinstance(group_names, str) else group_names
    if not isinstance(group_names, list) or not all(isinstance(name, str) for name in group_names):
        raise Unauthorized(f"[oidc]groups_claim: {oidc.groups_claim} is no list of texts.")
    mapped = frozenset(oidc.group_map[name] for name in group_names if name in oidc.group_map)
    try:
        uuid = uuid_of(oidc.issuer, claims["sub"])
    except Invalid as error:
        raise Unauthorized(str(error)) from None
    everything = frozenset(oidc.group_map.values())
    return Person(uuid, claims.get(oidc.username_claim), Provided(everything, mapped))


def account_of(connection: Connection, person: Person) -> Account:
    """
    Return the enabled user of a person, with the groups of the token.

    Raises Unauthorized: there is no such user.
    """
    account = authentication.account_with(connection, person.uuid, person.groups)
    if account is None:
        raise Unauthorized("The user is disabled, or has never signed in with a browser.")
    return account


def sign_in(session: Session, oidc: Oidc, person: Person) -> Account:
    """
    Return the user of a person, created if `[oidc]create_users` allows it, in the groups of the
    token.

    Raises Unauthorized: the user is disabled, or the name is malformed.
    Raises Forbidden: there is no such user, or another one has this name.
    """
    user = session.scalar(select(User).where(User.uuid == person.uuid).with_for_update())
    if user is None:
        user = _create(session, oidc, person)
    _join(session, user, person.groups)
    session.flush()
    return account_of(connection_of(session), person)


def _create(session: Session, oidc: Oidc, person: Person) -> User:
    if not oidc.create_users:
        raise Forbidden(
            "There is no user for this person: [oidc]create_users is off, and no operator has"
            " created one with `ingot user create --subject`."
        )
    if not isinstance(person.name, str) or not accounts.is_name(person.name):
        raise Unauthorized(f"[oidc]username_claim: {oidc.username_claim} is missing or no name.")
    try:
        user = accounts.create_user(session, person.name, uuid=person.uuid)
    except AlreadyExists:
        raise Forbidden(
            f"[oidc]username_claim: there is another user {person.name}, who is not this person."
        ) from None
    logger.info("user.created", user=person.uuid, name=person.name)
    return user


def _join(session: Session, user: User, groups: Provided) -> None:
    """Make a user a member of exactly the token's groups, among the groups of `[oidc]group_map`."""
    managed = session.scalars(select(Group).where(Group.name.in_(groups.managed))).all()
    for group in managed:
        member = session.get(Membership, (group.id, user.id))
        if group.name in groups.names and member is None:
            session.add(Membership(group_id=group.id, user_id=user.id))
        elif group.name not in groups.names and member is not None:
            session.delete(member)
    missing_groups = groups.names - {group.name for group in managed}
    if missing_groups:
        logger.warning("oidc.groups_missing", groups=sorted(missing_groups))
