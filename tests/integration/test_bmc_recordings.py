"""Recordings of operations: the switch, the limits, and what a failure of them costs."""

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.exc import OperationalError

from app.db.clock import after
from app.engine import operations
from app.engine.records import bmc_recordings
from app.models import BmcExchanges, Node
from drivers.core.recording.traffic import answered
from drivers.core.steps import Done
from tests.integration.harness import Acme, AcmeManagement, Harness, requested
from workers.periodic import pruning


@pytest.fixture
def harness(inside, monkeypatch):
    def polish(self, target):
        Acme.does(target, f"recorded: {target.record_exchange is not None}")
        if target.record_exchange is not None:
            answer = 204, {}, b""
            url = "https://bmc/redfish/v1/Systems/1"
            record = answered("PATCH", url, '{"a": 1}', answer, lambda text: text)
            target.record_exchange(record)
        return Acme.does(target, "polish")

    monkeypatch.setattr(AcmeManagement, "polish", polish)
    monkeypatch.setattr(AcmeManagement, "records_exchanges", True)
    return Harness(inside)


def switch_on(harness, node, minutes=60):
    with harness.inside.runtime.transaction() as session:
        bmc_recordings.start(session, operations.lock(session, node), minutes)


def recording(harness, node):
    with harness.inside.runtime.reading() as session:
        return bmc_recordings.of_node(session, session.get(Node, node))


def clean(harness, node):
    harness.do(node, "clean", clean_steps=[requested("management", "polish")])
    assert "manageable" == harness.state(node)


def expire(harness, node):
    with harness.inside.runtime.transaction() as session:
        row = session.get(Node, node)
        row.driver_internal_info = {bmc_recordings.SWITCH: {"until": "2020-01-01T00:00:00"}}


def test_no_operation_is_recorded_unless_it_is_switched_on(harness):
    node, other = harness.node(), harness.node()
    switch_on(harness, other)
    clean(harness, node)
    assert [] == recording(harness, node).exchanges
    assert ["recorded: False", "polish"] == Acme.did


def test_an_operation_is_recorded_until_it_is_switched_off(harness):
    node = harness.node()
    switch_on(harness, node)
    clean(harness, node)
    (exchange,) = recording(harness, node).exchanges
    uuid = harness.last(node).uuid
    assert (uuid, "management.polish", "PATCH", 204) == tuple(
        exchange[name] for name in ("operation", "step", "method", "status")
    )
    with harness.inside.runtime.transaction() as session:
        bmc_recordings.stop(session, operations.lock(session, node))
    clean(harness, node)
    assert ([], None) == (recording(harness, node).exchanges, recording(harness, node).until)


def test_a_recording_ends_by_itself_by_the_clock_of_the_database(harness):
    node = harness.node()
    switch_on(harness, node)
    expire(harness, node)
    assert recording(harness, node).until is None
    clean(harness, node)
    assert [] == recording(harness, node).exchanges
    assert bmc_recordings.SWITCH not in harness.inside.read(node).driver_internal_info


@pytest.mark.parametrize(("limit", "value"), [("MOST", 2), ("MOST_BYTES", 16)])
def test_a_recording_has_limits(harness, monkeypatch, limit, value):
    monkeypatch.setattr(bmc_recordings, limit, value)
    node = harness.node()
    switch_on(harness, node)
    for _ in range(4):
        clean(harness, node)
    whole = recording(harness, node)
    assert (2, 2) == (len(whole.exchanges), whole.left_out)


def test_a_recording_that_cannot_be_kept_is_no_reason_for_a_step_to_fail(harness, monkeypatch):
    def fail(*_arguments):
        raise OperationalError("INSERT", {}, Exception("the disk is full"))

    node = harness.node()
    switch_on(harness, node)
    monkeypatch.setattr(bmc_recordings, "keep", fail)
    clean(harness, node)


def test_what_a_failed_step_has_exchanged_is_kept(harness, monkeypatch):
    polish = AcmeManagement.polish

    def crash(self, target):
        assert Done() == polish(self, target)
        raise RuntimeError("a defect of the driver")

    monkeypatch.setattr(AcmeManagement, "polish", crash)
    node = harness.node()
    switch_on(harness, node)
    harness.do(node, "clean", clean_steps=[requested("management", "polish")])
    assert "clean failed" == harness.state(node)
    assert ["management.polish"] == [e["step"] for e in recording(harness, node).exchanges]


def test_old_exchanges_are_deleted(harness):
    node = harness.node()
    switch_on(harness, node)
    clean(harness, node)
    assert 0 == pruning.prune_bmc_exchanges(harness.inside.runtime)
    with harness.inside.runtime.transaction() as session:
        session.execute(update(BmcExchanges).values(created_at=after(-bmc_recordings.KEPT - 10)))
    assert 1 == pruning.prune_bmc_exchanges(harness.inside.runtime)
    with harness.inside.runtime.reading() as session:
        assert 0 == session.scalar(select(func.count()).select_from(BmcExchanges))
