"""Each entry of the table of operation states is reached by the service, or by the model."""

from dataclasses import replace

import pytest

from app.db.clock import after
from app.engine import operations, transitions
from app.lifecycle import operation_states
from app.lifecycle.operation_states import OPERATIONS, Actor, IllegalTransition, OperationEvent
from app.models import Conductor, Node, Operation, OperationState, OperationStep
from drivers.core.steps import Failed
from tests.integration.harness import AcmeBoot, Harness, requested
from tests.integration.manual_cleaning.conftest import HOLD, POLISH
from tests.model.test_operation_states import MODELLED
from tests.unit.drivers.machines import scripted_agent
from workers.conductor import claims, drain
from workers.doctor import database_checks
from workers.doctor.checks import Finding, Installation
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact
from workers.restoration import restore as restoration

S, E = OperationState, OperationEvent
AGENT = requested("management", "ask_agent")
STROLL = requested("management", "stroll")


class Recorded(dict):
    """Origins of an entry; `fired`: entries that were looked up with success."""

    def __init__(self, event, origins, fired):
        super().__init__(origins)
        self.event, self.fired = event, fired

    def get(self, state, default=None):
        if state in self:
            self.fired.add((state, self.event))
        return super().get(state, default)


@pytest.fixture
def fired(monkeypatch):
    """Entries (state before, event) that the service has used so far."""
    used = set()
    table = {
        event: replace(row, origins=Recorded(event, row.origins, used))
        for event, row in OPERATIONS.items()
    }
    monkeypatch.setattr(operation_states, "OPERATIONS", table)
    return used


@pytest.fixture
def world(inside):
    inside.environ |= {
        "INGOT_AGENT_REQUIRE_TLS": "false",
        "INGOT_CONDUCTOR_MAX_CONCURRENT_DEPLOY": "1",
    }
    plain = inside.another()
    with scripted_agent() as agent:
        world = Harness(plain, agent)
        world.offer("clean", ("deploy", "erase_devices", 10, {"abortable": True}))
        yield world
    plain.close()


def clean(world, *steps, node=None):
    """Request a manual clean of these steps, and send it; return the node."""
    node = node or world.node()
    world.ask(node, "clean", clean_steps=list(steps))
    return node


def claimed(world, *steps, node=None):
    node = clean(world, *steps, node=node)
    row = world.last(node)
    assert claims.claim(world.conductor, row.uuid, row.fence, row.cursor)
    return node


def waiting(world, *steps, node=None):
    node = clean(world, *steps, node=node)
    world.run()
    assert "waiting" == world.last(node).state
    return node


def held(world, *steps, node=None):
    node = clean(world, *steps, HOLD, node=node)
    world.run()
    assert "held" == world.last(node).state
    return node


def booted(world):
    """Return a node whose clean waits for the agent that it has booted."""
    return waiting(world, requested("deploy", "erase_devices"), node=world.with_agent())


def held_with_agent(world):
    node = clean(world, requested("deploy", "erase_devices"), HOLD, node=world.with_agent())
    world.run()
    world.call(node)
    assert "clean hold" == world.finish(node)
    return node


#: State -> function that creates a node with an operation in it.
IN = {
    S.QUEUED: lambda world: clean(world, POLISH),
    S.RUNNING: lambda world: claimed(world, STROLL),
    S.WAITING: lambda world: waiting(world, STROLL),
    S.HELD: lambda world: held(world, POLISH),
}
#: State -> such a function, with completed frame steps, so that cleanup steps follow an abort.
FRAMED = {
    S.QUEUED: lambda world: clean(
        world, requested("deploy", "erase_devices"), node=world.with_agent()
    ),
    S.RUNNING: lambda world: claimed(
        world, requested("deploy", "erase_devices"), node=world.with_agent()
    ),
    S.WAITING: booted,
    S.HELD: held_with_agent,
}


def abort(make):
    def scenario(world):
        world.ask(make(world), "abort")

    return scenario


def restore(make):
    def scenario(world):
        make(world)
        with world.inside.runtime.transaction(Actor.COMMAND) as session:
            restoration.quarantine(session)

    return scenario


def repair(make):
    """The node's state was edited in the database."""

    def scenario(world):
        node = make(world)
        world.inside.change(Node, node, provision_state="available", reservation=None)
        database_checks.fail(
            Installation(world.inside.runtime, None, None), Finding("", "", world.last(node).id)
        )

    return scenario


def nothing_to_do(world):
    world.ask(world.node(automated_clean=False), "provide")


def invalid_steps(world):
    clean(world, requested("management", "nonsense"))


def conductor_drains(world):
    node = clean(world, POLISH)
    world.inside.conductor("c-2")
    drain.redispatch(world.conductor, world.last(node).uuid)


def reconcile(world):
    world.inside.runtime.cache.clear()
    reconciler.reconcile(world.inside.runtime, Contact(timeout=0))


def conductor_dies(world):
    claimed(world, POLISH)
    world.inside.change(Conductor, "c-1", heartbeat_at=after(-16))
    reconcile(world)


def boot_fails(world):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AcmeBoot, "prepare_ramdisk", lambda *_: Failed("no image", "defect"))
        clean(world, requested("deploy", "erase_devices"), node=world.with_agent())
        world.run()


def agent_changes(world):
    node = world.with_agent()
    world.do(node, "provide")
    world.call(node)
    world.agent.fail("changed", "CLEAN_VERSION_MISMATCH")
    world.call(node)


def works(world):
    clean(world, POLISH)
    world.run()


def fails(world):
    clean(world, requested("management", "scrub", args={"level": "wrong"}))
    world.run()


def polled(world):
    world.poll(waiting(world, STROLL))


def silence(make):
    def scenario(world):
        node = make(world)
        step = world.inside.steps(world.last(node).uuid)[world.last(node).cursor]
        world.inside.change(Operation, world.last(node).uuid, deadline_at=after(-1))
        world.inside.change(OperationStep, step.id, deadline_at=after(-1))
        reconcile(world)

    return scenario


def unheld(world):
    world.ask(held(world, POLISH), "unhold")


def deleted_while_queued(world):
    world.ask(world.node("available"), "active")
    second = world.node("available")
    world.ask(second, "active")
    assert world.last(second).is_queued
    world.ask(second, "deleted")


def deleted_while_it_waits(world):
    node = world.with_agent("active")
    world.ask(node, "service", service_steps=[AGENT])
    world.run()
    assert "service wait" == world.state(node)
    world.ask(node, "deleted")


def replaced_while_it_is_held(world):
    node = world.node("active")
    world.do(node, "service", service_steps=[HOLD, POLISH])
    world.ask(node, "service", service_steps=[POLISH])


#: Entry -> scenario that reaches it.
SCENARIOS = {
    (None, E.SUBMIT): works,
    (None, E.SUCCEED): nothing_to_do,
    (None, E.FAIL): invalid_steps,
    (S.QUEUED, E.DISPATCH): conductor_drains,
    (S.QUEUED, E.SUPERSEDE): deleted_while_queued,
    (S.RUNNING, E.WAIT): polled,
    (S.RUNNING, E.HOLD): unheld,
    (S.RUNNING, E.TAKE_OVER): conductor_dies,
    (S.RUNNING, E.RESTART): agent_changes,
    (S.RUNNING, E.SUCCEED): works,
    (S.RUNNING, E.FAIL): fails,
    (S.WAITING, E.RESUME): polled,
    (S.WAITING, E.FAIL): silence(lambda world: waiting(world, AGENT)),
    (S.WAITING, E.SUPERSEDE): deleted_while_it_waits,
    (S.HELD, E.UNHOLD): unheld,
    (S.HELD, E.SUPERSEDE): replaced_while_it_is_held,
    **{(state, E.CLEAN_UP): abort(make) for state, make in FRAMED.items()},
    **{(state, E.ABORT): abort(make) for state, make in IN.items()},
    **{(state, E.RESTORE): restore(make) for state, make in IN.items()},
    **{(state, E.REPAIR): repair(make) for state, make in IN.items()},
}
ROWS = {(state, event) for event, row in OPERATIONS.items() for state in row.origins}


@pytest.mark.parametrize("row", SCENARIOS, ids=lambda row: f"{row[0]} {row[1]}")
def test_the_service_reaches_the_entry(world, fired, row):
    SCENARIOS[row](world)
    assert row in fired


@pytest.mark.parametrize(
    ("scenario", "row"),
    [(boot_fails, (S.RUNNING, E.CLEAN_UP)), (silence(booted), (S.WAITING, E.CLEAN_UP))],
    ids=["a failure", "a silent agent"],
)
def test_cleanup_steps_follow(world, fired, scenario, row):
    scenario(world)
    assert row in fired


def test_every_entry_of_the_table_is_reached():
    assert ROWS == set(SCENARIOS) | MODELLED


def expire(world, node, actor):
    with world.inside.runtime.transaction(actor) as session:
        transitions.expire(session, *operations.lock_operation(session, world.last(node).id))


def test_a_refused_change_leaves_the_operation_and_its_node_unchanged(world):
    node = waiting(world, STROLL)
    row = world.inside.read(node)
    with pytest.raises(IllegalTransition, match="by API"):
        expire(world, node, Actor.API)
    assert "waiting" == world.last(node).state
    later_row = world.inside.read(node)
    assert (row.provision_state, row.fence) == (later_row.provision_state, later_row.fence)
