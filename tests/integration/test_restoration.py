"""A database that was restored from a backup is noticed, and harms no machine."""

import uuid

import pytest

from app.broker import redis_broker
from app.engine import restore
from app.errors import InMaintenance
from app.models import Node, Operation
from app.operation_states import Actor
from app.states import MACHINE, Kind, State
from tests.integration.harness import Harness
from workers.conductor import attempts, claims
from workers.conductor.process import _Life
from workers.restore_guard import MARGIN, Witness


@pytest.fixture
def living(inside, redis_url):
    """A conductor whose life is led by hand."""
    with redis_broker.client(redis_url, 2) as client:
        inside.redis = client
        inside.witness = Witness(client, "ingot")

        def live():
            conductor = inside.conductor("c-1")
            conductor.incarnation = str(uuid.uuid4())
            conductor.witness = Witness(client, "ingot")
            life = _Life(conductor, 0)
            life._register()
            return life

        yield live


def lower(inside, level):
    with inside.runtime.transaction() as session:
        session.get_one(restore.Watermark, 1).level = level


def test_the_mark_rises_with_each_sign_of_life_and_redis_remembers_the_highest(inside, living):
    life = living()
    assert 1 == life.conductor.mark
    assert [True, True] == [life._heartbeat(), life._heartbeat()]
    assert 0 == inside.witness.recall()
    inside.witness.look(inside.runtime)
    assert 3 == life.conductor.mark == inside.witness.recall()


def test_a_conductor_claims_nothing_in_an_older_database_and_notices_at_its_next_sign(
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
    assert life.conductor.mark > restore.LEAP, "another one would notice it again"


def test_one_that_starts_anew_notices_by_what_redis_remembers(inside, living):
    life = living()
    life._heartbeat()
    inside.witness.look(inside.runtime)
    node = inside.node("available")
    lower(inside, 1)
    living()
    assert "restored" == inside.read(node).fault
    inside.change(Node, node, maintenance=False, fault=None)
    living()
    assert inside.read(node).fault is None


def test_a_look_notices_it_as_well_though_who_had_raised_the_mark_is_dead(inside, living):
    living()
    node = inside.node("available")
    inside.witness.look(inside.runtime)
    lower(inside, 0)
    inside.witness.look(inside.runtime)
    assert "restored" == inside.read(node).fault
    inside.change(Node, node, maintenance=False, fault=None)
    inside.witness.look(inside.runtime)
    assert inside.read(node).fault is None


# the loss of mere seconds


class Loss:
    """Nodes in all kinds of situations, and a database that goes back to this moment."""

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
        self.level = life.conductor.mark

    def pass_by(self, looks=MARGIN + 1):
        for _ in range(looks):
            self.life._heartbeat()
            self.inside.witness.look(self.inside.runtime)

    def note(self, *names):
        for name in names:
            assert self.inside.witness.note(self.inside.read(self.nodes[name]).uuid)

    def come(self):
        """The database is that of before, and it is noticed; who is in maintenance then."""
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


def test_only_nodes_that_were_worked_on_in_the_lost_seconds_need_a_look(inside, loss):
    child = inside.node("active", parent_node=inside.read(loss.nodes["touched"]).uuid)
    loss.note("touched", "waits and touched")
    assert loss.come() == CONCERNED
    assert "restored" == inside.read(child).fault
    states = {name: inside.operation(key).state for name, key in loss.operations.items()}
    assert {"waits": "waiting", "waits and touched": "failed", "runs": "failed"} == states


def test_two_that_notice_at_once_declare_it_once(inside, loss):
    loss.note("touched")
    loss.life._heartbeat()
    lower(inside, loss.level)
    found = restore.DatabaseRewound(loss.level, loss.life.conductor.mark)
    fences = []
    for _ in range(2):
        inside.witness.declare_restored(inside.runtime, found)
        fences.append(inside.read(loss.nodes["touched"]).fence)
    assert [1, 1] == fences


def test_what_was_done_long_before_the_loss_is_in_the_rows(loss):
    loss.note("idle")
    loss.pass_by()
    loss.level = loss.life.conductor.mark
    assert {"runs"} == loss.come()


def test_what_was_done_while_nobody_had_noticed_counts_as_well(loss):
    loss.note("touched")
    loss.pass_by(2 * MARGIN)
    loss.level += MARGIN // 2  # who knew of no higher mark has raised it so far
    assert "touched" in loss.come()


@pytest.mark.parametrize(
    "forget",
    ["FLUSHALL", "DEL ingot:touched", "DEL ingot:looks", "ZREMRANGEBYRANK ingot:touched 0 0"],
)
def test_a_record_that_is_not_whole_is_not_relied_on(inside, loss, forget):
    loss.note("touched")
    inside.redis.execute_command(*forget.split())
    assert set(loss.nodes) == loss.come()


def test_the_record_of_another_run_of_redis_is_not_relied_on(inside, loss, monkeypatch):
    monkeypatch.setattr(Witness, "_run_id", lambda _self: "another")
    assert set(loss.nodes) == loss.come()


def test_a_loss_of_more_than_is_kept_is_a_restored_backup(inside, loss, monkeypatch):
    monkeypatch.setattr("workers.restore_guard.KEPT", MARGIN + 5)
    loss.note("touched")
    loss.pass_by(1)
    loss.note("idle")
    loss.pass_by(MARGIN + 6)
    assert 2 == inside.redis.zcard("ingot:touched"), "its name, and the last one"
    assert set(loss.nodes) == loss.come()


def test_no_work_begins_that_redis_does_not_take_down(inside, living):
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


def test_an_empty_redis_accuses_nobody(inside, living):
    living()
    node = inside.node("available")
    inside.redis.flushall()
    living()
    assert inside.read(node).fault is None


STATES = [state for state, row in MACHINE.items() if row.kind in (Kind.BUSY, Kind.WAIT, Kind.HOLD)]


@pytest.mark.parametrize("state", STATES)
def test_whatever_was_under_way_ends_without_any_order(inside, state):
    harness = Harness(inside)
    node = harness.node(state, instance_info={"image_source": "x"}, instance_uuid=str(uuid.uuid4()))
    with inside.runtime.transaction() as session:
        session.add(
            Operation(
                uuid=str(uuid.uuid4()), node_id=node, kind="provide", state="waiting",
                created_at=restore.utcnow(),
            )
        )  # fmt: skip
    before = inside.read(node)
    with inside.runtime.transaction(Actor.COMMAND) as session:
        assert (1, 1) == restore.quarantine(session)
    harness.run()
    row = inside.read(node)
    assert MACHINE[State(row.provision_state)].kind in (Kind.FAILED, Kind.STABLE)
    assert (before.instance_info, before.instance_uuid) == (row.instance_info, row.instance_uuid)
    assert before.fence < row.fence
    assert [] == harness.inside.sent
    assert [] == harness.labels(node)


@pytest.mark.parametrize(
    ("state", "verb"),
    [("active", "deleted"), ("available", "active"), ("manageable", "provide"),
     ("manageable", "inspect"), ("active", "rebuild")],
)  # fmt: skip
def test_nothing_is_done_to_a_node_until_somebody_has_looked(inside, state, verb):
    harness = Harness(inside)
    node = harness.node(state)
    with inside.runtime.transaction() as session:
        restore.quarantine(session)
    with pytest.raises(InMaintenance):
        harness.ask(node, verb)
    inside.change(Node, node, maintenance=False, fault=None)
    harness.ask(node, verb)
