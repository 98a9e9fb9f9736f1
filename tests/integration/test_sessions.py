"""
A process that dies in a login, or in the change of a scope: the session and its record are committed
together, or not at all.
"""

import os
import signal

import pytest
from sqlalchemy import event, select

from app.api.request import auditing
from app.identity import tokens
from app.models import ApiToken, AuditRecord, Project
from tests.support.local_users import PASSWORD, Directory, with_local_users


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def before_the_commit(runtime):
    """End this process when the transaction that wrote the session is about to be committed."""
    writes = []

    def note(_connection, _cursor, statement, *_):
        writes.append(
            statement.startswith(("INSERT INTO api_tokens", "UPDATE api_tokens SET digest"))
        )

    event.listen(runtime.engine, "before_cursor_execute", note)
    event.listen(runtime.engine, "commit", lambda _: any(writes) and die())


def before_the_answer(_runtime):
    auditing.finish = lambda _context, _response: die()


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


@pytest.mark.parametrize(
    ("when", "scope"), [(before_the_commit, "blue"), (before_the_answer, "red")]
)
def test_a_process_that_dies_in_a_change_of_the_scope_leaves_one_valid_token(inside, when, scope):
    users = Directory(inside.runtime.transaction)
    for name in ("blue", "red"):
        users.project(name)
    users.user("ann", ("reader", "blue"), ("reader", "red"))
    runtime, app = with_local_users(inside.runtime)
    client = app.test_client()
    body = {"username": "ann", "password": PASSWORD, "scope": "blue"}
    assert 200 == client.post("/v1/login", json=body).status_code
    text = client.get_cookie("ingot_session").value
    child = os.fork()
    if child == 0:
        try:
            runtime, app = with_local_users(inside.another().runtime)
            when(runtime)
            client = app.test_client()
            client.set_cookie("ingot_session", text)
            origin = {"Origin": "http://localhost"}
            client.post("/v1/login/scope", json={"scope": "red"}, headers=origin)
        finally:
            os._exit(1)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with inside.runtime.reading() as session:
        moved = scope == "red"
        (row,) = session.execute(select(Project.name, ApiToken.digest).join(ApiToken))
        assert (scope, moved) == (
            row.name,
            row.digest != tokens.session_digest(session.connection(), text),
        )
        assert ["authenticate/scope"] * moved == list(
            session.scalars(
                select(AuditRecord.action).where(AuditRecord.action == "authenticate/scope")
            )
        )
