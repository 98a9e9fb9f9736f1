"""Every wait state: its ends by an abort."""

import pytest

from app.db.clock import after
from app.models import Conductor
from tests.integration.harness import Acme
from workers.conductor import claims
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

from .conftest import ALL, CRAWL, STEPS

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
TIDY = ["power off", "clean_up_ramdisk"]
#: wait or hold state -> state at its end, and cleanup steps
ABORTED = {
    "clean wait": ("clean failed", TIDY),
    "wait call-back": ("deploy failed", TIDY),
    "inspect wait": ("inspect failed", TIDY),
    "rescue wait": ("rescue failed", TIDY),
    "service wait": ("active", [*TIDY, "prepare_instance", "power on"]),
    "clean hold": ("clean failed", []),
    "deploy hold": ("deploy failed", ["clean_up_ramdisk"]),
    "service hold": ("active", []),
}


@pytest.mark.parametrize("state", ALL)
def test_each_wait_can_be_aborted(make, state):
    ends, tidied = ABORTED[state]
    harness = make()
    node = harness.arrive(state)
    target = harness.inside.read(node).target_provision_state
    harness.ask(node, "abort")
    assert harness.state(node) in (ends, "service failed"), "it ends at once; the cleanup follows"
    harness.run()
    row = harness.inside.read(node)
    assert (ends, False, None) == (row.provision_state, row.maintenance, row.reservation)
    assert (None if ends == "active" else target) == row.target_provision_state
    assert "By request" in row.last_error
    assert ("aborted", "aborted") == (harness.last(node).state, harness.last(node).error["code"])
    assert tidied == Acme.did
    assert set(row.instance_info) == set(harness.image)


@pytest.mark.parametrize("state", STEPS)
def test_a_step_that_cannot_be_aborted_ends_first_in_each_flow(make, state):
    harness = make()
    node = harness.arrive(state, STEPS[state](CRAWL))
    assert state == harness.do(node, "abort")
    assert ["management.crawl"] == [row.label for row in harness.steps(node) if row.abort_after]
    answer = harness.why(node)
    assert "An abort is requested, and follows this step" in answer.summary
    assert "the operation is aborted" == answer.next
    aborted = {"clean wait": "clean failed", "wait call-back": "deploy failed"}
    assert aborted.get(state, "active") == harness.poll(node)
    assert "crawl" in Acme.did
    assert "aborted" == harness.last(node).state
    assert ("management.crawl", "done") in harness.labels(node)


def test_an_aborted_inspection_may_be_requested_again(make):
    harness = make()
    node = harness.arrive("inspect wait")
    harness.do(node, "abort")
    assert None is harness.inside.read(node).inspection_started_at
    assert "inspect wait" == harness.do(node, "inspect")


@pytest.mark.parametrize("done_steps", [0, 1])
def test_a_conductor_that_dies_during_the_cleanup_of_an_abort_is_replaced(make, done_steps):
    """The node is already in its failed state, and stays reserved until the end of the cleanup."""
    harness = make()
    node = harness.arrive("clean wait")
    harness.ask(node, "abort")
    first_position = min(row.position for row in harness.steps(node) if row.source == "tidy")
    for position in range(first_position, first_position + done_steps + 1):
        operation = harness.last(node)
        attempt = claims.claim(harness.conductor, operation.uuid, operation.fence, position)
        assert "tidy" == attempt.step.source
        if position < first_position + done_steps:
            assert claims.advance(harness.conductor, attempt, {})
    harness.inside.messages.clear()
    harness.conductor = harness.inside.conductor("c-2")
    harness.inside.change(Conductor, "c-1", heartbeat_at=after(-60))
    harness.inside.runtime.cache.clear()
    reconciler.reconcile(harness.inside.runtime, Contact(timeout=0))
    assert ("clean failed", "c-2") == (harness.state(node), harness.inside.read(node).reservation)
    harness.run()
    row = harness.inside.read(node)
    assert (None, False, "aborted") == (row.reservation, row.maintenance, harness.last(node).state)
    assert ["power off", "clean_up_ramdisk"][done_steps:] == Acme.did
    tidy = [row for row in harness.steps(node) if row.source == "tidy"]
    assert {"done"} == {row.state for row in tidy}
    assert 1 == tidy[done_steps].deaths
