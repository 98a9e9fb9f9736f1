"""Sessions of browsers: login, logout, the cookie, requests of other pages, audit."""

import re

import pytest
from sqlalchemy import delete, select, update

from app.api.request.context import services_of
from app.db.clock import after
from app.errors import Invalid
from app.identity import passwords, tokens
from app.identity.roles import Scope
from app.models import ApiToken, AuditRecord, RoleAssignment, User
from tests.support.local_users import PASSWORD, Directory, with_local_users

from .conftest import Api, fault

ORIGIN = {"Origin": "http://localhost"}
CONDUCTORS = "/v1/conductors"

on_both = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def browser(api, **settings):
    """A browser of its own: a client that keeps cookies."""
    runtime, app = with_local_users(api.runtime, **settings)
    return Api(app.test_client(), runtime, [])


@pytest.fixture
def local(api):
    return browser(api)


@pytest.fixture
def users(api):
    return Directory(api.runtime.transaction)


def sign_in(api, user="ann", password=PASSWORD, **fields):
    return api("POST", "/v1/login", {"username": user, "password": password, **fields}, **ORIGIN)


def records(api):
    """(action, outcome, user, status) of all records."""
    services_of(api.client.application).refused_requests.flush()
    with api.runtime.reading() as session:
        rows = session.scalars(select(AuditRecord).order_by(AuditRecord.id))
        return [(row.action, row.outcome, row.user_name, row.status) for row in rows]


@on_both
def test_a_session_begins_with_a_password_and_ends_with_the_logout(local, users):
    users.user("ann", ("reader", None))
    ways = {"strategy": "local", "oidc": False, "user": None, "scope": None, "scopes": []}
    assert ways == local("GET", "/v1/login").json
    assert 401 == local("GET", CONDUCTORS).status_code

    answer = sign_in(local)
    of_ann = ways | {"user": "ann", "scope": "system", "scopes": ["system"]}
    assert (200, of_ann) == (answer.status_code, answer.json)
    assert 200 == local("GET", CONDUCTORS).status_code
    assert of_ann == local("GET", "/v1/login").json
    text = local.client.get_cookie("ingot_session").value
    assert re.fullmatch("ingot_[A-Za-z0-9_-]{43}", text)

    ended = local("POST", "/v1/logout", **ORIGIN)
    assert 204 == ended.status_code
    assert local.client.get_cookie("ingot_session") is None
    assert 401 == local("GET", CONDUCTORS).status_code
    assert 401 == local("GET", CONDUCTORS, **{"X-Auth-Token": text}).status_code
    assert 204 == local("POST", "/v1/logout", **ORIGIN).status_code
    assert [
        ("authenticate/login", "success", "ann", 200),
        ("authenticate/logout", "success", "ann", 204),
    ] == [record for record in records(local) if "authenticate" in record[0]]


@on_both
def test_a_new_password_ends_the_sessions_and_no_tokens(local, users, api):
    users.user("ann", ("reader", None))
    users.user("bob", ("reader", None))
    token = users.token("ann")
    texts = [sign_in_elsewhere(api, name) for name in ("ann", "ann", "bob")]
    with api.runtime.transaction() as session:
        ann = session.scalar(select(User.id).where(User.name == "ann"))
        assert 2 == tokens.end_sessions(session, ann)
        assert 0 == tokens.end_sessions(session, ann)
    statuses = [
        local("GET", CONDUCTORS, **{"X-Auth-Token": text}).status_code for text in (*texts, token)
    ]
    assert [401, 401, 200, 200] == statuses


@pytest.mark.parametrize("act", ["role", "user"])
def test_a_session_and_a_token_without_roles_are_refused_and_those_of_nobody_unknown(
    local, users, api, act
):
    users.user("ann", ("reader", None))
    texts = [sign_in_elsewhere(api, "ann"), users.token("ann")]

    def statuses():
        return [local("GET", CONDUCTORS, **{"X-Auth-Token": text}).status_code for text in texts]

    assert [200, 200] == statuses()
    with api.runtime.transaction() as session:
        if act == "role":
            session.execute(delete(RoleAssignment))
        else:
            session.execute(update(User).values(enabled=False))
    assert ([403, 403] if act == "role" else [401, 401]) == statuses()


def sign_in_elsewhere(api, name):
    """Sign in with another browser; return the text of the session."""
    other = browser(api)
    assert 200 == sign_in(other, name).status_code
    return other.client.get_cookie("ingot_session").value


@on_both
def test_a_login_ends_the_earlier_session_of_the_browser_and_no_other_token(local, users, api):
    users.user("ann", ("reader", None))
    users.user("bob", ("reader", None))
    elsewhere = sign_in_elsewhere(api, "ann")
    cookies = []
    for name in ("ann", "ann", "bob"):
        assert 200 == sign_in(local, name).status_code
        cookies.append(local.client.get_cookie("ingot_session").value)
    assert 401 == sign_in(local, "ann", "a wrong password").status_code
    statuses = [
        local("GET", CONDUCTORS, **{"X-Auth-Token": text}).status_code
        for text in (*cookies, elsewhere)
    ]
    assert [401, 401, 200, 200] == statuses, "those that other logins have replaced"

    token = users.token("ann")
    local.client.set_cookie("ingot_session", token)
    assert 200 == sign_in(local, "ann").status_code
    assert 200 == local("GET", CONDUCTORS, **{"X-Auth-Token": token}).status_code


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        ("https://ingot.example", "__Host-ingot_session"),
        ("https://ingot.example/", "__Host-ingot_session"),
        ("https://ingot.example/a", None), ("https://ingot.example/b", None),
        ("https://ingot.example:6385", None), ("https://ingot.example:6386/a", None),
    ],
)  # fmt: skip
def test_with_tls_no_other_host_and_no_other_service_of_the_host_sets_the_cookie(
    api, users, endpoint, name
):
    users.user("ann", ("reader", None))
    mine = browser(api, public_endpoint=endpoint)
    cookie, *attributes = sign_in(mine).headers["Set-Cookie"].split("; ")
    actual_name = cookie.partition("=")[0]
    assert {"Path=/", "Secure", "HttpOnly"} <= set(attributes)
    assert not any(attribute.startswith("Domain") for attribute in attributes)
    assert name in (actual_name, None)
    assert re.fullmatch("__Host-ingot_session(_[0-9a-f]{8})?", actual_name)
    text = cookie.partition("=")[2]

    def status(cookie_name):
        mine.client._cookies.clear()
        mine.client.set_cookie(cookie_name, text)
        return mine("GET", CONDUCTORS).status_code

    other_names = {"ingot_session", "__Host-ingot_session", "__Host-ingot_session_00000000"} - {
        actual_name
    }
    assert [200, *[401] * len(other_names)] == [
        status(cookie_name) for cookie_name in (actual_name, *other_names)
    ]


def test_services_of_one_host_have_cookies_of_different_names(api, users):
    users.user("ann", ("reader", None))
    endpoints = ["https://h", "https://h/a", "https://h/b", "https://h:1", "https://h:1/a"]
    names = {
        sign_in(browser(api, public_endpoint=endpoint)).headers["Set-Cookie"].partition("=")[0]
        for endpoint in endpoints
    }
    assert len(endpoints) == len(names)


def test_no_script_reads_the_cookie_and_with_tls_it_is_sent_by_tls_only(api, users):
    users.user("ann", ("reader", None))
    plain = sign_in(browser(api)).headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=28800"} <= set(plain.split("; "))
    assert "Secure" not in plain
    behind_tls = browser(api, public_endpoint="https://ingot.example")
    ended = behind_tls("POST", "/v1/logout", **ORIGIN).headers["Set-Cookie"]
    for cookie in (sign_in(behind_tls).headers["Set-Cookie"], ended):
        assert {"HttpOnly", "SameSite=Lax", "Path=/", "Secure"} <= set(cookie.split("; "))


@on_both
def test_a_session_ends_with_its_lifetime_with_its_token_and_with_its_user(local, users, api):
    users.user("ann", ("reader", None))
    for end in ("expired", "disabled", "role", "deleted"):
        assert 200 == sign_in(local).status_code, end
        assert 200 == local("GET", CONDUCTORS).status_code
        if end == "expired":
            with api.runtime.transaction() as session:
                session.execute(update(ApiToken).values(expires_at=after(-1)))
        elif end == "disabled":
            users.enable("ann", False)
        elif end == "role":
            users.enable("ann", True)
            users.revoke("reader", None, user="ann")
        else:
            users.remove("user", "ann")
        refused = local("GET", CONDUCTORS)
        assert (403 if end == "role" else 401) == refused.status_code, end
        assert local("GET", "/v1/login").json["user"] is None
        if end == "disabled":
            assert 401 == sign_in(local).status_code
            users.enable("ann", True)
        if end == "role":
            assert 403 == sign_in(local).status_code
            users.grant("reader", None, user="ann")


def choose(api, scope, **headers):
    return api("POST", "/v1/login/scope", {"scope": scope}, **(headers or ORIGIN))


@pytest.fixture
def of_three(users):
    """ann, with roles in the system and in two projects."""
    for name in ("blue", "red"):
        users.project(name, f"{name}-id")
    users.user("ann", ("member", "blue"), ("admin", "red"), ("reader", None))


@pytest.mark.usefixtures("of_three")
def test_a_login_may_name_its_scope(local):
    refused = sign_in(local, scope="green")
    assert (403, True) == (refused.status_code, "scope:" in fault(refused)["faultstring"])
    assert 401 == local("GET", "/v1/nodes").status_code

    for scope, name in (("system", "system"), ("red", "red"), ("red-id", "red")):
        answer = sign_in(local, scope=scope)
        assert (200, name) == (answer.status_code, answer.json["scope"])
    created_node = local("POST", "/v1/nodes", {"driver": "fake-hardware"}, **ORIGIN)
    assert (201, "red-id") == (created_node.status_code, created_node.json["owner"])
    assert [("authenticate/login", "denied", "ann", 403)] == [
        record
        for record in records(local)
        if "denied" in record and record[0] == "authenticate/login"
    ]


@on_both
@pytest.mark.usefixtures("of_three")
def test_without_a_choice_a_session_of_several_scopes_has_no_rights(local):
    answer = sign_in(local)
    open_choice = {"user": "ann", "scope": None, "scopes": ["system", "blue", "red"]}
    assert open_choice.items() <= answer.json.items()
    assert answer.json == local("GET", "/v1/login").json
    for method, path in (("GET", "/v1/nodes"), ("GET", CONDUCTORS), ("POST", "/v1/nodes")):
        refused = local(method, path, {} if method == "POST" else None, **ORIGIN)
        assert 403 == refused.status_code, path
        assert "POST /v1/login/scope" in fault(refused)["faultstring"]

    assert "blue" == choose(local, "blue").json["scope"]
    assert 200 == local("GET", "/v1/nodes").status_code
    assert 403 == local("GET", CONDUCTORS).status_code
    assert 204 == local("POST", "/v1/logout", **ORIGIN).status_code

    assert 200 == sign_in(local).status_code
    undecided = local.client.get_cookie("ingot_session").value
    assert 204 == local("POST", "/v1/logout", **ORIGIN).status_code
    assert 401 == local("GET", "/v1/nodes", **{"X-Auth-Token": undecided}).status_code


@on_both
@pytest.mark.usefixtures("of_three")
def test_another_scope_is_a_new_token_of_the_same_session(local, api):
    assert 200 == sign_in(local, scope="blue").status_code
    with api.runtime.reading() as session:
        (earlier_token,) = session.execute(select(ApiToken.uuid, ApiToken.expires_at))
    blue = local.client.get_cookie("ingot_session").value
    answer = choose(local, "system")
    assert (200, "system") == (answer.status_code, answer.json["scope"])
    assert 200 == local("GET", CONDUCTORS).status_code
    assert 401 == local("GET", "/v1/nodes", **{"X-Auth-Token": blue}).status_code
    with api.runtime.reading() as session:
        (later_token,) = session.execute(select(ApiToken.uuid, ApiToken.expires_at))
    assert earlier_token == later_token, "the choice of a scope prolongs no session"
    assert ("authenticate/scope", "success", "ann", 200) in records(local)


@pytest.mark.usefixtures("of_three")
def test_a_refused_choice_of_a_scope_leaves_the_session_as_it_is(local, api, users):
    assert 401 == choose(local, "red").status_code
    assert 200 == sign_in(local, scope="blue").status_code
    users.revoke("admin", "red", user="ann")
    for scope, status in (("red", 403), ("green", 403), ("", 400), (7, 400)):
        refused = choose(local, scope)
        assert [scope, status] == [scope, refused.status_code]
        assert "scope" in fault(refused)["faultstring"]
    assert 403 == choose(local, "system", Origin="https://evil.example").status_code
    assert 403 == choose(local, "system", **{"X-Request-Id": "without-origin"}).status_code
    assert "blue" == local("GET", "/v1/login").json["scope"]
    assert ("authenticate/scope", "denied", "ann", 403) in records(local)
    with api.runtime.transaction() as session:
        session.execute(update(ApiToken).values(expires_at=after(-1)))
    assert 401 == choose(local, "system").status_code


@pytest.mark.usefixtures("of_three")
def test_a_token_that_is_no_session_keeps_its_scope(local, users, api):
    text = users.token("ann", "blue", role="reader")
    local.client.set_cookie("ingot_session", text)
    assert 401 == choose(local, "system").status_code
    assert 200 == local("GET", "/v1/nodes", **{"X-Auth-Token": text}).status_code
    with api.runtime.transaction() as session, pytest.raises(Invalid, match="browsers' sessions"):
        tokens.create(session, "ann", Scope(system=True), name="session", role=None, days=1)


@pytest.mark.parametrize("column", ["id", "name"])
def test_no_project_is_called_as_the_scope_of_the_system(users, column):
    values = {"name": "blue", "ident": "blue-id", {"id": "ident"}.get(column, column): "system"}
    with pytest.raises(Invalid, match=f"{column}: system"):
        users.project(**values)


def test_a_wrong_login_costs_a_check_and_says_not_what_is_wrong(api, users, monkeypatch):
    checked, check = [], passwords.matches
    monkeypatch.setattr(
        passwords,
        "matches",
        lambda stored, password: checked.append(password) or check(stored, password),
    )
    local = browser(api, wrong_passwords_per_minute=0)
    users.user("ann", ("reader", None))
    users.user("off", ("reader", None))
    users.enable("off", False)
    messages = set()
    for user in ("ann", "nonesuch", "a:b", " ann", "off"):
        answer = sign_in(local, user, "wrong password")
        assert 401 == answer.status_code, user
        assert "Set-Cookie" not in answer.headers
        messages.add(fault(answer)["faultstring"])
        assert [user, 1] == [user, len(checked)]
        checked.clear()
    assert 1 == len(messages)
    login_records = [record for record in records(local) if record[0] == "authenticate/login"]
    assert {("denied", "ann", 401), ("denied", None, 401)} == {
        record[1:] for record in login_records
    }


def test_wrong_passwords_of_logins_and_of_http_basic_share_one_limit(api, users):
    users.user("ann", ("reader", None))
    local = browser(api, wrong_passwords_per_minute=2)
    assert [401, 401, 429] == [
        sign_in(local, password=f"wrong {number}").status_code for number in range(3)
    ]
    basic = local("GET", "/v1/nodes", Authorization="Basic YW5uOndyb25n")
    assert 429 == basic.status_code


def test_wrong_logins_of_one_user_do_not_stop_the_login_of_another(api, users):
    users.user("ann", ("reader", None))
    users.user("eve", ("reader", None))
    local = browser(api, wrong_passwords_per_minute=2)
    statuses = [sign_in(local, "eve", f"wrong {number}").status_code for number in range(4)]
    assert [401, 401, 429, 429] == statuses
    assert 200 == sign_in(local, "ann").status_code


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"username": "ann"}, "password"), ({"password": "x"}, "username"), ([], "username"),
        ({"username": 1, "password": "x"}, "username"), ({"username": "", "password": "x"}, "username"),
        ({"username": "x" * 256, "password": "x"}, "username"),
        ({"username": "ann", "password": "x" * 4097}, "password"),
        ({"username": "ann", "password": "\0"}, "password"),
        ({"username": "ann", "password": "x", "scope": ["p"]}, "scope"),
        ({"username": "ann", "password": "x", "colour": "red"}, "colour"),
    ],
)  # fmt: skip
def test_a_malformed_login_names_the_field(local, body, field):
    answer = local("POST", "/v1/login", body, **ORIGIN)
    assert 400 == answer.status_code
    if body:
        assert field in fault(answer)["faultstring"]


def test_pages_of_other_sites_use_no_session(local, users):
    users.user("ann", ("admin", None))
    foreign = {"Origin": "https://evil.example"}
    body = {"username": "ann", "password": PASSWORD}
    assert 403 == local("POST", "/v1/login", body, **foreign).status_code
    assert local.client.get_cookie("ingot_session") is None
    assert 200 == sign_in(local).status_code

    new = {"driver": "fake-hardware"}
    assert 403 == local("POST", "/v1/logout", **foreign).status_code
    for origin in (foreign, {"Origin": "null"}, {"Origin": "http://localhost:8080"}, {}):
        refused = local("POST", "/v1/nodes", new, **origin)
        assert 403 == refused.status_code, origin
        assert "Origin" in fault(refused)["faultstring"]
    for site in ("cross-site", "same-site"):
        assert 401 == local("GET", CONDUCTORS, **{"Sec-Fetch-Site": site}).status_code, site
    for site in ("same-origin", "none"):
        assert 200 == local("GET", CONDUCTORS, **{"Sec-Fetch-Site": site}).status_code, site
    assert 201 == local("POST", "/v1/nodes", new, **ORIGIN).status_code
    text = local.client.get_cookie("ingot_session").value
    local.client.delete_cookie("ingot_session")
    assert 201 == local("POST", "/v1/nodes", new, **{"X-Auth-Token": text}).status_code


def test_a_refusal_makes_no_browser_ask_for_a_password_in_a_window(local, users):
    users.user("ann", ("reader", None))
    by_script = local("GET", "/v1/nodes", **{"Sec-Fetch-Dest": "empty"})
    local.client.set_cookie("ingot_session", "ingot_" + "A" * 43)
    ended = local("GET", "/v1/nodes")
    for refused in (sign_in(local, password="wrong"), by_script, ended):
        assert (401, 'Bearer realm="Baremetal API"') == (
            refused.status_code, refused.headers["WWW-Authenticate"],
        )  # fmt: skip


def test_other_credentials_go_before_the_session(local, users):
    users.user("ann", ("admin", None))
    users.user("bob", ("reader", None))
    assert 200 == sign_in(local).status_code
    header = {"X-Auth-Token": users.token("bob"), **ORIGIN}
    assert 403 == local("POST", "/v1/nodes", {"driver": "fake-hardware"}, **header).status_code
    assert 401 == local("GET", "/v1/nodes", **{"X-Auth-Token": "wrong"}).status_code


def test_without_local_users_there_are_no_sessions(api):
    login_state = api("GET", "/v1/login").json
    assert {"strategy": "noauth", "user": None}.items() <= login_state.items()
    for answer in (sign_in(api), choose(api, "system")):
        assert 400 == answer.status_code
        assert "auth_strategy is noauth" in fault(answer)["faultstring"]
    assert 204 == api("POST", "/v1/logout").status_code
