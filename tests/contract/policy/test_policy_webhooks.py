"""Permissions on webhooks: those of the system, and those of a project."""

import pytest

from .conftest import OTHER, OWNER, PEOPLE, each_strategy, people

BODY = {"name": "w", "url": "https://receiver.example/", "secret": "0123456789abcdef"}
READ = people("system-reader", "owner-reader") | {"system-service"}
WORK = people("system-admin", "owner-manager")
RENAMED = [{"op": "replace", "path": "/name", "value": "new"}]


@pytest.fixture
def hooks(guarded):
    """UUIDs of a webhook of the owner's project, and of one of the system."""
    answers = [
        guarded.ask("system-admin", "POST", "/v1/webhooks", BODY | {"name": name, "owner": owner})
        for name, owner in (("theirs", OWNER), ("ours", None))
    ]
    assert [201, 201] == [answer.status_code for answer in answers]
    return [answer.json["uuid"] for answer in answers]


@each_strategy
@pytest.mark.parametrize(
    ("method", "path", "body", "allowed"),
    [
        ("GET", "", None, READ), ("GET", "/failures", None, READ),
        ("POST", "/replay", {"after": 0}, WORK), ("PATCH", "", RENAMED, WORK),
    ],
)  # fmt: skip
def test_permissions_on_a_webhook(guarded, hooks, method, path, body, allowed):
    theirs, ours = hooks
    for caller in guarded.people:
        status = guarded.ask(caller, method, f"/v1/webhooks/{theirs}{path}", body).status_code
        if caller in allowed:
            assert 200 == status, caller
        else:
            assert status == (403 if caller in READ or caller == "domain-admin" else 404), caller
        if not caller.startswith("system-"):
            other = guarded.ask(caller, method, f"/v1/webhooks/{ours}{path}", body).status_code
            assert other in (403, 404), caller


@each_strategy
def test_permissions_to_create(guarded):
    allowed = {name for name in PEOPLE if name.endswith(("-admin", "-manager"))} - {"domain-admin"}
    allowed -= {"system-manager"}
    for caller in guarded.people:
        body = BODY | {"name": f"of-{caller}"}
        status = guarded.ask(caller, "POST", "/v1/webhooks", body).status_code
        assert (201 if caller in allowed else 403) == status, caller


def test_a_project_gets_webhooks_of_its_own_only(guarded, hooks):
    answer = guarded.ask("owner-manager", "POST", "/v1/webhooks", BODY)
    assert OWNER == answer.json["owner"]
    foreign = BODY | {"name": "x", "owner": OTHER}
    assert 400 == guarded.ask("owner-manager", "POST", "/v1/webhooks", foreign).status_code
    listed = guarded.ask("owner-reader", "GET", "/v1/webhooks").json["webhooks"]
    assert {"theirs", "w"} == {webhook["name"] for webhook in listed}
    assert [] == guarded.ask("other-admin", "GET", "/v1/webhooks").json["webhooks"]
    assert 3 == len(guarded.ask("system-reader", "GET", "/v1/webhooks").json["webhooks"])


def test_the_node_of_a_filter_must_be_visible(guarded, hooks):
    def ask(caller, node, name):
        body = BODY | {"name": name, "node_uuid": node}
        return guarded.ask(caller, "POST", "/v1/webhooks", body)

    refused = ask("owner-manager", guarded.foreign, "a")
    assert 400 == refused.status_code
    assert f"node_uuid: there is no node {guarded.foreign}" in refused.text
    assert 201 == ask("owner-manager", guarded.node, "b").status_code
    patch = [{"op": "add", "path": "/node_uuid", "value": guarded.foreign}]
    path = f"/v1/webhooks/{hooks[0]}"
    assert 400 == guarded.ask("owner-manager", "PATCH", path, patch).status_code
    assert 200 == guarded.ask("system-admin", "PATCH", path, patch).status_code


def test_only_the_owner_and_the_system_delete_a_webhook(guarded, hooks):
    path = f"/v1/webhooks/{hooks[0]}"
    for caller in ("owner-member", "system-member"):
        assert 403 == guarded.ask(caller, "DELETE", path).status_code
    assert 404 == guarded.ask("other-admin", "DELETE", path).status_code
    assert 204 == guarded.ask("owner-manager", "DELETE", path).status_code
    assert 204 == guarded.ask("system-admin", "DELETE", f"/v1/webhooks/{hooks[1]}").status_code
