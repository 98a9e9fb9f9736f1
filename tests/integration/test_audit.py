"""Audit records and their changes are committed together; commands that use the database directly."""

import base64
import os
import signal

import pytest
from sqlalchemy import event, select
from typer.testing import CliRunner

from app.api.request import auditing
from app.models import AuditRecord, Node, Operation
from app.server.application import create_app
from workers import cli

KEY = base64.b64encode(bytes(32)).decode()


def die_before_the_commit(inside):
    """End this process when the transaction that changed the node is about to be committed."""
    changed = []

    def note(_connection, _cursor, statement, *_):
        changed.append(statement.startswith("UPDATE nodes"))

    event.listen(inside.runtime.engine, "before_cursor_execute", note)
    event.listen(inside.runtime.engine, "commit", lambda _: any(changed) and die())


def die_before_the_answer(_inside):
    auditing.finish = lambda _context, _response: die()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def request_in_a_process(inside, when, node):
    """Send a request to an application in another process, which kills itself; return its status."""
    child = os.fork()
    if child == 0:
        try:
            again = inside.another()
            when(again)
            client = create_app(again.runtime).test_client()
            headers = {"X-OpenStack-Ironic-API-Version": "1.115"}
            path = f"/v1/nodes/{node}/states/provision"
            client.put(path, json={"target": "manage"}, headers=headers)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("when", "actions"),
    [
        (die_before_the_commit, []),
        (die_before_the_answer, ["update/node/state/provision/manage"]),
    ],
)
def test_a_process_that_dies_leaves_the_change_and_its_record_or_neither(inside, when, actions):
    inside.conductor()
    node = inside.node()
    with inside.runtime.reading() as session:
        uuid = session.scalar(select(Node.uuid).where(Node.id == node))
    assert -signal.SIGKILL == request_in_a_process(inside, when, uuid)
    with inside.runtime.reading() as session:
        assert actions == list(session.scalars(select(AuditRecord.action)))
        assert len(actions) == len(list(session.scalars(select(Operation.id))))


def run(inside, *words):
    environ = {"INGOT_DATABASE_CONNECTION": inside.url, "INGOT_CONFIG": ""}
    environ |= {"INGOT_DATABASE_SECRETS_KEY": KEY, "INGOT_BROKER_URL": ""}
    return CliRunner(env=environ).invoke(cli.app, list(words))


def test_commands_that_change_the_database_are_recorded_with_the_user_of_the_system(
    inside, monkeypatch
):
    monkeypatch.setenv("LOGNAME", "ali")
    inside.node(reservation="a conductor")
    for words in (("db", "upgrade"), ("secrets", "rotate"), ("secrets", "status"),
                  ("doctor",), ("doctor", "--fix"), ("db", "restored")):  # fmt: skip
        result = run(inside, *words)
        assert result.exit_code in (0, 1), result.output
    with inside.runtime.reading() as session:
        records = list(session.scalars(select(AuditRecord).order_by(AuditRecord.id)))
    assert [
        "update/database/schema", "update/database/secrets", "repair/orphan_reservations",
        "update/database/restored",
    ] == [record.action for record in records]  # fmt: skip
    assert {("ali", "command", None)} == {
        (record.user_name, record.auth, record.address) for record in records
    }
    assert records[2].target.startswith("node ")
