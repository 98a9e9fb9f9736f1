"""A short outage of the database at the start of a step does not fail the step."""

from contextlib import contextmanager

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError

from app.broker.outages import until_available
from app.db.prepared import Prepared
from tests.integration.harness import Harness, requested


@contextmanager
def out_of_reach(engine, text, times):
    """Let statements that contain a text fail so many times."""
    failures, call = [times], Prepared._call

    def fail(_connection, _cursor, statement, *_):
        if text in statement and failures[0]:
            failures[0] -= 1
            raise OperationalError(statement, None, Exception("server closed the connection"))

    def call_or_fail(prepared, connection, method, sql, parameters, **options):
        fail(connection, None, sql)
        return call(prepared, connection, method, sql, parameters, **options)

    event.listen(engine, "before_cursor_execute", fail)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Prepared, "_call", call_or_fail)
            yield failures
    finally:
        event.remove(engine, "before_cursor_execute", fail)


@pytest.mark.parametrize("statement", ["UPDATE operations SET", "FROM node_traits"])
def test_a_step_waits_for_the_database(inside, statement):
    """At its claim, and when the facts for its driver are read."""
    harness = Harness(inside)
    node = harness.node()
    inside.agent(node)
    harness.ask(node, "clean", clean_steps=[requested("management", "polish")])
    with out_of_reach(inside.runtime.engine, statement, 2) as failures:
        harness.run()
    assert 0 == failures[0]
    assert [("management.polish", "done")] == harness.labels(node)
    assert "manageable" == harness.state(node)


def test_a_statement_that_cannot_succeed_is_not_retried():
    calls = []

    def work():
        calls.append(work)
        raise IntegrityError("INSERT INTO nodes", None, Exception("UNIQUE constraint failed"))

    with pytest.raises(IntegrityError):
        until_available(work)
    assert 1 == len(calls)
