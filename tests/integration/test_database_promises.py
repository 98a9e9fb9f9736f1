"""Each promise of docs/security.md about the users of PostgreSQL, tried as that user."""

import base64
import re
from pathlib import Path

import psycopg
import pytest

from app.db.clock import after
from app.db.master_keys import masters_of
from app.identity import authentication, tokens
from app.models import ApiToken, AuditRecord
from app.rows import data_keys
from tests.support.database_users import grant, url_of
from tests.support.inside import Inside
from tests.support.local_users import Directory
from workers.periodic.pruning import prune_audit, prune_tokens

pytestmark = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
PAGE = Path(__file__).parents[2] / "docs/security.md"
KEY = base64.b64encode(b"k" * 32).decode()
KNOWN = "ingot_" + "x" * 43

_TOKEN = (
    "INSERT INTO api_tokens (uuid, digest, name, user_id, created_at, expires_at)"
    " VALUES ('t-9', '{digest}', {name}, 1, now(), {expires})"
)
_MINT = _TOKEN.format(digest=tokens.digest(KNOWN), name="'mine'", expires="NULL")
#: Promise -> the statements that would break it.
ALL = {
    "change or drop tables": (
        "ALTER TABLE nodes ADD COLUMN x int", "DROP TABLE audit", "TRUNCATE nodes",
        "CREATE TABLE x (y int)", "ALTER TABLE audit DISABLE TRIGGER guard",
        "DROP TRIGGER guard ON audit", "SET session_replication_role = replica",
        "CREATE OR REPLACE FUNCTION guard_audit() RETURNS trigger LANGUAGE sql AS 'SELECT 1'",
    ),
    "add data keys": (
        ("INSERT INTO data_keys (id, position, master, wrapped, created_at)"
        " VALUES ('x', 9, 'x', 'x', now())"),
        "DELETE FROM data_keys", "UPDATE data_keys SET wrapped = 'x'",
    ),
    "delete audit records that are younger than `[audit]keep_days`": (
        "DELETE FROM audit", "DELETE FROM audit WHERE id = 1", "DELETE FROM audit WHERE id = 2",
        "DELETE FROM audit WHERE id = 3", "TRUNCATE audit",
    ),
}  # fmt: skip
PROMISES = {
    "ingot_api": {
        "grant roles": (
            "INSERT INTO role_assignments (role, user_id) VALUES ('admin', 1)",
            "UPDATE role_assignments SET role = 'admin'", "UPDATE role_assignments SET project_id = NULL",
            "UPDATE projects SET ident = 'other'",
        ),
        "change passwords": (
            "UPDATE users SET password_hash = 'x'", "UPDATE users SET uuid = 'x'",
        ),
        "enable users": ("UPDATE users SET enabled = true",),
        "make tokens": (
            _MINT, _TOKEN.format(digest="d", name="NULL", expires="NULL"),
            _TOKEN.format(digest="d", name="'session '", expires="now()"),
            _TOKEN.format(digest="d", name="'session'", expires="NULL"),
            _TOKEN.format(digest="d", name="'session'", expires="now() + interval '9 years'"),
        ),
        "change scope, role or user of tokens": (
            "UPDATE api_tokens SET role = NULL, project_id = NULL", "UPDATE api_tokens SET user_id = 1",
            "UPDATE api_tokens SET project_id = NULL", f"UPDATE api_tokens SET digest = '{'d' * 64}'",
            "UPDATE api_tokens SET name = 'session'", "UPDATE api_tokens SET expires_at = NULL",
        ),
        "revive revoked tokens": ("UPDATE api_tokens SET revoked_at = NULL WHERE name = 'ended'",),
        "change members of groups outside `[oidc]group_map`": (
            "INSERT INTO memberships SELECT id, 1 FROM user_groups WHERE name = 'admins'",
            "DELETE FROM memberships",
            ("CREATE TEMP TABLE user_groups (id int, name text);"
            " INSERT INTO user_groups SELECT id, 'people' FROM public.user_groups;"
            " INSERT INTO memberships SELECT id, 1 FROM public.user_groups WHERE name = 'admins'"),
            "UPDATE user_groups SET name = 'people'", "UPDATE memberships SET user_id = 1",
        ),
        "change audit records": (
            "UPDATE audit SET user_name = 'x'", "UPDATE audit SET created_at = '2000-01-01'",
            "UPDATE audit SET outcome = 'failure', status = 500", "UPDATE audit SET requests = 9",
            "UPDATE audit SET mac = NULL", "SELECT * FROM audit_checkpoints",
        ),
        "delete audit records": ("DELETE FROM audit WHERE action = 'ancient'",),
        "read the watermark": ("SELECT * FROM watermark",),
    },
    "ingot_conductor": {
        "read names and passwords of users": (
            "SELECT password_hash FROM users", "SELECT name FROM users", "SELECT * FROM user_groups",
        ),
        "change users and roles": (
            "UPDATE users SET enabled = true", "INSERT INTO users (uuid, name) VALUES ('x', 'x')",
            "INSERT INTO memberships SELECT group_id, 1 FROM memberships", "DELETE FROM memberships",
            "INSERT INTO role_assignments (role, user_id) VALUES ('admin', 1)",
            "UPDATE role_assignments SET project_id = NULL", "DELETE FROM role_assignments",
            "UPDATE projects SET ident = 'other'", "DELETE FROM projects",
        ),
        "read tokens": ("SELECT digest FROM api_tokens", "SELECT user_id FROM api_tokens"),
        "read the callers in audit records": (
            "SELECT user_name FROM audit", "SELECT address FROM audit", "SELECT fields FROM audit",
        ),
        "delete tokens that are in use": ("DELETE FROM api_tokens",),
        "make tokens": (_MINT, "UPDATE api_tokens SET revoked_at = NULL"),
        "change audit records": (
            "UPDATE audit SET outcome = 'failure'",
            ("INSERT INTO audit (created_at, action, outcome, requests, auth)"
            " VALUES (now(), 'x', 'success', 1, 'x')"),
        ),
    },
    "ingot_beat": {
        "read nodes, operations and webhooks except names, owners, states, times and sensors": (
            "SELECT driver_info FROM nodes", "SELECT instance_info FROM nodes", "SELECT * FROM operations",
            "SELECT secret FROM webhooks", "SELECT * FROM operation_steps", "SELECT * FROM agents",
        ),
        "write anything but its lease": (
            "UPDATE nodes SET maintenance = true", "DELETE FROM holds", "UPDATE webhooks SET enabled = true",
            "INSERT INTO node_history DEFAULT VALUES", "UPDATE data_keys SET bound = false", _MINT,
        ),
    },
}  # fmt: skip
#: Promises that tests of their own try.
ELSEWHERE = {("ingot_api", "make sessions that are accepted")}
CASES = [
    (user, promise, statement)
    for user, promises in PROMISES.items()
    for promise, statements in ({**ALL, **promises}).items()
    for statement in statements
]


@pytest.fixture
def served(inside):
    """A database with users, tokens and audit records, and the rights of the roles."""
    with inside.runtime.transaction() as session:
        data_keys.rotate(session.connection(), masters_of(KEY))
    view = Inside(inside.url, INGOT_DATABASE_SECRETS_KEY=KEY)
    directory = Directory(view.runtime.transaction)
    directory.project("blue")
    directory.user("ann", ("reader", "blue"))
    directory.token("ann", "blue")
    directory.group("admins", "ann")
    directory.group("people")
    with view.runtime.transaction() as session:
        for action, days in (("young", 0), ("day", 2), ("ancient", 100)):
            when = after(-86400 * days)
            for outcome in ("success", "denied"):
                session.add(AuditRecord(
                    action=action, outcome=outcome, auth="local", created_at=when, user_name="ann"
                ))  # fmt: skip
        ended = {"name": "ended", "user_id": 1, "created_at": after(-9), "expires_at": after(9000)}
        session.add(ApiToken(uuid="t-2", digest="e", revoked_at=after(-1), **ended))
    grant(inside.url, INGOT_OIDC_GROUP_MAP="external:people")
    yield view
    view.close()


def as_user(user, url):
    role = user.removeprefix("ingot_")
    return psycopg.connect(url_of(role, url), autocommit=True)


def test_no_promise_can_be_broken(served):
    with psycopg.connect(served.url, autocommit=True) as owner:
        first_state = state(owner)
        wrong = []
        for user, promise, statement in CASES:
            with as_user(user, served.url) as session:
                try:
                    session.execute(statement)
                except psycopg.errors.InsufficientPrivilege:
                    continue
                except psycopg.Error as error:
                    wrong.append((user, promise, statement, type(error).__name__, str(error)))
                else:
                    wrong.append((user, promise, statement, "executed"))
        assert [] == wrong, "\n".join(map(str, wrong))
        assert first_state == state(owner)


def state(owner):
    tables = ("audit", "api_tokens", "memberships", "users", "role_assignments", "data_keys")
    return [owner.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in tables]


def test_the_page_promises_what_is_tried(database):
    rows = re.findall(r"^\| (all three|`ingot_\w+`) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    promised = {
        (user.strip("`"), word) for user, cell in rows for word in re.split(r"; (?!write)", cell)
    }
    promised = {
        (user, part)
        for user, cell in promised
        for part in (cell.split("; ") if user == "ingot_beat" else [cell])
    }
    pairs = {("all three", promise) for promise in ALL} | ELSEWHERE
    pairs |= {(user, promise) for user, promises in PROMISES.items() for promise in promises}
    assert promised == pairs


def test_a_session_that_a_writer_of_the_database_makes_is_not_accepted(served):
    with as_user("ingot_api", served.url) as session:
        session.execute(
            _TOKEN.format(
                digest=tokens.digest(KNOWN), name="'session'", expires="now() + interval '1 h'"
            )
        )
    with served.runtime.read_connection() as connection:
        assert authentication.token_of(connection, KNOWN) is None
    with served.runtime.transaction() as session:
        _, text = tokens.issue(session, 1, None, name=tokens.SESSION, seconds=60)
    with served.runtime.read_connection() as connection:
        assert authentication.token_of(connection, text) is not None
    with served.runtime.transaction() as session:
        renewed = tokens.move(session, text, 1)
        tokens.end(session, text)
    with served.runtime.read_connection() as connection:
        assert authentication.token_of(connection, text) is None
        assert authentication.token_of(connection, renewed).project_id == 1


def test_the_roles_still_do_their_work(served):
    limited = Inside(url_of("api", served.url), INGOT_DATABASE_SECRETS_KEY=KEY)
    with limited.runtime.transaction() as session:
        _uuid, text = tokens.issue(session, 1, None, name=tokens.SESSION, seconds=60)
        session.flush()
        assert tokens.move(session, text, 1)
    with as_user("ingot_api", served.url) as session:
        session.execute(
            "INSERT INTO memberships SELECT id, 1 FROM user_groups WHERE name = 'people'"
        )
        session.execute(
            "DELETE FROM memberships WHERE group_id = (SELECT id FROM user_groups WHERE name = 'people')"
        )
        session.execute(
            "UPDATE api_tokens SET revoked_at = now(), used_at = now() WHERE revoked_at IS NULL"
        )
    limited.close()
    worker = Inside(url_of("conductor", served.url), INGOT_DATABASE_SECRETS_KEY=KEY,
                    INGOT_AUDIT_KEEP_DAYS="90", INGOT_IDENTITY_ENDED_TOKENS_LIFETIME="0")  # fmt: skip
    assert 2 == prune_audit(worker.runtime)
    assert 3 == prune_tokens(worker.runtime)
    worker.close()


def test_the_lifetime_of_records_is_that_of_the_settings(served):
    grant(served.url, INGOT_AUDIT_KEEP_DAYS="1")
    with as_user("ingot_conductor", served.url) as session:
        assert 1 == session.execute(
            "DELETE FROM audit WHERE id = 3").rowcount  # fmt: skip
    grant(served.url, INGOT_AUDIT_KEEP_DAYS="0")
    with (
        as_user("ingot_conductor", served.url) as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="deleted by age"),
    ):
        session.execute("DELETE FROM audit WHERE id = 5")
