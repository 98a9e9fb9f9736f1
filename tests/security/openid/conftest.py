"""A provider of OpenID, people, and a service that accepts their logins."""

import time
from dataclasses import replace
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import OctKey
from sqlalchemy import select

from app.api.request.context import services_of
from app.models import AuditRecord
from app.server.application import create_app
from tests.contract.conftest import Api, fault
from tests.support import openid
from tests.support.local_users import Directory, with_local_users

CONDUCTORS = "/v1/conductors"
on_both = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture
def issuer():
    with openid.provider() as server:
        yield server


@pytest.fixture
def users(api):
    directory = Directory(api.runtime.transaction)
    directory.group("operators")
    directory.grant("reader", None, group="operators")
    return directory


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
    redirect = browser("GET", path)
    assert 302 == redirect.status_code, redirect.text
    returned = requests.get(
        redirect.headers["Location"], allow_redirects=False, timeout=60, verify=verify
    )
    back = urlsplit(returned.headers["Location"])
    assert "/v1/login/oidc/callback" == back.path
    return f"{back.path}?{back.query}"


def sign_in(browser, **options):
    return browser("GET", begin(browser, **options))


def said(answer):
    return fault(answer)["faultstring"]


def bearer(browser, text, path=CONDUCTORS, **headers):
    return browser("GET", path, Authorization=f"Bearer {text}", **headers)


def records(browser):
    services_of(browser.client.application).refused_requests.flush()
    with browser.runtime.reading() as session:
        of_browser = AuditRecord.user_agent == browser.client.environ_base["HTTP_USER_AGENT"]
        rows = session.scalars(select(AuditRecord).where(of_browser).order_by(AuditRecord.id))
        return [(row.action, row.outcome, row.user_name, row.status) for row in rows]


def change(document, **values):
    return {**document, **values}


def claims(**values):
    return {"claims": lambda payload: change(payload, **values)}


NOW = int(time.time())
#: Fault of a token -> the provider's twist, and a word of the error.
HOSTILE_TOKENS = {
    "wrong nonce": (claims(nonce="another"), "nonce"),
    "no nonce": ({"claims": lambda payload: {name: payload[name] for name in payload if name != "nonce"}}, "nonce"),
    "alg none": ({"sign": lambda header, payload, _key: openid.unsigned(header, payload)}, "signature"),
    "signed with the client's secret": (
        {"sign": lambda header, payload, _key: jwt.encode(
            change(header, alg="HS256"), payload, OctKey.import_key(openid.SECRET * 2), ["HS256"])},
        "signature"),
    "signed with the public key": (
        {"sign": lambda _header, payload, key: openid.signed_with(key.as_pem(private=False), payload)}, "signature"),
    "foreign key": ({"sign": lambda header, payload, _key: jwt.encode(header, payload, openid.FOREIGN)}, "signature"),
    "foreign key in the header": (
        {"sign": lambda header, payload, _key: jwt.encode(
            change(header, jwk=openid.FOREIGN.as_dict(private=False)), payload, openid.FOREIGN)}, "signature"),
    "unknown key": ({"sign": lambda header, payload, key: jwt.encode(change(header, kid="?"), payload, key)}, "key"),
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
