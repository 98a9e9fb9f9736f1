"""Following of rollouts: lines, and the error of each end."""

import pytest

from app.cli import rollouts
from app.cli.terminal.errors import Failure, NotYet
from app.cli.terminal.output import Output

UUID = "0c6a7f0e-0000-4000-8000-000000000000"


class Answers:
    """An API whose rollout is in these states, one after the other."""

    def __init__(self, *states):
        self._rollouts = iter(states)

    def another(self, *, patient):
        assert patient  # it follows across a restart of the API
        return self

    def get(self, *path):
        assert ("rollouts", UUID) == path
        return next(self._rollouts)


def rollout(state, wave=1, **fields):
    words = {"summary": f"{state} in wave {wave}.", "nodes": 9, "succeeded": 3, "failed": 0}
    return {"uuid": UUID, "state": state, "wave": wave, **words, **fields}


def follow(*states, timeout=60):
    rollouts.follow(Answers(*states), Output(colour=False), UUID, timeout)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(rollouts, "PERIOD", 0)


def test_a_line_for_each_wave_and_the_end(capsys):
    follow(rollout("running"), rollout("running"), rollout("running", 2), rollout("completed", 2))
    assert [
        "3 of 9 done. running in wave 1.", "3 of 9 done. running in wave 2.",
        f"{UUID}: completed in wave 2.",
    ] == capsys.readouterr().out.splitlines()  # fmt: skip


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (rollout("completed", failed=2), "is completed; 2 of its nodes have failed"),
        (rollout("aborted"), "is aborted; 0 of its nodes have failed"),
    ],
)
def test_failed_nodes_and_an_abort_are_failures(end, message):
    with pytest.raises(Failure, match=message) as raised:
        follow(rollout("aborting"), end)
    assert 1 == raised.value.exit_status


@pytest.mark.parametrize(
    ("state", "timeout", "message"),
    [("paused", 60, "is paused; `ingot fleet nodes"), ("running", 0, "is not over yet")],
)
def test_a_pause_and_a_timeout_are_no_failures(state, timeout, message):
    with pytest.raises(NotYet, match=message):
        follow(rollout(state), timeout=timeout)
