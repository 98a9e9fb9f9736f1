"""Baselines: comparison with the facts that steps record, holds of acceptance, deaths."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, text, update

from app.api.schemas.baselines import BaselineCreate
from app.baselines import baselines, comparison
from app.db.clock import after
from app.identity.caller import Caller
from app.inventory import holds
from app.metrics import table
from app.models import Baseline, BaselineNode, Hold, Node, NodeInventory
from app.process import kill_points
from app.reports import fleet_counts
from drivers.core.target import Inspected
from drivers.fake.hardware import FakeInspect
from tests.integration.harness import Harness, requested
from workers.conductor import recording

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
MEMORY = {"field": "memory_mb", "operator": ">=", "value": 65536}
BMC = {"field": "firmware.bmc", "operator": "=", "value": "2.0"}
BOOT = {"field": "bios.BootMode", "operator": "=", "value": "Uefi"}
#: Statement that the database refuses.
REPEATED = "INSERT INTO baselines SELECT * FROM baselines"
INVENTORY = {"memory": {"physical_mb": 65536}}


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture
def inspect(harness, monkeypatch):
    """Return a function that inspects a node, which reports an inventory."""

    def run(node, inventory):
        def report(_interface, target):
            target.report(inspected=Inspected(inventory, {}, (), partial=True))

        monkeypatch.setattr(FakeInspect, "inspect_hardware", report)
        assert "manageable" == harness.do(node, "inspect")

    return run


def create(harness, *rules, **fields):
    body = {"name": "base", "selection": "driver=acme", "expected": list(rules), **fields}
    with harness.inside.runtime.transaction() as session:
        return baselines.create(session, BaselineCreate().load(body)).id


def row(harness, node):
    with harness.inside.runtime.reading() as session:
        return session.scalar(select(BaselineNode).where(BaselineNode.node_id == node))


def held(harness, node):
    with harness.inside.runtime.reading() as session:
        return session.scalars(select(Hold).where(Hold.node_id == node)).all()


def run_passes(harness):
    with harness.inside.runtime.transaction() as session:
        session.execute(update(Baseline).values(due_at=Baseline.created_at))
    return comparison.compare_due(harness.inside.runtime)


def test_steps_that_record_facts_compare_them(harness, inspect):
    create(harness, MEMORY, BMC, BOOT)
    node = harness.node()
    inspect(node, INVENTORY)
    assert ("unknown", ["firmware.bmc", "bios.BootMode"]) == (
        row(harness, node).state, [difference["field"] for difference in row(harness, node).differences],
    )  # fmt: skip
    settings = [{"name": "BootMode", "value": "Bios"}]
    clean = [requested("bios", "apply_configuration", args={"settings": settings})]
    assert "manageable" == harness.do(node, "clean", clean_steps=clean)
    assert "differs" == row(harness, node).state
    clean[0]["args"]["settings"][0]["value"] = "Uefi"
    update = [{"component": "bmc", "url": "http://192.0.2.1/2.0"}]
    clean.append(requested("firmware", "update", args={"settings": update}))
    assert "manageable" == harness.do(node, "clean", clean_steps=clean)
    assert ("complies", []) == (row(harness, node).state, row(harness, node).differences)
    assert 0 == run_passes(harness), "nothing is outdated"


@SQLITE
@pytest.mark.parametrize(
    "inventory",
    [
        {"memory": {"physical_mb": 2**63}}, {"memory": {"physical_mb": "65536"}}, {"memory": [65536]},
        {"memory": {"physical_mb": 1e300}}, {"memory": {"physical_mb": True}}, {"memory": "\0"}, {},
        {"memory": {"physical_mb": None}, "disks": "\0", "interfaces": {"lo": 1}, "cpu": 7},
    ],
)  # fmt: skip
def test_a_hostile_inventory_is_recorded_and_unknown(harness, inspect, inventory):
    create(harness, MEMORY, acceptance=True)
    node = harness.node()
    inspect(node, inventory)
    assert ("unknown", None) == (
        row(harness, node).state,
        row(harness, node).differences[0]["actual"],
    )
    assert 1 == len(held(harness, node)), "unknown is not accepted"


def test_a_hostile_text_is_told_without_control_characters(harness, inspect):
    create(harness, {"field": "cpu.model", "operator": "=", "value": "EPYC"}, acceptance=True)
    node = harness.node()
    inspect(node, {"cpu": {"model_name": "\x1b[2J\u0000EP\nYC" + "x" * 10_000}})
    (difference,) = row(harness, node).differences
    assert "[2JEPYC" + "x" * 245 == difference["actual"]
    assert held(harness, node)[0].reason.isprintable()


def test_a_node_that_is_not_accepted_gets_no_instance_until_it_complies(harness, inspect):
    create(harness, MEMORY, acceptance=True)
    node = harness.node(automated_clean=False)
    inspect(node, {"memory": {"physical_mb": 1024}})
    (hold,) = held(harness, node)
    assert ("scheduling", None, "baseline base") == (hold.kind, hold.owner, hold.user_name)
    assert "not as baseline base expects: memory_mb is 1024, expected >= 65536" == hold.reason
    inspect(node, {"memory": {"physical_mb": 2048}})
    assert [hold.uuid] == [kept_hold.uuid for kept_hold in held(harness, node)]
    assert "available" == harness.do(node, "provide")
    with harness.inside.runtime.transaction() as session, pytest.raises(holds.NodeHeld):
        holds.check(session, session.get_one(Node, node), holds.Effect.INSTANCES)
    harness.do(node, "manage")
    inspect(node, INVENTORY)
    assert ([], None) == (held(harness, node), row(harness, node).hold_uuid)


def test_an_ended_hold_stays_ended_until_something_else_differs(harness, inspect):
    small, cpu = {"physical_mb": 1}, {"field": "cpu.count", "operator": "=", "value": 8}
    create(harness, MEMORY, cpu, acceptance=True)
    node = harness.node()
    inspect(node, {"memory": small, "cpu": {"count": 8}})
    with harness.inside.runtime.transaction() as session:
        holds.remove(session, session.scalar(select(Hold)), Caller())
    inspect(node, {"memory": small, "cpu": {"count": 8}})
    assert [] == held(harness, node)
    inspect(node, {"memory": small, "cpu": {"count": 4}})
    assert 1 == len(held(harness, node))


def test_a_pass_holds_no_node_and_ends_needless_holds(harness, inspect):
    """A new or changed baseline does not take a fleet out of use; without acceptance it holds none."""
    nodes = [harness.node(), harness.node()]
    for node in nodes:
        inspect(node, {"memory": {"physical_mb": 1}})
    create(harness, MEMORY, acceptance=True)
    assert 2 == run_passes(harness)
    assert ("differs", []) == (row(harness, nodes[0]).state, held(harness, nodes[0]))
    inspect(nodes[0], {"memory": {"physical_mb": 1}})
    inside = harness.inside
    with inside.runtime.transaction() as session:
        baseline = session.scalar(select(Baseline))
        with pytest.raises(baselines.Conflict, match="set acceptance to false"):
            baselines.remove(session, baseline)
        baselines.change(session, baseline, {"acceptance": False})
    assert 2 == comparison.compare_due(inside.runtime)
    assert [] == held(harness, nodes[0])
    with inside.runtime.transaction() as session:
        baselines.remove(session, session.scalar(select(Baseline)))
    assert row(harness, nodes[0]) is None


@SQLITE
def test_a_node_with_all_holds_is_inspected_all_the_same(harness, inspect, monkeypatch):
    monkeypatch.setattr(holds, "MOST", 0)
    create(harness, MEMORY, acceptance=True)
    node = harness.node()
    inspect(node, {})
    assert ("unknown", None) == (row(harness, node).state, row(harness, node).hold_uuid)


@pytest.mark.parametrize(
    "defect", [lambda *_: 1 / 0, lambda session, *_: session.execute(text(REPEATED))]
)
def test_a_defect_of_the_comparison_does_not_fail_the_inspection(
    harness, inspect, monkeypatch, defect
):
    create(harness, MEMORY)
    node = harness.node()
    with monkeypatch.context() as patch:
        patch.setattr(comparison, "_facts", defect)
        inspect(node, INVENTORY)
    assert row(harness, node) is None
    assert 1 == run_passes(harness)
    assert "complies" == row(harness, node).state


def test_a_process_that_dies_records_facts_and_comparison_or_none(harness, inspect, monkeypatch):
    create(harness, MEMORY)
    node = harness.node()
    compare = recording.compare_recorded

    def die(*arguments, **options):
        compare(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    assert signal.SIGKILL == in_child(
        harness, lambda: (monkeypatch.setattr(recording, "compare_recorded", die), inspect(node, INVENTORY)),
    )  # fmt: skip
    with harness.inside.runtime.reading() as session:
        assert session.scalar(select(NodeInventory)) is None
    assert ("inspecting", None) == (harness.state(node), row(harness, node))


def test_a_pass_goes_on_after_a_death_where_it_was(harness, monkeypatch):
    monkeypatch.setattr(comparison, "BATCH", 2)
    create(harness, MEMORY)
    for _ in range(5):
        harness.node()

    def run():
        reach = kill_points.reach
        calls = iter(("first", "second"))
        monkeypatch.setattr(
            kill_points, "reach", lambda *point: next(calls) == "second" and reach(*point)
        )
        kill_points.arm(["any:acted:baseline=die"], "c-1")
        run_passes(harness)

    assert signal.SIGKILL == in_child(harness, run)
    with harness.inside.runtime.reading() as session:
        assert 2 == session.scalar(select(func.count()).select_from(BaselineNode))
        assert comparison.DUE_ONE.first(session.connection(), {}), "it is still due"
    assert 3 == comparison.compare_due(harness.inside.runtime)


def in_child(harness, work):
    """Run some work in a child process; return the signal that has ended it."""
    harness.inside.close()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status)


def test_old_comparisons_are_repeated(harness):
    create(harness, MEMORY)
    node = harness.node()
    assert (1, 0) == (run_passes(harness), run_passes(harness))
    with harness.inside.runtime.transaction() as session:
        compared_at = after(-comparison.OLDEST - 1)
        session.execute(update(BaselineNode).values(compared_at=compared_at))
    since = row(harness, node).since
    assert (1, 0) == (run_passes(harness), run_passes(harness))
    assert since == row(harness, node).since


def test_a_locked_node_is_left_to_the_next_pass(harness, database):
    if database.startswith("sqlite"):
        pytest.skip("there, transactions write one after the other")
    create(harness, MEMORY)
    nodes = [harness.node(), harness.node()]
    with ThreadPoolExecutor(1) as threads, harness.inside.runtime.transaction() as session:
        session.get_one(Node, nodes[0], with_for_update=True)
        assert 1 == threads.submit(run_passes, harness).result(timeout=30)
    assert (None, "unknown") == (row(harness, nodes[0]), row(harness, nodes[1]).state)
    assert 1 == run_passes(harness)


def test_the_nodes_are_counted_by_baseline_and_state(harness):
    create(harness, MEMORY)
    create(harness, MEMORY, name="empty", selection="name=none")
    harness.node()
    run_passes(harness)
    with harness.inside.runtime.reading() as session:
        counts = {
            labels: value
            for gauge, labels, value in fleet_counts.in_database(session, 60, 60)
            if gauge is table.BASELINE_NODES
        }
    assert {("base", "unknown"): 1} == {key: value for key, value in counts.items() if value}
    assert 6 == len(counts)
