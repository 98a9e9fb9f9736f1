"""Holds: routes, refusals that name them, lists, events, and fields of nodes."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, select, text, update

from app.db import clock
from app.inventory import holds as service
from app.lifecycle.hold_kinds import HoldKind
from app.models import AuditRecord, Hold

from .conftest import fault

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
REASON = "DIMM 3 reports errors"
STEPS = [{"interface": "vendor", "step": "log_passthrough"}]


def in_hours(hours):
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat(timespec="seconds")


def hold(api, node, kind="hardware", **fields):
    body = {"kind": kind, "reason": REASON} | fields
    answer = api("POST", f"/v1/nodes/{node['uuid']}/holds", body)
    assert 201 == answer.status_code, answer.text
    return answer.json


def expire(api, new_hold):
    with api.runtime.transaction() as session:
        past = update(Hold).where(Hold.uuid == new_hold["uuid"])
        session.execute(past.values(expires_at=datetime(2020, 1, 1)))


def provision(api, node, target, **fields):
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    return api("PUT", path, {"target": target, **fields})


def refused(answer, new_hold):
    """Check that an answer is the refusal by a hold."""
    assert 409 == answer.status_code, answer.text
    words = fault(answer)["faultstring"]
    assert f"{new_hold['kind']} hold {new_hold['uuid']}" in words
    assert f"because: {REASON}" in words
    return words


@BOTH
def test_a_hold_is_set_shown_listed_changed_and_ended(api):
    node = api.node(name="n1")
    answer = api("POST", "/v1/nodes/n1/holds", {"kind": "hardware", "reason": REASON})
    new_hold = answer.json
    path = f"/v1/holds/{new_hold['uuid']}"
    assert (201, f"http://localhost{path}") == (answer.status_code, answer.location)
    assert {"kind": "hardware", "reason": REASON, "node_uuid": node["uuid"]} == {
        name: new_hold[name] for name in ("kind", "reason", "node_uuid")
    }
    assert (None, None) == (new_hold["expires_at"], new_hold["owner"])
    assert new_hold == api("GET", path).json
    for listing in ("/v1/holds", "/v1/nodes/n1/holds", "/v1/holds?kind=hardware"):
        (listed,) = api("GET", listing).json["holds"]
        assert new_hold["uuid"] == listed["uuid"], listing
    assert [] == api("GET", "/v1/holds?kind=scheduling").json["holds"]
    until = in_hours(2)
    patch = [
        {"op": "add", "path": "/expires_at", "value": until},
        {"op": "replace", "path": "/reason", "value": "new DIMM ordered"},
    ]
    changed = api("PATCH", path, patch)
    assert 200 == changed.status_code, changed.text
    assert ("new DIMM ordered", until) == (changed.json["reason"], changed.json["expires_at"])
    removal = [{"op": "remove", "path": "/expires_at"}]
    assert api("PATCH", path, removal).json["expires_at"] is None
    assert 204 == api("DELETE", path).status_code
    assert 404 == api("GET", path).status_code
    history = api("GET", "/v1/nodes/n1/history/?detail=true").json["history"]
    events = [entry["event"] for entry in history if entry["event_type"] == "hold"]
    assert ["Hold set", "Hold changed", "Hold changed", "Hold ended"] == [
        message.partition(":")[0] for message in events
    ]
    with api.runtime.reading() as session:
        actions = session.scalars(select(AuditRecord.action).order_by(AuditRecord.id)).all()
    assert ["create/node/hold", "update/hold", "update/hold", "delete/hold"] == [
        action for action in actions if action.endswith("hold")
    ]


@BOTH
def test_changes_of_holds_are_events_of_their_node(api):
    node = api.node()
    last_sequence = api("GET", "/v1/events").json["last"]
    new_hold = hold(api, node)
    patch = [{"op": "replace", "path": "/reason", "value": "other"}]
    assert 200 == api("PATCH", f"/v1/holds/{new_hold['uuid']}", patch).status_code
    assert 204 == api("DELETE", f"/v1/holds/{new_hold['uuid']}").status_code
    events = api(
        "GET", f"/v1/events?after={last_sequence}&type=node.hold&node={node['uuid']}"
    ).json["events"]
    assert [(None, "hardware"), ("hardware", "hardware"), ("hardware", None)] == [
        (change["before"], change["after"]) for change in events
    ]


def test_a_hold_is_also_set_with_its_node_in_the_body(api):
    node = api.node(name="n1")
    body = {"kind": "scheduling", "reason": REASON, "node_uuid": "n1"}
    assert node["uuid"] == api("POST", "/v1/holds", body).json["node_uuid"]
    answer = api("POST", "/v1/holds", body | {"node_uuid": "n2"})
    assert (400, "node_uuid: there is no node n2") == (
        answer.status_code, fault(answer)["faultstring"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "coffee"}, "'coffee' is not one of ['scheduling', 'hardware', 'investigation']"),
        ({"kind": None}, "kind"), ({"reason": None}, "reason"), ({"reason": ""}, "reason"),
        ({"reason": "x" * 4097}, "reason"), ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_in": 0}, "expires_in"), ({"expires_in": 1.5}, "expires_in"),
        ({"expires_in": 10**10}, "expires_in"),
        ({"expires_in": 60, "expires_at": "2100-01-01T00:00:00Z"}, "expires_in: not with expires_at"),
        ({"expires_at": 5}, "expires_at"), ({"uuid": "5"}, "uuid"), ({"node": "n"}, "node"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at: 2020-01-01T00:00:00Z must be in the future"),
    ],
)  # fmt: skip
def test_wrong_fields_are_refused_by_their_names(api, fields, words):
    node = api.node()
    body = {"kind": "hardware", "reason": REASON} | fields
    answer = api("POST", f"/v1/nodes/{node['uuid']}/holds", body)
    assert 400 == answer.status_code, answer.text
    assert words in fault(answer)["faultstring"]
    assert [] == api("GET", "/v1/holds").json["holds"]


def test_fields_of_a_hold_that_never_change(api):
    new_hold = hold(api, api.node())
    for field, value in (
        ("kind", "scheduling"),
        ("node_uuid", new_hold["node_uuid"]),
        ("owner", "p"),
    ):
        patch = [{"op": "replace", "path": f"/{field}", "value": value}]
        answer = api("PATCH", f"/v1/holds/{new_hold['uuid']}", patch)
        assert 400 == answer.status_code, field
        assert field in fault(answer)["faultstring"]
    answer = api("PATCH", f"/v1/holds/{new_hold['uuid']}", [{"op": "remove", "path": "/reason"}])
    assert 400 == answer.status_code


def test_a_repeated_uuid_is_refused(api):
    node = api.node()
    new_hold = hold(api, node)
    body = {"kind": "hardware", "reason": REASON, "uuid": new_hold["uuid"]}
    answer = api("POST", f"/v1/nodes/{node['uuid']}/holds", body)
    assert 409 == answer.status_code
    assert f"A hold with UUID {new_hold['uuid']} already exists." == fault(answer)["faultstring"]


def test_a_node_has_a_limited_number_of_holds(api, monkeypatch):
    monkeypatch.setattr(service, "MOST", 2)
    node = api.node()
    hold(api, node), hold(api, node)
    body = {"kind": "hardware", "reason": REASON}
    answer = api("POST", f"/v1/nodes/{node['uuid']}/holds", body)
    assert 409 == answer.status_code
    assert "has 2 holds" in fault(answer)["faultstring"]


#: Request -> effect of the holds that refuse it, and the node's state before.
REQUESTS = {
    "deploy": ("instances", "available", lambda api, node: provision(api, node, "active")),
    "rebuild": ("operations", "active", lambda api, node: provision(api, node, "rebuild")),
    "undeploy": ("operations", "active", lambda api, node: provision(api, node, "deleted")),
    "clean": (
        "operations", "manageable",
        lambda api, node: provision(api, node, "clean", clean_steps=STEPS),
    ),
    "provide": ("operations", "manageable", lambda api, node: provision(api, node, "provide")),
    "inspect": ("operations", "manageable", lambda api, node: provision(api, node, "inspect")),
    "verify": ("operations", "enroll", lambda api, node: provision(api, node, "manage")),
    "abandon a service": (
        "operations", "service failed", lambda api, node: provision(api, node, "abort"),
    ),
    "delete": (
        "operations", "manageable", lambda api, node: api("DELETE", f"/v1/nodes/{node['uuid']}"),
    ),
    "power": (
        "machine", "manageable",
        lambda api, node: api(
            "PUT", f"/v1/nodes/{node['uuid']}/states/power", {"target": "power on"}
        ),
    ),
    "boot mode": (
        "machine", "manageable",
        lambda api, node: api(
            "PUT", f"/v1/nodes/{node['uuid']}/states/boot_mode", {"target": "uefi"}
        ),
    ),
}  # fmt: skip
REFUSED_BY = {
    "instances": {"scheduling", "hardware", "investigation"},
    "operations": {"hardware", "investigation"},
    "machine": {"investigation"},
}


@pytest.mark.parametrize("held_by", HoldKind)
@pytest.mark.parametrize("request_", REQUESTS)
def test_requests_are_refused_by_the_holds_with_their_effect(api, request_, held_by):
    effect, state, send = REQUESTS[request_]
    node = api.node(provision_state=state)
    new_hold = hold(api, node, held_by)
    answer = send(api, node)
    if held_by in REFUSED_BY[effect]:
        refused(answer, new_hold)
        assert state == api("GET", f"/v1/nodes/{node['uuid']}").json["provision_state"]
        assert [] == api("GET", f"/v1/nodes/{node['uuid']}/operations").json["operations"]
    else:
        assert answer.status_code in (202, 204), answer.text


@BOTH
def test_an_expiry_may_be_in_seconds_by_the_clock_of_the_database(api):
    new_hold = hold(api, api.node(), expires_in=3600)
    patch = [{"op": "add", "path": "/expires_in", "value": 7200}]
    changed = api("PATCH", f"/v1/holds/{new_hold['uuid']}", patch).json
    with api.runtime.reading() as session:
        present = clock.moment(session)
    for document, seconds in ((new_hold, 3600), (changed, 7200)):
        end = datetime.fromisoformat(document["expires_at"]).replace(tzinfo=None)
        assert -60 < (end - present).total_seconds() - seconds <= 0
        assert "expires_in" not in document


@BOTH
def test_an_expired_hold_has_no_effect_before_it_is_deleted(api):
    node = api.node(provision_state="available")
    new_hold = hold(api, node, expires_at=in_hours(1))
    refused(provision(api, node, "active"), new_hold)
    expire(api, new_hold)
    path = "/v1/nodes?fields=uuid,holds&hold=hardware"
    assert [] == api("GET", path).json["nodes"]
    assert [] == api("GET", f"/v1/nodes/{node['uuid']}?fields=holds").json["holds"]
    explanation = api("GET", f"/v1/nodes/{node['uuid']}/why").json
    assert ([], False) == (explanation["holds"], "hold" in explanation["summary"])
    patch = [{"op": "replace", "path": "/expires_at", "value": in_hours(1)}]
    answer = api("PATCH", f"/v1/holds/{new_hold['uuid']}", patch)
    assert (409, True) == (answer.status_code, "has expired" in fault(answer)["faultstring"])
    assert 202 == provision(api, node, "active").status_code


def test_transitions_without_an_operation_are_not_refused(api):
    node = api.node(provision_state="available")
    hold(api, node, "investigation")
    assert 202 == provision(api, node, "manage").status_code


def test_a_dry_run_names_the_holds(api):
    node = api.node(provision_state="available")
    new_holds = [hold(api, node), hold(api, node, "scheduling")]
    answer = provision(api, node, "active", dry_run=True).json
    assert (False, 409) == (answer["accepted"], answer["refused"][0]["status"])
    assert all(new_hold["uuid"] in answer["refused"][0]["reason"] for new_hold in new_holds)


def test_steps_on_a_held_child_node_are_refused(api):
    parent, child = api.node(provision_state="manageable"), api.node()
    api.set(child["uuid"], parent_node=parent["uuid"])
    steps = [{"interface": "power", "step": "power_on", "execute_on_child_nodes": True}]
    new_hold = hold(api, child)
    refused(provision(api, parent, "clean", clean_steps=steps), new_hold)
    assert 204 == api("DELETE", f"/v1/holds/{new_hold['uuid']}").status_code
    assert 202 == provision(api, parent, "clean", clean_steps=steps).status_code


def test_a_hold_is_set_during_an_operation_which_goes_on(api):
    node = api.node(provision_state="manageable")
    assert 202 == provision(api, node, "provide").status_code
    operations = api("GET", f"/v1/nodes/{node['uuid']}/operations").json
    new_hold = hold(api, node, "investigation")
    assert operations == api("GET", f"/v1/nodes/{node['uuid']}/operations").json
    assert 204 == api("DELETE", f"/v1/holds/{new_hold['uuid']}").status_code


@BOTH
def test_why_names_the_holds(api):
    node = api.node(provision_state="available")
    until = in_hours(3)
    new_hold = hold(api, node, "scheduling", expires_at=until)
    explanation = api("GET", f"/v1/nodes/{node['uuid']}/why").json
    assert (
        f"Held by a scheduling hold {new_hold['uuid']} by an unnamed user since"
        in explanation["summary"]
    )
    assert f"because: {REASON}." in explanation["summary"]
    listed = {name: value for name, value in new_hold.items() if name not in ("node_uuid", "links")}
    assert [listed | {"effects": ["instances"]}] == explanation["holds"]


@BOTH
def test_nodes_show_holds_only_if_the_field_is_named(api):
    held_node, free_node = api.node(), api.node()
    (
        hold(api, held_node, "investigation"),
        hold(api, held_node, "hardware"),
        hold(api, held_node, "hardware"),
    )
    listed_nodes = api("GET", "/v1/nodes?fields=uuid,holds").json["nodes"]
    expected = {held_node["uuid"]: ["hardware", "hardware", "investigation"], free_node["uuid"]: []}
    assert expected == {node["uuid"]: node["holds"] for node in listed_nodes}
    assert (
        expected[held_node["uuid"]]
        == api("GET", f"/v1/nodes/{held_node['uuid']}?fields=holds").json["holds"]
    )
    for path in ("/v1/nodes/detail", "/v1/nodes?detail=true", "/v1/nodes"):
        assert all("holds" not in node for node in api("GET", path).json["nodes"]), path
    assert held_node == api("GET", f"/v1/nodes/{held_node['uuid']}").json
    (one,) = api("GET", "/v1/nodes?hold=hardware").json["nodes"]
    assert held_node["uuid"] == one["uuid"]
    assert [] == api("GET", "/v1/nodes?hold=scheduling").json["nodes"]
    assert 400 == api("GET", "/v1/nodes?hold=coffee").status_code


@BOTH
def test_lists_of_holds_are_paged_and_filtered(api):
    nodes = [api.node() for _ in range(3)]
    new_holds = [hold(api, node, expires_at=in_hours(hours)) for hours, node in enumerate(nodes, 1)]
    new_holds.append(hold(api, nodes[0], "scheduling"))
    with api.runtime.transaction() as session:
        session.execute(
            update(Hold).where(Hold.uuid == new_holds[1]["uuid"]).values(owner="p", user_id="u")
        )

    def listed(query):
        answer = api("GET", f"/v1/holds?{query}")
        assert 200 == answer.status_code, answer.text
        return [hold["uuid"] for hold in answer.json["holds"]]

    uuids = [new_hold["uuid"] for new_hold in new_holds]
    first_page = api("GET", "/v1/holds?limit=3").json
    assert uuids[:3] == [entry["uuid"] for entry in first_page["holds"]]
    assert uuids[3:] == listed(first_page["next"].partition("?")[2])
    moment = in_hours(2.5).replace("+", "%2B")
    assert uuids[:2] == listed(f"expired_before={moment}")
    assert [uuids[1]] == listed("owner=p") == listed("user=u") == listed("owner=p&kind=hardware")
    assert [uuids[3]] == listed("kind=scheduling")
    assert [uuids[0], uuids[3]] == [
        entry["uuid"] for entry in api("GET", f"/v1/nodes/{nodes[0]['uuid']}/holds").json["holds"]
    ]
    assert 400 == api("GET", "/v1/holds?expired_before=soon").status_code


@BOTH
def test_an_undisturbed_deletion_of_a_node_ends_its_holds(api):
    node = api.node(provision_state="manageable")
    hold(api, node, "scheduling")
    last_sequence = api("GET", "/v1/events").json["last"]
    assert 204 == api("DELETE", f"/v1/nodes/{node['uuid']}").status_code
    assert [] == api("GET", "/v1/holds").json["holds"]
    events = api("GET", f"/v1/events?after={last_sequence}").json["events"]
    assert ["node.hold", "node.deleted"] == [change["type"] for change in events]


def test_a_rollout_excludes_held_nodes(api):
    held_node, free_node = (api.node(provision_state="manageable") for _ in range(2))
    new_hold = hold(api, held_node)
    body = {"target": "clean", "clean_steps": STEPS, "nodes": {}, "dry_run": True}
    plan = api("POST", "/v1/rollouts", body).json
    assert [free_node["uuid"]] == [node["node_uuid"] for node in plan["nodes"]]
    (excluded,) = plan["excluded_nodes"]
    assert held_node["uuid"] == excluded["node_uuid"]
    assert f"hardware hold {new_hold['uuid']}" in excluded["reason"]
    power = api("POST", "/v1/rollouts", {"target": "power on", "nodes": {}, "dry_run": True}).json
    assert 2 == power["included"]  # a hardware hold leaves the power to the repair


def test_a_plan_of_a_rollout_reads_all_holds_at_once(api):
    queries = []

    def count(_connection, _cursor, statement, *_rest):
        queries.append(statement)

    def cost():
        queries.clear()
        body = {"target": "clean", "clean_steps": STEPS, "nodes": {}, "dry_run": True}
        event.listen(api.runtime.engine, "before_cursor_execute", count)
        try:
            assert 200 == api("POST", "/v1/rollouts", body).status_code
        finally:
            event.remove(api.runtime.engine, "before_cursor_execute", count)
        return len(queries)

    hold(api, api.node(provision_state="manageable"))
    few = cost()
    for _ in range(5):
        hold(api, api.node(provision_state="manageable"))
    assert few == cost()


@BOTH
def test_nodes_are_filtered_by_the_index_of_kinds(api, kind):
    node = api.node()
    hold(api, node)
    query = "SELECT node_id FROM holds WHERE kind = 'hardware'"
    with api.runtime.transaction() as session:
        if kind == "sqlite":
            plan = session.execute(text(f"EXPLAIN QUERY PLAN {query}")).all()
        else:
            session.execute(text("SET LOCAL enable_seqscan = off"))
            plan = session.execute(text(f"EXPLAIN {query}")).all()
    assert "ix_holds_kind" in str(plan)
