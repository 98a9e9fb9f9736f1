"""Subscriptions to the events of BMCs: ordered, found again, renewed, and deleted."""

from uuid import uuid4

import pytest
from sqlalchemy import Text, cast, select, update

from app.db.clock import after, now
from app.identity.caller import Caller
from app.inventory import event_subscriptions as destinations
from app.inventory import nodes
from app.models import EventSubscription, Node
from app.process import kill_points
from workers.periodic import event_subscriptions

from .conftest import ON, URL

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def machine(fleet):
    return fleet.machines[0]


@pytest.fixture
def node(view, machine):
    return enrolled(view, machine)


def enrolled(view, machine, state="active", **columns):
    columns = {"management_interface": "redfish", **columns}
    node = view.node(state, driver_info=machine.driver_info(), **columns)
    view.change(Node, node, driver="redfish")
    return node


def check(view):
    return event_subscriptions.check(view.runtime, "c-1")


def recheck(view):
    """Check although no row is due yet."""
    with view.runtime.transaction() as session:
        session.execute(update(EventSubscription).values(due_at=now()))
    return check(view)


def leave(view):
    with view.runtime.transaction() as session:
        session.execute(update(EventSubscription).values(due_at=now()))
    return event_subscriptions.leave(view.runtime, "c-1")


def rows(view):
    with view.runtime.reading() as session:
        return session.scalars(select(EventSubscription).order_by(EventSubscription.id)).all()


def row(view):
    (only,) = rows(view)
    return only


def shown(view, node):
    with view.runtime.reading() as session:
        uuid = session.get_one(Node, node).uuid
        return destinations.of_node(session, uuid, view.settings)


def listed(machine):
    return [document["Destination"] for document in machine.subscriptions.values()]


def orders(machine, order):
    return [entry["detail"] for entry in machine.log if entry["what"] == order]


@BOTH
def test_each_bmc_is_subscribed_to_once_and_then_read_once_an_interval(view, node, machine):
    assert 1 == check(view)
    (destination,) = listed(machine)
    uuid = view.read(node).uuid
    assert destination.startswith(f"{URL}/v1/redfish_events/{uuid}/")
    assert destination.rpartition("/")[2] not in str(vars(row(view)))  # only its digest
    assert ("subscribed", None) == (shown(view, node).state, row(view).error)
    assert 0 == check(view)  # it is not due
    reads = machine.reads
    assert 1 == recheck(view)
    assert (reads + 1, [destination]) == (machine.reads, listed(machine))
    assert 1 == len(orders(machine, "test event"))


@SQLITE
@pytest.mark.parametrize(
    "columns",
    [
        {"maintenance": True},
        {"reservation": "c-1"},
        {"state": "enroll"},
    ],
)
def test_nodes_that_sweeps_leave_out_are_left_out(view, fleet, columns):
    enrolled(view, fleet.machines[0], **columns)
    assert (0, []) == (check(view), listed(fleet.machines[0]))


@SQLITE
@pytest.mark.parametrize("faults", [{}, {"pages": {"size": 1}}, {"sessions_absent": True}])
def test_a_subscription_that_a_reset_has_dropped_is_ordered_again(view, fleet, node, faults):
    machine = fleet.machines[0]
    fleet.set_faults(0, **faults)
    check(view)
    first_destinations = listed(machine)
    machine.subscriptions.clear()
    recheck(view)
    assert 1 == len(listed(machine))
    assert first_destinations != listed(machine)  # with a secret of its own
    assert "subscribed" == shown(view, node).state


@SQLITE
def test_a_suspended_subscription_is_replaced(view, node, machine):
    check(view)
    (path,) = machine.subscriptions
    machine.subscriptions[path]["Status"] = {"State": "Disabled"}
    recheck(view)
    assert 1 == len(machine.subscriptions)
    assert path not in machine.subscriptions


@SQLITE
def test_older_ones_of_the_node_are_deleted_and_those_of_others_stay(view, node, machine):
    check(view)
    (path,) = machine.subscriptions
    uuid = view.read(node).uuid
    for name, destination in {
        "theirs": "https://other.example/v1/redfish_events/",
        "of another node": f"{URL}/v1/redfish_events/{uuid4()}/secret",
        "older": f"http://former.example/v1/redfish_events/{uuid}/secret",
    }.items():
        machine.subscriptions[f"{path}-{name}"] = {
            **machine.subscriptions[path],
            "@odata.id": f"{path}-{name}",
            "Destination": destination,
        }
    del machine.subscriptions[path]
    recheck(view)
    names = [path.partition("-")[2] for path in machine.subscriptions]
    assert ["theirs", "of another node", ""] == names


@SQLITE
@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"events_need_tls": True}, "wrong format"),
        ({"most_subscriptions": 0}, "number of simultaneous"),
        ({"property_missing": {"property": "EventService"}}, "has no event service"),
    ],
)
def test_a_refusal_is_shown_with_its_reason_without_the_secret(inside, fleet, faults, words):
    inside.environ |= ON | {"INGOT_REDFISH_EVENT_RECEIVER_URL": "http://ingot.example"}
    view = inside.another()
    view.conductor("c-1")
    fleet.set_faults(0, **faults)
    node = enrolled(view, fleet.machines[0])
    check(view)
    subscription = shown(view, node)
    assert "refused" == subscription.state
    assert words in subscription.error
    assert "/v1/redfish_events/" not in subscription.error or "/******" in subscription.error
    fleet.set_faults(0, **dict.fromkeys(faults))
    after_restart = view.another()
    recheck(after_restart)
    assert ("subscribed", None) == (shown(view, node).state, shown(view, node).error)
    after_restart.close()
    view.close()


@SQLITE
def test_a_subscription_that_is_gone_with_its_event_service_is_not_shown(
    view, fleet, node, machine
):
    check(view)
    machine.subscriptions.clear()
    fleet.set_faults(0, property_odd={"property": "ServiceEnabled", "value": "false"})
    recheck(view)
    subscription = shown(view, node)
    assert ("refused", None) == (subscription.state, subscription.subscribed_at)
    assert "disabled" in subscription.error


@SQLITE
def test_a_bmc_that_does_not_answer_keeps_its_subscription(view, fleet, node, machine):
    check(view)
    fleet.set_faults(0, bmc_dead=True)
    recheck(view)
    assert "subscribed" == shown(view, node).state
    assert "did not answer" in shown(view, node).error


@SQLITE
def test_machines_without_redfish_have_none_and_say_so(view):
    node = view.node("active")
    check(view)
    assert "refused" == shown(view, node).state
    assert "has no events" in shown(view, node).error


@SQLITE
def test_a_lost_answer_to_the_order_is_no_second_subscription(view, fleet, node, machine):
    fleet.set_faults(0, answer_lost={"times": 1, "orders": ["other"]})
    check(view)
    assert 1 == len(listed(machine))
    assert None is row(view).subscribed_at
    recheck(view)
    assert 1 == len(listed(machine)) == len(orders(machine, "create subscription"))
    assert "subscribed" == shown(view, node).state


@SQLITE
def test_a_conductor_that_dies_after_the_order_leaves_no_second_subscription(
    view, node, machine, monkeypatch
):
    class Death(BaseException):
        pass

    def die(point):
        assert "subscribed" == point
        raise Death

    monkeypatch.setattr(kill_points, "reach", die)
    with pytest.raises(Death):
        check(view)
    monkeypatch.undo()
    assert (1, None) == (len(listed(machine)), row(view).path)
    recheck(view)
    assert 1 == len(listed(machine)) == len(orders(machine, "create subscription"))
    assert "subscribed" == shown(view, node).state


@BOTH
def test_of_two_conductors_that_check_a_node_at_once_one_subscribes(view, node, machine):
    check(view)
    stale = row(view)
    machine.subscriptions.clear()
    recheck(view)
    winner = listed(machine)
    node = view.read(node)
    late = event_subscriptions._Check(view.runtime, URL, node, stale)
    late.run()
    never = event_subscriptions._Check(view.runtime, URL, node, None)
    never.run()
    assert winner == listed(machine)


def remove(view, node):
    with view.runtime.transaction() as session:
        nodes.remove(session, nodes.lock(session, view.read(node).uuid))


def change(view, node, **values):
    with view.runtime.transaction() as session:
        locked = nodes.lock(session, view.read(node).uuid)
        nodes.change(session, locked, [], values, Caller(), inspecting_counts=False)


@BOTH
def test_the_subscription_of_a_deleted_node_is_deleted(view, fleet):
    machine = fleet.machines[0]
    node = enrolled(view, machine, "manageable")
    check(view)
    remove(view, node)
    assert None is row(view).node_id
    fleet.set_faults(0, bmc_dead=True)
    assert 0 == leave(view)
    fleet.set_faults(0, bmc_dead=None)
    assert (1, [], []) == (leave(view), listed(machine), rows(view))


@SQLITE
def test_the_password_of_a_departed_node_is_encrypted(sealed, fleet):
    sealed.environ |= ON
    view = sealed.another()
    view.conductor("c-1")
    machine = fleet.machines[0]
    machine.set_password("a-known-password")
    node = enrolled(view, machine, "manageable")
    check(view)
    remove(view, node)
    with view.runtime.reading() as session:
        stored = session.scalar(select(cast(EventSubscription.departed, Text)))
    assert machine.redfish_address in stored
    assert "a-known-password" not in stored
    assert (1, []) == (leave(view), listed(machine))
    view.close()


@SQLITE
def test_a_bmc_that_never_answers_is_given_up(view, fleet):
    node = enrolled(view, fleet.machines[0], "manageable")
    check(view)
    remove(view, node)
    fleet.set_faults(0, bmc_dead=True)
    leave(view)
    with view.runtime.transaction() as session:
        session.execute(update(EventSubscription).values(departed_at=after(-90000)))
    assert (1, []) == (leave(view), rows(view))


@SQLITE
def test_a_login_that_is_refused_is_not_tried_twice(view, fleet):
    machine = fleet.machines[0]
    node = enrolled(view, machine, "manageable")
    check(view)
    remove(view, node)
    machine.set_password("another")
    other = view.another()
    assert (1, []) == (event_subscriptions.leave(other.runtime, "c-1"), rows(view))
    other.close()


@BOTH
def test_a_node_with_another_bmc_leaves_the_former_one(view, fleet, node):
    former, other = fleet.machines
    check(view)
    change(view, node, driver_info=other.driver_info())
    check(view)
    assert (1, 1) == (len(listed(former)), len(listed(other)))
    leave(view)
    assert ([], 1) == (listed(former), len(listed(other)))
    assert "subscribed" == shown(view, node).state


@SQLITE
def test_another_way_to_write_the_address_costs_no_subscription(view, node, machine):
    check(view)
    info = machine.driver_info()
    change(view, node, driver_info={**info, "redfish_address": f"{info['redfish_address']}/"})
    check(view)
    (newest,) = set(listed(machine))
    leave(view)
    recheck(view)
    assert [newest] == listed(machine)
    assert "subscribed" == shown(view, node).state


@SQLITE
def test_a_new_password_keeps_the_subscription(view, node, machine):
    check(view)
    change(view, node, driver_info={**machine.driver_info(), "redfish_password": "other"})
    assert node == row(view).node_id


@SQLITE
def test_without_the_setting_all_are_deleted_but_those_of_nodes_in_maintenance(view, inside, fleet):
    ids = [enrolled(view, machine) for machine in fleet.machines]
    check(view)
    view.change(Node, ids[1], maintenance=True)
    inside.environ.pop(next(iter(ON)))
    off = inside.another()
    assert 0 == event_subscriptions.check(off.runtime, "c-1")
    assert 0 == event_subscriptions.leave(view.runtime, "c-1")  # with the setting: none
    assert 1 == leave(off)
    assert ([0, 1], "off") == (
        [len(listed(machine)) for machine in fleet.machines], shown(off, ids[0]).state,
    )  # fmt: skip
    off.close()
