"""A login whose process dies: the session and its record are committed together, or not at all."""

import os
import signal

import pytest
from sqlalchemy import event, select

from app.api import auditing
from app.models import ApiToken, AuditRecord
from tests.support.local_users import PASSWORD, Directory, with_local_users


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def before_the_commit(runtime):
    """End this process when the transaction that inserted the session is about to be committed."""
    inserted = []

    def note(_connection, _cursor, statement, *_):
        inserted.append(statement.startswith("INSERT INTO api_tokens"))

    event.listen(runtime.engine, "before_cursor_execute", note)
    event.listen(runtime.engine, "commit", lambda _: any(inserted) and die())


def before_the_answer(_runtime):
    auditing.finish = lambda _response: die()


@pytest.mark.parametrize(("when", "sessions"), [(before_the_commit, 0), (before_the_answer, 1)])
def test_a_process_that_dies_in_a_login_leaves_session_and_record_or_neither(
    inside, when, sessions
):
    Directory(inside.runtime.transaction).user("ann", ("reader", None))
    child = os.fork()
    if child == 0:
        try:
            runtime, app = with_local_users(inside.another().runtime)
            when(runtime)
            body = {"username": "ann", "password": PASSWORD}
            app.test_client().post("/v1/login", json=body)
        finally:
            os._exit(1)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with inside.runtime.reading() as session:
        assert ["session"] * sessions == list(session.scalars(select(ApiToken.name)))
        assert ["authenticate/login"] * sessions == list(
            session.scalars(select(AuditRecord.action))
        )
