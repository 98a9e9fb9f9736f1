"""
Callers of every kind, authenticated by a fake of keystonemiddleware, or by API tokens of users in
the database.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from sqlalchemy import insert, select

from app.api.authentication import keystone
from app.config.openstack_settings import KeystoneAuthtoken
from app.models import ApiToken, Project, RoleAssignment, User
from app.server.application import create_app
from tests.contract.conftest import Api
from tests.support.keystone import token
from tests.support.local_users import Directory

#: The projects: the node's owner, its lessee, and an unrelated one.
OWNER, LESSEE, OTHER = "project-of-owner", "project-of-lessee", "another-project"
ROLES = ("admin", "manager", "member", "reader", "service")
PEOPLE = {
    **{f"system-{role}": token(role, system=True) for role in ROLES},
    **{f"owner-{role}": token(role, project=OWNER) for role in ROLES},
    **{f"lessee-{role}": token(role, project=LESSEE) for role in ROLES},
    **{f"other-{role}": token(role, project=OTHER) for role in ROLES},
    "service-project": token("service", project="s", project_name="service"),
    "domain-admin": token("admin", domain="default"),
    "nobody": token(project=OWNER),
}
#: Callers that local users cannot be: there are no domains, and without a role every request is
#: refused (tests/contract/test_auth_local.py).
KEYSTONE_ONLY = {"domain-admin", "nobody"}
#: For tests of all callers.
each_strategy = pytest.mark.parametrize("strategy", ["keystone", "local"])
#: Each role includes the later ones, except that of services.
AT_LEAST = {role: ROLES[: number + 1] for number, role in enumerate(ROLES[:4])}


def people(*groups):
    """Names of `PEOPLE`: "owner-member" with all roles that include it, "svc" for services."""
    names = set()
    for group in groups:
        if group == "svc":
            names |= {"system-service", "owner-service"}
            continue
        scope, _, role = group.partition("-")
        names |= {f"{scope}-{sufficient_role}" for sufficient_role in AT_LEAST[role]}
    return names


SEE = people("system-reader", "owner-reader", "lessee-reader", "svc")
SEE_WITHIN = people("system-reader", "owner-reader", "svc")
USE = people("system-member", "owner-member", "lessee-member", "svc")
OPERATE = people("system-member", "owner-member", "lessee-manager", "svc")
OWN = people("system-member", "owner-member", "svc")
SET_UP = people("system-member", "owner-manager", "svc")
WIRE = people("system-admin", "owner-manager", "svc")
SYSTEM_WORK = people("system-member")
SYSTEM_ADMIN = people("system-admin")


def fake_middleware(_options, behind):
    """Accept tokens that are names of `PEOPLE`."""

    def application(environ, start_response):
        caller = environ.get("HTTP_X_AUTH_TOKEN")
        if caller not in PEOPLE:
            start_response("401 Unauthorized", [])
            return []
        environ["keystone.token_info"] = {"token": PEOPLE[caller]}
        return behind(environ, start_response)

    return application


def local_people(directory):
    """Create a user for each of `PEOPLE` with its role; return the name of each -> API token."""
    for ident in (OWNER, LESSEE, OTHER):
        directory.project(ident, ident)
    directory.project("service", "s")
    tokens = {}
    for caller in PEOPLE.keys() - KEYSTONE_ONLY:
        scope, _, role = caller.partition("-")
        projects = {"system": None, "owner": OWNER, "lessee": LESSEE, "other": OTHER}
        project = "service" if caller == "service-project" else projects[scope]
        directory.user(caller, (role if role in ROLES else "service", project))
        tokens[caller] = directory.token(caller, project)
    return tokens


@pytest.fixture(scope="session")
def tokens_of_people():
    """
    of(transaction): create the people of `local_people`, return the name of each -> API token.

    Later calls insert the rows of the first one, which costs a tenth of it.
    """
    rows, tokens = {}, {}

    def of(transaction):
        with transaction() as session:
            for table, table_rows in rows.items():
                session.execute(insert(table), table_rows)
        if not tokens:
            tokens.update(local_people(Directory(transaction)))
            with transaction() as session:
                for model in (Project, User, RoleAssignment, ApiToken):
                    table = model.__table__
                    rows[table] = [dict(row) for row in session.execute(select(table)).mappings()]
        return tokens

    return of


@pytest.fixture
def strategy():
    """Authentication of the callers; parametrize a test with it to run with both."""
    return "keystone"


@pytest.fixture(scope="module")
def configured_apps():
    """(settings, application): each is created once."""
    return []


@pytest.fixture
def guarded(api, configured_apps, strategy, monkeypatch, tokens_of_people):
    """
    make(settings) -> function that sends a request (who, method, path) under a policy.

    node: UUID of a node with an owner and a lessee. foreign: UUID of a node without. people: names
    of the callers.
    """
    monkeypatch.setattr(keystone, "middleware", fake_middleware)
    node = api.node(owner=OWNER, lessee=LESSEE, last_error="It broke.")
    foreign = api.node()
    tokens = {} if strategy == "keystone" else tokens_of_people(api.runtime.transaction)
    callers = tokens or PEOPLE

    def make(**groups):
        settings = api.runtime.settings
        default = {"auth_strategy": strategy} | groups.pop("default", {})
        changed = {
            name: replace(getattr(settings, name), **options) for name, options in groups.items()
        }
        settings = replace(
            settings,
            default=replace(settings.default, **default),
            keystone_authtoken=KeystoneAuthtoken(auth_url="http://keystone"),
            **changed,
        )
        runtime = replace(api.runtime, settings=settings)
        app = next(
            (app for cached_settings, app in configured_apps if cached_settings == settings), None
        ) or create_app(runtime)
        configured_apps.append((settings, app))
        client = Api(app.test_client(), runtime, [])
        return lambda caller, method, path, body=None, version=client.version, **more: client.at(
            version
        )(method, path, body, **{"X-Auth-Token": tokens.get(caller, caller)}, **more)

    return SimpleNamespace(
        make=make,
        ask=make(),
        node=node["uuid"],
        foreign=foreign["uuid"],
        api=api,
        people=frozenset(callers),
    )


def filled(value, **idents):
    if isinstance(value, str):
        return value.format(**idents) if "{" in value else value
    if isinstance(value, dict):
        return {key: filled(item, **idents) for key, item in value.items()}
    return [filled(item, **idents) for item in value] if isinstance(value, list) else value
