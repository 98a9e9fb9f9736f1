"""Logins by an OpenID provider: mapped to local users."""

import json
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import requests
from sqlalchemy import select

from app.identity import oidc_users
from app.models import User
from tests.support import openid

from .conftest import CONDUCTORS, begin, change, client_of, on_both, records, said, sign_in


@on_both
def test_a_person_signs_in_and_has_the_roles_of_mapped_groups(service, users, issuer, api):
    browser = service()
    ways = browser("GET", "/v1/login").json
    assert {"strategy": "local", "oidc": True, "user": None}.items() <= ways.items()

    answer = sign_in(browser)
    assert (302, "http://localhost/ui") == (answer.status_code, answer.headers["Location"])
    cookies = answer.headers.getlist("Set-Cookie")
    assert all("HttpOnly" in cookie and "SameSite=Lax" in cookie for cookie in cookies)
    assert "jane" == browser("GET", "/v1/login").json["user"]
    assert 200 == browser("GET", CONDUCTORS).status_code
    assert browser.client.get_cookie("ingot_oidc", path="/v1/login/oidc") is None
    with api.runtime.reading() as session:
        assert [("jane", None)] == [
            (user.name, user.password_hash) for user in session.scalars(select(User))
        ]
    assert [("authenticate/login/oidc", "success", "jane", 302)] == records(browser)

    issuer.person["groups"] = ["others"]
    assert 403 == sign_in(browser).status_code, "no role is left"
    issuer.person["groups"] = "staff"
    issuer.person["preferred_username"] = "jane-renamed"
    assert 302 == sign_in(browser).status_code
    assert "jane" == browser("GET", "/v1/login").json["user"], "one person is one user"
    users.enable("jane", False)
    assert 401 == browser("GET", CONDUCTORS).status_code
    refused = sign_in(browser)
    assert (401, "disabled" in said(refused)) == (refused.status_code, True)


def test_groups_that_no_pair_names_are_kept_and_give_what_an_operator_gave(
    service, users, issuer, api
):
    browser = service()
    assert 302 == sign_in(browser).status_code
    users.group("admins", "jane")
    users.grant("admin", None, group="admins")
    issuer.person["groups"] = []
    assert 302 == sign_in(browser).status_code
    answer = browser("POST", "/v1/nodes", {"driver": "fake-hardware"}, Origin="http://localhost")
    assert 201 == answer.status_code
    users.remove("group", "admins")
    assert 403 == browser("GET", CONDUCTORS).status_code, "and not by operators any more"


def test_nobody_becomes_a_local_user_by_choosing_the_name(service, users, issuer):
    users.user("admin", ("admin", None))
    issuer.person["preferred_username"] = "admin"
    refused = sign_in(service())
    assert 403 == refused.status_code
    assert "another user admin" in said(refused)
    for name in (None, 7, "a:b", "", "x" * 300):
        issuer.person["preferred_username"] = name
        refused = sign_in(service())
        assert 401 == refused.status_code, name
        assert "[oidc]username_claim" in said(refused)
    other = service(issuer=f"{issuer.url}/other")
    uuids = {
        oidc_users.uuid_of(url, "1") for url in (issuer.url, other.runtime.settings.oidc.issuer)
    }
    assert 2 == len(uuids)


def test_without_create_users_only_people_whom_an_operator_created_sign_in(
    service, users, issuer, api
):
    browser = service(create_users=False)
    refused = sign_in(browser)
    assert (403, True) == (refused.status_code, "create_users" in said(refused))
    with api.runtime.transaction() as session:
        oidc_users.accounts.create_user(
            session, "j", uuid=oidc_users.uuid_of(issuer.url, openid.PERSON["sub"])
        )
    assert 302 == sign_in(browser).status_code
    assert "j" == browser("GET", "/v1/login").json["user"]


def test_a_person_with_several_projects_chooses_one_before_or_after_the_login(
    service, users, issuer
):
    browser = service()
    assert 302 == sign_in(browser).status_code
    users.revoke("reader", None, group="operators")
    for name in ("blue", "réd & co"):
        users.project(name, f"{name[0]}-id")
        users.grant("admin", name, group="operators")
    origin, new = {"Origin": "http://localhost"}, {"driver": "fake-hardware"}
    assert 302 == sign_in(browser).status_code
    login = browser("GET", "/v1/login").json
    assert ("jane", None, ["blue", "réd & co"]) == (
        login["user"], login["scope"], login["scopes"],
    )  # fmt: skip
    assert 403 == browser("POST", "/v1/nodes", new, **origin).status_code
    answer = browser("POST", "/v1/login/scope", {"scope": "blue"}, **origin)
    assert (200, "blue") == (answer.status_code, answer.json["scope"])
    assert "b-id" == browser("POST", "/v1/nodes", new, **origin).json["owner"]
    assert 302 == sign_in(browser, path="/v1/login/oidc?scope=réd %26 co").status_code
    assert "r-id" == browser("POST", "/v1/nodes", new, **origin).json["owner"]


def test_a_code_counts_only_in_the_browser_that_began_the_login(service, users, issuer):
    victim, attacker = service(), service()
    of_attacker = begin(attacker)
    for path in (of_attacker, begin(victim).replace("state=", "state=x"), "/v1/login/oidc/callback",
                 f"{of_attacker}&error=x"):  # fmt: skip
        refused = victim("GET", path)
        assert 401 == refused.status_code, path
        assert victim.client.get_cookie("ingot_session") is None
    back = begin(victim)
    issuer.codes.clear()
    assert (401, True) == (
        (refused := victim("GET", back)).status_code, "refused the code" in said(refused)
    )  # fmt: skip
    back = begin(victim)
    assert 302 == victim("GET", back).status_code
    assert 401 == victim("GET", back).status_code, "a code is used once"
    for twist, word in (({"error": "access_denied"}, "access_denied"), ({"iss": "https://x"}, "iss"),
                        ({"code": ""}, "code")):  # fmt: skip
        issuer.twist["return"] = lambda parameters, twist=twist: change(parameters, **twist)
        refused = sign_in(victim)
        assert (401, True) == (refused.status_code, word in said(refused))


def test_the_request_to_the_provider_discloses_no_secret(service, users, issuer):
    browser = service()
    redirect = browser("GET", "/v1/login/oidc")
    query = {name: values[0] for name, values in parse_qs(urlsplit(redirect.headers["Location"]).query).items()}  # fmt: skip
    assert {"client_id", "code_challenge", "code_challenge_method", "nonce", "redirect_uri",
            "response_type", "scope", "state"} == query.keys()  # fmt: skip
    assert ("code", "S256", "openid profile") == (
        query["response_type"], query["code_challenge_method"], query["scope"]
    )  # fmt: skip
    cookie = browser.client.get_cookie("ingot_oidc", path="/v1/login/oidc")
    assert len({query["state"], query["nonce"], query["code_challenge"]}) == 3
    assert cookie.value.partition(".")[0] not in json.dumps(query)
    assert cookie.http_only


def test_refused_logins_of_an_address_are_limited(service, users, issuer):
    browser = service()
    runtime = browser.runtime
    limited = replace(runtime.settings, api=replace(runtime.settings.api, wrong_passwords_per_minute=2))  # fmt: skip
    runtime = replace(runtime, settings=limited)
    browser = client_of(runtime)
    assert [302] * 3 == [sign_in(browser).status_code for _ in range(3)]
    path = "/v1/login/oidc/callback?code=x&state=y"
    assert [401, 401, 429] == [browser("GET", path).status_code for _ in range(3)]


def test_without_a_provider_there_is_no_login_by_one(service, api):
    for browser in (service(issuer=""), api):
        for path in ("/v1/login/oidc", "/v1/login/oidc/callback?code=x&state=y"):
            refused = browser("GET", path)
            assert (400, True) == (refused.status_code, "[" in said(refused)), path
        assert browser("GET", "/v1/login").json["oidc"] is False


def test_the_cookies_of_a_login_belong_to_the_path_of_the_endpoint(service, users):
    """Behind a proxy that strips the prefix: a browser sends no cookie of another path."""
    runtime = service().runtime
    api = replace(runtime.settings.api, public_endpoint="http://localhost/bm")
    browser = client_of(replace(runtime, settings=replace(runtime.settings, api=api)))
    redirect = browser("GET", "/v1/login/oidc")
    assert "Path=/bm/v1/login/oidc" in redirect.headers["Set-Cookie"]
    attempt = browser.client.get_cookie("ingot_oidc", path="/bm/v1/login/oidc")
    returned = requests.get(redirect.headers["Location"], allow_redirects=False, timeout=60)
    back = urlsplit(returned.headers["Location"])
    assert "/bm/v1/login/oidc/callback" == back.path
    path = f"{back.path.removeprefix('/bm')}?{back.query}"
    browser.client.set_cookie("ingot_oidc", attempt.value, path="/v1/login/oidc")  # the proxy
    answer = browser("GET", path)
    assert 302 == answer.status_code, answer.text
    session = next(text for text in answer.headers.getlist("Set-Cookie") if "session" in text)
    assert "Path=/bm/" in session
