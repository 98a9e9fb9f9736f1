"""The lease of a node, on a real Redis."""

import time
import uuid

import pytest

from app.broker import client
from drivers.core.errors import LeaseLost
from tests.fleet import until
from workers.lease import Leases

TTL = 0.3


@pytest.fixture
def process(redis_url):
    """Makes the leases of one process more; `renewing`: it is not stopped."""
    made = []

    def make(*, renewing=False):
        leases = Leases(client(redis_url, 1), str(uuid.uuid4()), TTL, "test")
        if renewing:
            leases.start()
        made.append(leases)
        return leases

    yield make
    for leases in made:
        leases.stop()
        leases.client.close()


def take(leases, fence=1, *, ours=True):
    return leases.take("node", fence, lambda: ours)


def test_one_holds_the_node_and_the_next_takes_it_when_it_is_given_back(process):
    first, second = process(), process()
    lease = take(first)
    lease.check()
    assert take(second) is None
    first.give_back(lease)
    take(second).check()


def test_the_same_process_does_not_hold_a_node_twice(process):
    only = process()
    assert take(only)
    assert take(only) is None
    assert take(only, fence=2) is None


def test_a_lease_is_renewed_while_its_holder_lives(process, redis_client):
    first, second = process(renewing=True), process()
    lease = take(first)
    time.sleep(2 * TTL)
    assert take(second) is None
    first.give_back(lease)
    time.sleep(TTL)
    assert not redis_client.keys()


def test_the_lease_of_a_call_that_never_returns_runs_out_after_its_deadline(process):
    first, second = process(renewing=True), process()
    hung = take(first)
    hung.keep(2 * TTL)
    time.sleep(1.5 * TTL)
    assert take(second) is None
    until(lambda: take(second), "the end of the lease", 5, 0.02)
    with pytest.raises(LeaseLost):
        hung.check()


def test_a_call_whose_work_was_taken_away_gives_no_more_orders_and_frees_the_node(process):
    """The operation was aborted while the call hangs, and the same process is to tidy up."""
    only = process(renewing=True)
    hung = only.take("node", 1, lambda: False)
    other = only.take("another", 1, lambda: True)
    assert take(only, fence=2) is None
    with pytest.raises(LeaseLost):
        hung.check()
    until(lambda: take(only, fence=2), "the end of the lease", 5, 0.02).check()
    other.check()


def test_the_lease_of_the_dead_runs_out(process):
    first, second = process(), process()
    take(first)
    lease = until(lambda: take(second), "the end of the lease", 5, 0.02)
    lease.check()


def test_a_holder_that_was_stopped_gives_no_more_orders_when_another_holds_the_node(process):
    first, second = process(), process()
    late = take(first)
    until(lambda: take(second), "the end of the lease", 5, 0.02)
    with pytest.raises(LeaseLost):
        late.check()
    first.give_back(late)
    assert take(first) is None, "it took the lease of the other along"


def test_a_holder_that_was_stopped_gives_no_more_orders_when_its_work_went_to_another(process):
    lease = take(process(), ours=False)
    lease.check()  # in time, so nobody else can have acted
    time.sleep(TTL)
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_key_that_redis_has_forgotten_is_set_again_by_its_holder(process, redis_client):
    first, second = process(), process()
    lease = take(first)
    redis_client.flushall()
    time.sleep(TTL)
    lease.check()
    assert take(second) is None


def test_a_key_that_another_has_set_meanwhile_stays_the_others(process, redis_client):
    first, second = process(renewing=True), process(renewing=True)
    lost = take(first)
    redis_client.flushall()
    kept = take(second)
    time.sleep(2 * TTL)
    kept.check()
    with pytest.raises(LeaseLost):
        lost.check()


def test_without_redis_the_row_alone_decides(tmp_path):
    leases = Leases(client(f"redis+socket://{tmp_path}/nobody", 1), "somebody", TTL, "test")
    take(leases).check()
    with pytest.raises(LeaseLost):
        take(leases, ours=False).check()
