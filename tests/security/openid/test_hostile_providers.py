"""Logins by an OpenID provider that answers wrongly, too late, or not at all."""

import ssl
import threading
import time
from dataclasses import replace

import pytest

from app.api.request.context import services_of
from app.identity import oidc_provider
from tests.support import openid
from tests.support.fleet import until
from tests.support.tls import certificate

from .conftest import CONDUCTORS, HOSTILE_TOKENS, bearer, begin, change, records, said, sign_in


@pytest.mark.parametrize("fault_", HOSTILE_TOKENS)
def test_a_token_that_is_not_valid_begins_no_session(service, users, issuer, fault_):
    browser, (twist, word) = service(), HOSTILE_TOKENS[fault_]
    issuer.twist.update(twist)
    refused = sign_in(browser)
    assert 401 == refused.status_code, refused.text
    assert word in said(refused)
    assert browser.client.get_cookie("ingot_session") is None
    assert [("authenticate/login/oidc", "denied", None, 401)] == records(browser)
    issuer.twist.clear()
    assert 302 == sign_in(browser).status_code, "an honest answer is accepted"


def trickle(handler):
    """Send a byte now and then, until the client leaves."""
    handler.send_response(200)
    handler.send_header("Content-Length", "10000")
    handler.end_headers()
    deadline = time.monotonic() + 120
    try:
        while time.monotonic() < deadline:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def redirect(handler):
    handler.answer(302, headers={"Location": handler.path})


HOSTILE_ANSWERS = {
    "huge": lambda _: b" " * ((1 << 20) + 1),
    "many keys": lambda _: {"keys": [openid.KEY.as_dict(private=False)] * 101},
    "slow": lambda _: trickle,
    "redirect loop": lambda _: redirect,
    "no JSON": lambda _: b"<html>",
    "deep": lambda _: b"[" * 100_000,
    "a list": lambda _: [],
    "status": lambda _: lambda handler: handler.answer(500, {"error": "x"}),
    "compressed": lambda _: lambda handler: handler.answer(200, b"x", {"Content-Encoding": "gzip"}),
}  # fmt: skip


@pytest.mark.parametrize("part", ["document", "keys", "tokens"])
@pytest.mark.parametrize("fault_", HOSTILE_ANSWERS)
def test_a_hostile_answer_ends_in_a_503_and_soon(service, users, issuer, part, fault_):
    browser = service()
    if part == "document":
        path = "/v1/login/oidc"
    else:
        path = begin(browser)
    issuer.twist[part] = HOSTILE_ANSWERS[fault_]
    if fault_ == "slow":
        provider = services_of(browser.client.application).authenticate.provider
        provider._oidc = replace(provider._oidc, timeout=0.3)
    answer = browser("GET", path)
    if part == "tokens" and fault_ == "many keys":
        assert 401 == answer.status_code, "an object without ID token"
        return
    assert 503 == answer.status_code, answer.text
    assert "OpenID provider" in said(answer)
    assert len(issuer.requests) <= 5, "no redirect is followed, nothing is repeated"


ENDPOINTS = {
    "another issuer": {"issuer": "https://evil.example"},
    "a local file": {"jwks_uri": "file:///etc/passwd"},
    "no loopback": {"jwks_uri": "http://192.0.2.1/keys"},
    "the metadata of a cloud": {"jwks_uri": "http://169.254.169.254/keys"},
    "not a text": {"token_endpoint": 7},
    "missing": {"authorization_endpoint": None},
}


@pytest.mark.parametrize("fault_", ENDPOINTS)
def test_the_document_leads_nowhere_else(service, users, issuer, fault_):
    browser = service()
    issuer.twist["document"] = lambda document: change(document, **ENDPOINTS[fault_])
    assert 503 == browser("GET", "/v1/login/oidc").status_code


def test_addresses_of_the_provider_are_checked(service, users, issuer):
    browser = service(denied_networks=("127.0.0.0/8",))
    assert 503 == browser("GET", "/v1/login/oidc").status_code
    assert [] == issuer.requests
    assert 302 == sign_in(service(allowed_networks=("127.0.0.1/32",))).status_code


def test_an_outage_of_the_provider_ends_no_session_and_keys_serve_on(
    service, users, issuer, monkeypatch
):
    browser = service()
    assert 302 == sign_in(browser).status_code
    text = issuer.token(aud=openid.AUDIENCE)
    issuer.twist.update(keys=lambda _: b"", document=lambda _: b"")
    assert 200 == browser("GET", CONDUCTORS).status_code
    browser.client.delete_cookie("ingot_session")
    assert 200 == bearer(browser, text).status_code
    monkeypatch.setattr(oidc_provider, "AGE", 0)
    assert 503 == bearer(browser, text).status_code


def test_a_silent_provider_holds_no_request_slot(service, users, issuer):
    """Many browsers wait for it; meanwhile a request with another token is answered."""
    browser = service()
    users.user("ann", ("reader", None))
    text, answered = users.token("ann"), threading.Event()
    issuer.twist["document"] = lambda document: (answered.wait(60), document)[1]
    application = browser.client.application
    waiting = [
        threading.Thread(target=lambda: application.test_client().get("/v1/login/oidc"))
        for _ in range(6)
    ]
    for thread in waiting:
        thread.start()
    try:
        until(lambda: issuer.requests)
        assert 200 == browser("GET", CONDUCTORS, **{"X-Auth-Token": text}).status_code
        assert not answered.is_set()
    finally:
        answered.set()
        for thread in waiting:
            thread.join()
    assert 1 == len(issuer.requests), "one request for all"


def test_the_certificate_of_the_provider_is_verified(service, users, tmp_path):
    paths = certificate(tmp_path, "provider")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*paths)
    with openid.provider(tls=context) as issuer:
        assert 503 == service(issuer=issuer.url)("GET", "/v1/login/oidc").status_code
        assert [] == issuer.requests
        trusting = service(issuer=issuer.url, cafile=str(paths[0]))
        assert 302 == sign_in(trusting, verify=str(paths[0])).status_code
        issuer.twist["document"] = lambda document: change(
            document, jwks_uri=issuer.url.replace("https", "http") + "/keys"
        )
        refused = service(issuer=issuer.url, cafile=str(paths[0]))("GET", "/v1/login/oidc")
        assert 503 == refused.status_code, "never without TLS"
