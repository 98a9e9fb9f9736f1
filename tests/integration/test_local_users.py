"""Commands for local users, and the first administrator, on SQLite and PostgreSQL."""

import json
import stat
import sys
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import pytest
from sqlalchemy import select, text
from typer.testing import CliRunner

from app.config import settings as app_settings
from app.db import connections, transactions
from app.db.clock import now
from app.identity import authentication, delegated_work, oidc_users, passwords, tokens
from app.identity.caller import Caller
from app.models import Hold, Node, Operation, RoleAssignment, Rollout, User, Webhook
from tests.support import programs
from tests.support.fleet import ROOT
from tests.support.local_users import PASSWORD, STORED
from workers import cli
from workers.doctor import environment_checks
from workers.doctor.checks import Installation
from workers.supervisor import first_admin as bootstrap
from workers.supervisor import up
from workers.supervisor.location import StartError


@pytest.fixture
def run(database):
    """Run a command on the database; return its decoded JSON."""

    def command(*words, stdin=""):
        words = (*words, "--database", database, "-o", "json")
        result = CliRunner(env={"INGOT_CONFIG": ""}).invoke(
            cli.app, words, input=stdin, catch_exceptions=False
        )
        assert 0 == result.exit_code, result.output
        return json.loads(result.stdout)

    return command


@pytest.fixture
def engine(database):
    database_engine = connections.connect(database)
    yield database_engine
    database_engine.dispose()


@pytest.mark.parametrize(
    ("role", "verb", "scope", "warns"),
    [
        ("service", "grant", ["--project", "blue"], True),
        ("service", "grant", ["--system"], False),
        ("service", "revoke", ["--project", "blue"], False),
        ("member", "grant", ["--project", "blue"], False),
    ],
)
def test_a_role_of_services_in_a_project_warns(run, database, role, verb, scope, warns):
    run("user", "create", "nova", "--no-password")
    run("project", "create", "blue")
    if verb == "revoke":
        run("role", "grant", role, "--user", "nova", *scope)
    words = ["role", verb, role, "--user", "nova", *scope, "--database", database]
    result = CliRunner(env={"INGOT_CONFIG": ""}).invoke(cli.app, words, catch_exceptions=False)
    assert 0 == result.exit_code, result.output
    assert warns == ("nodes and runbooks of all projects" in result.stderr)


def test_users_groups_projects_roles_and_tokens_are_managed_by_commands(run, engine):
    ann = run("user", "create", "ann", stdin=f"{PASSWORD}\n")
    run("user", "create", "nova", "--no-password")
    blue = run("project", "create", "blue", "--id", "keystones-blue")
    run("project", "create", "red")
    run("group", "create", "operators")
    run("group", "add-user", "operators", "ann")
    run("group", "add-user", "operators", "ann")
    run("role", "grant", "reader", "--group", "operators", "--system")
    for _ in range(2):
        run("role", "grant", "member", "--user", "ann", "--project", "blue")

    user = run("user", "show", "ann")
    assert (ann["uuid"], True, True) == (user["uuid"], user["enabled"], user["has_password"])
    assert ["operators"] == user["groups"]
    assert ["member in blue", "reader in system, by group operators"] == sorted(user["roles"])
    assert [("ann", True), ("nova", False)] == [
        (entry["name"], entry["has_password"]) for entry in run("user", "list")
    ]
    assert {"name": "operators", "users": ["ann"]} == run("group", "show", "operators")
    assert [{"name": "operators"}] == run("group", "list")
    assert "keystones-blue" == blue["id"] == run("project", "list")[0]["id"]
    assert 2 == len(run("role", "list"))

    token = run("token", "create", "ann", "--project", "blue", "--role", "reader", "--name", "ci")
    (listed,) = run("token", "list", "--user", "ann")
    assert (token["uuid"], "ci", "ann", "blue", "reader", None) == tuple(
        listed[name] for name in ("uuid", "name", "user", "scope", "role", "revoked_at")
    )
    assert listed["expires_at"] > listed["created_at"]
    assert token["token"] not in json.dumps(listed)
    with transactions.read_connection(engine) as connection:
        token_row = authentication.token_of(connection, token["token"])
        caller = authentication.with_token(connection, token_row, "req-1")
        everything = "".join(
            str(connection.execute(text(f"SELECT * FROM {table}")).all())
            for table in ("users", "api_tokens")
        )
    assert ("keystones-blue", ("reader",), None) == (
        caller.project_id,
        caller.roles,
        caller.system_scope,
    )
    assert PASSWORD not in everything
    assert token["token"] not in everything
    assert "$argon2id$" in everything

    run("token", "revoke", token["uuid"])
    assert run("token", "list")[0]["revoked_at"]
    run("role", "revoke", "member", "--user", "ann", "--project", "blue")
    run("group", "remove-user", "operators", "ann")
    run("user", "set-password", "ann", stdin="another password\n")
    run("user", "disable", "ann")
    user = run("user", "show", "ann")
    assert (False, [], []) == (user["enabled"], user["groups"], user["roles"])
    with transactions.reading(engine) as session:
        stored = session.scalar(select(User.password_hash).where(User.name == "ann"))
    assert [True, False] == [
        passwords.matches(stored, password) for password in ("another password", PASSWORD)
    ]
    for words in (("user", "delete", "ann"), ("group", "delete", "operators"),
                  ("project", "delete", "blue")):  # fmt: skip
        run(*words)
    assert [] == run("role", "list")
    assert [] == run("token", "list")


#: Kind of work -> whether it is over when its user is disabled.
OVER = {
    "session": True, "token": True, "rollout": True, "operation": False, "webhook": False,
    "hold": False,
}  # fmt: skip


def test_disabling_a_user_shows_all_work_and_what_becomes_of_it(run, engine, database):
    uuid = run("user", "create", "ann", stdin=f"{PASSWORD}\n")["uuid"]
    run("user", "create", "bob", "--no-password")
    run("role", "grant", "admin", "--user", "ann", "--system")
    token_uuid = run("token", "create", "ann", "--system", "--name", "ci")["uuid"]
    run("token", "revoke", run("token", "create", "ann", "--system")["uuid"])
    run("token", "create", "bob", "--system")
    ann, other = Caller(user_id=uuid, user_name="ann"), Caller(user_id="u-9")
    with transactions.transaction(engine) as session:
        user = session.scalar(select(User.id).where(User.uuid == uuid))
        _, text = tokens.issue(session, user, None, name=tokens.SESSION, seconds=60)
        for caller in (ann, other):
            node = Node(uuid=str(uuid4()), driver="fake-hardware", provision_state="enroll")
            session.add(node)
            session.flush()
            fields = {"name": f"of-{caller.user_id[:2]}", "url": "https://h/", "secret": "x" * 16}
            session.add(Webhook(
                uuid=str(uuid4()), position=0, user_id=caller.user_id, **fields
            ))  # fmt: skip
            session.add(Hold(
                uuid=str(uuid4()), node_id=node.id, kind="hardware", reason="r",
                user_id=caller.user_id,
            ))  # fmt: skip
            session.add(Operation(
                uuid=str(uuid4()), node_id=node.id, kind="clean", state="queued",
                requested_by=caller.user_id, created_at=now(),
            ))  # fmt: skip
            for state in ("running", "completed"):
                session.add(Rollout(
                    uuid=str(uuid4()), user_id=caller.user_id, target="clean", state=state,
                    waves=1, error_budget=1, nodes=1,
                ))  # fmt: skip

    work = run("user", "disable", "ann")["work"]
    assert [*OVER] == [*delegated_work.EFFECTS] == [item["kind"] for item in work]
    assert token_uuid in {item["uuid"] for item in work}
    for item in work:
        assert OVER[item["kind"]] != item["then"].startswith("goes on"), item
    run("user", "enable", "ann")
    with transactions.read_connection(engine) as connection:
        assert authentication.token_of(connection, text) is None, "a session does not come back"
    assert ["token", "rollout", "operation", "webhook", "hold"] == [
        item["kind"] for item in run("user", "disable", "ann")["work"]
    ]
    words = ("user", "disable", "ann", "--database", database)
    output = CliRunner(env={"INGOT_CONFIG": ""}).invoke(cli.app, words).output
    assert "user ann is disabled" in output
    assert f"token {token_uuid}" in output


@pytest.mark.parametrize(("options", "valid"), [((), False), (("--keep-sessions",), True)])
def test_a_new_password_ends_the_sessions_unless_they_are_kept(run, engine, options, valid):
    run("user", "create", "ann", stdin=f"{PASSWORD}\n")
    token = run_token(run)
    with transactions.transaction(engine) as session:
        user = session.scalar(select(User.id).where(User.name == "ann"))
        _, text = tokens.issue(session, user, None, name=tokens.SESSION, seconds=60)
    changed = run("user", "set-password", "ann", *options, stdin="another password\n")
    assert {"name": "ann", "ended_sessions": 0 if valid else 1} == changed
    with transactions.read_connection(engine) as connection:
        assert valid == (authentication.token_of(connection, text) is not None)
        assert authentication.token_of(connection, token), "API tokens stay valid"


#: Command -> whether the session, and the token, of the user are known after it.
ACTS = {
    "disable": (("user", "disable", "ann"), "", False, False),
    "role": (("role", "revoke", "admin", "--user", "ann", "--system"), "", True, True),
    "password": (("user", "set-password", "ann"), "another password\n", False, True),
}


@pytest.mark.parametrize("act", ACTS)
def test_accepted_work_goes_on_and_logins_end_as_the_table_says(run, engine, act):
    """The columns of the table in docs/security.md; rollouts have tests of their own."""
    words, stdin, keeps_session, keeps_token = ACTS[act]
    uuid = run("user", "create", "ann", stdin=f"{PASSWORD}\n")["uuid"]
    run("role", "grant", "admin", "--user", "ann", "--system")
    token = run_token(run)
    with transactions.transaction(engine) as session:
        user = session.scalar(select(User.id).where(User.uuid == uuid))
        _, login = tokens.issue(session, user, None, name=tokens.SESSION, seconds=60)
        node = Node(uuid=str(uuid4()), driver="fake-hardware", provision_state="cleaning")
        session.add(node)
        session.flush()
        session.add_all([
            Webhook(uuid=str(uuid4()), position=0, user_id=uuid, name="w", url="https://h/",
                    secret="x" * 16),
            Hold(uuid=str(uuid4()), node_id=node.id, kind="hardware", reason="r", user_id=uuid),
            *(Operation(uuid=str(uuid4()), node_id=node.id, kind=kind, state=state,
                        requested_by=uuid, created_at=now())
              for kind, state in (("clean", "queued"), ("power", "waiting"))),
        ])  # fmt: skip
    rows = rows_of_work(engine)
    run(*words, stdin=stdin)
    assert rows == rows_of_work(engine)
    with transactions.read_connection(engine) as connection:
        assert keeps_session is (authentication.token_of(connection, login) is not None)
        assert keeps_token is (authentication.token_of(connection, token) is not None)


def rows_of_work(engine):
    """All rows of operations, webhooks, holds and their node."""
    with transactions.read_connection(engine) as connection:
        return [
            connection.execute(select(model.__table__)).all()
            for model in (Operation, Webhook, Hold, Node)
        ]


def run_token(run):
    return run("token", "create", "ann", "--system")["token"]


def test_the_documentation_says_what_becomes_of_the_work_of_a_user():
    text = (ROOT / "docs/security.md").read_text()
    for kind, then in delegated_work.EFFECTS.items():
        assert f"`{kind}`" in text, kind
        assert then.partition(":")[0].split(",")[0] in text, then


REFUSED = [
    (("user", "create", "a:b", "--no-password"), "name: expected 1 to 255 printable characters"),
    (("user", "create", "", "--no-password"), "name: expected"),
    (("user", "create", "ann", "--no-password"), "A user with name ann already exists."),
    (("user", "create", "bob"), "password: expected 8 to 1024"),
    (("user", "create", "bob", "--subject", "1"), "--subject: [oidc]issuer is not set"),
    (("user", "set-password", "bob"), "password: expected 8 to 1024"),
    (("user", "disable", "bob"), "User bob could not be found."),
    (("project", "create", "blue", "--id", "x" * 65), "id: expected 1 to 64"),
    (("group", "add-user", "none", "ann"), "Group none could not be found."),
    (("group", "remove-user", "crew", "ann"), "ann is not in group crew"),
    (("role", "grant", "admin", "--user", "ann"), "--system, --project:"),
    (("role", "grant", "admin", "--user", "ann", "--system", "--project", "p"), "--system, --project:"),
    (("role", "grant", "admin", "--system"), "--user, --group:"),
    (("role", "grant", "admin", "--user", "ann", "--project", "p"), "Project p could not be found."),
    (("role", "revoke", "admin", "--user", "ann", "--system"), "Role admin was not given"),
    (("token", "create", "ann", "--system", "--days", "4000"), "--days: expected 0"),
    (("token", "create", "bob", "--system"), "User bob could not be found."),
    (("token", "create", "ann"), "--system, --project:"),
    (("token", "revoke", "x"), "Token x could not be found."),
]  # fmt: skip


def test_a_person_of_the_openid_provider_is_created_by_subject(run, engine, monkeypatch):
    monkeypatch.setenv("INGOT_OIDC_ISSUER", "https://id.example")
    monkeypatch.setenv("INGOT_OIDC_CLIENT_ID", "ingot")
    user = run("user", "create", "jane", "--subject", "1")
    assert oidc_users.uuid_of("https://id.example", "1") == user["uuid"]
    assert oidc_users.uuid_of("https://id.example/", "1") != user["uuid"]
    assert run("user", "show", "jane")["has_password"] is False


def test_a_refused_command_names_the_value_and_changes_nothing(run, database):
    run("user", "create", "ann", "--no-password")
    run("group", "create", "crew")
    lists = [run(kind, "list") for kind in ("user", "group", "project", "role", "token")]
    for words, message in REFUSED:
        with pytest.raises(StartError) as error:
            CliRunner(env={"INGOT_CONFIG": ""}).invoke(
                cli.app, [*words, "--database", database], input="short\n", catch_exceptions=False
            )
        assert message in str(error.value), words
        assert "\n" not in str(error.value)
    assert lists == [run(kind, "list") for kind in ("user", "group", "project", "role", "token")]


def test_a_missing_database_or_schema_is_named(tmp_path, empty_database):
    for url, message in (
        (f"sqlite:///{tmp_path}/none.db", "there is no such file"),
        (empty_database, "there is no such file" if "sqlite" in empty_database else "db upgrade"),
    ):
        with pytest.raises(StartError, match=message):
            CliRunner(env={"INGOT_CONFIG": ""}).invoke(
                cli.app, ["user", "list", "--database", url], catch_exceptions=False
            )
    assert not (tmp_path / "none.db").exists()


def settings_of(url, folder):
    base = app_settings.load({"INGOT_DATABASE_CONNECTION": url, "INGOT_DATA_DIR": str(folder)})
    return replace(base, default=replace(base.default, auth_strategy="local"))


def ensure(url, folder):
    """Run in a process of its own."""
    bootstrap.ensure(settings_of(url, folder))


def test_the_first_admin_gets_a_random_password_once(
    database, engine, tmp_path, monkeypatch, capsys
):
    settings, path = settings_of(database, tmp_path), tmp_path / "admin-password"
    installation = Installation(_runtime(engine, settings), None, None)
    assert ["users"] == [
        administrator.subject for administrator in environment_checks.administrators(installation)
    ]

    bootstrap.ensure(settings)
    bootstrap.ensure(settings)
    password = path.read_text().strip()
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert len(password) > 20
    assert password not in "".join(capsys.readouterr())
    assert [] == list(environment_checks.administrators(installation))
    with transactions.read_connection(engine) as connection:
        account = authentication.account_of(connection, "admin")
        caller = authentication.of_account(connection, account, None, "req-1")
    assert passwords.matches(account.password_hash, password)
    assert ("all", "admin" in caller.roles) == (caller.system_scope, True)

    path.unlink()
    with transactions.transaction(engine) as session:
        session.query(User).delete()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    bootstrap.ensure(settings)
    output, logged = capsys.readouterr()
    assert output.startswith("user admin, password ")
    assert output.split()[-1] not in logged
    assert not path.exists()


def _runtime(engine, settings):
    return SimpleNamespace(settings=settings, reading=lambda: transactions.reading(engine))


def test_other_users_prevent_a_first_admin(database, engine, tmp_path):
    with transactions.transaction(engine) as session:
        session.add(User(uuid="1", name="ann", password_hash=STORED))
    bootstrap.ensure(settings_of(database, tmp_path))
    assert not bootstrap.create(engine, STORED)
    assert not (tmp_path / "admin-password").exists()


def test_of_several_services_at_once_one_creates_the_admin(database, engine, tmp_path):
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    services = [programs.start(f"{__name__}:ensure", database, str(folder)) for folder in folders]
    assert [0] * 3 == [service.wait(programs.PATIENCE) for service in services]

    (path,) = [path for folder in folders for path in folder.iterdir()]
    with transactions.reading(engine) as session:
        (stored,) = session.scalars(select(User.password_hash))
        assert 1 == len(session.scalars(select(RoleAssignment.id)).all())
    assert passwords.matches(stored, path.read_text().strip())


def test_a_failed_creation_of_the_admin_stops_the_start(tmp_path):
    with pytest.raises(StartError, match="database"):
        bootstrap.ensure(settings_of(f"sqlite:///{tmp_path}/no/such.db", tmp_path))


@pytest.mark.parametrize(
    ("environ", "strategy"),
    [
        ({"INGOT_API_HOST_IP": "0.0.0.0"}, "local"),
        ({"INGOT_API_HOST_IP": "0.0.0.0", "INGOT_AUTH_STRATEGY": "noauth"}, "noauth"),
        ({"INGOT_API_HOST_IP": "0.0.0.0", "INGOT_AUTH_STRATEGY": "keystone"}, "keystone"),
        ({}, "noauth"),
    ],
)
def test_a_service_that_other_hosts_reach_has_users_unless_configured(environ, strategy):
    settings = up.with_authentication(app_settings.load(environ))

    assert strategy == settings.default.auth_strategy


def test_commands_that_change_accounts_are_audited(run, engine):
    run("user", "create", "ann", stdin=f"{PASSWORD}\n")
    run("role", "grant", "reader", "--user", "ann", "--system")
    run("user", "list")
    token = run("token", "create", "ann", "--system", "--name", "ci")
    run("token", "revoke", token["uuid"])
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM audit ORDER BY id")).all()
    commands = [(row.action, row.target) for row in rows if row.auth == "command"]
    assert commands[-4:] == [
        ("create/user", "ann"), ("grant/role", "ann"), ("create/token", "ci"),
        ("revoke/token", token["uuid"]),
    ]  # fmt: skip
    assert PASSWORD not in str(rows)
    assert token["token"] not in str(rows)
