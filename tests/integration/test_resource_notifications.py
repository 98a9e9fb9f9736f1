"""Change events and notifications of ports, allocations, chassis and the other resources."""

import json
import re
from types import SimpleNamespace

import pytest
from sqlalchemy import delete, insert, select

from app.db.clock import now
from app.events import change_events, notification_events
from app.models import (
    RESOURCE_TYPES,
    Allocation,
    ChangeEvent,
    Chassis,
    DeployTemplate,
    InspectionRule,
    Node,
    NotificationCursor,
    Port,
    Portgroup,
    Runbook,
    VolumeConnector,
    VolumeTarget,
)
from app.models.change_event import RESOURCES
from app.notifications import notifications
from app.notifications.resource_notifications import KINDS
from app.text.masking import HIDDEN
from workers.periodic.webhooks import Webhooks

UUID = "5b4b1a1c-0000-4000-8000-00000000000{}".format
STEPS = [{"interface": "deploy", "step": "erase", "args": {"password": "secret1"}, "order": 1}]
TIMES = {"created_at": "time", "updated_at": "time"}

#: Kind -> its row, and the data of its notification in Ironic 39 (`scope` does not exist in Ingot).
CASES = {
    "port": (
        lambda node, group: Port(
            node_id=node, address="52:54:00:00:00:01", name="p", vendor="v", category="c",
            description="d", physical_network="net", is_smartnic=True, pxe_enabled=False,
            portgroup_id=group, extra={"a": 1}, local_link_connection={"port_id": "7"},
        ),
        {
            "address": "52:54:00:00:00:01", "name": "p", "vendor": "v", "category": "c",
            "description": "d", "physical_network": "net", "is_smartnic": True,
            "pxe_enabled": False, "available_for_dynamic_portgroup": True,
            "portgroup_uuid": UUID(9), "extra": {"a": 1},
            "local_link_connection": {"port_id": "7"}, "node_uuid": "node",
        },
    ),
    "portgroup": (
        lambda node, _: Portgroup(
            node_id=node, address="52:54:00:00:00:02", name="g", mode="802.3ad", category="c",
            physical_network="net", properties={"miimon": 100},
        ),
        {
            "address": "52:54:00:00:00:02", "name": "g", "mode": "802.3ad", "category": "c",
            "physical_network": "net", "properties": {"miimon": 100}, "extra": {},
            "standalone_ports_supported": True, "dynamic_portgroup": False, "node_uuid": "node",
        },
    ),
    "volume_connector": (
        lambda node, _: VolumeConnector(node_id=node, type="iqn", connector_id="iqn.x"),
        {"type": "iqn", "connector_id": "iqn.x", "extra": {}, "node_uuid": "node"},
    ),
    "volume_target": (
        lambda node, _: VolumeTarget(
            node_id=node, volume_type="iscsi", volume_id="v", boot_index=0,
            properties={"auth_password": "secret2", "target_lun": 1},
        ),
        {
            "volume_type": "iscsi", "volume_id": "v", "boot_index": 0, "extra": {},
            "properties": {"auth_password": HIDDEN, "target_lun": 1}, "node_uuid": "node",
        },
    ),
    "allocation": (
        lambda node, _: Allocation(
            node_id=node, name="a", resource_class="big", owner="p-3", traits=["CUSTOM_A"],
            candidate_nodes=[UUID(8)], state="active", extra={"b": 2},
        ),
        {
            "name": "a", "resource_class": "big", "owner": "p-3", "traits": ["CUSTOM_A"],
            "candidate_nodes": [UUID(8)], "state": "active", "last_error": None,
            "extra": {"b": 2}, "node_uuid": "node",
        },
    ),
    "chassis": (
        lambda *_: Chassis(description="left", extra={"row": 4}),
        {"description": "left", "extra": {"row": 4}},
    ),
    "deploy_template": (
        lambda *_: DeployTemplate(name="CUSTOM_T", steps=STEPS),
        {"name": "CUSTOM_T", "extra": {}, "steps": [{**STEPS[0], "args": {"password": HIDDEN}}]},
    ),
    "runbook": (
        lambda *_: Runbook(name="CUSTOM_R", owner="p-4", traits=["CUSTOM_B"], description="d"),
        {
            "name": "CUSTOM_R", "owner": "p-4", "traits": ["CUSTOM_B"], "description": "d",
            "disable_ramdisk": False, "public": False, "extra": {}, "steps": [],
        },
    ),
    "inspection_rule": (
        lambda *_: InspectionRule(
            description="r", phase="early", priority=7, actions=[{"op": "fail", "args": {}}]
        ),
        {
            "description": "r", "phase": "early", "priority": 7, "sensitive": False,
            "scope": None, "conditions": [], "actions": [{"op": "fail", "args": {}}],
        },
    ),
}  # fmt: skip
#: Kind -> object, payload and version in Ironic 39.
PAYLOADS = {
    "port": ("port", "PortCRUDPayload", "1.8"),
    "portgroup": ("portgroup", "PortgroupCRUDPayload", "1.3"),
    "volume_connector": ("volumeconnector", "VolumeConnectorCRUDPayload", "1.0"),
    "volume_target": ("volumetarget", "VolumeTargetCRUDPayload", "1.0"),
    "allocation": ("allocation", "AllocationCRUDPayload", "1.1"),
    "chassis": ("chassis", "ChassisCRUDPayload", "1.0"),
    "deploy_template": ("deploytemplate", "DeployTemplateCRUDPayload", "1.0"),
    "runbook": ("runbook", "RunbookCRUDPayload", "1.1"),
    "inspection_rule": ("inspectionrule", "InspectionRuleCRUDPayload", "1.0"),
}
#: Kind -> owner and lessee of its events; the others have none.
PROJECTS = {
    **dict.fromkeys(("port", "portgroup", "volume_connector", "volume_target"), ("p-1", "p-2")),
    "allocation": ("p-3", None),
    "runbook": ("p-4", None),
}


@pytest.fixture
def node(inside):
    """A node of project p-1, leased to p-2, with a port group; notifications are on."""
    ident = inside.node("manageable", name="n-1", owner="p-1", lessee="p-2")
    with inside.runtime.transaction() as session:
        session.execute(delete(Port))
        session.add(Portgroup(uuid=UUID(9), node_id=ident, mode="active-backup"))
        session.execute(delete(ChangeEvent))
        session.execute(insert(NotificationCursor).values(id=1, position=0))
    return inside.read(ident)


def add(inside, kind, node):
    make, _ = CASES[kind]
    with inside.runtime.transaction() as session:
        group = session.scalar(select(Portgroup.id).where(Portgroup.uuid == UUID(9)))
        row = make(node.id, group)
        row.uuid = UUID(1)
        session.add(row)


def change(inside, kind, **values):
    with inside.runtime.transaction() as session:
        row = session.scalars(select(KINDS[kind].model).filter_by(uuid=UUID(1))).one()
        for name, value in {**values, "updated_at": now()}.items():
            setattr(row, name, value)


def remove(inside, kind):
    with inside.runtime.transaction() as session:
        session.delete(session.scalars(select(KINDS[kind].model).filter_by(uuid=UUID(1))).one())


def events(inside, position=0):
    """Return the events of resources after a number, with all columns."""
    change_events.number(inside.runtime)
    query = notification_events.SELECTED.add_columns(ChangeEvent.owner, ChangeEvent.lessee)
    with inside.runtime.read_connection() as connection:
        rows = change_events.read(connection, query, position, 1000).rows
    return [row for row in rows if row.resource_uuid != UUID(9)]


def made(inside):
    """Return the notifications of the resources."""
    with inside.runtime.reading() as session:
        return list(notifications.made_of(session, events(inside)))


def data_of(notification):
    """Return the fields of a payload: times as words, the node's UUID as such."""
    data = dict(notification.payload["ironic_object.data"])
    for name in TIMES:
        value = data[name]
        assert value is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value)
        data[name] = value and "time"
    return data


def test_all_kinds_have_cases():
    assert set(RESOURCES) == CASES.keys() == KINDS.keys() == PAYLOADS.keys()
    assert {f"{kind}.{verb}" for kind in KINDS for verb in ("created", "updated", "deleted")} == {
        *RESOURCE_TYPES
    }


@pytest.mark.parametrize("kind", CASES)
def test_each_change_is_an_event_and_a_notification(inside, node, kind):
    add(inside, kind, node)
    made_first = made(inside)
    change(inside, kind)
    made_then = made(inside)
    remove(inside, kind)
    rows, result = events(inside), made(inside)

    assert [f"{kind}.{verb}" for verb in ("created", "updated", "deleted")] == [
        row.type for row in rows
    ]
    assert {UUID(1)} == {row.resource_uuid for row in rows}
    names = {getattr(CASES[kind][0](1, 1), "name", None)}
    assert names == {row.resource_name for row in rows}
    has_node = "node_uuid" in CASES[kind][1]
    assert {node.uuid if has_node else None} == {row.node_uuid for row in rows}
    node_name = "n-1" if has_node and kind != "allocation" else None
    assert {node_name} == {row.node_name for row in rows}
    assert {PROJECTS.get(kind, (None, None))} == {(row.owner, row.lessee) for row in rows}
    state = "active" if kind == "allocation" else None
    assert [(None, state), (state, state), (state, None)] == [
        (row.before, row.after) for row in rows
    ]

    noun, payload, version = PAYLOADS[kind]
    assert [f"baremetal.{noun}.{verb}.end" for verb in ("create", "update", "delete")] == [
        notification.event_type for notification in result
    ]
    assert {("info", "ironic-api")} == {
        (notification.level, notification.publisher) for notification in result
    }
    assert [notification.ident for notification in (*made_then[:2], result[2])] == [
        notification.ident for notification in result
    ]
    expected = CASES[kind][1] | ({"node_uuid": node.uuid} if has_node else {})
    created, updated = made_first[0], made_then[1]
    assert {**expected, "uuid": UUID(1), "created_at": "time", "updated_at": None} == data_of(
        created
    )
    assert {**expected, "uuid": UUID(1), **TIMES} == data_of(updated)
    documents = KINDS[kind].documents
    blanks = {name: type(value)() for name, value in expected.items() if name in documents}
    assert {**expected, **blanks, "uuid": UUID(1), **TIMES} == data_of(result[2])
    for notification in result:
        assert ("ironic", payload, version) == tuple(
            notification.payload[f"ironic_object.{name}"]
            for name in ("namespace", "name", "version")
        )
        json.dumps(notification.payload)


@pytest.mark.parametrize("kind", CASES)
def test_events_keep_no_documents(inside, node, kind):
    add(inside, kind, node)
    (event,) = events(inside)
    facts = json.loads(event.facts)
    assert {*KINDS[kind].fields, "created_at", "updated_at"} - {"scope"} == facts.keys()


def test_fields_are_those_of_the_change_and_documents_those_of_now(inside, node):
    add(inside, "port", node)
    change(inside, "port", pxe_enabled=True, extra={"a": 2})
    fields = [
        (data_of(notification)["pxe_enabled"], data_of(notification)["extra"])
        for notification in made(inside)
    ]
    assert [(False, {"a": 2}), (True, {"a": 2})] == fields


def test_a_change_that_callers_cannot_see_is_no_event(inside, node):
    """Such as the encryption of older rows, and the times of searches for an allocation."""
    add(inside, "allocation", node)
    with inside.runtime.transaction() as session:
        session.scalars(select(Allocation)).one().due_at = now()
    assert ["allocation.created"] == [event.type for event in events(inside)]


def test_the_states_of_an_allocation_are_in_its_events(inside, node):
    add(inside, "allocation", node)
    change(inside, "allocation", state="error", last_error="no node", node_id=None)
    event = events(inside)[-1]
    assert ("active", "error", None) == (event.before, event.after, event.node_uuid)
    assert "no node" == data_of(made(inside)[-1])["last_error"]


def test_a_sensitive_rule_conceals_its_actions(inside, node):
    add(inside, "inspection_rule", node)
    change(inside, "inspection_rule", sensitive=True)
    assert [[], []] == [data_of(notification)["actions"] for notification in made(inside)]


def test_the_deletion_of_a_node_is_the_last_event_of_its_parts(inside, node):
    add(inside, "port", node)
    with inside.runtime.transaction() as session:
        session.execute(delete(Port))
        session.execute(delete(Portgroup))
        session.execute(delete(Node))
    change_events.number(inside.runtime)
    with inside.runtime.read_connection() as connection:
        rows = change_events.read(connection, change_events.ALL, 0, 100).rows
    ends = ["port.deleted", "portgroup.deleted", "node.deleted"]
    assert ends == [row.type for row in rows if row.type.endswith(".deleted")]
    assert {node.uuid} == {row.node_uuid for row in rows}


@pytest.mark.parametrize(
    ("owner", "kinds"),
    [
        ("p-1", {"port", "portgroup", "volume_connector", "volume_target"}),
        ("p-2", {"port", "portgroup", "volume_connector", "volume_target"}),
        ("p-3", {"allocation"}),
        ("p-4", {"runbook"}),
        ("p-5", set()),
        (None, {*CASES}),
    ],
)
def test_the_webhook_of_a_project_gets_the_events_of_its_resources(inside, node, owner, kinds):
    for kind in CASES:
        add(inside, kind, node)
    change_events.number(inside.runtime)
    hook = SimpleNamespace(owner=owner, types=[], node_uuid=None)
    with inside.runtime.read_connection() as connection:
        query = Webhooks(inside.runtime).selected(hook)
        rows = change_events.read(connection, query, 0, 100).rows
    of_added = [row.type for row in rows if row.resource_uuid == UUID(1)]
    assert {f"{kind}.created" for kind in kinds} == {*of_added}


def test_without_a_cursor_events_keep_no_fields(inside, node):
    with inside.runtime.transaction() as session:
        session.execute(delete(NotificationCursor))
    add(inside, "port", node)
    assert None is events(inside)[0].facts
    assert "p" == data_of(made(inside)[0])["name"], "fields are those of now"
    remove(inside, "port")
    assert None is data_of(made(inside)[-1])["name"]
