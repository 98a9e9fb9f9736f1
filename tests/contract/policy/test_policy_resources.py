"""Permissions on resources of nodes, of projects, and of the whole system."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from app.inventory.nodes import find
from app.models import (
    Allocation,
    Operation,
    OperationStep,
    Portgroup,
    Quota,
    RolloutNode,
    Runbook,
    VolumeConnector,
    VolumeTarget,
)

from .conftest import (
    LESSEE,
    OPERATE,
    OTHER,
    OWNER,
    PEOPLE,
    SEE,
    SET_UP,
    SYSTEM_ADMIN,
    SYSTEM_WORK,
    WIRE,
    each_strategy,
    filled,
    people,
)

NOON = datetime(2026, 1, 1, 12)
MANAGE = people("system-member", "owner-manager", "lessee-manager", "svc")
SYSTEM_READ = people("system-reader") | {"system-service"}
EXTRA = [{"op": "add", "path": "/extra/a", "value": 1}]
MORE = [{"op": "replace", "path": "/node_limit", "value": 2}]
STEPS = [{"interface": "deploy", "step": "erase_devices", "args": {}, "order": 1}]


def uuid(number):
    return f"{number:08d}-1111-4111-8111-111111111111"


@pytest.fixture
def things(guarded):
    """
    name -> UUID of the resources besides the node: its parts, resources of the owner's project,
    and resources without an owner.
    """
    parts = {
        "portgroup": lambda node: Portgroup(node_id=node, mode="active-backup"),
        "connector": lambda node: VolumeConnector(node_id=node, type="iqn", connector_id=str(node)),
        "target": lambda node: VolumeTarget(
            node_id=node, volume_type="iscsi", volume_id="v", boot_index=0, properties={"p": "here"}
        ),
        "allocation": lambda node: Allocation(
            node_id=node,
            resource_class="c",
            owner=OWNER if node == own_id else None,
            state="active",
        ),
        "runbook": lambda node: Runbook(
            name=f"CUSTOM_{node}", owner=OWNER if node == own_id else None, steps=STEPS
        ),
    }
    uuids = {}
    with guarded.api.runtime.transaction() as session:
        own_id, foreign_id = (find(session, node).id for node in (guarded.node, guarded.foreign))
        for number, (name, make) in enumerate(parts.items()):
            for prefix, node in (("", own_id), ("foreign_", foreign_id)):
                row = make(node)
                row.uuid = uuids[prefix + name] = uuid(10 * number + len(prefix))
                session.add(row)
        session.add(Quota(uuid=uuid(98), project=LESSEE, node_limit=1))
        session.add(Runbook(uuid=uuid(99), name="CUSTOM_ALL", public=True, steps=STEPS))
    return uuids | {
        "public_runbook": uuid(99),
        "quota": uuid(98),
        "node": guarded.node,
        "foreign": guarded.foreign,
    }


ALLOCATION_READ = people("system-reader", "owner-reader") | {"system-service"}
ALLOCATION_WORK = people("system-member", "owner-member")
SERVICES = {caller for caller in PEOPLE if caller.endswith("-service")} | {"service-project"}
RUNBOOK_READ = people("system-reader", "owner-reader") | SERVICES
QUOTA_READ = people("system-reader", "lessee-reader") | {"system-service"}
RUNBOOK_WORK = people("system-member", "owner-manager") | SERVICES

#: (method, path, body), permitted callers, and other callers that may see the resource.
ON_THINGS = [
    (("GET", "/v1/portgroups/{portgroup}"), SEE, SEE),
    (("PATCH", "/v1/portgroups/{portgroup}", EXTRA), SET_UP, SEE),
    (("DELETE", "/v1/portgroups/{portgroup}"), WIRE, SEE),
    (("GET", "/v1/portgroups/{portgroup}/ports"), SEE, SEE),
    (("GET", "/v1/nodes/{node}/portgroups"), SEE, SEE),
    (("GET", "/v1/volume/connectors/{connector}"), SEE, SEE),
    (("PATCH", "/v1/volume/connectors/{connector}", EXTRA), OPERATE, SEE),
    (("DELETE", "/v1/volume/connectors/{connector}"), MANAGE, SEE),
    (("GET", "/v1/volume/targets/{target}"), SEE, SEE),
    (("PATCH", "/v1/volume/targets/{target}", EXTRA), OPERATE, SEE),
    (("DELETE", "/v1/volume/targets/{target}"), MANAGE, SEE),
    (("GET", "/v1/nodes/{node}/volume/targets"), SEE, SEE),
    (("GET", "/v1/allocations/{allocation}"), ALLOCATION_READ, ALLOCATION_READ),
    (("PATCH", "/v1/allocations/{allocation}", EXTRA), ALLOCATION_WORK, ALLOCATION_READ),
    (("GET", "/v1/nodes/{node}/allocation"), ALLOCATION_READ, SEE),
    (("DELETE", "/v1/allocations/{allocation}"), ALLOCATION_WORK, ALLOCATION_READ),
    (("GET", "/v1/quotas/{quota}"), QUOTA_READ, QUOTA_READ),
    (("PATCH", "/v1/quotas/{quota}", MORE), SYSTEM_ADMIN, QUOTA_READ),
    (("DELETE", "/v1/quotas/{quota}"), SYSTEM_ADMIN, QUOTA_READ),
    (("GET", "/v1/runbooks/{runbook}"), RUNBOOK_READ, RUNBOOK_READ),
    (("GET", "/v1/runbooks/{public_runbook}"), set(PEOPLE), set()),
    (("PATCH", "/v1/runbooks/{public_runbook}", EXTRA),
     people("system-member") | SERVICES, set(PEOPLE)),
    (("PATCH", "/v1/runbooks/{runbook}", EXTRA), RUNBOOK_WORK, RUNBOOK_READ),
    (("PATCH", "/v1/runbooks/{runbook}", [{"op": "replace", "path": "/owner", "value": OTHER}]),
     SYSTEM_WORK, RUNBOOK_READ),
    (("PATCH", "/v1/runbooks/{runbook}", [{"op": "replace", "path": "/public", "value": True}]),
     SYSTEM_WORK, RUNBOOK_READ),
    (("DELETE", "/v1/runbooks/{runbook}"), RUNBOOK_WORK, RUNBOOK_READ),
]  # fmt: skip


@each_strategy
@pytest.mark.parametrize(("request_", "allowed", "readers"), ON_THINGS)
def test_permissions_on_resources(guarded, things, request_, allowed, readers):
    for caller in sorted(
        guarded.people, key=lambda caller: caller in allowed
    ):  # permitted callers come last
        method, path, *body = filled(list(request_), **things)
        status = guarded.ask(caller, method, path, *body).status_code

        if caller in allowed:
            assert status not in (401, 403), caller
            assert status != 404 or method == "DELETE", caller
        elif caller in readers or caller == "domain-admin":
            assert 403 == status, caller
        else:
            assert 404 == status, caller


#: Requests that create resources, or concern the whole system.
ELSEWHERE = [
    (("POST", "/v1/portgroups", {"node_uuid": "{node}"}), WIRE),
    (("POST", "/v1/volume/connectors",
      {"node_uuid": "{node}", "type": "ip", "connector_id": "x"}), MANAGE),
    (("POST", "/v1/volume/targets",
      {"node_uuid": "{node}", "volume_type": "i", "volume_id": "x", "boot_index": 1}), MANAGE),
    (("POST", "/v1/allocations", {"resource_class": "large"}),
     {caller for caller in PEOPLE if caller.endswith(("-admin", "-manager", "-member"))} - {"domain-admin"}),
    (("POST", "/v1/runbooks", {"name": "CUSTOM_NEW", "steps": STEPS}),
     {caller for caller in PEOPLE if caller.endswith(("-admin", "-manager"))} - {"domain-admin"} | SERVICES
     | {"system-member"}),
    (("GET", "/v1/operations"), set(PEOPLE) - {"nobody", "domain-admin"}),
    (("GET", "/v1/operations/current"), set(PEOPLE) - {"nobody", "domain-admin"}),
    (("GET", "/v1/operations/queues"), set(PEOPLE) - {"nobody", "domain-admin"}),
    (("GET", "/v1/operations/steps"), set(PEOPLE) - {"nobody", "domain-admin"}),
    (("GET", "/v1/operations/failures"), set(PEOPLE) - {"nobody", "domain-admin"}),
    (("GET", "/v1/service"), SYSTEM_READ),
    (("GET", "/v1/shards"), SYSTEM_READ),
    (("GET", "/v1/baselines"), SYSTEM_READ),
    (("GET", "/v1/baselines/none/nodes"), SYSTEM_READ),
    (("POST", "/v1/baselines", {}), SYSTEM_ADMIN),
    (("POST", "/v1/quotas", {}), SYSTEM_ADMIN),
    (("PATCH", "/v1/baselines/none", []), SYSTEM_ADMIN),
    (("DELETE", "/v1/baselines/none"), SYSTEM_ADMIN),
    (("GET", "/v1/chassis"), SYSTEM_READ),
    (("POST", "/v1/chassis", {}), SYSTEM_ADMIN),
    (("GET", "/v1/deploy_templates"), SYSTEM_READ),
    (("POST", "/v1/deploy_templates", {}), SYSTEM_ADMIN),
    (("POST", "/v1/events", {}), SYSTEM_ADMIN),
    (("GET", "/v1/volume"), set(PEOPLE)),
]  # fmt: skip


@each_strategy
@pytest.mark.parametrize(("request_", "allowed"), ELSEWHERE)
def test_permissions_without_a_resource(guarded, request_, allowed):
    for caller in guarded.people:
        method, path, *body = filled(list(request_), node=guarded.node)

        assert (caller in allowed) == (
            guarded.ask(caller, method, path, *body).status_code != 403
        ), caller


@pytest.mark.parametrize(
    ("caller", "sees"),
    [
        ("system-reader", {"", "foreign_", "public_"}),
        ("owner-reader", {"", "public_"}),
        ("lessee-reader", {"", "public_"}),
        ("other-admin", {"public_"}),
    ],
)
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("portgroups", "portgroup"),
        ("volume/connectors", "connector"),
        ("volume/targets", "target"),
        ("allocations", "allocation"),
        ("runbooks", "runbook"),
    ],
)
def test_lists_have_the_resources_of_the_callers_project(guarded, things, caller, sees, path, name):
    if caller == "lessee-reader" and name in ("allocation", "runbook"):
        sees = {"public_"}  # a lessee of a node does not own its owner's resources
    expected = {things[prefix + name] for prefix in sees if prefix + name in things}

    listed = guarded.ask(caller, "GET", f"/v1/{path}").json[path.rpartition("/")[2]]
    assert expected == {entry["uuid"] for entry in listed}


@pytest.mark.parametrize(
    ("caller", "sees_properties"),
    [("system-reader", True), ("owner-admin", True), ("owner-manager", False), ("lessee-admin", True)],
)  # fmt: skip
def test_properties_of_a_volume_are_for_admins(guarded, things, caller, sees_properties):
    for path in ("/v1/volume/targets/{target}", "/v1/volume/targets?detail=true"):
        assert sees_properties == (
            '"here"' in guarded.ask(caller, "GET", path.format(**things)).text
        )


def test_a_project_owns_the_resources_that_it_creates(guarded):
    def make(caller, path, **fields):
        fields = (
            {"resource_class": "c"} | fields if path == "allocations" else {"steps": STEPS} | fields
        )
        return guarded.ask(caller, "POST", f"/v1/{path}", fields)

    assert OWNER == make("owner-member", "allocations").json["owner"]
    assert 403 == make("owner-member", "allocations", owner=OTHER).status_code
    assert OTHER == make("system-member", "allocations", owner=OTHER).json["owner"]
    assert OWNER == make("owner-manager", "runbooks", name="CUSTOM_1").json["owner"]
    assert 400 == make("owner-manager", "runbooks", name="CUSTOM_2", owner=OTHER).status_code
    assert 400 == make("owner-manager", "runbooks", name="CUSTOM_3", public=True).status_code
    assert make("system-member", "runbooks", name="CUSTOM_4", public=True).json["public"]
    assert make("system-service", "runbooks", name="CUSTOM_5").json["owner"] is None
    for fields in ({"owner": OWNER}, {"public": True}):
        refused = make("system-service", "runbooks", name="CUSTOM_6", **fields)
        assert 403 == refused.status_code
        assert "baremetal:runbook:update:owner" in refused.text


#: Path, a body, the rule that lets the caller create such a resource, the rule for any owner.
NEW = [
    ("nodes", {"driver": "fake-hardware"}, "node:create:self_owned_node", "node:create"),
    ("allocations", {"resource_class": "c"}, "allocation:create", "allocation:create_restricted"),
    ("runbooks", {"name": "CUSTOM_X", "steps": STEPS}, "runbook:create", "runbook:update:owner"),
    ("webhooks", {"name": "w", "url": "https://receiver.example/", "secret": "0123456789abcdef"},
     "webhook:create", "webhook:create_restricted"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "create", "any_owner"), NEW)
def test_system_scope_alone_gives_no_right_to_name_an_owner(
    guarded, tmp_path, path, body, create, any_owner
):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f'"baremetal:{create}": "role:reader"\n"baremetal:{any_owner}": "!"\n')
    ask = guarded.make(oslo_policy={"policy_file": str(policy)})

    refused = ask("system-admin", "POST", f"/v1/{path}", body | {"owner": OTHER})

    assert 403 == refused.status_code
    assert f"baremetal:{any_owner}" in refused.text
    if path != "runbooks":  # one without an owner is no more than the caller's own
        assert 403 == ask("system-admin", "POST", f"/v1/{path}", body).status_code
    answer = ask("owner-reader", "POST", f"/v1/{path}", body)
    assert (201, OWNER) == (answer.status_code, answer.json["owner"])


def test_an_allocation_with_an_invisible_node_is_refused(guarded):
    for fields in ({"candidate_nodes": [guarded.node, guarded.foreign]}, {"node": guarded.foreign}):
        body = {"resource_class": "c", **fields}
        assert 400 == guarded.ask("owner-member", "POST", "/v1/allocations", body).status_code
    body = {"resource_class": "c", "candidate_nodes": [guarded.node]}
    assert 201 == guarded.ask("owner-member", "POST", "/v1/allocations", body).status_code


def test_a_runbook_is_run_by_permitted_callers_only(guarded, things):
    def run(caller, runbook):
        body = {"target": "clean", "runbook": things[runbook]}
        path = f"/v1/nodes/{guarded.node}/states/provision"
        return guarded.ask(caller, "PUT", path, body).status_code

    assert 404 == run("lessee-manager", "runbook")
    assert 403 == run("owner-member", "runbook")
    assert run("owner-manager", "runbook") not in (403, 404)
    assert run("lessee-manager", "public_runbook") not in (403, 404)


@pytest.mark.parametrize(
    ("caller", "sees"),
    [
        ("system-reader", {"node", "foreign"}), ("system-service", {"node", "foreign"}),
        ("owner-reader", {"node"}), ("lessee-reader", {"node"}), ("other-admin", set()),
        ("nobody", 403), ("domain-admin", 403),
    ],
)  # fmt: skip
def test_events_are_those_of_the_callers_project_at_that_time(guarded, things, caller, sees):
    guarded.api.set(guarded.node, maintenance=True)
    guarded.api.set(guarded.foreign, maintenance=True)
    answer = guarded.ask(caller, "GET", "/v1/events?type=node.maintenance")
    if isinstance(sees, int):
        assert sees == answer.status_code
        return
    assert {things[name] for name in sees} == {
        event["node_uuid"] for event in answer.json["events"]
    }
    guarded.api.set(guarded.node, owner=OTHER, lessee=None)
    again = guarded.ask(caller, "GET", "/v1/events?type=node.maintenance").json["events"]
    assert answer.json["events"] == again, "a new owner does not learn the node's past"


def failed_step():
    """A step that took a minute and failed."""
    return OperationStep(
        position=0, interface="power", name="reboot", source="frame", state="failed",
        started_at=NOON, finished_at=NOON + timedelta(minutes=1),
    )  # fmt: skip


@pytest.fixture
def worked(guarded):
    """UUIDs of a node's operations, "failed" and "queued", of the owner's node and of `foreign`."""
    uuids = {}
    with guarded.api.runtime.transaction() as session:
        for node_name in ("node", "foreign"):
            node = find(session, getattr(guarded, node_name)).id
            age = timedelta(hours=node_name == "foreign")
            columns = {"node_id": node, "created_at": NOON - age}
            error = {"code": "timeout", "step": "power.reboot", "message": node_name}
            rows = {
                "failed": Operation(kind="clean", state="failed", error=error, **columns),
                "held": Operation(kind="power", state="held", **columns),
                "queued": Operation(
                    kind="power", state="queued", queue="clean", round=1, **columns
                ),
            }
            for name, row in rows.items():
                row.uuid = uuids[name, node_name] = str(uuid4())
                session.add(row)
                session.flush()
                step = failed_step()
                step.operation_id = row.id
                session.add(step)
    return uuids


@each_strategy
@pytest.mark.parametrize(
    ("caller", "node_names"),
    [
        ("system-reader", {"node", "foreign"}), ("owner-reader", {"node"}),
        ("lessee-admin", set()), ("other-admin", set()),
    ],
)  # fmt: skip
def test_summaries_concern_the_operations_of_the_callers_project(
    guarded, worked, caller, node_names
):
    def get(path):
        answer = guarded.ask(caller, "GET", f"/v1/{path}")
        assert 200 == answer.status_code, answer.text
        return answer.json

    def of(state):
        return {worked[state, name] for name in node_names}

    created = {
        operation["uuid"]: operation["created_at"] for operation in get("operations")["operations"]
    }
    assert of("failed") | of("held") | of("queued") == created.keys()
    current = get("operations/current")
    assert of("held") == {step["uuid"] for step in current["steps"]}
    assert len(node_names) == current["counts"]["held"] == current["counts"]["admission"]
    queues = get("operations/queues")["queues"]
    assert bool(node_names) == len(queues), "queues without the caller's operations are not shown"
    assert of("queued") == {
        operation["uuid"] for queue in queues for operation in queue["operations"]
    }
    for queue in queues:
        assert 2 == queue["queued"], "lengths are those of all projects"
        assert queue["oldest_at"] == min(created[operation_uuid] for operation_uuid in of("queued"))
    assert 3 * len(node_names) == sum(step["runs"] for step in get("operations/steps")["steps"])
    failures = get("operations/failures")
    assert len(node_names) == failures["nodes"]
    assert {group["example"]["message"] for group in failures["groups"]} <= node_names
    nodes = get("nodes?failure_code=timeout")["nodes"]
    assert {getattr(guarded, name) for name in node_names} == {node["uuid"] for node in nodes}


# rollouts

ROLLOUT = {
    "target": "clean", "nodes": {},
    "clean_steps": [{"interface": "vendor", "step": "log_passthrough"}],
}  # fmt: skip


@pytest.fixture
def of_owner(guarded):
    """UUID of a rollout of the owner's project; all nodes are manageable."""
    for node in (guarded.node, guarded.foreign):
        guarded.api.set(node, provision_state="manageable")
    answer = guarded.ask("owner-manager", "POST", "/v1/rollouts", ROLLOUT)
    assert 201 == answer.status_code, answer.text
    return answer.json["uuid"]


def included(guarded, caller, body=ROLLOUT):
    """Nodes that take part, and those that do not, of a caller's dry run."""
    answer = guarded.ask(caller, "POST", "/v1/rollouts", {**body, "dry_run": True})
    assert 200 == answer.status_code, answer.text
    return tuple(
        {node["node_uuid"] for node in answer.json[name]} for name in ("nodes", "excluded_nodes")
    )


def test_a_rollout_has_the_nodes_on_which_the_caller_may_act(guarded, of_owner):
    own_nodes, both = {guarded.node}, {guarded.node, guarded.foreign}
    assert (both, set()) == included(guarded, "system-member")
    assert (own_nodes, set()) == included(guarded, "owner-manager")
    assert (own_nodes, set()) == included(guarded, "lessee-manager")
    assert (set(), own_nodes) == included(guarded, "lessee-member"), "it may see the node only"
    assert (set(), set()) == included(guarded, "other-admin")
    power = {"target": "power on", "nodes": {}}
    assert (own_nodes, set()) == included(guarded, "lessee-member", power)
    refused = guarded.ask("lessee-member", "POST", "/v1/rollouts", ROLLOUT)
    assert 400 == refused.status_code, "no node is left"


def test_a_name_of_a_node_that_the_caller_does_not_see_is_that_of_no_node(guarded, of_owner):
    names = [guarded.node, guarded.foreign]
    body = {**ROLLOUT, "nodes": {"names": names}, "dry_run": True}
    refused = guarded.ask("owner-manager", "POST", "/v1/rollouts", body)
    assert 400 == refused.status_code
    assert f"1 of 2 could not be found: {names[1]}" in refused.text
    assert (set(names), set()) == included(guarded, "system-member", body)


def test_a_rollout_uses_runbooks_that_the_caller_may_use(guarded, things, of_owner):
    """A runbook that the caller may use is compared with the nodes, which lack its trait."""
    body = {"target": "clean", "nodes": {}, "runbook": things["foreign_runbook"]}
    assert 404 == guarded.ask("owner-manager", "POST", "/v1/rollouts", body).status_code
    own_body = {**body, "runbook": things["runbook"]}
    for caller, fields in (("system-member", body), ("owner-manager", own_body)):
        answer = guarded.ask(caller, "POST", "/v1/rollouts", fields)
        assert 400 == answer.status_code
        assert "fits nodes with one of the traits CUSTOM_" in answer.text


@each_strategy
def test_callers_of_rollouts(guarded, of_owner):
    path = f"/v1/rollouts/{of_owner}"
    readers = people("system-reader", "owner-reader", "svc")
    workers = people("system-member", "owner-member", "svc")
    for caller in guarded.people - {"nobody", "domain-admin"}:
        for below in ("", "/nodes"):
            status = guarded.ask(caller, "GET", path + below).status_code
            assert status in (200, 403, 404), (caller, below)
            assert (status == 200) == (caller in readers), (caller, status)
        for target in ("pause", "resume"):
            changed = guarded.ask(caller, "PUT", f"{path}/states", {"target": target}).status_code
            assert (changed == 200) == (caller in workers), (caller, changed)
            assert changed in (200, 403, 404), (caller, changed)
        listed = guarded.ask(caller, "GET", "/v1/rollouts")
        uuids = [rollout["uuid"] for rollout in listed.json.get("rollouts", ())]
        assert ([of_owner] if caller in readers else []) == uuids, caller
        deleted = guarded.ask(caller, "DELETE", path).status_code
        assert (deleted == 409) == (caller in workers), (caller, deleted)  # it has not ended
        assert deleted in (409, 403, 404), (caller, deleted)


def test_a_project_sees_only_its_nodes_in_a_rollout_and_no_hidden_errors(guarded, of_owner):
    path = f"/v1/rollouts/{of_owner}/nodes"
    assert 1 == len(guarded.ask("owner-reader", "GET", path).json["nodes"])
    guarded.api.set(guarded.node, owner=OTHER, lessee=None)
    assert 0 == len(guarded.ask("owner-reader", "GET", path).json["nodes"])
    assert 1 == len(guarded.ask("system-reader", "GET", path).json["nodes"])


def test_a_lessee_sees_no_errors_of_nodes(guarded, of_owner):
    rollout_uuid = guarded.ask("lessee-manager", "POST", "/v1/rollouts", ROLLOUT).json["uuid"]
    with guarded.api.runtime.transaction() as session:
        session.query(RolloutNode).update({"error": "It broke.", "code": "timeout"})
    for caller, expected in (("lessee-manager", None), ("system-reader", "It broke.")):
        (node,) = guarded.ask(caller, "GET", f"/v1/rollouts/{rollout_uuid}/nodes").json["nodes"]
        assert (expected, "timeout") == (node["error"], node["code"])
