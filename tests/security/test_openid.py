"""Logins by an OpenID provider, and its JWTs: mapped to local users, and refused if hostile."""

import json
import ssl
import threading
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import OctKey
from sqlalchemy import select

from app.api.request.context import services_of
from app.identity import provided, provider
from app.main import create_app
from app.models import AuditRecord, User
from tests.contract.conftest import Api, fault
from tests.support import openid
from tests.support.fleet import until
from tests.support.local_users import Directory, with_local_users
from tests.support.tls import certificate

CONDUCTORS = "/v1/conductors"
on_both = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture
def issuer():
    with openid.provider() as server:
        yield server


@pytest.fixture
def users(api):
    made = Directory(api.runtime.transaction)
    made.group("operators")
    made.grant("reader", None, group="operators")
    return made


@pytest.fixture
def service(api, issuer):
    """(**settings of [oidc]) -> a browser with an application of its own."""

    def made(**oidc):
        runtime, _ = with_local_users(api.runtime, wrong_passwords_per_minute=0)
        settings = replace(
            runtime.settings.oidc,
            **{
                "issuer": issuer.url,
                "client_id": openid.CLIENT,
                "client_secret": openid.SECRET,
                "group_map": {"staff": "operators"},
                "create_users": True,
                "bearer_audience": openid.AUDIENCE,
                "timeout": 30.0,
                **oidc,
            },
        )
        runtime = replace(runtime, settings=replace(runtime.settings, oidc=settings))
        return client_of(runtime)

    return made


def client_of(runtime):
    """A browser with an application of its own, and a name of its own in the audit."""
    client = create_app(runtime).test_client()
    client.environ_base["HTTP_USER_AGENT"] = str(uuid4())
    return Api(client, runtime, [])


def begin(browser, path="/v1/login/oidc", verify=True):
    """Go to the provider, and return the path by which it sends the browser back."""
    sent = browser("GET", path)
    assert 302 == sent.status_code, sent.text
    returned = requests.get(
        sent.headers["Location"], allow_redirects=False, timeout=60, verify=verify
    )
    back = urlsplit(returned.headers["Location"])
    assert "/v1/login/oidc/callback" == back.path
    return f"{back.path}?{back.query}"


def sign_in(browser, **more):
    return browser("GET", begin(browser, **more))


def said(answer):
    return fault(answer)["faultstring"]


def bearer(browser, text, path=CONDUCTORS, **headers):
    return browser("GET", path, Authorization=f"Bearer {text}", **headers)


def records(browser):
    services_of(browser.client.application).refused_requests.flush()
    with browser.runtime.reading() as session:
        of_browser = AuditRecord.user_agent == browser.client.environ_base["HTTP_USER_AGENT"]
        found = session.scalars(select(AuditRecord).where(of_browser).order_by(AuditRecord.id))
        return [(each.action, each.outcome, each.user_name, each.status) for each in found]


@on_both
def test_a_person_signs_in_and_has_the_roles_of_mapped_groups(service, users, issuer, api):
    browser = service()
    ways = browser("GET", "/v1/login").json
    assert {"strategy": "local", "oidc": True, "user": None}.items() <= ways.items()

    answer = sign_in(browser)
    assert (302, "http://localhost/ui") == (answer.status_code, answer.headers["Location"])
    cookies = answer.headers.getlist("Set-Cookie")
    assert all("HttpOnly" in each and "SameSite=Lax" in each for each in cookies)
    assert "jane" == browser("GET", "/v1/login").json["user"]
    assert 200 == browser("GET", CONDUCTORS).status_code
    assert browser.client.get_cookie("ingot_oidc", path="/v1/login/oidc") is None
    with api.runtime.reading() as session:
        assert [("jane", None)] == [
            (each.name, each.password_hash) for each in session.scalars(select(User))
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
    made = browser("POST", "/v1/nodes", {"driver": "fake-hardware"}, Origin="http://localhost")
    assert 201 == made.status_code
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
    uuids = {provided.uuid_of(url, "1") for url in (issuer.url, other.runtime.settings.oidc.issuer)}
    assert 2 == len(uuids)


def test_without_create_users_only_people_whom_an_operator_created_sign_in(
    service, users, issuer, api
):
    browser = service(create_users=False)
    refused = sign_in(browser)
    assert (403, True) == (refused.status_code, "create_users" in said(refused))
    with api.runtime.transaction() as session:
        provided.accounts.create_user(
            session, "j", uuid=provided.uuid_of(issuer.url, openid.PERSON["sub"])
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
    own, new = {"Origin": "http://localhost"}, {"driver": "fake-hardware"}
    assert 302 == sign_in(browser).status_code
    shown = browser("GET", "/v1/login").json
    assert ("jane", None, ["blue", "réd & co"]) == (
        shown["user"], shown["scope"], shown["scopes"],
    )  # fmt: skip
    assert 403 == browser("POST", "/v1/nodes", new, **own).status_code
    chosen = browser("POST", "/v1/login/scope", {"scope": "blue"}, **own)
    assert (200, "blue") == (chosen.status_code, chosen.json["scope"])
    assert "b-id" == browser("POST", "/v1/nodes", new, **own).json["owner"]
    assert 302 == sign_in(browser, path="/v1/login/oidc?scope=réd %26 co").status_code
    assert "r-id" == browser("POST", "/v1/nodes", new, **own).json["owner"]


def change(document, **values):
    return {**document, **values}


def claims(**values):
    return {"claims": lambda made: change(made, **values)}


NOW = int(time.time())
#: Fault of a token -> the provider's twist, and a word of the error.
HOSTILE_TOKENS = {
    "wrong nonce": (claims(nonce="another"), "nonce"),
    "no nonce": ({"claims": lambda made: {name: made[name] for name in made if name != "nonce"}}, "nonce"),
    "alg none": ({"sign": lambda header, made, _key: openid.unsigned(header, made)}, "signature"),
    "signed with the client's secret": (
        {"sign": lambda header, made, _key: jwt.encode(
            change(header, alg="HS256"), made, OctKey.import_key(openid.SECRET * 2), ["HS256"])},
        "signature"),
    "signed with the public key": (
        {"sign": lambda _header, made, key: openid.signed_with(key.as_pem(private=False), made)}, "signature"),
    "foreign key": ({"sign": lambda header, made, _key: jwt.encode(header, made, openid.FOREIGN)}, "signature"),
    "foreign key in the header": (
        {"sign": lambda header, made, _key: jwt.encode(
            change(header, jwk=openid.FOREIGN.as_dict(private=False)), made, openid.FOREIGN)}, "signature"),
    "unknown key": ({"sign": lambda header, made, key: jwt.encode(change(header, kid="?"), made, key)}, "key"),
    "wrong audience": (claims(aud="another"), "aud"),
    "no audience": (claims(aud=None), "aud"),
    "several audiences, for another one": (claims(aud=[openid.CLIENT, "x"], azp="x"), "azp"),
    "wrong issuer": (claims(iss="https://evil.example"), "iss"),
    "expired": (claims(exp=NOW - 3600), "exp"),
    "no expiry": (claims(exp=None), "exp"),
    "expiry of a wrong type": (claims(exp="tomorrow"), "exp"),
    "from the future": (claims(iat=NOW + 36000), "iat"),
    "not valid yet": (claims(nbf=NOW + 36000), "nbf"),
    "no subject": (claims(sub=None), "sub"),
    "a subject of a wrong type": (claims(sub=["x"]), "sub"),
    "a subject too long": (claims(sub="x" * 256), "sub"),
    "groups of a wrong type": (claims(groups={"a": 1}), "groups"),
    "too long": (claims(padding="x" * 20_000), "characters"),
    "no JWT": ({"sign": lambda *_: "x"}, "signature"),
    "deep": ({"sign": lambda *_: "W1tb" * 2000 + "." + "W1tb" * 2000 + ".x"}, "signature"),
}  # fmt: skip


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
        known = services_of(browser.client.application).authenticate.provider
        known._oidc = replace(known._oidc, timeout=0.3)
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
        issuer.twist["return"] = lambda sent, twist=twist: change(sent, **twist)
        refused = sign_in(victim)
        assert (401, True) == (refused.status_code, word in said(refused))


def test_the_request_to_the_provider_discloses_no_secret(service, users, issuer):
    browser = service()
    sent = browser("GET", "/v1/login/oidc")
    query = {name: each[0] for name, each in parse_qs(urlsplit(sent.headers["Location"]).query).items()}  # fmt: skip
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
    asked = len(issuer.requests)
    assert [200] * 5 == [bearer(browser, text).status_code for _ in range(5)]
    assert asked == len(issuer.requests), "document and keys are kept"
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
    monkeypatch.setattr(provider, "PAUSE", 0)
    assert 200 == bearer(browser, text).status_code
    assert ["/keys"] == issuer.requests
    monkeypatch.undo()
    for number in range(5):
        unknown = issuer.token(aud=openid.AUDIENCE, header={"kid": str(number)})
        assert 401 == bearer(browser, unknown).status_code
    assert ["/keys"] == issuer.requests


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
    monkeypatch.setattr(provider, "AGE", 0)
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
    for each in waiting:
        each.start()
    try:
        until(lambda: issuer.requests)
        assert 200 == browser("GET", CONDUCTORS, **{"X-Auth-Token": text}).status_code
        assert not answered.is_set()
    finally:
        answered.set()
        for each in waiting:
            each.join()
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
    sent = browser("GET", "/v1/login/oidc")
    assert "Path=/bm/v1/login/oidc" in sent.headers["Set-Cookie"]
    attempt = browser.client.get_cookie("ingot_oidc", path="/bm/v1/login/oidc")
    returned = requests.get(sent.headers["Location"], allow_redirects=False, timeout=60)
    back = urlsplit(returned.headers["Location"])
    assert "/bm/v1/login/oidc/callback" == back.path
    path = f"{back.path.removeprefix('/bm')}?{back.query}"
    browser.client.set_cookie("ingot_oidc", attempt.value, path="/v1/login/oidc")  # the proxy
    answer = browser("GET", path)
    assert 302 == answer.status_code, answer.text
    session = next(text for text in answer.headers.getlist("Set-Cookie") if "session" in text)
    assert "Path=/bm/" in session
