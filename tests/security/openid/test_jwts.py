"""JWTs of an OpenID provider as credentials of requests."""

import time

import pytest

from app.identity import oidc_provider
from tests.support import openid

from .conftest import HOSTILE_TOKENS, NOW, bearer, on_both, said, sign_in


@on_both
@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_the_times_of_a_jwt_are_compared_with_the_clock_of_the_database(
    service, users, issuer, monkeypatch, seconds
):
    browser, right = service(), time.time
    valid = issuer.token(aud=openid.AUDIENCE)
    expired = issuer.token(aud=openid.AUDIENCE, exp=NOW - 3600)
    assert 302 == sign_in(browser).status_code
    browser.client.delete_cookie("ingot_session")
    monkeypatch.setattr(time, "time", lambda: right() + seconds)  # the clock of this host
    assert 200 == bearer(browser, valid).status_code
    assert 401 == bearer(browser, expired).status_code


def test_a_jwt_with_the_audience_is_accepted_from_known_people(service, users, issuer, api):
    browser = service()
    text = issuer.token(aud=openid.AUDIENCE)
    unknown = bearer(browser, text)
    assert (401, True) == (unknown.status_code, "has never signed in" in said(unknown))
    assert 'Basic realm="Baremetal API"' == unknown.headers["WWW-Authenticate"]
    assert 302 == sign_in(browser).status_code
    browser.client.delete_cookie("ingot_session")

    assert 200 == bearer(browser, text).status_code
    request_count = len(issuer.requests)
    assert [200] * 5 == [bearer(browser, text).status_code for _ in range(5)]
    assert request_count == len(issuer.requests), "document and keys are kept"
    without = issuer.token(aud=openid.AUDIENCE, groups=[])
    assert 403 == bearer(browser, without).status_code, "its groups count, not those of the login"
    assert 200 == bearer(browser, text).status_code
    users.project("blue", "blue-id")
    users.grant("admin", "blue", group="operators")
    assert 403 == bearer(browser, text, **{"X-Project-Id": "blue"}).status_code
    assert 200 == bearer(browser, text, "/v1/nodes", **{"X-Project-Id": "blue"}).status_code
    users.enable("jane", False)
    assert 401 == bearer(browser, text).status_code
    users.enable("jane", True)
    assert 401 == bearer(service(bearer_audience=""), text).status_code


@pytest.mark.parametrize(
    "fault_", ["alg none", "foreign key", "wrong audience", "wrong issuer", "expired", "no JWT"]
)
def test_a_jwt_that_is_not_valid_is_refused(service, users, issuer, fault_):
    browser, (twist, _word) = service(), HOSTILE_TOKENS[fault_]
    assert 302 == sign_in(browser).status_code
    browser.client.delete_cookie("ingot_session")
    issuer.twist.update(twist)
    text = issuer.token(**({} if "audience" in fault_ else {"aud": openid.AUDIENCE}))
    assert 401 == bearer(browser, text).status_code
    issuer.twist.clear()
    assert 401 == bearer(browser, issuer.token(aud=openid.CLIENT)).status_code
    assert 200 == bearer(browser, issuer.token(aud=[openid.AUDIENCE, "x"])).status_code


def test_a_new_key_of_the_provider_is_fetched_but_not_for_each_unknown_one(
    service, users, issuer, monkeypatch
):
    browser = service()
    assert 302 == sign_in(browser).status_code
    browser.client.delete_cookie("ingot_session")
    issuer.requests.clear()
    issuer.keys = [openid.NEXT, openid.KEY]
    text = issuer.token(aud=openid.AUDIENCE)
    assert 401 == bearer(browser, text).status_code, "the keys were fetched just now"
    assert [] == issuer.requests
    monkeypatch.setattr(oidc_provider, "PAUSE", 0)
    assert 200 == bearer(browser, text).status_code
    assert ["/keys"] == issuer.requests
    monkeypatch.undo()
    for number in range(5):
        unknown = issuer.token(aud=openid.AUDIENCE, header={"kid": str(number)})
        assert 401 == bearer(browser, unknown).status_code
    assert ["/keys"] == issuer.requests
