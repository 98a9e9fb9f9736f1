"""The lease of a node, on a real Redis."""

import threading
import time
import uuid

import pytest
import redis

from app.broker.redis_broker import client
from app.process import circuit_breaker
from drivers.core.errors import LeaseLost
from tests.support.fleet import until
from tests.support.redis import breakers
from workers.conductor.lease import Leases

#: Seconds of a lease that a test waits for, and of others.
SHORT, TTL = 1.0, 30.0


class Pace(threading.Event):
    """Pace of renewals: rounds follow each other at once."""

    def __init__(self):
        super().__init__()
        #: Seconds that each round should have waited.
        self.timeouts = []

    def wait(self, timeout=None):
        self.timeouts.append(timeout)
        return super().wait(0.02)


@pytest.fixture
def process(redis_url):
    """Factory of the leases of another process; `renewing`: with its renewal thread."""
    all_leases = []

    def make(*, renewing=False, ttl=TTL):
        reach = breakers(redis_url).of_writes()
        leases = Leases(client(redis_url, 5), str(uuid.uuid4()), ttl, "test", reach, _stop=Pace())
        if renewing:
            leases.start()
        all_leases.append(leases)
        return leases

    yield make
    for leases in all_leases:
        leases.stop()
        leases.client.close()


def take(leases, fence=1, *, ours=True):
    return leases.take("node", fence, lambda: ours)


def until_rounds(leases):
    """Wait until renewals have gone round twice: the second round has begun in this time."""
    end = len(leases._stop.timeouts) + 2
    until(lambda: len(leases._stop.timeouts) >= end, "rounds of renewals")


def until_renewed(lease):
    """Wait until the lease is valid for longer than it is now."""
    expiry = lease.valid_until
    until(lambda: lease.valid_until > expiry, "a renewal")


def until_over(lease):
    """Wait for the end of a lease that is not renewed."""
    until(lambda: time.monotonic() > lease.valid_until, "the end of the lease")


def test_one_process_holds_the_lease_and_the_next_takes_it_after_the_release(process):
    holder, rival = process(), process()
    lease = take(holder)
    lease.check()
    assert take(rival) is None
    holder.give_back(lease)
    take(rival).check()


def test_a_process_does_not_hold_a_lease_twice(process):
    only = process()
    assert take(only)
    assert take(only) is None
    assert take(only, fence=2) is None


def test_a_lease_is_renewed_while_its_holder_is_alive(process, redis_client):
    holder, rival = process(renewing=True), process()
    until_rounds(holder)  # renewals go on after a round without leases
    lease = take(holder, ours=False)
    until_renewed(lease)
    until_renewed(lease)
    lease.check()  # valid, so the row is not read
    assert take(rival) is None
    assert max(holder._stop.timeouts) < TTL / 2
    holder.give_back(lease)
    until_rounds(holder)
    assert not redis_client.keys()


def test_renewals_continue_after_an_error_of_redis(process, monkeypatch):
    holder, rival = process(renewing=True), process()
    pipeline, errors = holder.client.pipeline, [redis.ConnectionError("closed")]

    def failing(**options):
        if errors:
            raise errors.pop()
        return pipeline(**options)

    monkeypatch.setattr(holder.client, "pipeline", failing)
    monkeypatch.setattr(circuit_breaker, "PAUSE", 0.0)
    lease = take(holder)
    until(lambda: not errors, "the error")
    until_renewed(lease)
    assert take(rival) is None


def test_a_repeated_message_does_not_revoke_the_lease_of_its_step(process):
    holder, rival = process(renewing=True), process()
    lease = take(holder, fence=2, ours=False)
    assert take(holder, fence=2) is None
    assert take(holder, fence=1) is None
    until_renewed(lease)
    assert take(rival) is None
    lease.check()  # valid, so the row is not read


def test_a_late_answer_of_redis_does_not_prolong_a_lease(process, monkeypatch):
    only = process()
    lease, call, requested = take(only), only.client.eval, []

    def late(*words):
        requested.append(time.monotonic())
        answer = call(*words)
        time.sleep(0.05)
        return answer

    monkeypatch.setattr(only.client, "eval", late)
    moment = time.monotonic()
    assert only.regain(lease)
    assert moment + TTL <= lease.valid_until <= requested[0] + TTL


def test_the_lease_of_a_call_that_never_returns_expires_after_its_deadline(process):
    holder, rival = process(renewing=True, ttl=SHORT), process()
    holder.give_back(take(holder))  # renewals do not confuse an earlier lease of the step with it
    hung = take(holder)
    hung.keep(60)
    until_renewed(hung)
    assert take(rival) is None
    hung.keep(0)
    until(lambda: take(rival), "the end of the lease")
    with pytest.raises(LeaseLost):
        hung.check()


def test_a_call_that_lost_its_operation_sends_no_more_commands_and_releases_the_lease(process):
    """The operation was aborted during the call, and the same process runs the cleanup steps."""
    only = process(renewing=True, ttl=SHORT)
    hung = only.take("node", 1, lambda: False)
    other = only.take("another", 1, lambda: False)
    assert take(only, fence=2) is None
    with pytest.raises(LeaseLost):
        hung.check()
    until(lambda: take(only, fence=2), "the end of the lease").check()
    other.check()  # valid, so the row is not read


def test_the_lease_of_a_dead_process_expires(process):
    holder, rival = process(ttl=SHORT), process()
    take(holder)
    lease = until(lambda: take(rival), "the end of the lease")
    lease.check()


def test_a_suspended_holder_sends_no_more_commands_when_another_holds_the_lease(process):
    holder, rival = process(ttl=SHORT), process()
    late = take(holder)
    until(lambda: take(rival), "the end of the lease")
    with pytest.raises(LeaseLost, match=r"^another conductor has taken over this node$"):
        late.check()
    holder.give_back(late)
    assert take(holder) is None, "it took the other's lease"


def test_a_suspended_holder_sends_no_more_commands_when_its_operation_was_taken_over(process):
    lease = take(process(ttl=SHORT), ours=False)
    lease.check()  # in time, so no other process can have acted
    until_over(lease)
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_key_that_redis_has_lost_is_set_again_by_its_holder(process, redis_client):
    holder, rival = process(ttl=SHORT), process()
    lease = take(holder)
    redis_client.flushall()
    until_over(lease)
    lease.check()
    assert take(rival) is None


def test_a_key_set_by_another_process_meanwhile_is_kept(process, redis_client):
    holder, rival = process(renewing=True, ttl=SHORT), process(renewing=True)
    lost = take(holder)
    redis_client.flushall()
    kept_lease = take(rival)
    until_over(lost)
    until_renewed(kept_lease)
    kept_lease.check()
    with pytest.raises(LeaseLost):
        lost.check()


def test_without_redis_the_row_decides(tmp_path):
    url = f"redis+socket://{tmp_path}/nobody"
    leases = Leases(client(url, 1), "somebody", TTL, "test", breakers(url).of_writes())
    take(leases).check()
    with pytest.raises(LeaseLost):
        take(leases, ours=False).check()


def test_a_process_that_counts_as_dead_keeps_the_leases_of_its_running_calls_alone(process):
    """Its successor may need the others: this process can do no work that needs the database."""
    dead = process(renewing=True, ttl=SHORT)
    calling, waiting = dead.take("calls", 1, lambda: True), dead.take("waits", 1, lambda: True)
    with calling.calling():
        dead.is_alive = lambda: False
        until(lambda: process().take("waits", 2, lambda: True), "the end of the lease")
        time.sleep(SHORT)
        assert process().take("calls", 2, lambda: True) is None
    until(lambda: process().take("calls", 2, lambda: True), "the end of the other lease")
    with pytest.raises(LeaseLost):
        waiting.check()
