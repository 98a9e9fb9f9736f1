"""Browsers sign in to `ingot up`, with several processes of the API and an OpenID provider."""

import subprocess

import pytest
import requests

from tests.e2e.command_line import INGOT, environment
from tests.support import openid
from tests.support.fleet import ROOT, Fleet


@pytest.fixture(scope="module")
def issuer():
    with openid.provider() as server:
        yield server


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, issuer):
    folder = tmp_path_factory.mktemp("browsers")
    secret = folder / "client-secret"
    secret.write_text(f"{openid.SECRET}\n")
    with Fleet(
        folder, "--host", "0.0.0.0", conductors=1, INGOT_OIDC_ISSUER=issuer.url,
        INGOT_OIDC_CLIENT_ID=openid.CLIENT, INGOT_OIDC_CLIENT_SECRET_FILE=str(secret),
        INGOT_OIDC_CREATE_USERS="true", INGOT_OIDC_GROUP_MAP="staff:operators",
        INGOT_OIDC_BEARER_AUDIENCE=openid.AUDIENCE, INGOT_OIDC_TIMEOUT="60",
    ) as fleet:  # fmt: skip
        for words in (("group", "create", "operators"),
                      ("role", "grant", "admin", "--group", "operators", "--system")):  # fmt: skip
            subprocess.run(
                [INGOT, *words, "--data-dir", fleet.data], check=True, capture_output=True,
                timeout=60, env=environment(fleet.url), cwd=ROOT,
            )  # fmt: skip
        yield fleet


@pytest.fixture
def browser(fleet):
    with requests.Session() as session:
        session.trust_env = False
        session.headers["X-OpenStack-Ironic-API-Version"] = "1.96"
        yield session


def test_a_person_signs_in_works_and_signs_out(fleet, browser, issuer):
    url, origin = fleet.url, {"Origin": fleet.url}
    assert 401 == browser.get(f"{url}/v1/nodes").status_code
    ways = browser.get(f"{url}/v1/login").json()
    assert {"strategy": "local", "oidc": True, "user": None}.items() <= ways.items()

    landed = browser.get(f"{url}/v1/login/oidc")
    assert [302, 302, 302] == [answer.status_code for answer in landed.history]
    assert f"{url}/ui" == landed.url
    assert "jane" == browser.get(f"{url}/v1/login").json()["user"]
    answer = browser.post(f"{url}/v1/nodes", json={"driver": "fake-hardware"}, headers=origin)
    assert 201 == answer.status_code, answer.text
    forged = browser.post(
        f"{url}/v1/nodes", json={"driver": "fake-hardware"}, headers={"Origin": issuer.url}
    )
    assert 403 == forged.status_code
    text = browser.cookies["ingot_session"]
    header = {"Authorization": f"Bearer {issuer.token(aud=openid.AUDIENCE)}"}
    assert 200 == fleet.http.get(f"{url}/v1/conductors", headers=header).status_code

    assert 204 == browser.post(f"{url}/v1/logout", headers=origin).status_code
    for headers in ({}, {"X-Auth-Token": text}):
        assert 401 == browser.get(f"{url}/v1/nodes", headers=headers).status_code
    files = [path for path in fleet.data.rglob("*") if path.is_file()]
    for secret in (text, openid.SECRET):
        assert secret not in fleet.text()
        assert not [file for file in files if secret.encode() in file.read_bytes()]


def test_the_first_admin_signs_in_with_the_password(fleet, browser):
    url, origin = fleet.url, {"Origin": fleet.url}
    password = (fleet.data / "admin-password").read_text().strip()
    wrong = {"username": "admin", "password": "wrong"}
    assert 401 == browser.post(f"{url}/v1/login", json=wrong, headers=origin).status_code
    right = wrong | {"password": password}
    for _ in range(4):  # by all processes of the API
        assert 200 == browser.post(f"{url}/v1/login", json=right, headers=origin).status_code
        assert 200 == browser.get(f"{url}/v1/conductors").status_code
    actions = browser.get(f"{url}/v1/audit?action=authenticate").json()["audit"]
    assert {("authenticate/login", "admin")} <= {
        (action["action"], action["user_name"])
        for action in actions
        if action["outcome"] == "success"
    }
