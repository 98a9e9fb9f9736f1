"""The table of policy rules, and the rule of every route."""

from dataclasses import replace

import pytest

from app.api.declarations.public_paths import is_public
from app.api.policy import access, by_body, file
from app.api.policy.defaults import RULES
from app.api.policy.targets import OWNED, owned_at
from app.config.settings import Settings, SettingsError
from app.identity.caller import Caller, of_token
from app.runtime import Runtime
from app.server.application import create_app
from drivers.builtin import HARDWARE_TYPES
from drivers.core.registry import load
from tests.support.keystone import token

PUBLIC = {
    ("get", "/v1"), ("get", "/v1/lookup"), ("post", "/v1/heartbeat/{ident}"),
    ("post", "/v1/continue_inspection"),
    ("get", "/v1/login"), ("post", "/v1/login"), ("post", "/v1/logout"),
    ("post", "/v1/login/scope"),
    ("get", "/v1/login/oidc"), ("get", "/v1/login/oidc/callback"),
    ("get", "/v1/nodes/{ident}/console/stream"), ("post", "/v1/redfish_events/{ident}/{secret}"),
}  # fmt: skip
#: Allowed with any token: links, and a heartbeat, which carries the agent's token as well.
FOR_ALL = {("get", "/v1/volume"), ("get", "/v1/permissions"), ("post", "/v1/heartbeat")}
#: Lists that system readers see completely, and projects not at all; see the policy tests.
FOR_THE_SYSTEM = {("get", "/v1/operations")}
#: Resources of policy rules that belong to a project, directly or through their node.
OWNED_KINDS = {"node", "port", "portgroup", "volume", "allocation", "runbook"}
WITH_KEYSTONE = replace(Settings(), default=replace(Settings().default, auth_strategy="keystone"))


@pytest.fixture(scope="module")
def routes():
    """(method, path) -> rule, of every route under /v1."""
    runtime = Runtime(
        Settings(), None, load(HARDWARE_TYPES, enabled_types=[]), lambda _message: True
    )
    document = create_app(runtime).test_client().get("/openapi.json").json
    return {
        (method, path): about.get("x-policy")
        for path, methods in document["paths"].items()
        for method, about in methods.items()
        if path.startswith("/v1")
    }


def test_every_route_is_public_or_names_a_rule_of_the_table(routes):
    without = {route for route, rule in routes.items() if rule is None}

    assert set() == without - PUBLIC - FOR_ALL
    assert set() == {rule for rule in routes.values() if rule} - RULES.keys()


def test_only_public_routes_need_no_token(routes):
    assert set() == {route for route in routes if is_public(route[1])} - PUBLIC


def test_every_resource_that_a_path_names_has_a_known_owner(routes):
    """`OWNED` lacks an entry for each path that this finds."""
    for (_, path), rule in routes.items():
        if rule and "{" in path and rule.split(":")[1] in OWNED_KINDS and "/chassis/" not in path:
            assert owned_at(path.removeprefix("/v1").replace("{", "<").replace("}", ">")), path


def test_lists_of_resources_of_projects_are_filtered(routes):
    narrowed = {rule for rule in RULES if f"{rule}_all" in RULES}
    for (method, path), rule in routes.items():
        belongs = rule and rule.split(":")[1] in OWNED_KINDS
        if belongs and method == "get" and "{" not in path and path != "/v1/nodes/validate":
            assert rule in narrowed or (method, path) in FOR_ALL | FOR_THE_SYSTEM, path


def test_every_rule_that_the_code_names_is_in_the_table():
    names = {
        *by_body.NODE_FIELDS.values(), *by_body.RUNBOOK_FIELDS.values(), *by_body.RULES,
        *access.ON_OWN_NODES.values(), *(entry.rule for entry in access.ANY_OWNER.values()),
        *(f"{access.SEE_NODE}:{field}" for field in (*access.REDACTED, "filter_threshold")),
        *(owned.sees for owned in OWNED.values()), access.USE_RUNBOOK,
    }  # fmt: skip

    assert set() == names - RULES.keys()


def test_a_token_without_owner_matches_no_node_without_owner():
    everything = Caller(roles=("admin", "manager", "member", "reader", "service"), restricted=True)
    policy = file.make(WITH_KEYSTONE)

    assert not policy.allows("baremetal:node:get", everything, {})
    assert not policy.allows("baremetal:allocation:get", everything, {})


def test_a_role_includes_the_lesser_roles():
    assert ("admin", "manager", "member", "reader") == of_token(token("Admin"), "req-1").roles
    assert ("reader", "service") == of_token(token("reader", "service"), "req-1").roles


def with_file(text, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    options = replace(Settings().oslo_policy, policy_file=str(path))
    return replace(WITH_KEYSTONE, oslo_policy=options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"baremetal:node:gte": "!"', "baremetal:node:gte"),
        ('"baremetal:node:get": "rule:no_such_rule"', "baremetal:node:get"),
        ('"baremetal:node:get": "rule:a"\n"a": "rule:b"\n"b": "rule:a"', "a"),
        ('"baremetal:node:get": [', "policy"),
    ],
)
def test_an_invalid_policy_file_stops_the_start(text, message, tmp_path):
    with pytest.raises(SettingsError) as error:
        file.make(with_file(text, tmp_path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_configured_policy_file_must_exist(tmp_path):
    options = replace(Settings().oslo_policy, policy_file=str(tmp_path / "missing.yaml"))
    with pytest.raises(SettingsError, match="no such file"):
        file.make(replace(Settings(), oslo_policy=options))


def test_a_changed_policy_file_is_read_again(tmp_path, monkeypatch):
    settings = with_file('"baremetal:node:get": "!"', tmp_path)
    caller = of_token(token("admin", system=True), "req-1")
    policy = file.make(settings)
    assert not policy.allows("baremetal:node:get", caller, {})

    path = tmp_path / "policy.yaml"
    path.write_text('"baremetal:node:get": "role:admin"')
    monkeypatch.setattr(file, "FRESH", 0)
    policy._decisions_expire_at = 0
    assert policy.allows("baremetal:node:get", caller, {})


def test_without_keystone_and_files_there_is_no_policy():
    assert file.make(Settings()) is None
