"""Users, projects and tokens in the database of a test."""

from dataclasses import replace

from app.identity import accounts, passwords, roles, tokens
from app.identity.caller import Role
from app.identity.roles import Holder, Scope
from app.models import Group, Project, User
from app.server.application import create_app

PASSWORD = "correct horse"
#: Hash of PASSWORD, computed once.
STORED = passwords.hashed(PASSWORD)


class Directory:
    """Writes users; `transaction` opens a session."""

    def __init__(self, transaction):
        self._transaction = transaction

    def user(self, name, *grants):
        """Create a user with PASSWORD, and with roles: ("admin", None: the system, or a project)."""
        with self._transaction() as session:
            accounts.create_user(session, name, STORED)
        for role, project in grants:
            self.grant(role, project, user=name)

    def project(self, name, ident=None):
        with self._transaction() as session:
            accounts.create_project(session, name, ident)

    def group(self, name, *members):
        with self._transaction() as session:
            accounts.create_group(session, name)
            for member in members:
                accounts.add_member(session, name, member)

    def grant(self, role, project=None, **holder):
        with self._transaction() as session:
            roles.grant(session, Role(role), Holder(**holder), scope(project))

    def revoke(self, role, project=None, **holder):
        with self._transaction() as session:
            roles.revoke(session, Role(role), Holder(**holder), scope(project))

    def token(self, user, project=None, role=None, days=1):
        """Create a token; return its text."""
        return self.token_with_uuid(user, project, role, days)[1]

    def token_with_uuid(self, user, project=None, role=None, days=1):
        """Create a token; return its UUID and its text."""
        with self._transaction() as session:
            limit = role and Role(role)
            return tokens.create(session, user, scope(project), name=None, role=limit, days=days)

    def revoke_token(self, uuid):
        with self._transaction() as session:
            tokens.revoke(session, uuid)

    def password(self, user, password):
        with self._transaction() as session:
            accounts.set_password(session, user, password)

    def enable(self, user, enabled):
        with self._transaction() as session:
            accounts.set_enabled(session, user, enabled=enabled)

    def remove(self, kind, name):
        models = {"user": User, "group": Group, "project": Project}
        with self._transaction() as session:
            accounts.remove(session, models[kind], name)


def scope(project):
    """The scope of a project's name; None: the system."""
    return Scope(system=project is None, project=project)


def with_local_users(runtime, **api):
    """The runtime with `auth_strategy = local`, and its application."""
    settings = runtime.settings
    changed = replace(
        settings,
        default=replace(settings.default, auth_strategy="local"),
        api=replace(settings.api, **api),
    )
    changed = replace(runtime, settings=changed)
    return changed, create_app(changed)
