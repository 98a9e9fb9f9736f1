"""/v1/baselines, their nodes, and the compliance of nodes."""

import json
from urllib.parse import quote

import pytest
from sqlalchemy import func, select, update

from app.baselines import comparison
from app.inventory import hardware_inventory, nodes
from app.models import Baseline, BaselineNode, ChangeEvent, FirmwareComponent
from tests.contract.conftest import fault
from tests.support.inside_commands import Ingot

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
MEMORY = {"field": "memory_mb", "operator": ">=", "value": 65536}
BODY = {"name": "rack-a", "selection": "resource_class=compute", "expected": [MEMORY]}


def patch(api, path, **fields):
    changes = [
        {"op": "replace", "path": f"/{name}", "value": value} for name, value in fields.items()
    ]
    return api("PATCH", path, changes)


def create(api, **fields):
    answer = api("POST", "/v1/baselines", BODY | fields)
    assert 201 == answer.status_code, answer.text
    return answer.json


def machine(api, memory=None, name=None, **columns):
    """Create a node of the class; memory: of its recorded inventory, in MiB; return its UUID."""
    uuid = api.node(**{"resource_class": "compute", "name": name, **columns})["uuid"]
    if memory is not None:
        record(api, uuid, memory)
    return uuid


def record(api, uuid, memory):
    with api.runtime.transaction() as session:
        node = nodes.find(session, uuid)
        hardware_inventory.store(session, node, {"memory": {"physical_mb": memory}}, {})


def run_passes(api):
    """Let a conductor run the passes over all baselines, due or not; return what they compared."""
    with api.runtime.transaction() as session:
        session.execute(update(Baseline).values(due_at=Baseline.created_at))
    return comparison.compare_due(api.runtime)


def states(api, path="/v1/baselines/rack-a/nodes"):
    return {item["node_uuid"]: item["state"] for item in api("GET", path).json["nodes"]}


@BOTH
def test_a_baseline_is_created_shown_listed_changed_and_deleted(api):
    answer = api("POST", "/v1/baselines", BODY | {"description": "of rack a"})
    created = answer.json
    path = f"/v1/baselines/{created['uuid']}"
    assert (201, f"http://localhost{path}") == (answer.status_code, answer.location)
    assert BODY | {"description": "of rack a", "acceptance": False, "version": 1} == {
        name: created[name] for name in (*BODY, "description", "acceptance", "version")
    }
    assert created == api("GET", path).json == api("GET", "/v1/baselines/rack-a").json
    (item,) = api("GET", "/v1/baselines").json["baselines"]
    assert {"uuid", "name", "selection", "acceptance", "links"} == set(item)
    assert 409 == api("POST", "/v1/baselines", BODY).status_code
    changed = patch(api, path, expected=[MEMORY | {"value": 1}], description="")
    assert (200, 2) == (changed.status_code, changed.json["version"])
    assert 2 == patch(api, path, description="other", name="rack-b").json["version"]
    assert 3 == patch(api, path, acceptance="yes").json["version"]
    assert (204, 404) == (api("DELETE", path).status_code, api("GET", path).status_code)


#: Wrong body, and what its error names.
WRONG = [
    ({"name": "a b"}, "name"), ({"name": None}, "name"), ({"selection": ""}, "selection"),
    ({"selection": "memory=5"}, "Character 1 of selection: there is no field 'memory'"),
    ({"selection": "name=x or not differs=rack-a"}, "by differs"), ({"selection": "(name=x"}, "of selection"), ({"selection": 7}, "selection"),
    ({"selection": "name=*\0"}, "selection"), ({"selection": "x" * 4097}, "selection"),
    ({"expected": None}, "expected"), ({"expected": []}, "expected"), ({"expected": {}}, "expected"),
    ({"expected": [7]}, "expected"), ({"expected": [{}]}, "field"),
    ({"expected": [MEMORY] * 201}, "expected"),
    ({"expected": [MEMORY | {"field": "memory"}]}, "the nearest is memory_mb"),
    ({"expected": [MEMORY | {"field": 7}]}, "field"), ({"expected": [MEMORY | {"field": "a\0"}]}, "expected"),
    ({"expected": [MEMORY | {"operator": "matches"}]}, "memory_mb is a number, which takes =, >=, <=, in"),
    ({"expected": [MEMORY | {"operator": "~"}]}, "operator"), ({"expected": [MEMORY | {"operator": None}]}, "operator"),
    ({"expected": [MEMORY | {"value": "64"}]}, "memory_mb is a number: an integer"),
    ({"expected": [MEMORY | {"value": {}}]}, "value"),
    ({"expected": [MEMORY | {"value": None}]}, "value"), ({"expected": [MEMORY | {"value": [[1]]}]}, "value"),
    ({"expected": [MEMORY | {"value": 10**18}]}, "value"), ({"expected": [MEMORY | {"unit": "GB"}]}, "unit"),
    ({"expected": [MEMORY, MEMORY | {"value": True}]}, "expected/1/value"),
    ({"acceptance": "perhaps"}, "acceptance"), ({"version": 7}, "version"), ({"nodes": "x"}, "nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_a_wrong_baseline_is_refused(api, fields, message):
    answer = api("POST", "/v1/baselines", BODY | fields)
    assert 400 == answer.status_code, answer.text
    assert message in fault(answer)["faultstring"]
    assert [] == api("GET", "/v1/baselines").json["baselines"]


@pytest.mark.parametrize(
    "fields",
    [
        {"expected": []}, {"expected": [MEMORY | {"value": "64"}]}, {"selection": "memory=5"},
        {"selection": None}, {"version": 9}, {"name": None}, {"expected": None},
    ],
)  # fmt: skip
def test_a_wrong_change_changes_nothing(api, fields):
    created = create(api)
    assert 400 == patch(api, "/v1/baselines/rack-a", **fields).status_code
    assert created == api("GET", "/v1/baselines/rack-a").json


def test_there_is_a_limit_to_the_number_of_baselines(api, monkeypatch):
    monkeypatch.setattr("app.baselines.baselines.MOST", 1)
    create(api)
    answer = api("POST", "/v1/baselines", BODY | {"name": "more"})
    assert (409, True) == (answer.status_code, "delete one" in fault(answer)["faultstring"])


@BOTH
def test_a_pass_compares_the_selected_nodes(api):
    create(api)
    small, large, unread = machine(api, 1024, "small"), machine(api, 65536), machine(api)
    machine(api, 1, resource_class="storage")
    assert 3 == run_passes(api)
    assert {small: "differs", large: "complies", unread: "unknown"} == states(api)
    assert {small: "differs"} == states(api, "/v1/baselines/rack-a/nodes?state=differs")
    assert 400 == api("GET", "/v1/baselines/rack-a/nodes?state=bad").status_code
    assert 404 == api("GET", "/v1/baselines/other/nodes").status_code
    (item,) = api("GET", "/v1/nodes/small/compliance").json["compliance"]
    (difference,) = item["differences"]
    since = difference.pop("since")
    assert {
        "field": "memory_mb", "operator": ">=", "expected": 65536, "actual": 1024
    } == difference  # fmt: skip
    assert ("rack-a", "differs", None) == tuple(
        item[name] for name in ("baseline_name", "state", "hold_uuid")
    )
    explanation = api("GET", "/v1/nodes/small/why").json
    assert (
        "It differs from baseline rack-a: memory_mb is 1024, expected >= 65536."
        in explanation["summary"]
    )
    assert explanation["waiting_for"] is None
    (unknown,) = api("GET", f"/v1/nodes/{unread}/compliance").json["compliance"]
    assert (None, "unknown") == (unknown["differences"][0]["actual"], unknown["state"])

    assert 0 == run_passes(api), "nothing is outdated"
    record(api, small, 2048)
    api.set(large, resource_class="storage")
    assert 2 == run_passes(api), "one has other facts, one is selected no more"
    assert {small: "differs", unread: "unknown"} == states(api)
    (item,) = api("GET", "/v1/nodes/small/compliance").json["compliance"]
    assert (2048, since) == (item["differences"][0]["actual"], item["differences"][0]["since"])
    assert 200 == patch(api, "/v1/baselines/rack-a", expected=[MEMORY | {"value": 9}]).status_code
    assert 2 == comparison.compare_due(api.runtime), "a change is due at once"
    assert {small: "complies", unread: "unknown"} == states(api)


@BOTH
def test_the_begin_and_the_end_of_a_difference_are_events(api):
    uuid = create(api)["uuid"]
    node = machine(api, 1024, "small")
    machine(api)  # unknown: no event
    last_sequence = api("GET", "/v1/events").json["last"]

    def events():
        answer = api("GET", f"/v1/events?after={last_sequence}&type=node.compliance").json
        keys = ("node_uuid", "resource_uuid", "resource_name", "before", "after")
        return [tuple(event[key] for key in keys) for event in answer["events"]]

    run_passes(api)
    assert [(node, uuid, "rack-a", None, "differs")] == events()
    run_passes(api)
    record(api, node, 2048)
    run_passes(api)
    assert 1 == len(events()), "it differs as before"
    record(api, node, 65536)
    run_passes(api)
    assert (node, uuid, "rack-a", "differs", "complies") == events()[-1]
    record(api, node, 1024)
    run_passes(api)
    assert 204 == api("DELETE", "/v1/baselines/rack-a").status_code
    assert (node, uuid, "rack-a", "differs", None) == events()[-1]
    assert 4 == len(events())


@BOTH
def test_pages_and_batches_are_small(api, monkeypatch):
    """A page of a pass, and its transactions, have fewer nodes than the baseline."""
    monkeypatch.setattr(comparison, "PAGE", 3)
    monkeypatch.setattr(comparison, "BATCH", 2)
    create(api, selection="name=*")
    compared = [machine(api, 1, f"n{number}") for number in range(7)]
    machine(api, 1, "child", parent_node=compared[0])
    assert 7 == run_passes(api)
    path, node_uuids = "/v1/baselines/rack-a/nodes?limit=3", []
    while path:
        page = api("GET", path).json
        node_uuids += [item["node_uuid"] for item in page["nodes"]]
        path = page.get("next", "").removeprefix("http://localhost")
    assert sorted(compared) == sorted(node_uuids)
    patch(api, "/v1/baselines/rack-a", selection="name=n1,n5")
    assert 7 == comparison.compare_due(api.runtime)
    assert {compared[1], compared[5]} == set(states(api))
    assert 400 == api("GET", "/v1/baselines/rack-a/nodes?marker=n1").status_code
    assert 404 == api("GET", f"/v1/baselines/rack-a/nodes?marker={compared[0]}").status_code


def test_a_node_is_deleted_with_its_comparisons(api):
    create(api)
    machine(api, 1, "gone", provision_state="manageable")
    run_passes(api)
    assert 204 == api("DELETE", "/v1/nodes/gone").status_code
    assert {} == states(api)
    with api.runtime.reading() as session:
        assert 0 == session.scalar(select(func.count()).select_from(BaselineNode))
        types = session.scalars(select(ChangeEvent.type).order_by(ChangeEvent.id)).all()
    assert ["node.compliance", "node.compliance", "node.deleted"] == types[-3:]


def test_a_baseline_that_cannot_be_read_does_not_stop_the_others(api, caplog):
    """As after a downgrade, to a release without a field of the selection or a rule."""
    create(api)
    node = machine(api, 1)
    for name, columns in (("bad", {"selection": "no_field=1"}), ("worse", {"expected": [{}]})):
        create(api, name=name)
        with api.runtime.transaction() as session:
            session.execute(update(Baseline).where(Baseline.name == name).values(**columns))
    assert 1 == run_passes(api)
    assert {node: "differs"} == states(api)
    with api.runtime.reading() as session:
        assert comparison.DUE_ONE.first(session.connection(), {}) is None, "they are tried later"


def test_firmware_is_compared_by_component(api):
    create(api, expected=[
        {"field": "firmware.bmc", "operator": "matches", "value": "7.*"},
        {"field": "firmware.nic:1.2", "operator": "in", "value": ["1", "2"]},
    ])  # fmt: skip
    node = machine(api, 1)
    with api.runtime.transaction() as session:
        row = {"node_id": nodes.find(session, node).id, "initial_version": ""}
        session.add(FirmwareComponent(component="bmc", current_version="6.9", **row))
        session.add(FirmwareComponent(component="nic:1.2", current_version=None, **row))
    run_passes(api)
    (item,) = api("GET", f"/v1/nodes/{node}/compliance").json["compliance"]
    assert [("firmware.bmc", "6.9"), ("firmware.nic:1.2", None)] == [
        (difference["field"], difference["actual"]) for difference in item["differences"]
    ]
    assert "differs" == item["state"]


def test_commands_show_differences_in_words(api, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    ingot = Ingot(api.client.application)
    rules = tmp_path / "rules.json"
    rules.write_text(
        json.dumps([MEMORY, {"field": "cpu.count", "operator": "in", "value": [8, 16]}])
    )
    selection = ("--selection", "resource_class=compute")
    assert (
        0
        == ingot(
            "baseline", "create", "--name", "rack-a", *selection, "--expected", str(rules)
        ).status
    )
    machine(api, 1024, "small")
    run_passes(api)
    row = "memory_mb 1024 (expected >= 65536); cpu.count unknown (expected in 8,16)"
    for words in (("baseline", "nodes", "rack-a"), ("node", "compliance", "small")):
        table = ingot(*words)
        assert row in table.out, table.err
        (item,) = json.loads(ingot(*words, "-o", "json").out)
        assert [1024, None] == [difference["actual"] for difference in item["differences"]]
    assert [] == json.loads(
        ingot("baseline", "nodes", "rack-a", "--state", "complies", "-o", "json").out
    )
    wrong_rules = '[{"field": "memory", "operator": "=", "value": 1}]'
    wrong = ingot("baseline", "set", "rack-a", "--expected", wrong_rules, status=1)
    assert "the nearest is memory_mb" in wrong.err
    assert 0 == ingot("baseline", "delete", "rack-a").status


@BOTH
def test_nodes_are_selected_by_their_differences(api):
    for name in ("rack-a", "rack-b"):
        create(api, name=name)
    machine(api, 65536, "large")
    machine(api, None, "unread")
    machine(api, 1024, "small")
    machine(api, 1, "else", resource_class="storage")
    run_passes(api)

    def selected(expression):
        answer = api("GET", f"/v1/nodes?fields=name&where={quote(expression)}")
        return [node["name"] for node in answer.json["nodes"]]

    for expression in ("differs=rack-a", "differs=*", "differs=rack-b,other", "differs~ACK"):
        assert ["small"] == selected(expression), expression
    assert [] == selected("differs=other")
    assert ["large", "unread", "else"] == selected("not differs=rack-a")
    body = {"target": "clean", "nodes": {"where": "differs=rack-a"}, "dry_run": True}
    body["clean_steps"] = [{"interface": "bios", "step": "factory_reset"}]
    api.set(api("GET", "/v1/nodes/small").json["uuid"], provision_state="manageable")
    plan = api("POST", "/v1/rollouts", body).json
    assert ["small"] == [node["node_name"] for node in plan["nodes"]]


SETTINGS = [
    {"field": "bios.BootMode", "operator": "=", "value": "Uefi"},
    {"field": "bios.LogicalProc", "operator": "in", "value": ["Enabled", "Auto"]},
    {"field": "bios.TurboMode", "operator": "=", "value": "On"},
]
FIRMWARE = {"field": "firmware.bmc", "operator": ">=", "value": "7.10"}


def test_a_firmware_version_has_a_lower_bound(api):
    create(api, expected=[FIRMWARE])
    versions = {"old": "7.9.30", "exact": "7.10.0", "new": "7.10.50", "other": "Board-X 9.1"}
    for name, version in versions.items():
        with_version(api, machine(api, 1, name), version)
    run_passes(api)
    items = api("GET", "/v1/baselines/rack-a/nodes").json["nodes"]
    assert {"old": "differs", "exact": "complies", "new": "complies", "other": "differs"} == {
        item["node_name"]: item["state"] for item in items
    }
    (item,) = api("GET", "/v1/nodes/old/compliance").json["compliance"]
    assert (">=", "7.10", "7.9.30") == tuple(
        item["differences"][0][name] for name in ("operator", "expected", "actual")
    )


def with_version(api, uuid, version):
    with api.runtime.transaction() as session:
        row = {"node_id": nodes.find(session, uuid).id, "initial_version": ""}
        session.add(FirmwareComponent(component="bmc", current_version=version, **row))


def rollouts(api):
    return api("GET", "/v1/rollouts").json["rollouts"]


@pytest.fixture
def differing(api):
    """The names of two manageable nodes that differ from a baseline, beside one that complies."""
    create(api, expected=[FIRMWARE, *SETTINGS])
    create(api, name="rack-b", expected=[FIRMWARE])
    for name, version in (("old", "7.9"), ("older", "6.1"), ("new", "7.10")):
        uuid = machine(api, 1, name)
        with_version(api, uuid, version)
        api.set(uuid, provision_state="manageable")
    run_passes(api)
    return ["old", "older"]


def test_a_remedy_shows_its_plan_and_is_rolled_out_over_the_nodes_that_differ(api, differing):
    ingot = Ingot(api.client.application)
    lines = ingot("baseline", "remedy", "rack-a", "--dry-run", "-o", "table").lines
    assert "applies BIOS settings: BootMode=Uefi, TurboMode=On" == lines[0]
    assert "2 nodes in 2 waves, 0 excluded; pauses at 1 failed node" == lines[1]
    assert [] == rollouts(api)
    refused = ingot("baseline", "remedy", "rack-a", status=2)
    assert "clean: 2 nodes in 2 waves: needs --yes" in refused.err
    assert [] == rollouts(api)
    ingot("baseline", "remedy", "rack-a", "--max-unavailable", "2", "--yes")
    (rollout,) = rollouts(api)
    assert ('(differs="rack-a")', "remedy for baseline rack-a", 2, 1) == (
        f"({rollout['filters']['where']})", rollout["description"], rollout["nodes"],
        rollout["waves"],
    )  # fmt: skip
    settings = [{"name": "BootMode", "value": "Uefi"}, {"name": "TurboMode", "value": "On"}]
    (step,) = rollout["arguments"]["clean_steps"]
    assert ("bios", "apply_configuration", {"settings": settings}) == (
        step["interface"], step["step"], step["args"],
    )  # fmt: skip


def test_a_remedy_has_other_steps_nodes_and_verbs(api, differing):
    ingot = Ingot(api.client.application)
    steps = '[{"interface": "firmware", "step": "update", "args": {"settings": []}}]'
    narrow = ("--where", "name=older", "--where", "not maintenance", "--yes")
    ingot("baseline", "remedy", "rack-b", "--steps", steps, *narrow, "--description", "bmc")
    (rollout,) = rollouts(api)
    assert ("bmc", 1, "clean", "update") == (
        rollout["description"], rollout["nodes"], rollout["target"],
        rollout["arguments"]["clean_steps"][0]["step"],
    )  # fmt: skip
    body = json.loads(
        ingot("baseline", "remedy", "rack-a", "service", "--dry-run", "-o", "json").out
    )
    assert ("service", 2) == (body["target"], body["excluded"]), "manageable nodes take no service"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("rack-b",), 2, 'baseline rack-b expects no BIOS settings by "="'),
        (("rack-a", "--steps", "[]", "--runbook", "CUSTOM_A"), 2, "--steps and --runbook"),
        (("rack-a", "rebuild"), 2, "'rebuild' is not one of 'clean', 'service'"),
        (("rack-c",), 1, "could not be found"),
        (("rack-a", "--where", "nam=x"), 2, "there is no field 'nam'"),
        (("rack-a", "--where", "name=new"), 1, "nodes: no node matches"),
    ],
)
def test_a_wrong_remedy_is_refused(api, differing, words, status, message):
    ingot = Ingot(api.client.application)
    assert message in ingot("baseline", "remedy", *words, "--yes", status=status).err
    assert [] == rollouts(api)


def test_a_remedy_in_which_no_node_takes_part_asks_nothing(api, differing):
    refused = Ingot(api.client.application)(
        "baseline", "remedy", "rack-a", "--where", "name=new", status=1
    )
    assert "nodes: no node matches" in refused.err
    assert "--yes" not in refused.err
