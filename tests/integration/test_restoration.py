"""Detection of a database that was restored from a backup, without effects on machines."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from app.broker import redis_broker
from app.db.clock import utcnow
from app.engine import operations, provisioning
from app.errors import InMaintenance
from app.identity.caller import Caller
from app.lifecycle.operation_states import Actor
from app.lifecycle.provision_states import MACHINE, Kind, State
from app.models import ENDED, Node, Operation
from tests.integration.harness import Harness
from tests.support.fleet import PATIENCE
from tests.support.redis import breakers
from workers.conductor import attempts, claims
from workers.conductor.life import Life
from workers.restoration import restore
from workers.restoration.restore_guard import MARGIN, RestoreGuard


@pytest.fixture
def living(inside, redis_url):
    """Factory of conductors whose heartbeats the test sends."""
    with redis_broker.client(redis_url, 2) as client:
        inside.redis = client
        inside.witness = RestoreGuard(client, "ingot", breakers(redis_url).of_reads())

        def live():
            conductor = inside.conductor("c-1")
            conductor.incarnation = str(uuid.uuid4())
            conductor.witness = RestoreGuard(client, "ingot", breakers(redis_url).of_reads())
            life = Life(conductor, 0)
            life._register()
            return life

        yield live


def lower(inside, level):
    with inside.runtime.transaction() as session:
        session.get_one(restore.Watermark, 1).level = level


def test_the_watermark_rises_with_each_heartbeat_and_redis_records_the_highest(inside, living):
    life = living()
    assert 1 == life.conductor.watermark
    assert [True, True] == [life._heartbeat(), life._heartbeat()]
    assert 0 == inside.witness.recall()
    inside.witness.check(inside.runtime)
    assert 3 == life.conductor.watermark == inside.witness.recall()


def test_a_conductor_claims_nothing_in_an_older_database_and_detects_it_at_its_next_heartbeat(
    inside, living
):
    life = living()
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    lower(inside, 0)
    assert claims.claim(life.conductor, name, 1, 0) is None
    assert life._heartbeat()
    assert ("failed", "restored") == (
        inside.operation(name).state, inside.operation(name).error["code"]
    )  # fmt: skip
    row = inside.read(node)
    assert ("clean failed", True, "restored", None) == (
        row.provision_state, row.maintenance, row.fault, row.reservation
    )  # fmt: skip
    assert life.conductor.watermark > restore.LEAP, "another one would detect it again"


def test_a_restarted_conductor_detects_it_by_the_record_in_redis(inside, living):
    life = living()
    life._heartbeat()
    inside.witness.check(inside.runtime)
    node = inside.node("available")
    lower(inside, 1)
    living()
    assert "restored" == inside.read(node).fault
    inside.change(Node, node, maintenance=False, fault=None)
    living()
    assert inside.read(node).fault is None


def test_a_check_detects_it_without_the_conductor_that_raised_the_watermark(inside, living):
    living()
    node = inside.node("available")
    inside.witness.check(inside.runtime)
    lower(inside, 0)
    inside.witness.check(inside.runtime)
    assert "restored" == inside.read(node).fault
    inside.change(Node, node, maintenance=False, fault=None)
    inside.witness.check(inside.runtime)
    assert inside.read(node).fault is None


# Loss of a few seconds


class Loss:
    """Nodes with all kinds of operations, and a database that returns to this state."""

    def __init__(self, inside, life):
        self.inside, self.life = inside, life
        self.nodes, self.operations = {}, {}
        for name in ("idle", "touched", "waits", "waits and touched", "runs"):
            self.nodes[name] = inside.node("manageable")
        for name in ("waits", "waits and touched", "runs"):
            self.operations[name] = inside.request(self.nodes[name], "provide")
            state = "running" if name == "runs" else "waiting"
            inside.change(Operation, self.operations[name], state=state)
        self.pass_by()
        self.level = life.conductor.watermark

    def pass_by(self, looks=MARGIN + 1):
        for _ in range(looks):
            self.life._heartbeat()
            self.inside.witness.check(self.inside.runtime)

    def note(self, *names):
        for name in names:
            assert self.inside.witness.note(self.inside.read(self.nodes[name]).uuid)

    def come(self):
        """Restore the database, and detect it; return the nodes in maintenance."""
        self.life._heartbeat()
        lower(self.inside, self.level)
        self.life._heartbeat()
        return {
            name for name, node in self.nodes.items()
            if self.inside.read(node).fault == "restored"
        }  # fmt: skip


@pytest.fixture
def loss(inside, living):
    return Loss(inside, living())


CONCERNED = {"touched", "waits and touched", "runs"}


def test_only_nodes_with_work_in_the_lost_seconds_are_put_into_maintenance(inside, loss):
    child = inside.node("active", parent_node=inside.read(loss.nodes["touched"]).uuid)
    loss.note("touched", "waits and touched")
    assert loss.come() == CONCERNED
    assert "restored" == inside.read(child).fault
    states = {name: inside.operation(key).state for name, key in loss.operations.items()}
    assert {"waits": "waiting", "waits and touched": "failed", "runs": "failed"} == states


def test_concurrent_detections_declare_it_once(inside, loss):
    loss.note("touched")
    loss.life._heartbeat()
    lower(inside, loss.level)
    rewind = restore.DatabaseRewound(loss.level, loss.life.conductor.watermark)
    fences = []
    for _ in range(2):
        inside.witness.declare_restored(inside.runtime, rewind)
        fences.append(inside.read(loss.nodes["touched"]).fence)
    assert [1, 1] == fences


def test_work_long_before_the_loss_is_in_the_rows(loss):
    loss.note("idle")
    loss.pass_by()
    loss.level = loss.life.conductor.watermark
    assert {"runs"} == loss.come()


def test_work_before_the_detection_counts(loss):
    loss.note("touched")
    loss.pass_by(2 * MARGIN)
    loss.level += MARGIN // 2  # a conductor without a higher watermark has raised it so far
    assert "touched" in loss.come()


@pytest.mark.parametrize(
    "forget",
    ["FLUSHALL", "DEL ingot:touched", "DEL ingot:looks", "ZREMRANGEBYRANK ingot:touched 0 0"],
)
def test_an_incomplete_record_is_not_used(inside, loss, forget):
    loss.note("touched")
    inside.redis.execute_command(*forget.split())
    assert set(loss.nodes) == loss.come()


def test_the_record_of_another_run_of_redis_is_not_used(inside, loss, monkeypatch):
    monkeypatch.setattr(RestoreGuard, "_run_id", lambda _self: "another")
    assert set(loss.nodes) == loss.come()


def test_a_loss_beyond_the_record_is_a_restored_backup(inside, loss, monkeypatch):
    monkeypatch.setattr("workers.restoration.restore_guard.KEPT", MARGIN + 5)
    loss.note("touched")
    loss.pass_by(1)
    loss.note("idle")
    loss.pass_by(MARGIN + 6)
    assert 2 == inside.redis.zcard("ingot:touched"), "its name, and the last one"
    assert set(loss.nodes) == loss.come()


def test_no_work_starts_without_its_record_in_redis(inside, living):
    conductor = living().conductor
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    inside.redis.config_set("maxmemory", 1)
    attempts.run(conductor, inside.message(name))
    assert 0 == inside.operation(name).cursor
    inside.redis.config_set("maxmemory", 0)
    conductor.witness = inside.witness
    attempts.run(conductor, inside.message(name))
    assert 1 == inside.operation(name).cursor


def test_an_empty_redis_indicates_no_restoration(inside, living):
    living()
    node = inside.node("available")
    inside.redis.flushall()
    living()
    assert inside.read(node).fault is None


@pytest.mark.parametrize("change", ["abort", "begin"])
def test_operations_that_end_or_begin_meanwhile_keep_no_node_from_its_quarantine(inside, change):
    inside.conductor("c-1")
    node = inside.node("manageable")
    operation = inside.request(node, "provide") if change == "abort" else None

    def quarantine():
        with inside.runtime.transaction(Actor.COMMAND) as session:
            return restore.quarantine(session)

    with ThreadPoolExecutor(1) as threads:
        with inside.runtime.transaction() as session:
            row = operations.lock(session, node)
            if operation:
                provisioning.request(session, row, "abort", {}, Caller())
            quarantined = threads.submit(quarantine)
            inside.await_a_blocked_writer()
            if not operation:
                provisioning.request(session, row, "provide", {}, Caller())
        assert (int(not operation), 1) == quarantined.result(PATIENCE)
    with inside.runtime.reading() as session:
        assert session.scalars(select(Operation.state)).one() in ENDED
    assert (None, "restored") == (inside.read(node).operation_id, inside.read(node).fault)


STATES = [state for state, row in MACHINE.items() if row.kind in (Kind.BUSY, Kind.WAIT, Kind.HOLD)]


@pytest.mark.parametrize("state", STATES)
def test_every_unfinished_operation_ends_without_a_command(inside, state):
    harness = Harness(inside)
    node = harness.node(state, instance_info={"image_source": "x"}, instance_uuid=str(uuid.uuid4()))
    with inside.runtime.transaction() as session:
        session.add(
            Operation(
                uuid=str(uuid.uuid4()), node_id=node, kind="provide", state="waiting",
                created_at=utcnow(),
            )
        )  # fmt: skip
    old_row = inside.read(node)
    with inside.runtime.transaction(Actor.COMMAND) as session:
        assert (1, 1) == restore.quarantine(session)
    harness.run()
    row = inside.read(node)
    assert MACHINE[State(row.provision_state)].kind in (Kind.FAILED, Kind.STABLE)
    assert (old_row.instance_info, old_row.instance_uuid) == (row.instance_info, row.instance_uuid)
    assert old_row.fence < row.fence
    assert [] == harness.inside.messages
    assert [] == harness.labels(node)


@pytest.mark.parametrize(
    ("state", "verb"),
    [("active", "deleted"), ("available", "active"), ("manageable", "provide"),
     ("manageable", "inspect"), ("active", "rebuild")],
)  # fmt: skip
def test_a_node_refuses_verbs_until_an_operator_has_checked_it(inside, state, verb):
    harness = Harness(inside)
    node = harness.node(state)
    with inside.runtime.transaction() as session:
        restore.quarantine(session)
    with pytest.raises(InMaintenance):
        harness.ask(node, verb)
    inside.change(Node, node, maintenance=False, fault=None)
    harness.ask(node, verb)
