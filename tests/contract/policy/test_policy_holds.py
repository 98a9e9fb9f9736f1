"""Permissions to see, set, change and end holds."""

import pytest

from .conftest import LESSEE, OPERATE, OWN, OWNER, SEE, each_strategy

BODY = {"kind": "investigation", "reason": "odd logs"}
RENAMED = [{"op": "replace", "path": "/reason", "value": "new"}]
#: Kind -> callers who may set it on a node of the owner that the lessee leases.
SET = {"scheduling": OWN, "hardware": OWN, "investigation": OPERATE}
MEMBERS_OF_LESSEE = {f"lessee-{role}" for role in ("admin", "manager", "member")}


def hold(guarded, caller, node, kind="investigation"):
    answer = guarded.ask(caller, "POST", f"/v1/nodes/{node}/holds", BODY | {"kind": kind})
    assert 201 == answer.status_code, answer.text
    return answer.json


@each_strategy
@pytest.mark.parametrize("kind", SET)
def test_permissions_to_set_each_kind(guarded, kind):
    for caller in guarded.people:
        body = BODY | {"kind": kind}
        answers = (
            guarded.ask(caller, "POST", f"/v1/nodes/{guarded.node}/holds", body),
            guarded.ask(caller, "POST", "/v1/holds", body | {"node_uuid": guarded.node}),
        )
        statuses = [answer.status_code for answer in answers]
        if caller in SET[kind]:
            assert [201, 201] == statuses, caller
            for answer in answers:
                path = f"/v1/holds/{answer.json['uuid']}"
                assert 204 == guarded.ask("system-admin", "DELETE", path).status_code
        else:
            below = 403 if caller in SEE or caller == "domain-admin" else 404
            assert [below, 403] == statuses, caller


def test_permissions_on_a_hold_of_the_lessee(guarded):
    """The members of the lessee may change and end it, too."""
    for caller in guarded.people:
        new_hold = hold(guarded, "lessee-manager", guarded.node)
        assert LESSEE == new_hold["owner"]
        path = f"/v1/holds/{new_hold['uuid']}"
        unseen = (403,) if caller == "domain-admin" else (404,)
        status = guarded.ask(caller, "GET", path).status_code
        assert status == 200 if caller in SEE else status in unseen, caller
        changed = guarded.ask(caller, "PATCH", path, RENAMED).status_code
        ended = guarded.ask(caller, "DELETE", path).status_code
        if caller in OWN | MEMBERS_OF_LESSEE:
            assert (200, 204) == (changed, ended), caller
        else:
            assert changed == ended == (403 if caller in SEE else unseen[0]), caller
            assert 204 == guarded.ask("system-admin", "DELETE", path).status_code


def test_a_lessee_ends_no_hold_of_the_owner_or_of_the_system(guarded):
    for setter in ("owner-member", "system-member"):
        new_hold = hold(guarded, setter, guarded.node)
        assert (OWNER if setter == "owner-member" else None) == new_hold["owner"]
        for caller in MEMBERS_OF_LESSEE:
            path = f"/v1/holds/{new_hold['uuid']}"
            assert 403 == guarded.ask(caller, "DELETE", path).status_code, caller
            assert 403 == guarded.ask(caller, "PATCH", path, RENAMED).status_code, caller


def test_lists_have_the_holds_of_the_callers_nodes(guarded):
    theirs = hold(guarded, "owner-member", guarded.node)["uuid"]
    ours = hold(guarded, "system-member", guarded.foreign)["uuid"]
    for caller in guarded.people:
        answer = guarded.ask(caller, "GET", "/v1/holds")
        uuids = {entry["uuid"] for entry in answer.json.get("holds", ())}
        if caller.startswith("system-"):
            assert {theirs, ours} == uuids, caller
        elif caller.startswith(("owner-", "lessee-")):
            assert {theirs} == uuids, caller
        else:
            assert set() == uuids, caller
    below = guarded.ask("lessee-reader", "GET", f"/v1/nodes/{guarded.node}/holds").json["holds"]
    assert [theirs] == [entry["uuid"] for entry in below]
    assert (
        404 == guarded.ask("lessee-reader", "GET", f"/v1/nodes/{guarded.foreign}/holds").status_code
    )


def test_a_hold_is_concealed_from_a_lessee_whose_lease_has_ended(guarded):
    new_hold = hold(guarded, "lessee-manager", guarded.node)
    guarded.api.set(guarded.node, lessee=None)
    path = f"/v1/holds/{new_hold['uuid']}"
    for method in ("GET", "DELETE"):
        assert 404 == guarded.ask("lessee-manager", method, path).status_code


@pytest.mark.parametrize("caller", ["owner-admin", "lessee-admin", "other-admin"])
def test_a_project_sets_no_hold_on_a_foreign_node(guarded, caller):
    path = f"/v1/nodes/{guarded.foreign}/holds"
    assert 404 == guarded.ask(caller, "POST", path, BODY).status_code
    body = BODY | {"node_uuid": guarded.foreign}
    assert 403 == guarded.ask(caller, "POST", "/v1/holds", body).status_code
