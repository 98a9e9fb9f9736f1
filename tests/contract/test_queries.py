"""The number of queries of a list is independent of the number of its items."""

import re
from uuid import UUID

import pytest
from sqlalchemy import event

from app.db.clock import utcnow
from app.models import (
    AgentRecord,
    Allocation,
    AuditRecord,
    Baseline,
    BaselineNode,
    Benchmark,
    BiosSetting,
    BmcExchanges,
    Chassis,
    Conductor,
    DeployTemplate,
    FirmwareComponent,
    Hold,
    InspectionRule,
    Network,
    Node,
    NodeHistory,
    NodeTrait,
    Operation,
    OperationStep,
    Port,
    Portgroup,
    Quota,
    Rollout,
    RolloutNode,
    Runbook,
    SanitationReport,
    Switch,
    VolumeConnector,
    VolumeTarget,
    Webhook,
    WebhookFailure,
)

FEW, MANY = 2, 20
#: Resources in the paths of lists: the first of each kind.
FIRST = {
    "nodes": "n0", "portgroups": "g0", "chassis": str(UUID(int=0)), "runbooks": "b0",
    "webhooks": "w0", "baselines": "l0", "rollouts": str(UUID(int=5000)),
}  # fmt: skip
#: Lists of constant length, or that machines answer.
FIXED = {
    "discover", "healthcheck", "list_drivers", "list_steps", "list_boot_devices", "show_operation",
    "list_indicators", "list_virtual_media", "list_vifs", "list_runbook_traits",
    "list_sensors", "show_sensors", "show_refresh", "show_login", "list_agent_logs", "list_console_history", "open_console",
    "show_switch_ports", "list_permissions", "show_settings",
}  # fmt: skip
#: Lists of groups, which one statement makes of all rows.
SUMMARIES = {
    "count_nodes", "list_admission_queues", "list_slow_steps", "list_failures",
    "list_conductors_at_fault",
}  # fmt: skip


def node(number):
    return Node(uuid=str(UUID(int=number)), name=f"n{number}", driver="fake-hardware",
                provision_state="cleaning", chassis_uuid=FIRST["chassis"], shard=f"s{number}",
                parent_node=str(UUID(int=0)) if number % 2 else None)  # fmt: skip


def parts(number, node_row, first_row):
    """Rows besides each node: its own, the first node's, and independent ones."""
    name, node_id, now = f"x{number}", first_row.id, utcnow()
    numbered = {"uuid": str(UUID(int=1000 + number))}
    yield NodeTrait(node_id=node_row.id, trait=f"CUSTOM_{number}")
    yield NodeTrait(node_id=node_id, trait=f"CUSTOM_FIRST_{number}")
    yield AgentRecord(node_id=node_row.id, url="http://agent", token=name)
    yield Allocation(node_id=node_row.id, name=name, **numbered)
    yield Port(node_id=node_id, portgroup_id=1, address=f"52:54:00:00:00:{number:02x}", **numbered)
    yield Portgroup(node_id=node_id, name=f"g{number + 1}", mode="active-backup", **numbered)
    yield VolumeConnector(node_id=node_id, type="iqn", connector_id=name, **numbered)
    yield VolumeTarget(node_id=node_id, volume_type="iscsi", volume_id=name, boot_index=number,
                       **numbered)  # fmt: skip
    yield BiosSetting(node_id=node_id, name=name)
    yield BmcExchanges(node_id=node_id, operation=numbered["uuid"], step="power.change", size=1,
                       left_out=0, exchanges=[{"seconds": 0.1}])  # fmt: skip
    yield FirmwareComponent(node_id=node_id, component=name, initial_version="1")
    yield NodeHistory(node_id=node_id, created_at=now, severity="INFO", event_type="x", event=name,
                      **numbered)  # fmt: skip
    yield SanitationReport(node_uuid=first_row.uuid, operation_uuid=numbered["uuid"], created_at=now,
                           result="unknown", report="{}", **numbered)  # fmt: skip
    yield Benchmark(node_id=node_id, operation_uuid=numbered["uuid"], position=0, step="deploy.burn",
                    metric="fio.read", value=1)  # fmt: skip
    yield Operation(node_id=node_id, kind="power", state="succeeded", created_at=now,
                    uuid=str(UUID(int=2000 + number)))  # fmt: skip
    yield Conductor(hostname=name, incarnation=name)
    yield Chassis(uuid=str(UUID(int=3000 + number)))
    yield DeployTemplate(name=f"CUSTOM_{number}", **numbered)
    yield Runbook(name=f"b{number}", **numbered)
    yield InspectionRule(**numbered)
    yield Network(name=name, **numbered)
    yield Switch(name=name, switch_id=name, device_type="cisco_ios", address="x", username="x", host_key="x",
                 **numbered)  # fmt: skip
    yield Quota(project=name, node_limit=number, **numbered)
    yield Webhook(name=f"w{number}", url="http://x", secret=name, position=0, **numbered)
    yield Baseline(id=number + 1, name=f"l{number}", selection="name=*", expected=[], **numbered)
    compared = {"version": 1, "compared_at": now, "state": "differs", "since": now}
    yield BaselineNode(baseline_id=1, node_id=node_row.id, **compared)
    if number:
        yield BaselineNode(baseline_id=number + 1, node_id=node_id, **compared)
    yield Hold(node_id=node_id, kind="hardware", reason="x", **numbered)
    yield WebhookFailure(webhook_id=1, after=number, last=number, error="x")
    yield Rollout(target="provide", state="paused", waves=1, error_budget=1, nodes=1,
                  uuid=str(UUID(int=5000 + number)))  # fmt: skip
    yield RolloutNode(rollout_id=1, node_uuid=node_row.uuid, wave=1)
    yield AuditRecord(created_at=now, action="create/node", outcome="success", auth="noauth")


def add(api, numbers):
    """Add nodes with running operations, and rows of every kind."""
    with api.runtime.transaction() as session:
        if 0 in numbers:
            session.add(Chassis(uuid=FIRST["chassis"]))
            session.flush()
        rows = [node(number) for number in numbers]
        session.add_all(rows)
        session.flush()
        first_row = session.query(Node).order_by(Node.id).first()
        if 0 in numbers:
            session.add(
                Portgroup(id=1, node_id=first_row.id, name="g0", mode="x", uuid=str(UUID(int=1)))
            )
            session.flush()
        for number, node_row in zip(numbers, rows, strict=True):
            session.add_all(parts(number, node_row, first_row))
            work = Operation(node_id=node_row.id, kind="clean", state="running", created_at=utcnow(),
                             uuid=str(UUID(int=4000 + number)))  # fmt: skip
            session.add(work)
            session.flush()
            session.add(OperationStep(operation_id=work.id, position=0, interface="deploy",
                                      name="erase", source="driver", flow="clean"))  # fmt: skip
            node_row.operation_id, node_row.reservation = work.id, "rack-1"


@pytest.fixture
def lists(api):
    """handler -> path of every documented list."""
    paths, document = {}, api("GET", "/openapi.json").json
    for path, about in document["paths"].items():
        shape = about.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = shape.get("application/json", {}).get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
        if name.endswith("Page"):
            schema = document["components"]["schemas"][name]
        if "array" in [
            part.get("type") for part in (schema, *schema.get("properties", {}).values())
        ]:
            filled_path = re.sub(
                r"(\w+)/\{\w+\}", lambda hit: f"{hit[1]}/{FIRST.get(hit[1])}", path
            )
            paths[about["get"]["operationId"]] = filled_path
    return {name: path for name, path in paths.items() if name not in FIXED | SUMMARIES}


def cost(api, path):
    """Return the number of queries and of items of a list."""
    queries = []

    def count(_connection, _cursor, statement, *_rest):
        queries.append(statement)

    api.runtime.cache.clear()
    event.listen(api.runtime.engine, "before_cursor_execute", count)
    try:
        answer = api("GET", path)
    finally:
        event.remove(api.runtime.engine, "before_cursor_execute", count)
    assert 200 == answer.status_code, answer.text
    return queries, max(len(value) for value in answer.json.values() if isinstance(value, list))


def test_no_list_queries_the_database_for_each_item(api, lists):
    paths = [
        *lists.values(), "/v1/nodes?detail=true&include_children=true", "/v1/conductors?detail=true",
        "/v1/nodes/n0/history?detail=true", "/v1/volume/targets?detail=true",
        "/v1/deploy_templates?detail=true", "/v1/runbooks?detail=true",
    ]  # fmt: skip
    assert len(paths) > 30
    add(api, range(FEW))
    few = {path: cost(api, path) for path in paths}
    add(api, range(FEW, MANY))
    many = {path: cost(api, path) for path in paths}

    for path in paths:
        assert 0 < few[path][1] < many[path][1], path
        assert len(few[path][0]) == len(many[path][0]), (path, many[path][0])
