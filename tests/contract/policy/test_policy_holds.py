"""Permissions to see, set, change and end holds."""

import pytest

from .conftest import LESSEE, OPERATE, OWN, OWNER, SEE, each_strategy

BODY = {"kind": "investigation", "reason": "odd logs"}
RENAMED = [{"op": "replace", "path": "/reason", "value": "new"}]
#: Kind -> callers who may set it on a node of the owner that the lessee leases.
SET = {"scheduling": OWN, "hardware": OWN, "investigation": OPERATE}
MEMBERS_OF_LESSEE = {f"lessee-{role}" for role in ("admin", "manager", "member")}


def hold(guarded, who, node, kind="investigation"):
    answer = guarded.ask(who, "POST", f"/v1/nodes/{node}/holds", BODY | {"kind": kind})
    assert 201 == answer.status_code, answer.text
    return answer.json


@each_strategy
@pytest.mark.parametrize("kind", SET)
def test_permissions_to_set_each_kind(guarded, kind):
    for who in guarded.people:
        body = BODY | {"kind": kind}
        answers = (
            guarded.ask(who, "POST", f"/v1/nodes/{guarded.node}/holds", body),
            guarded.ask(who, "POST", "/v1/holds", body | {"node_uuid": guarded.node}),
        )
        found = [answer.status_code for answer in answers]
        if who in SET[kind]:
            assert [201, 201] == found, who
            for answer in answers:
                path = f"/v1/holds/{answer.json['uuid']}"
                assert 204 == guarded.ask("system-admin", "DELETE", path).status_code
        else:
            below = 403 if who in SEE or who == "domain-admin" else 404
            assert [below, 403] == found, who


def test_permissions_on_a_hold_of_the_lessee(guarded):
    """The members of the lessee may change and end it, too."""
    for who in guarded.people:
        made = hold(guarded, "lessee-manager", guarded.node)
        assert LESSEE == made["owner"]
        path = f"/v1/holds/{made['uuid']}"
        unseen = (403,) if who == "domain-admin" else (404,)
        seen = guarded.ask(who, "GET", path).status_code
        assert seen == 200 if who in SEE else seen in unseen, who
        changed = guarded.ask(who, "PATCH", path, RENAMED).status_code
        ended = guarded.ask(who, "DELETE", path).status_code
        if who in OWN | MEMBERS_OF_LESSEE:
            assert (200, 204) == (changed, ended), who
        else:
            assert changed == ended == (403 if who in SEE else unseen[0]), who
            assert 204 == guarded.ask("system-admin", "DELETE", path).status_code


def test_a_lessee_ends_no_hold_of_the_owner_or_of_the_system(guarded):
    for setter in ("owner-member", "system-member"):
        made = hold(guarded, setter, guarded.node)
        assert (OWNER if setter == "owner-member" else None) == made["owner"]
        for who in MEMBERS_OF_LESSEE:
            path = f"/v1/holds/{made['uuid']}"
            assert 403 == guarded.ask(who, "DELETE", path).status_code, who
            assert 403 == guarded.ask(who, "PATCH", path, RENAMED).status_code, who


def test_lists_have_the_holds_of_the_callers_nodes(guarded):
    theirs = hold(guarded, "owner-member", guarded.node)["uuid"]
    ours = hold(guarded, "system-member", guarded.foreign)["uuid"]
    for who in guarded.people:
        answer = guarded.ask(who, "GET", "/v1/holds")
        found = {each["uuid"] for each in answer.json.get("holds", ())}
        if who.startswith("system-"):
            assert {theirs, ours} == found, who
        elif who.startswith(("owner-", "lessee-")):
            assert {theirs} == found, who
        else:
            assert set() == found, who
    below = guarded.ask("lessee-reader", "GET", f"/v1/nodes/{guarded.node}/holds").json["holds"]
    assert [theirs] == [each["uuid"] for each in below]
    assert (
        404 == guarded.ask("lessee-reader", "GET", f"/v1/nodes/{guarded.foreign}/holds").status_code
    )


def test_a_hold_is_concealed_from_a_lessee_whose_lease_has_ended(guarded):
    made = hold(guarded, "lessee-manager", guarded.node)
    guarded.api.set(guarded.node, lessee=None)
    path = f"/v1/holds/{made['uuid']}"
    for method in ("GET", "DELETE"):
        assert 404 == guarded.ask("lessee-manager", method, path).status_code


@pytest.mark.parametrize("who", ["owner-admin", "lessee-admin", "other-admin"])
def test_a_project_sets_no_hold_on_a_foreign_node(guarded, who):
    path = f"/v1/nodes/{guarded.foreign}/holds"
    assert 404 == guarded.ask(who, "POST", path, BODY).status_code
    body = BODY | {"node_uuid": guarded.foreign}
    assert 403 == guarded.ask(who, "POST", "/v1/holds", body).status_code
