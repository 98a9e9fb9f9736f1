"""Operations of all nodes, summed up: current steps, queues, slow steps, failures in groups."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import delete

from app.db.clock import after
from app.models import Conductor, Node, Operation, OperationStep
from tests.contract.conftest import fault

START = datetime(2026, 1, 1, 12)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


@pytest.fixture
def records(api):
    """Function that adds an operation of a node with steps of (interface, name, columns)."""

    def add(node, *steps, **columns):
        fields = {"kind": "clean", "state": "succeeded", "created_at": START} | columns
        with api.runtime.transaction() as session:
            owner = session.query(Node).filter_by(uuid=node["uuid"]).one()
            operation = Operation(uuid=str(uuid4()), node_id=owner.id, **fields)
            session.add(operation)
            session.flush()
            for position, (interface, name, step_columns) in enumerate(steps):
                session.add(
                    OperationStep(
                        operation_id=operation.id,
                        position=position,
                        interface=interface,
                        name=name,
                        source="frame",
                        **step_columns,
                    )
                )
            return operation.uuid

    return add


def error(code, step, message="it broke"):
    return {"code": code, "step": step, "message": message, "cause": "why", "hint": "look here"}


def failed(code, step, **columns):
    ended = {"state": "failed", "finished_at": START, "error": error(code, step)}
    return ended | columns


def groups(api, query=""):
    answer = api("GET", f"/v1/operations/failures{query}")
    assert 200 == answer.status_code, answer.text
    return answer.json


def counted(answer):
    return {tuple(group["values"].values()): group["nodes"] for group in answer["groups"]}


def test_failures_are_counted_by_code_and_step_the_largest_group_first(api, records):
    for _ in range(2):
        records(api.node(), **failed("timeout", "deploy.boot"))
    records(api.node(), **failed("timeout", "power.reboot"))
    newest_node = api.node(name="newest")
    uuid = records(newest_node, **failed("unreachable", "power.reboot"))

    answer = groups(api)
    assert {
        ("timeout", "deploy.boot"): 2,
        ("unreachable", "power.reboot"): 1,
        ("timeout", "power.reboot"): 1,
    } == counted(answer)
    assert 2 == answer["groups"][0]["nodes"]
    assert (4, True) == (answer["nodes"], answer["complete"])
    assert {
        "uuid": uuid,
        "node_uuid": newest_node["uuid"],
        "node_name": "newest",
        "finished_at": "2026-01-01T12:00:00+00:00",
        "message": "it broke",
        "cause": "why",
        "hint": "look here",
    } == answer["groups"][1]["example"]


def test_the_filter_of_a_group_lists_its_nodes(api, records):
    sets = [
        {"resource_class": "large", "shard": "row-1"},
        {"resource_class": "large", "shard": None},
        {"resource_class": "small", "shard": "row-1"},
    ]
    for columns in sets * 2:
        records(api.node(**columns), **failed("timeout", "deploy.boot"))
    records(api.node(resource_class="large", shard="row-1"), **failed("defect", "deploy.boot"))
    api.node(resource_class="large", shard="row-1")

    listed_groups = groups(api, "?by=code,step,resource_class,shard")["groups"]
    assert [2, 2, 2, 1] == [group["nodes"] for group in listed_groups]
    for group in listed_groups:
        query = "&".join(f"{name}={value}" for name, value in group["filter"].items())
        listed = api("GET", f"/v1/nodes?{query}&fields=uuid,resource_class,shard").json["nodes"]
        assert group["nodes"] == len(listed), query
        assert group["example"]["node_uuid"] in {node["uuid"] for node in listed}
        for node in listed:
            assert group["values"]["shard"] == node["shard"]
            assert group["values"]["resource_class"] == node["resource_class"]


@pytest.fixture
def conductors(api):
    """Function that registers a conductor. silent: seconds since its last heartbeat."""

    def register(name, *, silent=0.0, group="", **columns):
        with api.runtime.transaction() as session:
            session.add(
                Conductor(
                    hostname=name, incarnation=str(uuid4()), conductor_group=group,
                    interfaces={"fake-hardware": {}}, heartbeat_at=after(-silent), **columns,
                )
            )  # fmt: skip

    return register


def reserve(api, node, operation, conductor):
    with api.runtime.transaction() as session:
        number = session.query(Operation.id).filter_by(uuid=operation).scalar()
        row = session.query(Node).filter_by(uuid=node["uuid"]).one()
        row.reservation, row.operation_id = conductor, number


def at_fault(api, **request):
    answer = api("GET", "/v1/operations/conductors", **request)
    assert 200 == answer.status_code, answer.text
    return {conductor.pop("hostname"): conductor for conductor in answer.json["conductors"]}


def test_conductors_that_are_lost_or_impeded_are_listed_with_what_is_left_to_them(
    api, records, conductors
):
    with api.runtime.transaction() as session:
        session.execute(delete(Conductor))
    conductors("well")
    conductors("well-elsewhere", group="rack")
    conductors("stopped", silent=600, online=False)
    conductors("lost", silent=600)
    conductors("impeded", impediment="it does not reach the broker")
    conductors("alone", silent=600, group="island")
    reservations = ("running", "lost"), ("queued", "lost"), ("waiting", "lost"), ("held", "impeded")
    for state, holder in reservations:
        node = api.node()
        reserve(api, node, records(node, state=state), holder)
    ended = api.node()
    reserve(api, ended, records(ended, state="failed", finished_at=START), "lost")

    entries = at_fault(api)
    assert {"lost", "impeded", "alone"} == {*entries}
    lost = entries["lost"]
    assert "no heartbeat for 60" in lost.pop("reason")
    assert {"state": "lost", "operations": 2, "waiting": 1, "successors": 1} == lost
    assert {
        "state": "impeded", "reason": "it does not reach the broker", "operations": 0, "waiting": 1,
        "successors": 1,
    } == entries["impeded"]  # fmt: skip
    assert (0, 0) == (entries["alone"]["operations"], entries["alone"]["successors"])


def test_a_step_shows_how_often_it_was_taken_over(api, records):
    records(api.node(), ("power", "reboot", {"deaths": 2}), state="running")
    (step,) = api("GET", "/v1/operations/current").json["steps"]
    assert 2 == step["takeovers"]


@pytest.mark.parametrize(
    ("later", "stands"),
    [
        ({"kind": "clean", "state": "succeeded"}, False),
        ({"kind": "manage", "state": "running"}, False),
        ({"kind": "power", "state": "succeeded"}, True),
    ],
)
def test_a_failure_stands_until_an_operation_moves_the_node(api, records, later, stands):
    node = api.node()
    records(node, **failed("timeout", "deploy.boot"))
    records(node, **later)
    assert int(stands) == groups(api)["nodes"]
    assert int(stands) == len(api("GET", "/v1/nodes?failure_code=timeout").json["nodes"])


def test_the_newest_of_two_failures_counts(api, records):
    node = api.node()
    records(node, **failed("timeout", "deploy.boot"))
    records(node, **failed("unreachable", "power.power_off", kind="power"))
    assert {("unreachable", "power.power_off"): 1} == counted(groups(api))
    assert [] == api("GET", "/v1/nodes?failure_step=deploy.boot").json["nodes"]
    assert 1 == len(api("GET", "/v1/nodes?failure_step=power.power_off").json["nodes"])


def test_fewer_groups_than_there_are_is_told(api, records):
    for step in ("a.b", "c.d"):
        records(api.node(), **failed("timeout", step))
    answer = groups(api, "?limit=1")
    assert (1, 2, False) == (len(answer["groups"]), answer["nodes"], answer["complete"])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("failures?by=colour", "'colour' is not one of ['code', 'step'"),
        ("failures?by=", "is not one of ['code', 'step'"),
        ("failures?limit=0", "limit"),
        ("failures?limit=1001", "limit"),
        ("current?limit=many", "limit"),
        ("queues?limit=1", "limit"),
        ("steps?since=1", "since"),
    ],
)
def test_an_invalid_parameter_is_refused_by_name(api, path, message):
    answer = api("GET", f"/v1/operations/{path}")
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]


def test_current_steps_are_listed_the_longest_first(api, records):
    def step(minutes, conductor="rack-1"):
        return {"started_at": START + timedelta(minutes=minutes), "conductor": conductor}

    states = (("running", 5), ("waiting", 2), ("held", 9))
    uuids = {}
    for state, minutes in states:
        first_step = ("power", "power_on", step(0) | {"state": "done"})
        now = ("deploy", "write_image", step(minutes))
        uuids[state] = records(api.node(name=state), first_step, now, state=state, cursor=1)
    records(api.node(), ("power", "power_on", {}), state="queued")
    records(api.node(), ("power", "power_on", {}), state="queued", queue="clean")

    answer = api("GET", "/v1/operations/current").json
    assert {"queued": 1, "admission": 1, "running": 1, "waiting": 1, "held": 1} == answer["counts"]
    assert ["waiting", "running", "held"] == [entry["state"] for entry in answer["steps"]]
    longest_step = answer["steps"][0]
    assert (uuids["waiting"], "waiting") == (longest_step["uuid"], longest_step["node_name"])
    assert ("deploy.write_image", "rack-1") == (longest_step["step"], longest_step["conductor"])
    assert "2026-01-01T12:02:00+00:00" == longest_step["since"]
    assert 1 == len(api("GET", "/v1/operations/current?limit=1").json["steps"])


def test_queues_show_their_operations_in_the_order_of_admission(api, records):
    queued = {"state": "queued", "queue": "clean"}
    third_operation = records(api.node(), round=None, **queued)
    second_operation = records(api.node(), round=2, **queued)
    first_operation = records(api.node(), round=1, **queued)
    edge = records(api.node(), state="queued", queue="deploy/edge", round=1)
    records(api.node(), state="running", queue="clean", admitted_at=START)

    general, of_group = api("GET", "/v1/operations/queues").json["queues"]
    assert [(1, first_operation), (2, second_operation), (3, third_operation)] == [
        (operation["place"], operation["uuid"]) for operation in general["operations"]
    ]
    limit = api.runtime.settings.conductor.max_concurrent_clean
    assert ("clean", None, 3, limit) == tuple(
        general[name] for name in ("class", "conductor_group", "queued", "limit")
    )
    assert ("deploy", "edge", [edge]) == (
        of_group["class"], of_group["conductor_group"],
        [operation["uuid"] for operation in of_group["operations"]],
    )  # fmt: skip


def test_the_steps_of_recent_operations_are_listed_the_slowest_first(api, records):
    def took(seconds, state="done"):
        end = START + timedelta(seconds=seconds)
        return {"state": state, "started_at": START, "finished_at": end}

    write, boot = ("deploy", "write_image"), ("power", "reboot")
    records(api.node(), (*write, took(90)), (*boot, took(4)))
    records(api.node(), (*write, took(30)), (*boot, took(6, "failed")))
    records(api.node(), ("power", "power_on", {"state": "running", "started_at": START}))

    steps = api("GET", "/v1/operations/steps").json["steps"]
    assert [
        {"step": "deploy.write_image", "runs": 2, "failed": 0, "mean_seconds": 60.0,
         "longest_seconds": 90.0},
        {"step": "power.reboot", "runs": 2, "failed": 1, "mean_seconds": 5.0,
         "longest_seconds": 6.0},
    ] == [
        step | {name: round(step[name], 1) for name in ("mean_seconds", "longest_seconds")}
        for step in steps
    ]  # fmt: skip


def test_a_summary_is_no_operation(api, records):
    uuid = records(api.node())
    for name in ("current", "queues", "steps", "failures"):
        assert 200 == api("GET", f"/v1/operations/{name}").status_code
    assert uuid == api("GET", f"/v1/operations/{uuid}").json["uuid"]
    assert 404 == api("GET", "/v1/operations/other").status_code


def test_failures_without_a_document_are_a_group(api, records):
    records(api.node(), **failed(None, None, error=None))
    assert {(None, None): 1} == counted(groups(api))
