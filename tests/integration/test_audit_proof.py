"""Audit records are signed, and checkpoints prove that none was changed, added or removed."""

import base64
import threading
from dataclasses import replace

import pytest
from sqlalchemy import delete, insert, select, text, update
from typer.testing import CliRunner

from app.audit import audit_proofs, audit_records
from app.db.clock import after, now
from app.models import AuditCheckpoint, AuditRecord, DataKey, Outcome
from app.rows import data_keys
from tests.support.inside import Inside
from workers import cli
from workers.periodic import proofs
from workers.periodic.pruning import prune_audit

KEY = base64.b64encode(b"k" * 32).decode()
OLD = after(-7200)


@pytest.fixture
def proven(database):
    """A service whose audit records are signed."""
    view = Inside(database, INGOT_DATABASE_SECRETS_KEY=KEY)
    data_keys.start(view.settings.database)
    view.close()
    view = view.another()
    with view.runtime.write_connection() as connection:
        connection.execute(update(DataKey).values(created_at=OLD))
    yield view
    view.close()


def add(inside, *actions, outcome="success", when=OLD):
    """Write records as the API does, at a time in the past."""
    with inside.runtime.write_connection() as connection:
        for action in actions:
            record = audit_records.row(
                action=action, auth="local", user_name="ann", outcome=outcome
            )
            audit_records.add(connection, record)
        connection.execute(
            update(AuditRecord).where(AuditRecord.action.in_(actions)).values(created_at=when)
        )


def prove(inside):
    """Let the periodic task open and close checkpoints; return how many there are."""
    for _ in range(2):
        proofs.prove(inside.runtime)
    with inside.runtime.reading() as session:
        return len(session.scalars(select(AuditCheckpoint.mac)).all())


def verify(inside, **options):
    settings = inside.settings.audit
    with inside.runtime.write_connection() as connection:
        return audit_proofs.verify(connection, settings, **options)


def sql(inside, statement, **values):
    with inside.runtime.write_connection() as connection:
        connection.execute(text(statement), values)


def ranges(inside, *groups):
    for group in groups:
        add(inside, *group)
        prove(inside)


def test_what_nobody_touched_is_verified(proven):
    assert ((), 0) == (tuple(verify(proven).findings), prove(proven))
    ranges(proven, ("a", "b"), ("c",))
    add(proven, "young", when=now())

    result = verify(proven)

    assert ([], 4, 2) == (result.findings, result.records, result.checkpoints)
    assert [] == verify(proven, head=result.head).findings


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE audit SET user_name = 'eve' WHERE action = 'b'", "record 2 was changed"),
        ("UPDATE audit SET fields = 'x' WHERE action = 'young'", "record 4 was changed"),
        ("UPDATE audit SET target_name = 'x' WHERE action = 'young'", "record 4 was changed"),
        ("UPDATE audit SET outcome = 'denied' WHERE action = 'b'", "records 1 to 2"),
        ("UPDATE audit SET status = 500 WHERE action = 'b'", "records 1 to 2"),
        ("UPDATE audit SET created_at = '2026-01-01 00:00:00.000001' WHERE action = 'c'",
         "records 3 to 3"),
        ("UPDATE audit SET mac = NULL WHERE action = 'young'", "record 4 has no proof"),
        ("DELETE FROM audit WHERE action = 'b'", "2 records of successes had been proven"),
        ("DELETE FROM audit WHERE id <= 2", "and there are 0"),
        ("INSERT INTO audit (created_at, action, outcome, requests, auth)"  # noqa: ISC004
         " VALUES ('2026-01-01', 'x', 'success', 1, 'local')", "record 5 has no proof"),
        ("DELETE FROM audit_checkpoints WHERE first = 3", "given head is missing"),
        ("DELETE FROM audit_checkpoints WHERE first = 1", "the checkpoint of records 3 to 3 was changed"),
        ("UPDATE audit_checkpoints SET successes = 1 WHERE first = 1", "records 1 to 2 was changed"),
        ("UPDATE audit_checkpoints SET last = 1 WHERE first = 1", "records 2 to 2 are missing"),
    ],
)  # fmt: skip
def test_what_a_writer_of_the_database_does_is_found(proven, statement, finding):
    ranges(proven, ("a", "b"), ("c",))
    add(proven, "young", when=now())
    head = verify(proven).head

    sql(proven, statement)

    assert finding in "\n".join(verify(proven, head=head).findings)


def test_many_findings_are_counted(proven, monkeypatch):
    monkeypatch.setattr(audit_proofs, "_LISTED", 1)
    ranges(proven, ("a", "b"), ("c",))
    sql(proven, "UPDATE audit SET mac = NULL")
    first_finding, rest = verify(proven).findings
    assert first_finding.startswith("records 1 to 2")
    assert "and 4 more" == rest


def test_a_record_of_a_call_may_get_its_outcome_until_it_is_proven(proven):
    with proven.runtime.write_connection() as connection:
        pending = audit_records.announce(connection, audit_records.row(action="call", auth="local"))
        connection.execute(update(AuditRecord).values(created_at=after(-600)))
    add(proven, "a")
    assert 0 == prove(proven)  # it waits for the outcome
    with proven.runtime.write_connection() as connection:
        audit_records.settle(connection, pending, Outcome.SUCCESS, 200)
    assert 1 == prove(proven)
    assert [] == verify(proven).findings

    with proven.runtime.write_connection() as connection:
        lost = audit_records.announce(connection, audit_records.row(action="lost", auth="local"))
        connection.execute(update(AuditRecord).where(AuditRecord.id == lost).values(created_at=OLD))
    assert 2 == prove(proven)
    with proven.runtime.write_connection() as connection:  # far too late
        audit_records.settle(connection, lost, Outcome.SUCCESS, 200)
    assert [] == verify(proven).findings


def test_a_range_waits_for_transactions_that_may_still_add_to_it(proven):
    if proven.url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    record = audit_records.row(action="late", auth="local")
    with proven.another().runtime.write_connection() as connection:
        audit_records.add(connection, record)  # its number is lower than that of the next one
        connection.execute(update(AuditRecord).values(created_at=OLD))
        add(proven, "a")
        assert 1 == prove(proven)
        with proven.runtime.reading() as session:
            assert [None] == list(session.scalars(select(AuditCheckpoint.mac)))
    assert 1 == prove(proven)
    result = verify(proven)
    assert ([], 2, 1) == (result.findings, result.records, result.checkpoints)


def test_writers_on_several_hosts_wait_for_none_of_each_other(proven):
    views = [proven.another() for _ in range(2)]

    def write(inside, name):
        for number in range(30):
            add(inside, f"{name}-{number}")

    threads = [threading.Thread(target=write, args=(view, at)) for at, view in enumerate(views)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        proofs.prove(proven.runtime)
    prove(proven)
    result = verify(proven)
    assert ([], 60) == (result.findings, result.records)
    for view in views:
        view.close()


def test_deletion_by_age_and_number_leaves_nothing_to_find(proven):
    settings = replace(
        proven.settings, audit=replace(proven.settings.audit, keep_days=30, keep_refused=2)
    )
    runtime = replace(proven.runtime, settings=settings)
    ancient = after(-86400 * 31)
    add(proven, "a", "b", when=ancient)
    prove(proven)
    add(proven, "d", outcome="denied")
    add(proven, "e")
    prove(proven)
    add(proven, "f", when=ancient)  # of a range with younger ones
    add(proven, "g", "h", outcome="denied")
    prove(proven)

    assert 3 == prune_audit(runtime)

    with proven.runtime.reading() as session:
        assert ["e", "f", "g", "h"] == list(
            session.scalars(select(AuditRecord.action).order_by(AuditRecord.id))
        )
    with proven.runtime.write_connection() as connection:
        assert [] == audit_proofs.verify(connection, settings.audit).findings
        assert [] != audit_proofs.verify(connection, replace(settings.audit, keep_days=60)).findings
        assert (
            [] != audit_proofs.verify(connection, replace(settings.audit, keep_refused=0)).findings
        )
        connection.execute(delete(AuditRecord).where(AuditRecord.action == "g"))
        assert [] != audit_proofs.verify(connection, settings.audit).findings


def test_records_from_before_there_was_a_key_are_counted_apart(proven):
    with proven.runtime.write_connection() as connection:
        old = {"action": "old", "outcome": "success", "auth": "local", "created_at": OLD}
        connection.execute(insert(AuditRecord).values(old))
    ranges(proven, ("a",))
    result = verify(proven)
    assert ([], 1, 1) == (result.findings, result.records, result.unproven)


def test_equal_refused_requests_of_an_agent_are_one_record_an_hour(proven):
    facts = {
        "action": "create/heartbeat",
        "auth": audit_records.AGENT,
        "outcome": "denied",
        "status": 400,
    }

    def refused(*records):
        with proven.runtime.write_connection() as connection:
            audit_records.add_all(
                connection, [audit_records.row(**facts, **record) for record in records]
            )

    for _ in range(3):
        refused({"target": "n-1", "reason": "token", "requests": 2, "address": "10.0.0.7"},
                {"target": "n-1", "reason": "token", "requests": 3, "address": "10.0.0.8"},
                {"target": "n-1", "reason": "tls"}, {"target": "n-2", "reason": "token"})  # fmt: skip
    refused({"address": "10.0.0.1", "reason": "node"}, {"address": "10.0.0.2", "reason": "node"})
    refused({"address": "10.0.0.1", "reason": "node"})

    def counts():
        with proven.runtime.reading() as session:
            rows = session.execute(
                select(AuditRecord.target, AuditRecord.address, AuditRecord.reason,
                       AuditRecord.requests).order_by(AuditRecord.id)
            )  # fmt: skip
            return [tuple(row) for row in rows]

    assert [
        ("n-1", "10.0.0.7", "token", 15), ("n-1", None, "tls", 3), ("n-2", None, "token", 3),
        (None, "10.0.0.1", "node", 2), (None, "10.0.0.2", "node", 1),
    ] == counts()  # fmt: skip
    with proven.runtime.write_connection() as connection:
        connection.execute(update(AuditRecord).values(created_at=OLD))
    refused({"target": "n-1", "reason": "token"})
    assert 6 == len(counts())
    prove(proven)
    assert [] == verify(proven).findings


def test_the_command_prints_findings_and_the_head(proven):
    ranges(proven, ("a",))
    environ = {"INGOT_DATABASE_CONNECTION": proven.url, "INGOT_CONFIG": "",
               "INGOT_DATABASE_SECRETS_KEY": KEY}  # fmt: skip
    runner = CliRunner(env=environ)
    result = runner.invoke(cli.app, ["audit", "verify"])
    assert 0 == result.exit_code, result.output
    head = result.stdout.split()[-1]
    assert f"1 records, 1 checkpoints, head {head}" in result.stdout
    assert 0 == runner.invoke(cli.app, ["audit", "verify", "--head", head]).exit_code
    for words in (
        ["db", "upgrade"],
        ["user", "create", "ann", "--no-password"],
        ["secrets", "rotate"],
    ):  # commands that record themselves
        ran = runner.invoke(cli.app, words)
        assert 0 == ran.exit_code, ran.output
    result = runner.invoke(cli.app, ["audit", "verify"])
    assert (0, True) == (result.exit_code, "4 records" in result.stdout), result.output
    sql(proven, "UPDATE audit SET user_name = 'eve'")
    result = runner.invoke(cli.app, ["audit", "verify"])
    assert 1 == result.exit_code
    assert "record 1 was changed" in result.stdout
