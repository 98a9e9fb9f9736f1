"""Outcomes that are too long: parts that can be left out are left out, others fail the step."""

import pytest

from drivers.core.steps import Done, Failed, Hold, Wait
from workers.conductor import results

LONG = {"log": "x" * results.MOST_JSON}


def test_a_step_that_is_done_does_not_fail_by_the_size_of_its_result():
    [(name, text)] = results.checked(Done(LONG)).result.items()
    assert ("not_kept", True) == (name, text.endswith(" bytes"))
    result = {"log": "x" * (results.MOST_JSON - 100)}
    assert Done(result) == results.checked(Done(result))


@pytest.mark.parametrize("outcome", [Wait(LONG), Hold(LONG)])
def test_progress_that_is_too_long_is_refused(outcome):
    with pytest.raises(results.Unusable, match="bytes of progress"):
        results.checked(outcome)


def test_texts_are_shortened():
    assert results.MOST_TEXT == len(results.checked(Failed("x" * 99_999)).reason)
    assert results.MOST_REASON == len(results.checked(Wait(reason="x\0" * 99_999)).reason)


def test_the_reason_of_a_wait_is_a_text():
    with pytest.raises(results.Unusable, match="reason"):
        results.checked(Wait(reason=7))
