"""A database that was restored from a backup is noticed, and harms no machine."""

import uuid
from types import SimpleNamespace

import pytest

from app import broker
from app.errors import InMaintenance
from app.models import Node, Operation
from app.services import restoration
from app.states import MACHINE, Kind, State
from tests.integration.world import World
from workers import claims, witness
from workers.conductor import _Life


@pytest.fixture
def living(inside, redis_url):
    """A conductor whose life is led by hand."""
    with broker.client(redis_url, 2) as client:
        inside.redis = client

        def live():
            conductor = inside.conductor("c-1")
            conductor.incarnation = str(uuid.uuid4())
            conductor.leases = SimpleNamespace(client=client, prefix="ingot")
            life = _Life(conductor, 0)
            life._register()
            return life

        yield live


def lower(inside, level):
    with inside.runtime.transaction() as session:
        session.get_one(restoration.Watermark, 1).level = level


def test_the_mark_rises_with_each_sign_of_life_and_redis_remembers_the_highest(inside, living):
    life = living()
    assert 1 == life.conductor.mark
    assert [True, True] == [life._heartbeat(), life._heartbeat()]
    witness.write_down(inside.runtime, inside.redis)
    lower(inside, 2)
    witness.write_down(inside.runtime, inside.redis)
    assert 3 == life.conductor.mark == witness.recall(inside.redis, "ingot")


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
    assert 2 == life.conductor.mark


def test_one_that_starts_anew_notices_by_what_redis_remembers(inside, living):
    life = living()
    life._heartbeat()
    witness.write_down(inside.runtime, inside.redis)
    node = inside.node("available")
    lower(inside, 1)
    assert 3 == living().conductor.mark
    assert "restored" == inside.read(node).fault
    inside.change(Node, node, maintenance=False, fault=None)
    assert 4 == living().conductor.mark
    assert inside.read(node).fault is None


def test_an_empty_redis_accuses_nobody(inside, living):
    living()
    node = inside.node("available")
    inside.redis.flushall()
    living()
    assert inside.read(node).fault is None


STATES = [state for state, row in MACHINE.items() if row.kind in (Kind.BUSY, Kind.WAIT, Kind.HOLD)]


@pytest.mark.parametrize("state", STATES)
def test_whatever_was_under_way_ends_without_any_order(inside, state):
    world = World(inside)
    node = world.node(state, instance_info={"image_source": "x"}, instance_uuid=str(uuid.uuid4()))
    with inside.runtime.transaction() as session:
        session.add(
            Operation(
                uuid=str(uuid.uuid4()), node_id=node, kind="provide", state="waiting",
                created_at=restoration.utcnow(),
            )
        )  # fmt: skip
    before = inside.read(node)
    with inside.runtime.transaction() as session:
        assert (1, 1) == restoration.declare(session)
    world.run()
    row = inside.read(node)
    assert MACHINE[State(row.provision_state)].kind in (Kind.FAILED, Kind.STABLE)
    assert (before.instance_info, before.instance_uuid) == (row.instance_info, row.instance_uuid)
    assert before.fence < row.fence
    assert [] == world.inside.sent
    assert [] == world.labels(node)


@pytest.mark.parametrize(
    ("state", "verb"),
    [("active", "deleted"), ("available", "active"), ("manageable", "provide"),
     ("manageable", "inspect"), ("active", "rebuild")],
)  # fmt: skip
def test_nothing_is_done_to_a_node_until_somebody_has_looked(inside, state, verb):
    world = World(inside)
    node = world.node(state)
    with inside.runtime.transaction() as session:
        restoration.declare(session)
    with pytest.raises(InMaintenance):
        world.ask(node, verb)
    inside.change(Node, node, maintenance=False, fault=None)
    world.ask(node, verb)
