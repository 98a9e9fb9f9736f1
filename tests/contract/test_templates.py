"""Deploy templates and runbooks: common and separate behaviour."""

import pytest

UUID = "6b4d6a0c-9a5c-4d1e-8a57-2f2d3c1b0a99"
BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
STEP = {"interface": "bios", "step": "apply_configuration", "args": {"settings": []}}
#: collection -> a complete item
BODY = {
    "deploy_templates": {"name": "CUSTOM_A", "steps": [{**STEP, "priority": 150}]},
    "runbooks": {"name": "CUSTOM_A", "steps": [{**STEP, "order": 1}]},
}
SINCE = {"deploy_templates": 55, "runbooks": 92}


@pytest.fixture(params=BODY)
def collection(request):
    return request.param


def make(api, collection, **fields):
    answer = api("POST", f"/v1/{collection}", {**BODY[collection], **fields})
    assert 201 == answer.status_code, answer.text
    return answer.json


def patch(op, path, value=None):
    return [{"op": op, "path": path} | ({} if op == "remove" else {"value": value})]


@BOTH
def test_an_item_is_created_shown_listed_changed_and_deleted(api, collection):
    answer = api("POST", f"/v1/{collection}", {**BODY[collection], "extra": {"a": 1}})
    item = answer.json
    path = f"/v1/{collection}/{item['uuid']}"

    assert (201, f"http://localhost{path}") == (answer.status_code, answer.location)
    assert BODY[collection].items() <= item.items()
    assert ({"a": 1}, None) == (item["extra"], item["updated_at"])
    assert item == api("GET", f"/v1/{collection}/CUSTOM_A").json == api("GET", path).json
    assert {"name", "links"} == set(api("GET", f"{path}?fields=name").json)
    short = {name: item[name] for name in ("uuid", "name", "links")}
    assert {collection: [short]} == api("GET", f"/v1/{collection}").json
    assert {collection: [item]} == api("GET", f"/v1/{collection}?detail=true").json

    changed = api("PATCH", path, patch("replace", "/name", "CUSTOM_B"))
    assert (200, "CUSTOM_B") == (changed.status_code, changed.json["name"])
    assert 204 == api("DELETE", f"/v1/{collection}/CUSTOM_B").status_code
    assert 404 == api("GET", path).status_code
    assert 404 == api("DELETE", path).status_code


def test_lists_are_paginated(api, collection):
    names = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]
    for name in names:
        make(api, collection, name=name)

    page = api("GET", f"/v1/{collection}?limit=2&sort_key=name&sort_dir=desc").json
    next_page = api("GET", page["next"].removeprefix("http://localhost")).json
    listed_names = [entry["name"] for entry in page[collection] + next_page[collection]]
    assert sorted(names, reverse=True) == listed_names
    for query in ("sort_key=steps", "sort_key=extra", "limit=0", "colour=red", "fields=colour"):
        assert 400 == api("GET", f"/v1/{collection}?{query}").status_code, query


def test_older_versions_do_not_have_them(api, collection):
    old, body = api.at(f"1.{SINCE[collection] - 1}"), BODY[collection]
    new = api.at(f"1.{SINCE[collection]}")

    assert collection not in old("GET", "/v1").json
    assert collection in new("GET", "/v1").json
    assert 404 == old("GET", f"/v1/{collection}").status_code
    assert 405 == old("POST", f"/v1/{collection}", body).status_code
    item = make(new, collection)
    path = f"/v1/{collection}/{item['uuid']}"
    assert 404 == old("GET", path).status_code
    assert 405 == old("PATCH", path, []).status_code
    assert 405 == old("DELETE", path).status_code


@BOTH
def test_names_are_unique(api, collection):
    make(api, collection)
    other = make(api, collection, name="CUSTOM_B")

    assert 409 == api("POST", f"/v1/{collection}", BODY[collection]).status_code
    path = f"/v1/{collection}/{other['uuid']}"
    assert 409 == api("PATCH", path, patch("replace", "/name", "CUSTOM_A")).status_code
    again = {**BODY[collection], "name": "CUSTOM_C", "uuid": other["uuid"]}
    assert 409 == api("POST", f"/v1/{collection}", again).status_code


@pytest.mark.parametrize(
    "fields",
    [
        {"name": None}, {"name": ""}, {"name": "a/b"}, {"name": UUID}, {"steps": []},
        {"steps": None}, {"steps": {}}, {"extra": [1]}, {"colour": "red"}, {"uuid": "x"},
        {"description": "x" * 256},
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused(api, collection, fields):
    assert 400 == api("POST", f"/v1/{collection}", {**BODY[collection], **fields}).status_code


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 201),
        ({"interface": "network"}, 400),
        ({"interface": ...}, 400),
        ({"step": ""}, 400),
        ({"step": ...}, 400),
        ({"args": None}, 400),
        ({"colour": "red"}, 400),
        ({"execute_on_child_nodes": True}, 400),
        ({"rank": -1}, 400),
        ({"rank": ...}, 400),
        ({"rank": "many"}, 400),
        ({"rank": True}, 400),
        ({"rank": 2**40}, 400),
        ({"rank": "12"}, 201),
    ],
)
def test_a_step_must_be_complete(api, collection, change, status):
    rank = "priority" if collection == "deploy_templates" else "order"
    step = {**BODY[collection]["steps"][0]}
    step |= {rank if name == "rank" else name: value for name, value in change.items()}
    step = {name: value for name, value in step.items() if value is not ...}
    item = make(api, collection, name="CUSTOM_B")

    assert (
        status
        == api("POST", f"/v1/{collection}", {"name": "CUSTOM_A", "steps": [step]}).status_code
    )
    path = f"/v1/{collection}/{item['uuid']}"
    changed = api("PATCH", path, patch("replace", "/steps", [step]))
    assert {201: 200}.get(status, status) == changed.status_code
    if status == 201 and change:
        assert 12 == changed.json["steps"][0][rank]


def test_a_duplicate_step_is_refused(api, collection):
    steps = BODY[collection]["steps"] * 2
    assert 400 == api("POST", f"/v1/{collection}", {"name": "CUSTOM_A", "steps": steps}).status_code

    path = f"/v1/{collection}/{make(api, collection)['uuid']}"
    assert 400 == api("PATCH", path, patch("add", "/steps/-", steps[0])).status_code
    other = {**steps[0], "step": "factory_reset"}
    assert 2 == len(api("PATCH", path, patch("add", "/steps/-", other)).json["steps"])


@pytest.mark.parametrize(
    ("op", "path", "value", "status"),
    [
        ("replace", "/steps/0/interface", "raid", 200),
        ("replace", "/steps/0/interface", "network", 400),
        ("replace", "/steps/0/args/settings", [{"name": "a", "value": 1}], 200),
        ("remove", "/steps/0/step", None, 400),
        ("replace", "/steps/1/step", "x", 400),
        ("remove", "/steps/0", None, 400),
        ("remove", "/steps", None, 400),
        ("remove", "/name", None, 400),
        ("replace", "/name", None, 400),
        ("remove", "/extra", None, 200),
        ("add", "/extra/b", 1, 200),
        ("replace", "/uuid", UUID, 400),
        ("replace", "/created_at", "now", 400),
        ("add", "/description", "why", 200),
    ],
)  # fmt: skip
def test_single_fields_are_changed(api, collection, op, path, value, status):
    item = make(api, collection, extra={"a": 1})
    answer = api("PATCH", f"/v1/{collection}/{item['uuid']}", patch(op, path, value))

    assert status == answer.status_code, answer.text
    stored_item = api("GET", f"/v1/{collection}/{item['uuid']}").json
    if status == 400:
        assert item == stored_item
    else:
        assert answer.json == stored_item
        assert item != stored_item


def test_secrets_in_arguments_are_not_shown_and_survive_a_change(api, collection):
    steps = [{**BODY[collection]["steps"][0], "args": {"password": "xyzzy", "user": "me"}}]
    item = make(api, collection, steps=steps)
    path = f"/v1/{collection}/{item['uuid']}"

    changed = api("PATCH", path, patch("replace", "/steps/0/args/user", "you"))
    assert {"password": "******", "user": "you"} == changed.json["steps"][0]["args"]
    assert "xyzzy" not in changed.text + api("GET", f"/v1/{collection}?detail=true").text


# Deploy templates only


def test_the_name_of_a_template_is_a_trait(api):
    body = BODY["deploy_templates"]
    assert 400 == api("POST", "/v1/deploy_templates", {**body, "name": "fast"}).status_code
    assert (
        201 == api("POST", "/v1/deploy_templates", {**body, "name": "HW_CPU_X86_VMX"}).status_code
    )
    bare = [{name: value for name, value in body["steps"][0].items() if name != "args"}]
    assert 400 == api("POST", "/v1/deploy_templates", {**body, "steps": bare}).status_code


def test_a_priority_may_be_a_fraction_and_0(api):
    for number in (0, 41.5):
        steps = [{**STEP, "priority": number}]
        item = make(api, "deploy_templates", name=f"CUSTOM_{int(number)}", steps=steps)
        assert number == item["steps"][0]["priority"]


# Runbooks only


def test_a_runbook_needs_no_arguments_and_has_defaults(api):
    step = {"interface": "bios", "step": "factory_reset", "order": 1}
    item = make(api, "runbooks", steps=[step])

    assert [{**step, "args": {}}] == item["steps"]
    assert (False, False, None, [], None) == tuple(
        item[name] for name in ("disable_ramdisk", "public", "owner", "traits", "description")
    )
    assert (
        400
        == api(
            "POST", "/v1/runbooks", {**BODY["runbooks"], "steps": [{**step, "order": 1.5}]}
        ).status_code
    )


def test_a_runbook_has_any_name_a_description_and_traits_from_1_112(api):
    old = api.at("1.111")
    assert 400 == old("POST", "/v1/runbooks", {**BODY["runbooks"], "name": "my-book"}).status_code
    described = {**BODY["runbooks"], "description": "why"}
    assert 406 == old("POST", "/v1/runbooks", described).status_code
    assert 400 == api("POST", "/v1/runbooks", {**BODY["runbooks"], "traits": []}).status_code

    item = make(api, "runbooks", name="my-book", description="why")
    path = f"/v1/runbooks/{item['uuid']}"
    assert "why" == item["description"]
    assert {"description", "traits"} == item.keys() - old("GET", path).json.keys()
    assert 406 == old("GET", f"{path}?fields=traits").status_code
    assert 406 == old("PATCH", path, patch("add", "/description", "x")).status_code
    assert 200 == old("PATCH", path, patch("add", "/extra/a", 1)).status_code
    for method in ("GET", "PUT", "DELETE"):
        assert 404 == old(method, f"{path}/traits").status_code


@BOTH
def test_the_traits_of_a_runbook_have_their_own_routes(api):
    make(api, "runbooks", name="my-book")
    path = "/v1/runbooks/my-book/traits"

    def traits():
        return api("GET", path).json["traits"]

    assert [] == traits()
    assert 204 == api("PUT", path, {"traits": ["CUSTOM_B", "HW_CPU_X86_VMX"]}).status_code
    added = api("PUT", f"{path}/CUSTOM_A")
    assert (204, f"http://localhost{path}/CUSTOM_A") == (added.status_code, added.location)
    assert ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"] == traits()
    assert traits() == api("GET", "/v1/runbooks/my-book").json["traits"]
    for _ in range(2):  # a repeated deletion is no error
        assert 204 == api("DELETE", f"{path}/CUSTOM_A").status_code
    assert 204 == api("DELETE", path).status_code
    assert [] == traits()
    assert 400 == api("PUT", f"{path}/custom").status_code
    assert 400 == api("PUT", path, {"traits": [f"CUSTOM_{i}" for i in range(51)]}).status_code
    assert 404 == api("GET", "/v1/runbooks/nonesuch/traits").status_code
    assert 404 == api("PUT", "/v1/runbooks/nonesuch/traits/CUSTOM_A").status_code


def test_a_public_runbook_has_no_owner(api):
    both = {**BODY["runbooks"], "owner": "p1", "public": True}
    assert 400 == api("POST", "/v1/runbooks", both).status_code
    path = f"/v1/runbooks/{make(api, 'runbooks', owner='p1')['uuid']}"

    published = api("PATCH", path, patch("replace", "/public", True)).json
    assert (True, None) == (published["public"], published["owner"])
    assert 400 == api("PATCH", path, patch("add", "/owner", "p2")).status_code
    answer = api("PATCH", path, patch("replace", "/public", False) + patch("add", "/owner", "p2"))
    assert (False, "p2") == (answer.json["public"], answer.json["owner"])
    again = api("PATCH", path, patch("replace", "/public", False)).json
    assert "p2" == again["owner"]
