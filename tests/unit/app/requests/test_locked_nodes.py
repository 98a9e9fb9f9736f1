"""Requests that find their node locked."""

from dataclasses import replace

import pytest

from app.config.conductor_settings import Conductor
from app.engine.rpc import RemoteError, RemoteLocked
from app.errors import Conflict, NodeLocked
from app.requests.locked_nodes import retry_while_locked
from app.requests.request_slots import RequestSlots

SETTINGS = replace(Conductor(), node_locked_retry_attempts=3, node_locked_retry_interval=0.001)
ANSWER = {"message": "the agent is busy", "status": 409, "retry_after": None}
LOCKED = (NodeLocked("node", "rack-1"), RemoteLocked(ANSWER))


class Attempt:
    """Raise the errors in their order, then return the number of calls."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


@pytest.mark.parametrize("error", LOCKED, ids=["here", "at the conductor"])
def test_a_request_is_repeated_while_its_node_is_locked(error):
    assert 3 == retry_while_locked(SETTINGS, Attempt(error, error))
    refused = Attempt(*[error] * 4)
    with pytest.raises(NodeLocked) as raised:
        retry_while_locked(SETTINGS, refused)
    assert (error, 3) == (raised.value, refused.calls)


@pytest.mark.parametrize("error", [Conflict("taken"), RemoteError({**ANSWER, "status": 502})])
def test_other_errors_are_not_repeated(error):
    attempt = Attempt(error)
    with pytest.raises(type(error)):
        retry_while_locked(SETTINGS, attempt)
    assert 1 == attempt.calls


def test_without_a_place_to_wait_the_first_error_is_the_answer():
    attempt = Attempt(*LOCKED)
    slots = RequestSlots(working=1, waiting=0, max_queued=8)
    with slots.hold(), pytest.raises(NodeLocked, match="host rack-1"):
        retry_while_locked(SETTINGS, attempt)
    assert 1 == attempt.calls


def test_a_remote_error_keeps_the_answer_of_the_conductor():
    error = RemoteLocked(ANSWER)
    assert ("the agent is busy", 409, None) == (str(error), error.status, error.retry_after)
