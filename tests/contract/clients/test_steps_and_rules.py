"""Deploy templates, runbooks, inspection rules and allocations, with the `baremetal` command."""

import json
import uuid

import pytest

from tests.contract.clients.cli import options
from tests.support.fleet import until

STEP = {"interface": "bios", "step": "factory_reset", "args": {}}
DEPLOY = [{**STEP, "priority": 10}]
DEPLOY_TOO = [{**STEP, "priority": 20}]
CLEAN = [{**STEP, "order": 1}]
CLEAN_TOO = [{**STEP, "order": 2}]
FAIL = [{"op": "fail", "args": {"msg": "no"}}]
LOG = [{"op": "log", "args": {"msg": "hello", "level": "info"}}]
IF = [{"op": "is-true", "args": {"value": "{inventory[cpu][count]}"}}]
A = {"a": 1}
#: resource -> option of create -> (value, or none for a flag; field; shown value)
CREATE = {
    "deploy template": {
        "--steps": (DEPLOY, "steps", DEPLOY),
        "--extra": ("a=1", "extra", A),
    },
    "runbook": {
        "--name": ("CUSTOM_BOOK", "name", "CUSTOM_BOOK"),
        "--steps": (CLEAN, "steps", CLEAN),
        "--description": ("why", "description", "why"),
        "--disable-ramdisk": (None, "disable_ramdisk", True),
        "--extra": ("a=1", "extra", A),
    },
    "inspection rule": {
        "--description": ("refuse", "description", "refuse"),
        "--priority": (30, "priority", 30),
        "--phase": ("main", "phase", "main"),
        "--conditions": (IF, None, None),
        "--actions": (FAIL, None, None),
    },
}
SET = {
    "deploy template": {
        "--name": ("CUSTOM_OTHER", "name", "CUSTOM_OTHER"),
        "--steps": (DEPLOY_TOO, "steps", DEPLOY_TOO),
        "--extra": ("b=2", "extra", {"a": 1, "b": 2}),
    },
    "runbook": {
        "--name": ("CUSTOM_BOOK_2", "name", "CUSTOM_BOOK_2"),
        "--steps": (CLEAN_TOO, "steps", CLEAN_TOO),
        "--description": ("because", "description", "because"),
        "--disable-ramdisk": ("false", "disable_ramdisk", False),
        "--public": ("true", "public", True),
        "--extra": ("b=2", "extra", {"a": 1, "b": 2}),
    },
    "inspection rule": {
        "--description": ("tell", "description", "tell"),
        "--priority": (40, "priority", 40),
        "--phase": ("main", "phase", "main"),
        "--conditions": (IF, None, None),
        "--actions": (LOG, None, None),
    },
}
UNSET = {
    "deploy template": {"--extra": ("a", "extra", {"b": 2})},
    "runbook": {
        "--description": (None, "description", None),
        "--public": (None, "public", False),
        "--disable-ramdisk": (None, "disable_ramdisk", False),
        "--extra": ("a", "extra", {"b": 2}),
    },
    "inspection rule": {
        "--description": (None, "description", None),
        "--priority": (None, "priority", 0),
        "--phase": (None, "phase", "main"),
    },
}
#: Options that other tests cover, or that are refused.
OTHERS = {
    "deploy template create": {"--uuid"},
    "deploy template set": set(),
    "deploy template unset": set(),
    "runbook create": {"--uuid", "--public", "--owner"},
    "runbook set": {"--owner"},
    "runbook unset": {"--name", "--owner"},
    "inspection rule create": {"--uuid", "--sensitive"},
    "inspection rule set": set(),
    "inspection rule unset": {"--condition", "--action"},
}
NAME = {"deploy template": ("CUSTOM_OF_CLI",)}


def words(rows):
    """Return the arguments of options, and the fields shown afterwards."""
    arguments = []
    for option, (value, *_) in rows.items():
        text = value if isinstance(value, str | int | None) else json.dumps(value)
        arguments += [option] if text is None else [option, text]
    return arguments, {field: field_value for _, field, field_value in rows.values() if field}


@pytest.mark.parametrize("resource", CREATE)
def test_no_option_of_the_client_is_left_out(resource):
    for verb, table in (("create", CREATE), ("set", SET), ("unset", UNSET)):
        command = f"{resource} {verb}"
        assert options(command) == {*table[resource], *OTHERS[command]}, command


@pytest.mark.parametrize("resource", CREATE)
def test_a_resource_is_created_listed_changed_and_deleted(baremetal, resource):
    name, identity = resource.split(), str(uuid.uuid4())
    arguments, expected = words(CREATE[resource])

    created = baremetal(*name, "create", *NAME.get(resource, ()), *arguments, "--uuid", identity)

    assert expected == {field: created[field] for field in expected}
    answer = baremetal(*name, "show", identity)
    assert created == {field: answer[field] for field in created}
    for form in ((), ("--long",), ("--sort", "uuid:desc"), ("--fields", "uuid", "created_at")):
        assert identity in {row["uuid"] for row in baremetal(*name, "list", *form)}
    field = "description" if resource == "inspection rule" else "name"
    some = baremetal(*name, "show", identity, "--fields", "uuid", field)
    assert {"uuid": identity, field: created[field]} == some

    for verb, table in (("set", SET), ("unset", UNSET)):
        arguments, expected = words(table[resource])
        baremetal(*name, verb, identity, *arguments)
        answer = baremetal(*name, "show", identity)
        assert expected == {field: answer[field] for field in expected}, verb
    baremetal(*name, "delete", identity)
    assert "404" in baremetal.refused(*name, "show", identity)


@pytest.mark.parametrize("resource", CREATE)
def test_a_list_is_paginated(baremetal, resource):
    name = resource.split()
    identities = set()
    for number in range(2):
        called = {"deploy template": (f"CUSTOM_{number}",), "runbook": ("--name", f"b{number}")}
        arguments, _ = words(
            {
                option: row
                for option, row in CREATE[resource].items()
                if option in ("--steps", "--actions")
            }
        )
        identities.add(baremetal(*name, "create", *called.get(resource, ()), *arguments)["uuid"])
    pages, marker = [], ()
    while page := baremetal(*name, "list", "--limit", 1, *marker):
        assert 1 == len(page)
        pages += [row["uuid"] for row in page]
        marker = ("--marker", pages[-1])
    assert identities <= {*pages}
    assert len(pages) == len({*pages})
    baremetal(*name, "delete", *identities)
    assert not identities & {row["uuid"] for row in baremetal(*name, "list")}


def test_a_sensitive_rule_hides_its_actions(baremetal):
    fields = ("--actions", json.dumps(LOG), "--sensitive", "true", "--conditions", json.dumps(IF))
    rule = baremetal("inspection", "rule", "create", *fields)
    assert rule["sensitive"]
    assert not rule["actions"]
    assert not rule["conditions"]
    baremetal("inspection", "rule", "delete", rule["uuid"])


def test_runbooks_have_traits(baremetal):
    name = ("runbook", "trait")
    baremetal("runbook", "create", "--name", "of-traits", "--steps", json.dumps(CLEAN))
    baremetal(*name, "add", "of-traits", "CUSTOM_A", "CUSTOM_B")
    listed = baremetal(*name, "list", "of-traits")
    assert {"CUSTOM_A", "CUSTOM_B"} <= {row["traits"] for row in listed}
    baremetal(*name, "remove", "of-traits", "CUSTOM_A")
    assert "CUSTOM_A" not in {row["traits"] for row in baremetal(*name, "list", "of-traits")}
    baremetal(*name, "remove", "of-traits", "--all")
    assert [] == baremetal(*name, "list", "of-traits")
    baremetal("runbook", "delete", "of-traits")


@pytest.mark.parametrize(
    "words",
    [
        ("deploy", "template", "create", "CUSTOM_X", "--steps", "[]"),
        ("deploy", "template", "create", "CUSTOM_X", "--steps", '[{"interface": "bios"}]'),
        ("deploy", "template", "create", "lower", "--steps", json.dumps(DEPLOY)),
        ("runbook", "create", "--name", "r", "--steps", "[{}]"),
        ("inspection", "rule", "create", "--actions", '[{"op": "no-such", "args": {}}]'),
    ],
)
def test_invalid_requests_are_refused(baremetal, words):
    assert "(HTTP 400)" in baremetal.refused(*words)


@pytest.fixture
def free(baremetal, node):
    """UUID of a node that can be allocated."""
    baremetal("node", "set", node, "--resource-class", "wanted")
    baremetal("node", "add", "trait", node, "CUSTOM_FAST")
    for verb in ("manage", "provide"):
        baremetal("node", verb, node)
        state = {"manage": "manageable", "provide": "available"}[verb]
        until(lambda expected=state: _is(baremetal, node, expected), f"{node} {state}")
    return baremetal("node", "show", node)["uuid"]


def _is(baremetal, node, state):
    answer = baremetal("node", "show", node)
    return (state, None) == (answer["provision_state"], answer["reservation"])


def test_a_node_is_allocated(baremetal, free):
    identity = str(uuid.uuid4())
    arguments = (
        "--resource-class", "wanted", "--trait", "CUSTOM_FAST", "--candidate-node", free,
        "--name", "an-allocation", "--uuid", identity, "--extra", "a=1",
    )  # fmt: skip
    allocation = baremetal("allocation", "create", *arguments, "--wait", 30)
    assert {"uuid": identity, "name": "an-allocation", "extra": A, "traits": ["CUSTOM_FAST"]} == {
        field: allocation[field] for field in ("uuid", "name", "extra", "traits")
    }
    answer = baremetal("allocation", "show", "an-allocation")
    assert ("active", free) == (answer["state"], answer["node_uuid"])
    instance = baremetal("node", "show", free)
    assert (identity, identity) == (instance["instance_uuid"], instance["allocation_uuid"])

    for filters in (("--node", free), ("--resource-class", "wanted"), ("--state", "active")):
        assert [identity] == [row["uuid"] for row in baremetal("allocation", "list", *filters)]
    assert [] == baremetal("allocation", "list", "--owner", "nobody")
    (long,) = baremetal("allocation", "list", "--node", free, "--long", "--sort", "uuid")
    assert {field: answer[field] for field in long} == long
    assert [] == baremetal("allocation", "list", "--limit", 1, "--marker", identity)
    assert [{"state": "active"}] == baremetal(
        "allocation", "list", "--node", free, "--fields", "state"
    )

    baremetal("allocation", "set", "an-allocation", "--name", "renamed", "--extra", "b=2")
    answer = baremetal("allocation", "show", "renamed")
    assert {"a": 1, "b": 2} == answer["extra"]
    baremetal("allocation", "unset", identity, "--name", "--extra", "a")
    answer = baremetal("allocation", "show", identity, "--fields", "name", "extra")
    assert {"name": None, "extra": {"b": 2}} == answer
    baremetal("allocation", "delete", identity)
    assert baremetal("node", "show", free)["instance_uuid"] is None


def test_an_allocation_is_backfilled_for_a_node(baremetal, node):
    baremetal("node", "set", node, "--resource-class", "filled")
    baremetal("node", "manage", node, "--wait", 30)
    baremetal("node", "adopt", node, "--wait", 30)
    uuid = baremetal("node", "show", node)["uuid"]
    allocation = baremetal("allocation", "create", "--node", node)
    assert ("active", uuid) == (allocation["state"], allocation["node_uuid"])
    baremetal("node", "undeploy", node)
    until(lambda: _is(baremetal, node, "available"), "undeployed")
    assert "404" in baremetal.refused("allocation", "show", allocation["uuid"])


def test_an_allocation_without_a_suitable_node_fails(baremetal):
    arguments = ("--resource-class", "nobody-has-it", "--name", "vain")
    assert "nobody-has-it" in baremetal.refused("allocation", "create", *arguments, "--wait", 30)
    answer = baremetal("allocation", "show", "vain")
    assert "error" == answer["state"]
    assert "nobody-has-it" in answer["last_error"]
    baremetal("allocation", "delete", "vain")
