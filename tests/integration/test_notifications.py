"""Notifications: which changes have them, what they say, and that they reach RabbitMQ."""

import json
import re
import uuid

import pytest
from sqlalchemy import delete, func, select

from app.engine import management, operations, power
from app.events import change_events, notification_events
from app.identity.caller import Caller
from app.lifecycle.provision_states import MACHINE
from app.models import (
    RESOURCE_TYPES,
    ChangeEvent,
    ChangeType,
    Node,
    NodeTrait,
    NotificationCursor,
    Operation,
    OperationStep,
    Port,
)
from app.models.history import NodeHistory
from app.notifications import notifications
from app.text.masking import HIDDEN
from drivers.core.errors import HardwareError
from tests.integration.harness import Harness

#: Field -> type in the payloads of Ironic 39; each may be null, but for the UUID.
TEXT, TIME, FLAG, DOCUMENT, TEXTS = str, "time", bool, dict, list
FIELDS = {
    **dict.fromkeys((
        "conductor_group", "description", "driver", "boot_mode", "instance_uuid", "last_error",
        "maintenance_reason", "fault", "bios_interface", "boot_interface", "console_interface",
        "deploy_interface", "inspect_interface", "management_interface", "network_interface",
        "power_interface", "raid_interface", "rescue_interface", "storage_interface",
        "vendor_interface", "name", "owner", "lessee", "power_state", "protected_reason",
        "provision_state", "resource_class", "retired_reason", "target_power_state",
        "target_provision_state", "uuid",
    ), TEXT),
    **dict.fromkeys((
        "created_at", "inspection_finished_at", "inspection_started_at", "provision_updated_at",
        "updated_at",
    ), TIME),
    **dict.fromkeys((
        "console_enabled", "disable_power_off", "secure_boot", "maintenance", "protected",
        "retired",
    ), FLAG),
    **dict.fromkeys(("clean_step", "deploy_step", "extra", "properties"), DOCUMENT),
    "traits": TEXTS,
}  # fmt: skip
#: Payload of Ironic 39 -> version, further fields.
PAYLOADS = {
    "NodePayload": ("1.17", {}),
    "NodeCRUDPayload": (
        "1.15", {"chassis_uuid": TEXT, "instance_info": DOCUMENT, "driver_info": DOCUMENT},
    ),
    "NodeSetPowerStatePayload": ("1.17", {"to_power": TEXT}),
    "NodeCorrectedPowerStatePayload": ("1.17", {"from_power": TEXT}),
    "NodeSetProvisionStatePayload": (
        "1.18",
        {
            "instance_info": DOCUMENT, "driver_internal_info": DOCUMENT, "event": TEXT,
            "previous_provision_state": TEXT, "previous_target_provision_state": TEXT,
        },
    ),
}  # fmt: skip


def begin(inside):
    """Switch notifications on."""
    with inside.runtime.transaction() as session:
        newest = session.scalar(select(func.count()).select_from(ChangeEvent))
        session.add(NotificationCursor(id=1, position=newest))


def made(inside, position=0):
    """Return the notifications of all events of nodes after a number, as they are made now."""
    change_events.number(inside.runtime)
    with inside.runtime.read_connection() as connection:
        of_nodes = notification_events.SELECTED.where(ChangeEvent.resource_uuid.is_(None))
        page = change_events.read(connection, of_nodes, position, 10_000)
    with inside.runtime.reading() as session:
        result = list(notifications.made_of(session, page.rows))
    for notification in result:
        check(notification)
    return result


def check(notification):
    """Check a notification against Ironic's schema."""
    document = notification.payload
    assert {"ironic_object.namespace", "ironic_object.name", "ironic_object.version",
            "ironic_object.data"} == {*document}  # fmt: skip
    version, own_fields = PAYLOADS[document["ironic_object.name"]]
    assert version == document["ironic_object.version"]
    data, types = data_of(notification), FIELDS | own_fields
    assert types.keys() == data.keys()
    for name, value in data.items():
        if types[name] == TIME:
            assert value is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value)
        else:
            assert value is None or isinstance(value, types[name]), (name, value)
    assert str(uuid.UUID(data["uuid"])) == data["uuid"]
    json.dumps(document)


def data_of(notification):
    return notification.payload["ironic_object.data"]


def brief(result, *names):
    """(action and status, fields) of notifications."""
    prefix = "baremetal.node."
    return [
        (
            notification.event_type.removeprefix(prefix),
            *(data_of(notification)[name] for name in names),
        )
        for notification in result
    ]


@pytest.fixture
def harness(inside):
    new_harness = Harness(inside)
    begin(inside)
    return new_harness


def test_a_flow_is_its_changes_of_the_provision_state(harness):
    node = harness.node("manageable", name="n-1", owner="p-1")
    harness.do(node, "provide")
    names = ("event", "previous_provision_state", "provision_state", "target_provision_state",
             "previous_target_provision_state")  # fmt: skip
    moves = [
        notification
        for notification in made(harness.inside)
        if "provision_set" in notification.event_type
    ]
    assert [
        ("provision_set.start", "provide", "manageable", "cleaning", "available", None),
        ("provision_set.end", "done", "cleaning", "available", None, "available"),
    ] == brief(moves, *names)
    assert {("info", "ironic-conductor")} == {(move.level, move.publisher) for move in moves}
    later = made(harness.inside)
    assert [notification.ident for notification in later] == [
        notification.ident for notification in made(harness.inside)
    ]
    assert len(later) == len({notification.ident for notification in later})


def test_a_failure_is_an_error(harness):
    node = harness.node("manageable")
    step = {"interface": "management", "step": "scrub", "args": {"level": "wrong"}}
    assert "clean failed" == harness.do(node, "clean", clean_steps=[step])
    (error,) = [
        notification for notification in made(harness.inside) if notification.level == "error"
    ]
    names = ("event", "previous_provision_state", "provision_state", "maintenance")
    assert [("provision_set.error", "fail", "cleaning", "clean failed")] == [
        entry[:-1] for entry in brief([error], *names)
    ]


@pytest.mark.parametrize(
    ("old_state", "new_state", "recorded", "event", "status"),
    [
        ("manageable", "available", "provide", None, "success"),
        ("available", "manageable", "manage", "manage", "success"),
        ("deploy failed", "deploying", "rebuild", "rebuild", "start"),
        ("deploy failed", "deploying", "done", None, "start"),
        ("cleaning", "clean wait", None, "wait", "success"),
        ("clean wait", "clean failed", "abort", "abort", "end"),
        ("clean wait", "clean failed", "fail", "fail", "error"),
        ("cleaning", "clean hold", None, "hold", "end"),
        ("clean hold", "clean wait", None, "unhold", "start"),
    ],
)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_status_and_event_of_a_change(harness, old_state, new_state, recorded, event, status):
    node = harness.node(old_state)
    harness.inside.change(Node, node, provision_state=new_state, provision_event=recorded)
    notification = made(harness.inside)[-1]
    expected = [(f"provision_set.{status}", event, old_state, new_state)]
    assert expected == brief([notification], "event", "previous_provision_state", "provision_state")
    assert ("error" if status == "error" else "info") == notification.level


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_every_change_of_the_state_machine_has_the_event_that_made_it(harness):
    node = harness.node("enroll")
    for state, row in MACHINE.items():
        for event, new_state in row.moves.items():
            if state == new_state:
                continue
            harness.inside.change(Node, node, provision_state="none")
            harness.inside.change(Node, node, provision_state=state)
            harness.inside.change(Node, node, provision_state=new_state, provision_event=event)
            assert event == data_of(made(harness.inside)[-1])["event"]
            with harness.inside.runtime.transaction() as session:
                session.execute(delete(ChangeEvent).where(ChangeEvent.sequence > 1))


def test_fields_are_those_of_the_change_and_documents_those_of_now(harness):
    inside = harness.inside
    node = harness.node("manageable", name="before", description="d", protected=True)
    inside.change(Node, node, maintenance=True, maintenance_reason="fans")
    inside.change(Node, node, maintenance=False, maintenance_reason=None, name="after",
                  power_state="power on", properties={"cpus": 8})  # fmt: skip
    with inside.runtime.transaction() as session:
        session.add(NodeTrait(node_id=node, trait="CUSTOM_GPU"))
    result = made(inside)
    names = ("name", "maintenance", "maintenance_reason", "power_state", "protected", "properties",
             "traits")  # fmt: skip
    new = "power on", True, {"cpus": 8}, ["CUSTOM_GPU"]
    assert [
        ("create.end", "before", False, None, None, *new[1:]),
        ("maintenance_set.end", "before", True, "fans", None, *new[1:]),
        ("maintenance_set.end", "after", False, None, *new),
        ("power_state_corrected.success", "after", False, None, *new),
    ] == sorted(brief(result, *names), key=lambda entry: (entry[1] == "after", entry[0]))
    assert {"ironic-api", "ironic-conductor"} == {notification.publisher for notification in result}
    corrected = next(
        notification for notification in result if "corrected" in notification.event_type
    )
    assert data_of(corrected)["from_power"] is None


def test_secrets_are_masked(harness):
    node = harness.node(
        "manageable",
        driver_info={"redfish_password": "secret1", "redfish_username": "admin"},
        instance_info={"image_url": "http://u:secret2@images/x", "configdrive": "secret3"},
        driver_internal_info={"agent_secret_token": "secret4"},
        extra={"note": "https://u:secret5@host/"}, properties={"admin_pass": "secret6"},
    )  # fmt: skip
    harness.inside.change(Node, node, last_error="GET https://u:secret7@bmc/ failed")
    harness.do(node, "provide")
    result = made(harness.inside)
    texts = json.dumps([notification.payload for notification in result])
    assert [] == re.findall(r"secret\d", texts)
    info = data_of(result[0])["driver_info"]
    assert {"redfish_password": HIDDEN, "redfish_username": "admin"} == info
    with harness.inside.runtime.read_connection() as connection:
        facts = connection.scalars(select(ChangeEvent.facts)).all()
    assert [] == [text for text in facts if text and re.search(r"secret[1-6]", text)]


def test_a_deleted_node_keeps_its_fields(harness):
    inside = harness.inside
    node = harness.node("manageable", name="gone", owner="p-1", properties={"cpus": 8})
    row = inside.read(node)
    harness.do(node, "provide")
    with inside.runtime.transaction() as session:
        locked_node = operations.lock(session, node)
        power.request(session, locked_node, "power on", None, Caller())
    harness.run()
    with inside.runtime.transaction() as session:
        of_node = select(Operation.id).where(Operation.node_id == node)
        session.execute(delete(OperationStep).where(OperationStep.operation_id.in_(of_node)))
        for model in (Operation, Port, NodeHistory):
            session.execute(delete(model).where(model.node_id == node))
        session.execute(delete(Node).where(Node.id == node))
    result = made(inside)
    assert ("delete.end", "gone", "p-1", {}, "power on") == brief(
        result[-1:], "name", "owner", "properties", "power_state"
    )[0]
    assert {row.uuid} == {data_of(notification)["uuid"] for notification in result}
    (start, end) = [
        notification for notification in result if "power_set" in notification.event_type
    ]
    assert ("gone", "power on") == (data_of(end)["name"], data_of(end)["to_power"])
    assert start.sequence < end.sequence


@pytest.mark.parametrize("state", ["power on", "rebooting"])
def test_power_changes_have_a_start_and_an_end_and_no_correction(harness, state):
    node = harness.node("manageable", power_state="power off")
    begun = len(made(harness.inside))
    with harness.inside.runtime.transaction() as session:
        power.request(session, operations.lock(session, node), state, None, Caller())
    harness.run()
    assert "power on" == harness.inside.read(node).power_state
    assert [("power_set.start", state), ("power_set.end", state)] == [
        entry[:2] for entry in brief(made(harness.inside)[begun:], "to_power")
    ]


def test_a_failed_power_change_is_an_error(harness, monkeypatch):
    node = harness.node("manageable", power_state="power off")
    monkeypatch.setattr("drivers.fake.hardware.FakePower.get_power_state", refuse)
    with harness.inside.runtime.transaction() as session:
        power.request(session, operations.lock(session, node), "power on", None, Caller())
    harness.run()
    notification = made(harness.inside)[-1]
    assert ("error", "baremetal.node.power_set.error") == (
        notification.level,
        notification.event_type,
    )
    assert "no power" in data_of(notification)["last_error"]


def refuse(*_):
    raise HardwareError("no power")


def test_consoles_have_a_start_and_an_end(harness):
    node = harness.node("manageable")
    with harness.inside.runtime.transaction() as session:
        row = operations.lock(session, node)
        management.request_console(session, row, enabled=True, caller=Caller())
    harness.run()
    consoles = [
        notification
        for notification in made(harness.inside)
        if "console" in notification.event_type
    ]
    assert [("console_set.start", True), ("console_set.end", True)] == brief(
        consoles, "console_enabled"
    ), "fields of steps are those of now"


def test_steps_on_a_child_node_are_those_of_the_child(harness):
    parent, child = harness.node("manageable", name="parent"), harness.node(name="child")
    child_uuid = harness.inside.read(child).uuid
    harness.ask(parent, "provide")
    row = harness.steps(parent)[0]
    of_child = {"interface": "power", "name": "power_off", "child": child_uuid}
    harness.inside.change(OperationStep, row.id, **of_child)
    harness.inside.change(OperationStep, row.id, state="running")
    notification = made(harness.inside)[-1]
    assert [("power_set.start", "child", child_uuid, "power off")] == brief(
        [notification], "name", "uuid", "to_power"
    )


def test_a_step_that_has_waited_does_not_start_again(harness):
    node = harness.node("manageable")
    harness.ask(node, "provide")
    row = harness.steps(node)[0]
    harness.inside.change(OperationStep, row.id, interface="power", name="power_on")
    begun = len(made(harness.inside))
    for state in ("running", "waiting", "running", "done"):
        harness.inside.change(OperationStep, row.id, state=state)
    assert ["power_set.start", "power_set.end"] == [
        action for (action,) in brief(made(harness.inside)[begun:])
    ]


def test_without_a_cursor_events_keep_no_fields_and_notifications_are_made_of_the_node(inside):
    harness = Harness(inside)
    node = harness.node("manageable", name="n-1")
    inside.change(Node, node, maintenance=True)
    with inside.runtime.read_connection() as connection:
        assert {None} == set(connection.scalars(select(ChangeEvent.facts)))
    assert [("create.end", "n-1", True), ("maintenance_set.end", "n-1", True)] == brief(
        made(inside), "name", "maintenance"
    )
    with inside.runtime.transaction() as session:
        session.execute(delete(Port))
        session.execute(delete(Node))
    assert ["delete.end"] == [action for (action,) in brief(made(inside)[-1:])]


def test_the_selected_events_are_those_with_a_notification():
    states = ChangeType.PROVISION_STATE, ChangeType.POWER_STATE
    assert {*notifications.OF_CHANGES, *states, *RESOURCE_TYPES} == {*notification_events.TYPES}
    assert {*notifications.STATUSES} == {*notification_events.STATES}
    assert {label.partition(".")[0] for label in notification_events.STEPS} == {"power", "console"}
