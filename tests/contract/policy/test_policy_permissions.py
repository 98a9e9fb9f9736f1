"""The permissions that a caller reads are those that its requests meet."""

from urllib.parse import urlencode

from tests.contract.conftest import fault

from .conftest import OWN, SEE, SYSTEM_ADMIN, each_strategy

RULES = ("baremetal:node:get", "baremetal:node:update", "baremetal:node:create")
CHANGE = [{"op": "add", "path": "/description", "value": "x"}]


def permissions(guarded, caller, rules=RULES, **query):
    query = urlencode({"rules": ",".join(rules), **query})
    return guarded.ask(caller, "GET", f"/v1/permissions?{query}")


@each_strategy
def test_permissions_for_a_node_are_those_of_requests_for_it(guarded):
    for caller in guarded.people:
        answer = permissions(guarded, caller, node=guarded.node)
        path = f"/v1/nodes/{guarded.node}"
        if caller not in SEE:
            assert answer.status_code in (403, 404), caller
            assert answer.status_code == guarded.ask(caller, "GET", path).status_code, caller
            continue
        permitted_rules = answer.json["rules"]
        assert RULES[0] in permitted_rules, caller
        changed = guarded.ask(caller, "PATCH", path, CHANGE).status_code == 200
        assert changed == (RULES[1] in permitted_rules), caller
        assert changed or caller not in OWN, caller
        assert not changed or not caller.endswith("reader"), caller


def test_without_a_node_they_are_those_for_what_the_project_owns(guarded):
    for caller in guarded.people - {"domain-admin", "nobody", "service-project"}:
        permitted_rules = set(permissions(guarded, caller).json["rules"])
        assert (RULES[2] in permitted_rules) == (
            201 == guarded.ask(caller, "POST", "/v1/nodes", {"driver": "fake-hardware"}).status_code
        ), caller
    assert set(RULES) <= set(permissions(guarded, next(iter(SYSTEM_ADMIN))).json["rules"])


def test_unknown_rules_and_nodes_are_named(guarded):
    answer = permissions(guarded, "system-admin", ["baremetal:node:updat"])
    assert 400 == answer.status_code
    assert "the nearest is 'baremetal:node:update'" in fault(answer)["faultstring"]
    assert 400 == permissions(guarded, "system-admin", [f"r{n}" for n in range(60)]).status_code
    assert 400 == guarded.ask("system-admin", "GET", "/v1/permissions").status_code
    assert 404 == permissions(guarded, "owner-admin", node="nonesuch").status_code


def test_without_a_policy_every_rule_is_passed(api):
    query = urlencode({"rules": ",".join(RULES)})
    assert [*RULES] == api("GET", f"/v1/permissions?{query}").json["rules"]
