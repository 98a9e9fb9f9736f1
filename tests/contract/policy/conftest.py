"""Callers of every kind, whom a fake of keystonemiddleware vouches for."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.api import keystone
from app.config.settings import KeystoneAuthtoken
from app.main import create_app
from tests.contract.conftest import Api
from tests.support.keystone import token

#: The projects: one owns the node of these tests, one leases it, one has nothing to do with it.
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
#: Each role contains those after it, but for the service's.
AT_LEAST = {role: ROLES[: number + 1] for number, role in enumerate(ROLES[:4])}


def people(*groups):
    """Names of `PEOPLE`: "owner-member" with all who are more than that, "svc" for services."""
    found = set()
    for group in groups:
        if group == "svc":
            found |= {"system-service", "owner-service"}
            continue
        whose, _, role = group.partition("-")
        found |= {f"{whose}-{each}" for each in AT_LEAST[role]}
    return found


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
    """Lets those pass whose token is a name of `PEOPLE`."""

    def application(environ, start_response):
        who = environ.get("HTTP_X_AUTH_TOKEN")
        if who not in PEOPLE:
            start_response("401 Unauthorized", [])
            return []
        environ["keystone.token_info"] = {"token": PEOPLE[who]}
        return behind(environ, start_response)

    return application


@pytest.fixture(scope="module")
def made():
    """(settings, application): each is made once."""
    return []


@pytest.fixture
def guarded(api, made, monkeypatch):
    """
    make(settings) -> the application under a policy, which is asked as as(who, method, path).

    node, foreign: UUIDs; of a node that is owned and leased, and of one that is nobody's.
    """
    monkeypatch.setattr(keystone, "middleware", fake_middleware)
    node = api.node(owner=OWNER, lessee=LESSEE, last_error="It broke.")
    foreign = api.node()

    def make(**groups):
        settings = api.runtime.settings
        strategy = {"auth_strategy": "keystone"} | groups.pop("default", {})
        changed = {name: replace(getattr(settings, name), **more) for name, more in groups.items()}
        settings = replace(
            settings,
            default=replace(settings.default, **strategy),
            keystone_authtoken=KeystoneAuthtoken(auth_url="http://keystone"),
            **changed,
        )
        runtime = replace(api.runtime, settings=settings)
        app = next((app for known, app in made if known == settings), None) or create_app(runtime)
        made.append((settings, app))
        client = Api(app.test_client(), runtime, [])
        return lambda who, method, path, body=None, version=client.version: client.at(version)(
            method, path, body, **{"X-Auth-Token": who}
        )

    return SimpleNamespace(
        make=make, ask=make(), node=node["uuid"], foreign=foreign["uuid"], api=api
    )


def filled(value, **idents):
    if isinstance(value, str):
        return value.format(**idents) if "{" in value else value
    if isinstance(value, dict):
        return {key: filled(each, **idents) for key, each in value.items()}
    return [filled(each, **idents) for each in value] if isinstance(value, list) else value
