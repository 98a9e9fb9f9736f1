"""Authentication by users in the database: tokens, passwords, scopes, and their changes."""

import base64
from dataclasses import replace

import pytest
from sqlalchemy import event, select, text, update
from sqlalchemy.exc import OperationalError

from app.db.clock import after
from app.identity import passwords
from app.identity import tokens as stored_tokens
from app.models import ApiToken, Project
from tests.support.local_users import PASSWORD, Directory, with_local_users
from workers.periodic.pruning import prune_tokens

from .conftest import Api, fault

#: Needs a role of the system.
CONDUCTORS = "/v1/conductors"

#: For tests whose result may depend on the database.
on_both = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture
def local(api):
    runtime, app = with_local_users(api.runtime)
    return Api(app.test_client(), runtime, [])


@pytest.fixture
def users(api):
    return Directory(api.runtime.transaction)


def with_token(api, text, path="/v1/nodes", method="GET", **headers):
    return api(method, path, **{"X-Auth-Token": text}, **headers)


def with_password(api, user, password=PASSWORD, path="/v1/nodes", **headers):
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    return api("GET", path, Authorization=f"Basic {credentials}", **headers)


def said(answer):
    return fault(answer)["faultstring"]


@pytest.fixture
def checked(monkeypatch):
    """Passwords whose slow hash was checked."""
    checked_passwords, check = [], passwords.matches
    monkeypatch.setattr(
        passwords,
        "matches",
        lambda stored, password: checked_passwords.append(password) or check(stored, password),
    )
    return checked_passwords


def test_a_token_is_accepted_in_each_header(local, users):
    users.user("ann", ("reader", None))
    text = users.token("ann")

    assert 200 == with_token(local, text, CONDUCTORS).status_code
    assert 200 == local("GET", CONDUCTORS, Authorization=f"Bearer {text}").status_code
    for wrong in (text[:-1], text[:-1] + "~", f"{text}x", "ingot_" + "A" * 43, "\0", ""):
        answer = local("GET", CONDUCTORS, Authorization=f"Bearer {wrong}")
        assert 401 == answer.status_code, wrong
    assert 401 == with_token(local, "ingot_" + "A" * 43).status_code


def test_a_request_without_credentials_is_refused_with_the_ways_to_send_them(local):
    answer = local("GET", "/v1/nodes")

    assert (401, "Client") == (answer.status_code, fault(answer)["faultcode"])
    assert 'Basic realm="Baremetal API"' == answer.headers["WWW-Authenticate"]
    for words in ("X-Auth-Token", "Bearer", "Basic"):
        assert words in said(answer)
    assert 401 == local("GET", "/v1/nodes", Authorization="Basic !!!").status_code
    for path in ("/", "/v1", "/healthcheck", "/openapi.json"):
        assert local("GET", path).status_code == 200, path


@on_both
def test_tokens_that_expired_were_revoked_or_whose_user_is_disabled_are_refused(local, api, users):
    users.user("ann", ("reader", None))
    old, (uuid, revoked), usual = (
        users.token("ann"), users.token_with_uuid("ann"), users.token("ann", days=0),
    )  # fmt: skip
    with api.runtime.transaction() as session:
        first_id = select(ApiToken.id).order_by(ApiToken.id).limit(1).scalar_subquery()
        session.execute(
            update(ApiToken).where(ApiToken.id == first_id).values(expires_at=after(-1))
        )
    users.revoke_token(uuid)
    users.revoke_token(uuid)

    refused = [with_token(local, text) for text in (old, revoked)]
    assert [401, 401] == [answer.status_code for answer in refused]
    assert said(refused[0]) == said(refused[1])
    assert 200 == with_token(local, usual).status_code
    users.enable("ann", False)
    assert 401 == with_token(local, usual).status_code
    assert 401 == with_password(local, "ann").status_code
    users.enable("ann", True)
    assert 200 == with_token(local, usual).status_code
    users.remove("user", "ann")
    assert 401 == with_token(local, usual).status_code


@on_both
def test_a_token_has_the_roles_of_its_user_in_one_scope_up_to_its_limit(local, users):
    users.project("blue", "blue-id")
    users.user("ann", ("admin", None), ("member", "blue"))
    # without a body: a 400, not a 403
    assert 400 == with_token(local, users.token("ann"), "/v1/nodes", "POST").status_code
    limited = users.token("ann", role="reader")
    assert 200 == with_token(local, limited, CONDUCTORS).status_code
    assert 403 == with_token(local, limited, "/v1/nodes", "POST").status_code
    of_project = users.token("ann", "blue")
    assert 403 == with_token(local, of_project, CONDUCTORS).status_code
    assert 200 == with_token(local, of_project).status_code
    assert 403 == with_token(local, of_project, CONDUCTORS, **{"X-Project-Id": "x"}).status_code
    none = users.token("ann", "blue", role="service")
    assert 403 == with_token(local, none).status_code
    users.revoke("member", "blue", user="ann")
    assert 403 == with_token(local, of_project).status_code
    users.remove("project", "blue")
    assert 401 == with_token(local, of_project).status_code


def test_roles_of_groups_count(local, users):
    users.user("ann")
    users.group("operators", "ann")
    users.grant("reader", None, group="operators")

    assert 200 == with_password(local, "ann", path=CONDUCTORS).status_code
    users.remove("group", "operators")
    assert 403 == with_password(local, "ann", path=CONDUCTORS).status_code


def test_the_scope_of_a_password_is_the_system_else_the_only_project_else_a_header(local, users):
    for name in ("blue", "red"):
        users.project(name, f"{name}-id")
    users.user("both", ("member", "blue"), ("reader", None))
    users.user("one", ("member", "blue"), ("reader", "blue"))
    users.user("two", ("member", "blue"), ("reader", "red"))
    users.user("none")

    assert 200 == with_password(local, "both", path=CONDUCTORS).status_code
    of_project = {"X-Project-Id": "blue"}
    assert 403 == with_password(local, "both", path=CONDUCTORS, **of_project).status_code
    assert [200, 403] == [
        with_password(local, "one", path=path).status_code for path in ("/v1/nodes", CONDUCTORS)
    ]
    unclear = with_password(local, "two")
    assert 400 == unclear.status_code
    assert "X-Project-Id" in said(unclear)
    assert "blue, red" in said(unclear)
    for project in ("red", "red-id", "blue"):
        answer = with_password(local, "two", **{"X-Project-Id": project})
        assert 200 == answer.status_code
    for project in ("green", "", "\xff"):
        answer = with_password(local, "two", **{"X-Project-Id": project})
        assert 403 == answer.status_code
        assert "X-Project-Id" in said(answer)
    refused = with_password(local, "none")
    assert (403, True) == (refused.status_code, "no role" in said(refused))


def test_a_project_whose_name_is_the_identifier_of_another_lends_no_role_of_it(local, users, api):
    users.project("blue", "red")
    users.project("red", "red-id")
    users.user("two", ("reader", "blue"), ("admin", "red"))
    body = {"driver": "fake-hardware"}
    credentials = base64.b64encode(f"two:{PASSWORD}".encode()).decode()

    def enroll(project):
        headers = {"Authorization": f"Basic {credentials}", "X-Project-Id": project}
        return local("POST", "/v1/nodes", body, **headers).status_code

    assert [403, 201] == [enroll("red"), enroll("red-id")]


def test_an_accepted_password_is_hashed_once_until_it_changes(local, users, checked):
    users.user("ann", ("reader", None))

    assert [200] * 3 == [with_password(local, "ann").status_code for _ in range(3)]
    assert [PASSWORD] == checked
    users.password("ann", "a new password")
    assert 401 == with_password(local, "ann").status_code
    assert 200 == with_password(local, "ann", "a new password").status_code
    assert 401 == with_password(local, "ann").status_code
    users.password("ann", None)
    assert 401 == with_password(local, "ann", "a new password").status_code


@on_both
def test_unknown_users_cost_a_check_as_known_ones_do(api, users, checked):
    runtime, app = with_local_users(api.runtime, wrong_passwords_per_minute=0)
    local = Api(app.test_client(), runtime, [])
    users.user("off")
    users.enable("off", False)
    users.user("tokens")
    users.password("tokens", None)

    for user in ("nonesuch", "a\0b", "", " ann", "x" * 300, "off", "tokens"):
        for password in (PASSWORD, "no user has this password"):
            assert 401 == with_password(local, user, password).status_code, user
        assert 2 == len(checked), user
        checked.clear()


def test_wrong_passwords_of_an_address_are_limited_but_not_tokens(api, users, checked):
    users.user("ann", ("reader", None))
    runtime, app = with_local_users(api.runtime, wrong_passwords_per_minute=3)
    local = Api(app.test_client(), runtime, [])
    assert 200 == with_password(local, "ann").status_code

    wrong = [with_password(local, "ann", f"wrong {number}") for number in range(5)]
    assert [401] * 3 + [429] * 2 == [answer.status_code for answer in wrong]
    assert int(wrong[-1].headers["Retry-After"]) > 0
    assert 4 == len(checked)
    assert 200 == with_password(local, "ann").status_code, "it was accepted before"
    assert 200 == with_token(local, users.token("ann")).status_code


@on_both
def test_tokens_that_ended_long_ago_are_deleted(local, api, users):
    users.user("ann", ("reader", None))
    expired, fresh, kept_token = (users.token_with_uuid("ann") for _ in range(3))
    revoked, unlimited = users.token_with_uuid("ann", days=0), users.token_with_uuid("ann", days=0)
    users.revoke_token(fresh[0])

    def age(uuid, **columns):
        with api.runtime.transaction() as session:
            session.execute(update(ApiToken).where(ApiToken.uuid == uuid).values(**columns))

    age(expired[0], expires_at=after(-3700))
    age(revoked[0], revoked_at=after(-3700))
    age(kept_token[0], expires_at=after(-3500))
    identity = replace(api.runtime.settings.identity, ended_tokens_lifetime=3600)
    runtime = replace(api.runtime, settings=replace(api.runtime.settings, identity=identity))
    assert [2, 0] == [prune_tokens(runtime), prune_tokens(runtime)]
    with api.runtime.reading() as session:
        remaining_uuids = set(session.scalars(select(ApiToken.uuid)))
    assert {token[0] for token in (fresh, kept_token, unlimited)} == remaining_uuids
    assert 200 == with_token(local, unlimited[1]).status_code


@on_both
def test_ended_tokens_are_found_by_indexes(local, api, users):
    users.user("ann", ("reader", None))
    users.token("ann")
    statements = []

    def note(_connection, _cursor, statement, parameters, *_rest):
        statements.append((statement, parameters))

    event.listen(api.runtime.engine, "before_cursor_execute", note)
    try:
        prune_tokens(api.runtime)
    finally:
        event.remove(api.runtime.engine, "before_cursor_execute", note)
    (sought,) = [statement for statement in statements if "api_tokens" in statement[0]]
    with api.runtime.engine.connect() as connection:
        on_postgresql = connection.dialect.name == "postgresql"
        if on_postgresql:  # a small table is read whole otherwise
            connection.execute(text("SET enable_seqscan = off"))
        explain = "EXPLAIN" if on_postgresql else "EXPLAIN QUERY PLAN"
        plan = str(connection.exec_driver_sql(f"{explain} {sought[0]}", sought[1]).all())
    for index in ("ix_api_tokens_expires_at", "ix_api_tokens_revoked_at"):
        assert index in plan, plan


def uses(api):
    with api.runtime.reading() as session:
        return list(session.scalars(select(ApiToken.used_at).order_by(ApiToken.id)))


@on_both
def test_the_use_of_a_token_is_recorded_once_a_minute(local, api, users):
    users.user("ann", ("reader", None))
    text = users.token("ann")
    assert [None] == uses(api)
    assert 401 == with_token(local, text[:-1]).status_code
    assert [None] == uses(api)

    with_token(local, text)
    (first_use,) = uses(api)
    with_token(local, text)
    assert [first_use] == uses(api)
    with api.runtime.transaction() as session:
        session.execute(update(ApiToken).values(used_at=after(-90)))
    (old,) = uses(api)
    with_token(local, text)  # another process records it: this one did so within a minute
    assert [old] == uses(api)
    other = replace(local, client=with_local_users(api.runtime)[1].test_client())
    with_token(other, text)
    assert uses(api)[0] > old


def test_a_read_succeeds_although_its_use_cannot_be_recorded(local, users, monkeypatch):
    users.user("ann", ("reader", None))

    def fail(_connection, _token):
        raise OperationalError("UPDATE", {}, Exception("the disk is full"))

    monkeypatch.setattr(stored_tokens, "record_use", fail)
    assert 200 == with_token(local, users.token("ann")).status_code


def test_the_history_names_the_user_and_the_project_owns_the_node(local, users, api):
    users.project("blue", "blue-id")
    users.user("ann", ("admin", "blue"))
    text = users.token("ann", "blue")
    answer = local("POST", "/v1/nodes", {"driver": "fake-hardware"}, **{"X-Auth-Token": text})
    assert "blue-id" == answer.json["owner"]

    path = f"/v1/nodes/{answer.json['uuid']}"
    assert 202 == with_token(local, text, f"{path}/maintenance", "PUT").status_code
    listed = with_token(local, text, f"{path}/history?detail=true").json["history"]
    (user,) = {entry["user"] for entry in listed}
    assert 36 == len(user)
    with api.runtime.reading() as session:
        assert ["blue-id"] == list(session.scalars(select(Project.ident)))
