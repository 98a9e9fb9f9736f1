"""`ingot doctor`: each inconsistency is created, found, explained and repaired."""

import uuid

import pytest
from sqlalchemy import delete

from app.db import clock
from app.db.clock import after, now
from app.models import Node, NodeHistory, NotificationCursor, Operation
from workers.conductor import claims
from workers.doctor import examination

from .conftest import NOBODY, reservation


def reservation_of_the_past(ward):
    node, name = ward.cleaning()
    ward.inside.change(Operation, name, state="succeeded")
    ward.inside.change(Node, node, provision_state="available")


def cleaning_without_operation(ward):
    node = ward.inside.node("clean wait", target_provision_state="available")
    yield
    row = ward.inside.read(node)
    assert ("clean failed", True, "clean failure") == (
        row.provision_state, row.maintenance, row.fault
    )  # fmt: skip
    assert "clean wait without an active operation" in row.last_error


def deleting_without_operation(ward):
    node = ward.inside.node("deleting", instance_info={"image_source": "http://an/image"})
    yield
    row = ward.inside.read(node)
    assert ("error", {"image_source": "http://an/image"}) == (
        row.provision_state, row.instance_info
    )  # fmt: skip


def busy_after_its_operation(state, kind, ended, failed):
    """Return the function that plants a node whose operation has ended, and left it in a state."""

    def plant(ward):
        node = ward.inside.node(state)
        with ward.inside.runtime.transaction() as session:
            session.add(
                Operation(
                    uuid=str(uuid.uuid4()), node_id=node, kind=kind, state=ended, created_at=now(),
                    finished_at=now(), aborting=ended == "aborted",
                )
            )  # fmt: skip
        yield
        assert failed == ward.inside.read(node).provision_state

    return plant


def operation_of_a_node_at_rest(ward):
    node, name = ward.cleaning()
    ward.inside.change(Node, node, provision_state="active")
    yield
    assert "failed" == ward.inside.operation(name).state
    assert ("active", None) == (
        ward.inside.read(node).provision_state, ward.inside.read(node).reservation
    )  # fmt: skip


def claimed_by_the_dead(ward):
    _, name = ward.cleaning()
    assert claims.claim(ward.claimant, name, 1, 0)
    ward.inside.change(Operation, name, claimed_by=NOBODY)
    yield
    assert 2 == ward.inside.operation(name).fence
    assert "queued" == ward.inside.operation(name).state


def sent_to_the_dead(ward):
    _, name = ward.cleaning()
    ward.inside.change(Operation, name, sent_to=NOBODY, sent_at=after(-3600))


def queue_of_the_dead(ward):
    ward.redis.lpush("conductor.gone", "a message")
    ward.redis.lpush("conductor.c-1", "a message")
    ward.redis.lpush("conductor.now", "a message")
    yield
    assert [b"conductor.c-1", b"conductor.now"] == sorted(ward.redis.keys("conductor.*"))


def endless_lease(ward):
    ward.redis.set(f"ingot:lease:{NOBODY}", f"{ward.claimant.incarnation}:3")


def lease_without_holder(ward):
    ward.redis.set(f"ingot:lease:{NOBODY}", f"{NOBODY}:3", ex=600)


def history_of_no_node(ward):
    row = NodeHistory.__table__.insert().values(
        uuid=NOBODY,
        node_id=4711,
        created_at=clock.utcnow(),
        severity="INFO",
        event_type="x",
        event="x",
    )
    ward.without_references(row)


def agent_of_no_node(ward):
    node = ward.inside.node()
    ward.inside.agent(node)
    ward.without_references(delete(Node).where(Node.id == node))


def files_of_no_deployment(ward):
    (ward.folder / "nodes" / NOBODY / "ramdisk-secret").mkdir(parents=True)
    node = ward.inside.read(ward.inside.node("active")).uuid
    (ward.folder / "nodes" / node / "image-secret").mkdir(parents=True)


def files_that_others_may_read(ward):
    for name in ("redis", "agent_logs"):
        (ward.folder / "data" / name).mkdir(parents=True)
        (ward.folder / "data" / name).chmod(0o755)
    ward.folder.joinpath("data").chmod(0o751)
    database = ward.folder / "data" / "ingot.db"
    database.touch()
    database.chmod(0o644)


def place_of_notifications_that_are_off(ward):
    with ward.inside.runtime.transaction() as session:
        session.add(NotificationCursor(id=1, position=0))


REPAIRED = {
    "orphan reservations": (reservation, reservation_of_the_past),
    "stuck nodes": (
        cleaning_without_operation,
        deleting_without_operation,
        busy_after_its_operation("servicing", "service", "aborted", "service failed"),
        busy_after_its_operation("service hold", "service", "failed", "service failed"),
        busy_after_its_operation("rescue wait", "rescue", "succeeded", "rescue failed"),
    ),
    "inconsistent operations": (operation_of_a_node_at_rest,),
    "stalled operations": (claimed_by_the_dead, sent_to_the_dead),
    "orphan queues": (queue_of_the_dead,),
    "orphan leases": (endless_lease, lease_without_holder),
    "orphan rows": (history_of_no_node, agent_of_no_node),
    "stale files": (files_of_no_deployment,),
    "ended notifications": (place_of_notifications_that_are_off,),
    "file permissions": (files_that_others_may_read,),
}


@pytest.mark.parametrize(
    ("check", "plant"), [(name, plant) for name, plants in REPAIRED.items() for plant in plants]
)
def test_an_inconsistency_is_found_and_repaired(ward, check, plant):
    planted = plant(ward)
    if planted is not None:
        next(planted)
    assert {(check, False)} == set(ward.examine())
    assert {(check, True)} == set(ward.examine(fix=True))
    assert [] == ward.examine()
    if planted is not None:
        assert next(planted, None) is None


def test_a_node_that_is_deleted_before_its_repair_does_not_end_the_examination(ward, monkeypatch):
    reservation(ward)
    record = examination._record

    def deleted_meanwhile(*arguments):
        record(*arguments)
        with ward.inside.runtime.transaction() as session:
            session.execute(delete(Node))

    monkeypatch.setattr(examination, "_record", deleted_meanwhile)
    assert [("orphan reservations", True)] == ward.examine(fix=True)
