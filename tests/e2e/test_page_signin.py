"""Signing in to the page at /ui with local users and by an OpenID provider, in a browser."""

import pytest
import requests
from playwright.sync_api import expect
from sqlalchemy import update

from app.db.clock import after
from app.models import ApiToken
from tests.support import openid
from tests.support.browser import NARROW, desk, grave_findings
from tests.support.fleet import PATIENCE, Fleet
from tests.support.inside import Inside
from tests.support.local_users import PASSWORD, Directory

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """
    A fleet with a node of the project blue and one of red.

    ann reads the system; bob and the provider's group staff have roles in the system and in both.
    """
    folder = tmp_path_factory.mktemp("signin")
    secret = folder / "client-secret"
    secret.write_text(f"{openid.SECRET}\n")
    with (
        openid.provider() as issuer,
        Fleet(
            folder, conductors=1, INGOT_AUTH_STRATEGY="local",
            INGOT_OIDC_ISSUER=issuer.url, INGOT_OIDC_CLIENT_ID=openid.CLIENT,
            INGOT_OIDC_CLIENT_SECRET_FILE=str(secret), INGOT_OIDC_CREATE_USERS="true",
            INGOT_OIDC_GROUP_MAP="staff:operators", INGOT_OIDC_TIMEOUT="60",
        ) as fleet,
    ):  # fmt: skip
        key = {"INGOT_DATABASE_SECRETS_KEY_FILE": f"{fleet.data}.key"}
        inside = Inside(f"sqlite:///{fleet.data / 'ingot.db'}", **key)
        fleet.transaction, users = inside.runtime.transaction, Directory(inside.runtime.transaction)
        users.user("ann", ("admin", None))
        users.group("operators")
        users.user("bob", ("reader", None))
        for name in ("blue", "red"):
            users.project(name, f"{name}-id")
            users.grant("admin", name, user="bob")
            users.grant("admin", name, group="operators")
        token = {"X-Auth-Token": users.token("ann")}
        fleet.http.headers.update(token | {"X-OpenStack-Ironic-API-Version": "1.115"})
        fleet.nodes = {name: enrol(fleet, name) for name in ("blue", "red")}
        yield fleet


def enrol(fleet, project):
    """Enrol a node of a project; return its UUID."""
    body = {"driver": "fake-hardware", "name": f"of-{project}", "owner": f"{project}-id"}
    answer = fleet.http.post(f"{fleet.url}/v1/nodes", json=body, timeout=30)
    assert 201 == answer.status_code, answer.text
    return answer.json()["uuid"]


def change(fleet, node, field, value):
    patch = [{"op": "add", "path": f"/{field}", "value": value}]
    answer = fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
    assert 200 == answer.status_code, answer.text


def fill(page, user, password=PASSWORD):
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def session_of(page):
    """The text of the session's token in a browser; None: there is none."""
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    return cookies.get("ingot_session")


def status(site, token):
    headers = {"X-Auth-Token": token, "X-OpenStack-Ironic-API-Version": "1.115"}
    return requests.get(f"{site.url}/v1/nodes", headers=headers, timeout=30).status_code


def test_a_wrong_password_is_refused_a_right_one_opens_the_page_and_sign_out_ends_it(
    chromium, site
):
    with desk(chromium, site.url) as page:
        fill(page, "ann", "wrong")
        expect(page.get_by_role("alert")).to_contain_text("User or password is wrong")
        assert session_of(page) is None
        fill(page, "ann")
        expect(page.get_by_role("button", name="2 all")).to_be_visible()
        expect(page.get_by_label("Scope")).to_have_count(0)  # there is one only
        text = session_of(page)
        page.reload()
        expect(page.get_by_role("button", name="2 all")).to_be_visible()
        assert page.evaluate("document.cookie + JSON.stringify({...sessionStorage})") == "{}"

        page.get_by_role("button", name="Sign out ann").click()
        expect(page.get_by_label("Password")).to_be_visible()
        assert session_of(page) is None
        assert 401 == status(site, text)
        page.reload()
        expect(page.get_by_label("Password")).to_be_visible()


def test_an_expired_session_is_renewed_on_the_page_where_it_ended(chromium, site):
    at = f"/nodes/{site.nodes['red']}"
    with desk(chromium, site.url, at=at) as page:
        fill(page, "ann")
        expect(page.get_by_role("heading", level=1)).to_have_text("of-red")
        with site.transaction() as session:
            of_browsers = ApiToken.name == "session"
            session.execute(update(ApiToken).where(of_browsers).values(expires_at=after(-1)))
        change(site, site.nodes["red"], "description", "moved")  # the page reads it: refused
        expect(page.get_by_label("Password")).to_be_visible()
        expect(page.get_by_role("button", name="Sign out ann")).to_have_count(0)
        fill(page, "ann")
        expect(page.get_by_role("heading", level=1)).to_have_text("of-red")
        assert page.url.endswith(f"#{at}")


def test_a_user_of_several_scopes_chooses_one_and_changes_it_without_the_password(chromium, site):
    with desk(chromium, site.url) as page:
        fill(page, "bob")
        choice = page.get_by_label("Work in")
        all_three = ["system (all projects)", "blue", "red"]
        expect(choice.locator("option")).to_have_text(all_three)
        assert {} == grave_findings(page)
        undecided = session_of(page)
        page.reload()  # the choice is still open
        assert 403 == status(site, undecided)
        choice.select_option("blue")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("button", name="1 all")).to_be_visible()
        expect(page.get_by_role("link", name="of-blue")).to_be_visible()
        of_blue = session_of(page)
        assert (401, 200) == (status(site, undecided), status(site, of_blue))

        other = page.context.new_page()  # another tab, which has the same session
        other.goto(f"{site.url}/ui#/fleet")
        expect(other.get_by_role("link", name="of-blue")).to_be_visible()
        scope = page.get_by_label("Scope")
        expect(scope).to_have_value("blue")
        scope.select_option("red")
        for tab in (page, other):
            expect(tab.get_by_role("link", name="of-red")).to_be_visible()
            expect(tab.get_by_role("link", name="of-blue")).to_have_count(0)
            expect(tab.get_by_label("Scope")).to_have_value("red")
        assert 401 == status(site, of_blue)
        scope.select_option("system")
        expect(page.get_by_role("button", name="2 all")).to_be_visible()
        assert {} == grave_findings(page)


def test_a_scope_that_was_withdrawn_is_refused_in_words(chromium, site):
    users = Directory(site.transaction)
    users.user("eve", ("reader", "blue"), ("reader", "red"))
    with desk(chromium, site.url, size=NARROW) as page:
        fill(page, "eve")
        page.get_by_label("Work in").select_option("red")
        users.revoke("reader", "red", user="eve")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("alert")).to_contain_text("has no role in project red")
        page.get_by_label("Work in").select_option("blue")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("link", name="of-blue")).to_be_visible()


def test_a_person_of_the_provider_chooses_a_scope_and_comes_back_to_the_page(chromium, site):
    at = f"/nodes/{site.nodes['red']}"
    with desk(chromium, site.url, at=at) as page:
        page.get_by_role("link", name="Sign in with your organisation").click()
        page.get_by_label("Work in").select_option("red")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("of-red")
        assert page.url.endswith(f"#{at}")
        page.get_by_role("button", name="Sign out jane").click()
        expect(page.get_by_role("link", name="Sign in with your organisation")).to_be_visible()


def test_the_page_offers_what_the_role_of_the_caller_allows(chromium, site):
    users = Directory(site.transaction)
    users.user("kim", ("reader", "blue"))
    users.user("lou", ("member", "blue"))
    at = f"/nodes/{site.nodes['blue']}"
    pages = {"kim": ["Fleet", "Operations", "Rollouts", "Changes", "Resources"]}
    pages["lou"] = pages["kim"]
    pages["ann"] = [*pages["kim"], "Service"]
    for user, offered in pages.items():
        with desk(chromium, site.url) as page:
            expect(page.get_by_label("Password")).to_be_visible()
            expect(page.get_by_role("searchbox")).to_have_count(0)
            fill(page, user)
            expect(page.get_by_role("link", name="of-blue")).to_be_visible()
            expect(page.locator("#pages a")).to_have_text(offered)
            mays = {"kim": 0, "lou": 0, "ann": 1}  # a member must not enrol
            expect(page.get_by_role("button", name="Enrol", exact=True)).to_have_count(mays[user])
            page.get_by_label("Select of-blue").check()
            expect(page.get_by_role("button", name="Roll out…")).to_have_count(int(user != "kim"))
            actions = page.get_by_label("Verb").locator("option").all_inner_texts()
            assert (user == "kim") == (["Choose…"] == actions), actions
            assert (user == "ann") == ("delete" in actions), actions
            page.goto(f"{site.url}/ui#{at}")
            expect(page.get_by_role("region", name="Why")).to_contain_text("of-blue")
            verbs = page.get_by_role("group", name="Verbs").get_by_role("button")
            if user == "kim":
                expect(verbs).to_have_count(0)
            else:
                expect(verbs.filter(has_text="manage")).to_have_count(1)
            expect(verbs.filter(has_text="Delete")).to_have_count(mays[user])
            page.get_by_role("button", name=f"Sign out {user}").click()
            expect(page.get_by_label("Password")).to_be_visible()
