"""The supervisor's wait for its roles."""

import pytest

from workers.supervisor import roles, up


@pytest.fixture
def service(monkeypatch):
    """Let the API and the conductor `c` give these answers, one after the other."""

    def answering(answers, registered):
        answer_queue, looks = iter(answers), iter(registered)
        monkeypatch.setattr(up, "_answers", lambda _settings: next(answer_queue))
        alive = {"alive": lambda _settings: {"c": next(looks)}}
        monkeypatch.setattr(roles, "ROLES", alive)
        return answer_queue, looks

    return answering


def test_the_api_is_asked_until_it_answers_and_conductors_until_they_are_new(service):
    remaining_answers, looks = service([False, True, True], ["old", None, "new", "new"])
    up._await_ready(None, ["c"], {"c": "old"})
    assert [True] == list(remaining_answers), (
        "each answer copies some MiB of the process that gives it"
    )
    assert ["new"] == list(looks)


@pytest.mark.parametrize(("answer", "missing"), [(False, "the API, c"), (True, "c")])
def test_what_is_missing_in_the_end_is_named(service, monkeypatch, answer, missing):
    monkeypatch.setattr(up, "READY_TIMEOUT", -1)
    service([answer], ["old"])
    with pytest.raises(up.StartError, match=f"^not ready after -1 s: {missing}$"):
        up._await_ready(None, ["c"], {"c": "old"})
