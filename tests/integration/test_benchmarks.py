"""Measured numbers: their record at the end of a step, and baselines that hold or fail by them."""

import os
import signal

import pytest
from sqlalchemy import select, text, update

from app.api.schemas.baselines import BaselineCreate
from app.baselines import baselines, comparison
from app.db.clock import after
from app.engine.records import driver_reports
from app.identity.caller import Caller
from app.inventory import holds
from app.models import Baseline, BaselineNode, Benchmark, Hold, Node, NodeHistory
from drivers.core.steps import Done, Failed, Wait
from drivers.core.target import Inspected
from drivers.fake.hardware import FakeInspect
from tests.integration.harness import Acme, AcmeManagement, Harness, requested
from tests.integration.test_baselines import in_child
from tests.unit.drivers.machines import scripted_agent
from workers.conductor import claims, recording
from workers.periodic import pruning

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
METRIC = "fio.read.bandwidth"
FLOOR = {"field": f"benchmark.value.{METRIC}", "operator": ">=", "value": 500}
OWN = {"field": f"benchmark.percent_of_own.{METRIC}", "operator": ">=", "value": 90}
GROUP = {"field": f"benchmark.percent_of_group.{METRIC}", "operator": ">=", "value": 90}
CLEAN = [requested("management", "polish"), requested("management", "scrub", args={"level": "x"})]


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture
def measure(harness, monkeypatch):
    """Return a function that cleans a node by a step which reports a number, and one after it."""

    def run(node, value, *, outcome=None, metric=METRIC):
        def polish(_interface, target):
            target.report(benchmarks={metric: {"value": value, "unit": "MB/s"}})
            return outcome or Done()

        monkeypatch.setattr(AcmeManagement, "polish", polish)
        return harness.do(node, "clean", clean_steps=CLEAN)

    return run


def create(harness, *rules, **fields):
    body = {"name": "base", "selection": "driver=acme", "expected": list(rules), **fields}
    with harness.inside.runtime.transaction() as session:
        return baselines.create(session, BaselineCreate().load(body)).id


def rows(harness, query):
    with harness.inside.runtime.reading() as session:
        return session.scalars(query).all()


def values(harness, node):
    query = select(Benchmark.value).where(Benchmark.node_id == node).order_by(Benchmark.id)
    return rows(harness, query)


def held(harness, node):
    return rows(harness, select(Hold).where(Hold.node_id == node))


def state(harness, node):
    (row,) = rows(harness, select(BaselineNode).where(BaselineNode.node_id == node))
    return row.state


def run_passes(harness):
    with harness.inside.runtime.transaction() as session:
        session.execute(update(Baseline).values(due_at=Baseline.created_at))
    return comparison.compare_due(harness.inside.runtime)


def test_numbers_of_an_agents_step_are_recorded_at_its_end(inside):
    inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
    plain = inside.another()
    with scripted_agent() as agent:
        harness = Harness(plain, agent)
        harness.offer("clean", ("deploy", "burnin_disk", 0))
        node = harness.with_agent()
        harness.do(node, "clean", clean_steps=[requested("deploy", "burnin_disk")])
        harness.call(node)
        assert [] == values(harness, node)
        result = {"metrics": {METRIC: {"value": 512, "unit": "MB/s"}, "stress-ng.cpu.ops": 7.5}}
        assert "manageable" == harness.finish(node, result=result)
        (read, ops) = rows(harness, select(Benchmark).order_by(Benchmark.id))
        operation = harness.last(node)
        step = next(step for step in harness.steps(node) if step.name == "burnin_disk")
        assert (METRIC, 512.0, "MB/s", "deploy.burnin_disk") == (
            read.metric, read.value, read.unit, read.step,
        )  # fmt: skip
        assert ("stress-ng.cpu.ops", 7.5, None) == (ops.metric, ops.value, ops.unit)
        assert (operation.uuid, step.position, step.started_at) == (
            read.operation_uuid, read.position, read.started_at,
        )  # fmt: skip
        assert read.started_at <= read.recorded_at
        assert {"result": result} == step.result
    plain.close()


@SQLITE
@pytest.mark.parametrize(
    "report",
    [
        None, [], "\0", 7, {}, {METRIC: None}, {METRIC: True}, {METRIC: "7"}, {METRIC: {}},
        {METRIC: {"value": 10**400}}, {METRIC: float("nan")}, {METRIC: {"value": float("inf")}},
        {"": 1}, {"a b": 1}, {"\0": 1}, {"x" * 129: 1}, {7: 1}, {".x": 1}, {METRIC: [[[]]]},
    ],
)  # fmt: skip
def test_a_wrong_report_is_left_out_and_fails_nothing(harness, monkeypatch, report):
    monkeypatch.setattr(
        AcmeManagement, "polish", lambda _, target: target.report(benchmarks=report)
    )
    node = harness.node()
    assert "manageable" == harness.do(node, "clean", clean_steps=CLEAN)
    assert [] == values(harness, node)


def test_a_step_has_a_limited_number_of_numbers_with_printable_units(harness, monkeypatch):
    report = {f"m{number}": {"value": number, "unit": "\x1b\0B" * 20} for number in range(150)}
    monkeypatch.setattr(
        AcmeManagement, "polish", lambda _, target: target.report(benchmarks=report)
    )
    node = harness.node()
    assert "manageable" == harness.do(node, "clean", clean_steps=CLEAN)
    assert list(range(100)) == values(harness, node)
    assert {"B" * 5} == set(rows(harness, select(Benchmark.unit)))


def test_a_step_that_waits_has_measured_nothing_yet_and_a_failed_one_has(harness, measure):
    node = harness.node()
    measure(node, 1, outcome=Wait({"begun": 1}, poll_after=1))
    assert [] == values(harness, node)
    node = harness.node()
    assert "clean failed" == measure(node, 2, outcome=Failed("too hot"))
    assert [2] == values(harness, node)


def test_a_step_that_runs_again_replaces_its_numbers(harness, monkeypatch):
    """As after the restart of an operation at a step before it."""
    record, calls = recording.benchmarks.record, []

    def twice(*arguments):
        calls.append(record(*arguments))
        return record(*arguments)

    monkeypatch.setattr(recording.benchmarks, "record", twice)
    monkeypatch.setattr(
        AcmeManagement, "polish", lambda _, target: target.report(benchmarks={METRIC: 1})
    )
    node = harness.node()
    assert "manageable" == harness.do(node, "clean", clean_steps=CLEAN)
    assert ([frozenset({METRIC})], [1]) == (calls, values(harness, node))


def test_a_refused_record_leaves_no_numbers(harness, monkeypatch):
    """The fence was raised while the step ran: another conductor has the operation."""
    node = harness.node()

    def polish(_interface, target):
        target.report(benchmarks={METRIC: 1})
        operation = harness.last(node)
        harness.inside.change(type(operation), operation.uuid, fence=operation.fence + 1)

    monkeypatch.setattr(AcmeManagement, "polish", polish)
    harness.do(node, "clean", clean_steps=CLEAN)
    assert [] == values(harness, node)


def test_a_number_below_its_floor_is_recorded_alone_by_default(harness, measure):
    create(harness, FLOOR)
    node = harness.node()
    assert "manageable" == measure(node, 499)
    assert ("differs", []) == (state(harness, node), held(harness, node))
    (event,) = rows(
        harness, select(NodeHistory.event).where(NodeHistory.event_type == "benchmarks")
    )
    assert (
        f"Measured numbers are not as baseline base expects: benchmark.value.{METRIC} is 499,"
        " expected >= 500." == event
    )
    assert "manageable" == measure(node, 500)
    assert "complies" == state(harness, node)
    assert 0 == run_passes(harness), "nothing is outdated"


def test_a_number_below_its_floor_fails_its_step_and_no_later_step_runs(harness, measure):
    create(harness, FLOOR, failed_benchmark="fail")
    node = harness.node()
    assert "clean failed" == measure(node, 499)
    assert ([499], "differs") == (values(harness, node), state(harness, node))
    operation = harness.last(node)
    assert ("benchmark_failed", "management.polish") == (
        operation.error["code"], operation.error["step"],
    )  # fmt: skip
    reason = f"benchmark.value.{METRIC} is 499, expected >= 500"
    assert reason in harness.inside.read(node).last_error
    assert "scrub x" not in Acme.did


@SQLITE
def test_other_differences_fail_no_step(harness, measure):
    """Neither of facts that the step has not measured, nor of numbers that are unknown."""
    memory = {"field": "memory_mb", "operator": ">=", "value": 1}
    create(harness, memory, FLOOR, GROUP | {"field": "benchmark.value.x"}, failed_benchmark="fail")
    node = harness.node()
    assert "manageable" == measure(node, 600)
    assert "unknown" == state(harness, node)
    assert "clean failed" == measure(node, 1)
    harness.inside.change(Node, harness.inside.read(node).uuid, provision_state="manageable")
    assert "manageable" == measure(node, 95, metric="x"), "the older number still differs"


@SQLITE
def test_a_number_without_a_median_of_its_group_fails_no_step(harness, measure):
    create(harness, GROUP, failed_benchmark="fail")
    node = harness.node()
    assert ("manageable", "unknown") == (measure(node, 1), state(harness, node))


def test_a_record_with_numbers_may_change_more_than_columns():
    """A baseline may fail the step, which changes other rows."""
    assert not driver_reports.concern_columns({"benchmarks": {METRIC: 1}, "boot_mode": "uefi"})


def test_a_machine_that_measures_too_little_gets_a_hold_until_it_is_repaired(harness, measure):
    create(harness, FLOOR, failed_benchmark="hold")
    node = harness.node()
    assert "manageable" == measure(node, 499)
    (hold,) = held(harness, node)
    assert ("hardware", "baseline base") == (hold.kind, hold.user_name)
    assert f"benchmark.value.{METRIC} is 499, expected >= 500" in hold.reason
    with harness.inside.runtime.transaction() as session:
        holds.remove(session, session.scalar(select(Hold)), Caller())
    assert "manageable" == measure(node, 498)
    assert 1 == len(held(harness, node)), "a new number holds it again"
    assert 0 == run_passes(harness), "nothing is outdated"
    with harness.inside.runtime.transaction() as session:
        holds.remove(session, session.scalar(select(Hold)), Caller())
    assert "manageable" == measure(node, 501)
    assert ("complies", []) == (state(harness, node), held(harness, node))


def test_a_corrected_rule_ends_the_holds_that_it_has_set(harness, measure):
    create(harness, FLOOR, failed_benchmark="hold")
    nodes = [harness.node(), harness.node()]
    for node in nodes:
        measure(node, 400)
    with harness.inside.runtime.transaction() as session:
        baseline = session.scalar(select(Baseline))
        with pytest.raises(baselines.Conflict, match="failed_benchmark to record"):
            baselines.remove(session, baseline)
        baselines.change(session, baseline, {"expected": [FLOOR | {"value": 300}]})
    assert 2 == comparison.compare_due(harness.inside.runtime)
    assert [] == rows(harness, select(Hold))


@pytest.fixture
def inspect(harness, monkeypatch):
    """Return a function that inspects a node, which reports nothing."""
    inspected = Inspected({}, {}, (), partial=True)
    monkeypatch.setattr(
        FakeInspect, "inspect_hardware", lambda _, target: target.report(inspected=inspected)
    )
    return lambda node: harness.do(node, "inspect")


def test_a_hold_of_an_acceptance_becomes_one_of_the_kind_hardware(harness, measure, inspect):
    create(harness, FLOOR, acceptance=True, failed_benchmark="hold")
    node = harness.node()
    assert "manageable" == inspect(node)
    assert ["scheduling"] == [hold.kind for hold in held(harness, node)], "nothing was measured yet"
    assert "manageable" == measure(node, 499)
    assert ["hardware"] == [hold.kind for hold in held(harness, node)]


@SQLITE
def test_an_inspection_holds_no_node_for_an_older_number(harness, measure, inspect):
    node = harness.node()
    measure(node, 499)
    create(harness, FLOOR, failed_benchmark="hold")
    assert "manageable" == inspect(node)
    assert ("differs", []) == (state(harness, node), held(harness, node))


def test_a_number_is_compared_with_those_before_and_with_those_of_other_machines(harness, measure):
    create(harness, OWN, GROUP, selection="resource_class=compute")
    for _ in range(3):
        measure(harness.node(resource_class="storage"), 10_000)
    nodes = [harness.node(resource_class="compute") for _ in range(4)]
    for node, value in zip(nodes, (100, 110, 120, 60), strict=True):
        assert "manageable" == measure(node, value)
    (row,) = rows(harness, select(BaselineNode).where(BaselineNode.node_id == nodes[3]))
    (difference,) = row.differences
    assert (GROUP["field"], round(100 * 60 / 105, 2)) == (
        difference["field"],
        difference["actual"],
    )
    assert "unknown" == state(harness, nodes[0]), "it was the first of its group"
    measure(nodes[0], 101)
    assert "complies" == state(harness, nodes[0])
    for value in (101, 80):  # 80 of the median of 100, 101 and 101
        measure(nodes[0], value)
    (row,) = rows(harness, select(BaselineNode).where(BaselineNode.node_id == nodes[0]))
    assert [(OWN["field"], 79.21), (GROUP["field"], 84.21)] == [
        (difference["field"], difference["actual"]) for difference in row.differences
    ]


def test_a_defect_of_the_comparison_keeps_the_numbers_and_fails_nothing(
    harness, measure, monkeypatch
):
    create(harness, FLOOR, failed_benchmark="fail")
    node = harness.node()
    repeated = text("INSERT INTO baselines SELECT * FROM baselines")
    with monkeypatch.context() as patch:
        patch.setattr(comparison, "_facts", lambda session, *_: session.execute(repeated))
        assert "manageable" == measure(node, 1)
    assert [1] == values(harness, node)
    assert 1 == run_passes(harness)
    assert "differs" == state(harness, node)


@pytest.mark.parametrize("place", [(recording, "compare_recorded"), (claims, "is_recorded")])
def test_a_process_that_dies_leaves_numbers_hold_and_end_of_the_step_or_none(
    harness, measure, monkeypatch, place
):
    create(harness, FLOOR, failed_benchmark="hold")
    node = harness.node()
    whole = getattr(*place)

    def die(*arguments, **options):
        whole(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    def run():
        monkeypatch.setattr(*place, die)
        measure(node, 1)

    assert signal.SIGKILL == in_child(harness, run)
    assert ([], []) == (values(harness, node), held(harness, node))
    assert ["running"] == [
        step.state for step in harness.steps(node) if step.label == "management.polish"
    ]


def test_old_numbers_are_pruned(harness, measure, monkeypatch):
    monkeypatch.setattr(pruning, "BENCHMARKS_BATCH", 2)
    node = harness.node()
    for value in range(5):
        measure(node, value)
    runtime = harness.inside.runtime
    assert 0 == pruning.prune_benchmarks(runtime)
    with runtime.transaction() as session:
        lifetime = runtime.settings.conductor.benchmarks_lifetime
        old = update(Benchmark).where(Benchmark.value < 3)
        session.execute(old.values(recorded_at=after(-lifetime - 1)))
    assert (3, [3, 4]) == (pruning.prune_benchmarks(runtime), values(harness, node))
