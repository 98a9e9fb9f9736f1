"""Idempotency keys of callers whom the policy refuses."""

from sqlalchemy import func, select

from app.models import Answered

from .conftest import OWNER

KEY = {"Idempotency-Key": "k"}


def test_a_forbidden_request_leaves_its_key_free(guarded):
    """The owner's reader and manager are one user, before and after the assignment of a role."""
    request = ("PUT", f"/v1/nodes/{guarded.node}/maintenance", {"reason": "disk"})
    assert [403, 403] == [
        guarded.ask("owner-reader", *request, **KEY).status_code for _ in range(2)
    ]
    with guarded.api.runtime.reading() as session:
        assert 0 == session.scalar(select(func.count(Answered.id)))
    first_answer, second_answer = (guarded.ask("owner-manager", *request, **KEY) for _ in range(2))
    assert [(202, None), (202, "true")] == [
        (answer.status_code, answer.headers.get("Idempotency-Replayed"))
        for answer in (first_answer, second_answer)
    ], first_answer.text
    with guarded.api.runtime.reading() as session:
        assert [f"{OWNER}/ann"] == list(session.scalars(select(Answered.caller)))
