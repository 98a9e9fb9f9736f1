"""Authentication by Keystone: the real middleware with real requests to a minimal Keystone."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.api.authentication import strategies
from app.config.openstack_settings import KeystoneAuthtoken
from app.config.settings import Settings, SettingsError
from app.server.application import create_app
from tests.support import keystone as fake_keystone
from tests.support.keystone import token

from .conftest import Api, fault


def with_keystone(settings: Settings, **options) -> Settings:
    return replace(
        settings,
        default=replace(settings.default, auth_strategy="keystone"),
        keystone_authtoken=KeystoneAuthtoken(**options),
    )


@pytest.fixture
def keystone():
    with fake_keystone.serving() as server:
        yield server


@pytest.fixture
def options(keystone):
    """Settings of the service for that Keystone."""
    return {
        "auth_url": keystone.url,
        "www_authenticate_uri": "https://keystone.example",
        "username": "ingot",
        "password": fake_keystone.PASSWORD,
        "http_request_max_retries": 0,
    }


@pytest.fixture
def guarded(api, options):
    """Application with the real middleware, on the database of `api`."""
    runtime = replace(api.runtime, settings=with_keystone(api.runtime.settings, **options))
    return Api(create_app(runtime).test_client(), runtime, [])


def ask(guarded, token_text, method="GET", path="/v1/nodes", **headers):
    return guarded(method, path, **({"X-Auth-Token": token_text} if token_text else {}), **headers)


def test_a_valid_token_is_accepted_and_cached(guarded, keystone):
    keystone.tokens["ann's"] = token("reader", system=True)

    assert [200, 200] == [ask(guarded, "ann's").status_code for _ in range(2)]
    assert ["ann's"] == keystone.request_log


@pytest.mark.parametrize("token_text", [None, "stolen"])
def test_a_request_without_a_valid_token_is_refused(guarded, token_text):
    answer = ask(guarded, token_text)

    assert 401 == answer.status_code
    assert "Client" == fault(answer)["faultcode"]
    assert "X-Auth-Token" in fault(answer)["faultstring"]
    assert 'Keystone uri="https://keystone.example"' == answer.headers["WWW-Authenticate"]
    assert "1.115" == answer.headers["X-OpenStack-Ironic-API-Maximum-Version"]


def test_an_expired_token_is_refused(guarded, keystone):
    old = token("admin", system=True) | {"expires_at": "2020-01-01T00:00:00.000000Z"}
    keystone.tokens["old"] = old

    assert 401 == ask(guarded, "old").status_code


def test_headers_of_the_middleware_are_not_accepted_from_clients(guarded, keystone):
    keystone.tokens["bob's"] = token("reader", project="bob's")
    forged = {"X-Roles": "admin", "OpenStack-System-Scope": "all", "X-Identity-Status": "Confirmed"}

    assert 401 == ask(guarded, None, **forged).status_code
    assert 403 == ask(guarded, "bob's", path="/v1/conductors", **forged).status_code


def test_a_service_token_adds_no_roles_to_its_user(guarded, keystone):
    keystone.tokens["bob's"] = token("reader", project="bob's")
    keystone.tokens["nova's"] = token("service", "admin", system=True)
    lent = {"X-Service-Token": "nova's"}

    assert 200 == ask(guarded, "bob's", **lent).status_code
    assert 403 == ask(guarded, "bob's", path="/v1/conductors", **lent).status_code
    assert 401 == ask(guarded, "bob's", **{"X-Service-Token": "stolen"}).status_code


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/healthcheck", "/docs", "/openapi.json", "/v1/lookup?addresses=02:00:00:00:00:01"]
)  # fmt: skip
def test_public_routes_need_neither_token_nor_keystone(guarded, keystone, path):
    keystone.broken = True

    assert ask(guarded, None, path=path).status_code in (200, 404)
    assert ask(guarded, "any", path=path).status_code in (200, 404)
    assert [] == keystone.request_log


def test_an_agent_heartbeats_without_a_token(guarded, api):
    path = f"/v1/heartbeat/{api.node()['uuid']}"

    answer = guarded("POST", path, {"callback_url": "https://10.0.0.1:9999"})

    assert 400 == answer.status_code, "the agent's token is required"
    assert "token" in fault(answer)["faultstring"]


def test_a_keystone_that_is_down_makes_the_service_unavailable(guarded, keystone):
    keystone.tokens["ann's"] = token("reader", system=True)
    keystone.broken = True

    answer = ask(guarded, "ann's")

    assert (503, "Server") == (answer.status_code, fault(answer)["faultcode"])
    keystone.broken = False
    assert 200 == ask(guarded, "ann's").status_code


def test_a_wrong_password_of_the_service_makes_it_unavailable(api, keystone, options):
    keystone.tokens["ann's"] = token("reader", system=True)
    settings = with_keystone(api.runtime.settings, **options | {"password": "wrong"})
    runtime = replace(api.runtime, settings=settings)

    assert 503 == ask(Api(create_app(runtime).test_client(), runtime, []), "ann's").status_code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "[keystone_authtoken]auth_url"),
        ({"auth_url": "http://127.0.0.1:1", "auth_type": "magic"}, "magic"),
        ({"auth_url": "http://127.0.0.1:1", "memcached_servers": ("a:1",)}, "memcached_servers"),
    ],
)
def test_invalid_settings_stop_the_start(options, message):
    with pytest.raises(SettingsError) as error:
        strategies.make(SimpleNamespace(settings=with_keystone(Settings(), **options)), checks=None)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
