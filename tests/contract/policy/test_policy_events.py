"""Change events of resources are seen by the callers who may list the resources, and by no others."""

import pytest
from sqlalchemy import update

from app.api.fleet import event_stream
from app.db.clock import now
from app.events import event_feed
from app.inventory.nodes import find
from app.models import (
    Allocation,
    Chassis,
    DeployTemplate,
    InspectionRule,
    Port,
    Portgroup,
    Runbook,
    VolumeConnector,
    VolumeTarget,
)
from tests.contract.event_stream.conftest import Reader

from .conftest import OTHER, OWNER, PEOPLE, each_strategy

#: Kind -> path of its list, row of a node and a project. A number makes rows distinct.
KINDS = {
    "port": ("ports", lambda n, node, _: Port(node_id=node, address=f"52:54:00:00:00:0{n}")),
    "portgroup": ("portgroups", lambda n, node, _: Portgroup(node_id=node, mode="802.3ad")),
    "volume_connector": (
        "volume/connectors",
        lambda n, node, _: VolumeConnector(node_id=node, type="iqn", connector_id=str(n)),
    ),
    "volume_target": (
        "volume/targets",
        lambda n, node, _: VolumeTarget(
            node_id=node, volume_type="iscsi", volume_id="v", boot_index=n
        ),
    ),
    "allocation": (
        "allocations",
        lambda n, node, owner: Allocation(node_id=node, owner=owner, state="active"),
    ),
    "chassis": ("chassis", lambda *_: Chassis()),
    "deploy_template": ("deploy_templates", lambda n, *_: DeployTemplate(name=f"CUSTOM_{n}")),
    "runbook": ("runbooks", lambda n, _, owner: Runbook(name=f"CUSTOM_{n}", owner=owner)),
    "inspection_rule": ("inspection_rules", lambda n, *_: InspectionRule(actions=[])),
}
MODELS = {kind: type(make(0, 0, None)) for kind, (_, make) in KINDS.items()}


@pytest.fixture
def things(guarded):
    """Two resources of each kind: of the node and project of the owner, and of others."""
    with guarded.api.runtime.transaction() as session:
        for number, (ident, owner) in enumerate(((guarded.node, OWNER), (guarded.foreign, OTHER))):
            node = find(session, ident).id
            for at, (_, make) in enumerate(KINDS.values()):
                row = make(number, node, owner)
                row.uuid = f"0000000{at}-1111-4111-8111-11111111111{number}"
                session.add(row)


def listed(ask, caller):
    """Return kind and UUID of all resources in the lists that a caller may read."""
    resources = set()
    for kind, (path, _) in KINDS.items():
        answer = ask(caller, "GET", f"/v1/{path}")
        assert answer.status_code in (200, 403), (caller, path)
        if answer.status_code == 200:
            (rows,) = (value for name, value in answer.json.items() if isinstance(value, list))
            resources |= {(kind, row["uuid"]) for row in rows}
    return resources


def seen(ask, caller, query="?after=0"):
    """Return kind and UUID of all resources in the events that a caller may read; None: 403."""
    answer = ask(caller, "GET", f"/v1/events{query}")
    if answer.status_code == 403:
        return None
    return {of(event) for event in answer.json["events"] if event["resource_uuid"]}


def of(event):
    return event["type"].partition(".")[0], event["resource_uuid"]


@each_strategy
def test_events_of_resources_are_seen_by_those_who_list_them(guarded, things):
    readers = 0
    for caller in guarded.people:
        events = seen(guarded.ask, caller)
        if events is not None:
            readers += 1
            assert listed(guarded.ask, caller) == events, caller
    assert readers > 10
    for caller, many in (
        ("system-reader", 2 * len(KINDS)),
        ("owner-reader", 6),
        ("lessee-reader", 4),
    ):
        assert many == len(seen(guarded.ask, caller)), caller


POLICY = {
    "baremetal:port:list_all": "!",
    "baremetal:volume:list": "role:admin",
    "baremetal:volume:list_all": "role:admin and system_scope:all",
    "baremetal:chassis:get": "!",
    "baremetal:runbook:list_all": f"project_id:{OWNER}",
    "baremetal:event:list_all": "role:reader",
}


@pytest.fixture
def ask(guarded, tmp_path):
    """Requests under a policy that conceals resources from callers who see the events of all nodes."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("".join(f'"{rule}": "{check}"\n' for rule, check in POLICY.items()))
    return guarded.make(oslo_policy={"policy_file": str(policy)})


def test_a_caller_who_sees_all_events_sees_none_of_concealed_resources(guarded, things, ask):
    for caller in PEOPLE:
        events = seen(ask, caller)
        if events is not None:
            assert events <= listed(ask, caller), caller
    counts = {
        caller: sorted(kind for kind, _ in seen(ask, caller))
        for caller in ("system-reader", "owner-reader", "owner-admin", "other-reader")
    }
    assert "port" not in counts["system-reader"], "it has no project, and may not list all"
    assert "chassis" not in counts["system-reader"]
    assert 1 == counts["owner-reader"].count("port")
    assert 0 == counts["owner-reader"].count("volume_target")
    assert 1 == counts["owner-admin"].count("volume_target")
    assert 2 == counts["owner-reader"].count("runbook")
    assert 1 == counts["other-reader"].count("runbook")


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(event_stream, "PACE", 0.01)
    monkeypatch.setattr(event_stream, "HEARTBEAT", 0.3)
    monkeypatch.setattr(event_feed, "FIRST", 0.02)


@pytest.mark.parametrize(
    "caller", ["system-reader", "owner-reader", "owner-admin", "lessee-reader"]
)
def test_a_stream_conceals_what_the_list_conceals(guarded, things, ask, soon, caller):
    last_sequence = guarded.api("GET", "/v1/events?after=0").json["last"]
    answer = ask(caller, "GET", "/v1/events/stream")
    try:
        reader = Reader(answer)
        reader.heartbeat()
        with guarded.api.runtime.transaction() as session:
            for model in MODELS.values():
                session.execute(update(model).values(updated_at=now()))
        expected = seen(ask, caller, f"?after={last_sequence}")
        assert expected == {of(reader.message()[1]) for _ in range(len(expected))}
        newest = guarded.api("GET", "/v1/events?after=0").json["last"]
        position = reader.last_sequence
        while position < newest:
            position = int(reader.heartbeat().rsplit(b"id: ")[-1])
    finally:
        answer.close()
