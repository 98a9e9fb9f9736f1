"""The page while it changes: lost connections, kept controls, long names, narrow screens."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import NARROW, WIDE, desk
from tests.support.fleet import PATIENCE, Fleet, until

expect.set_options(timeout=PATIENCE * 1000)

LONG = "n" * 200
LOST = "The connection is lost; trying again."
#: Milliseconds after which a stream without a heartbeat counts as lost.
SILENCE = 101_000


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Three fake nodes; the first has a long name, and has been managed twice."""
    with Fleet(tmp_path_factory.mktemp("live"), conductors=1) as fleet:
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        fleet.nodes = fleet.create_nodes(3)
        change(fleet, fleet.nodes[0], "name", LONG)
        fleet.provision(fleet.nodes, "manage")
        fleet.await_state(fleet.nodes, "manageable")
        fleet.provision(fleet.nodes[:1], "inspect")
        fleet.await_state(fleet.nodes, "manageable")
        yield fleet


def change(fleet, node, field, value):
    patch = [{"op": "add", "path": f"/{field}", "value": value}]
    answer = fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
    assert 200 == answer.status_code, answer.text


@pytest.mark.parametrize("at", ["/fleet", "/operations", "/nodes/{}"])
def test_a_silent_stream_is_shown_as_lost_and_a_new_one_as_live(chromium, site, at):
    with desk(chromium, site.url, at="/resources", new=True) as page:
        page.clock.install()
        page.route("**/v1/events/stream*", lambda route: None)  # never answered
        page.goto(f"{site.url}/ui#{at.format(site.nodes[1])}")
        page.reload()
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator(".live")).to_have_count(0)
        page.wait_for_timeout(500)
        page.clock.fast_forward(SILENCE)
        expect(page.get_by_text(LOST)).to_be_visible()
        page.unroute("**/v1/events/stream*")
        page.clock.fast_forward(SILENCE)
        expect(page.locator(".live")).to_be_visible()


def test_what_could_not_be_read_is_read_when_the_service_answers_again(chromium, site):
    with desk(chromium, site.url, at="/resources") as page:
        page.route("**/v1/events/stream*", lambda route: route.abort())
        page.goto(f"{site.url}/ui#/fleet")
        expect(page.get_by_text(LOST)).to_be_visible()
        expect(page.locator("tr[data-uuid]")).to_have_count(3)
        page.route("**/v1/nodes?*", lambda route: route.abort())
        page.get_by_role("button", name="3 manageable").click()
        expect(page.get_by_role("table", name="Nodes")).to_contain_text("does not answer")
        page.unroute_all()
        expect(page.locator("tr[data-uuid]")).to_have_count(3)
        expect(page.get_by_role("button", name="3 all")).to_be_visible()


def test_a_change_replaces_neither_the_choice_of_an_operation_nor_the_history(chromium, site):
    node = site.nodes[0]
    with desk(chromium, site.url, at=f"/nodes/{node}") as page:
        page.get_by_role("combobox", name="Operation").focus()
        page.evaluate(
            """() => {
                window.seen = [];
                const panel = document.querySelector("[role=tabpanel]");
                new MutationObserver(() => window.seen.push(panel.textContent)).observe(
                    panel, { childList: true });
            }"""
        )
        change(site, node, "extra/rack", "b")
        expect(page.get_by_role("tabpanel")).to_contain_text("Changed: extra/rack")
        expect(page.get_by_role("combobox", name="Operation")).to_be_focused()
        assert not [text for text in page.evaluate("window.seen") if "Reading" in text]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["laptop", "phone"])
@pytest.mark.parametrize("at", ["/fleet", "/operations", "/conductors", "/resources", "/nodes/{}"])
def test_no_page_is_wider_than_the_screen(chromium, site, at, size):
    with desk(chromium, site.url, at=at.format(site.nodes[0]), size=size) as page:
        expect(page.locator("h1")).to_be_visible()
        if at.startswith("/nodes"):
            expect(page.get_by_role("combobox", name="Operation")).to_be_visible()
            expect(page.get_by_role("region", name="Why")).to_contain_text(f"Node {LONG} is")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_link_to_the_content_stays_on_the_page(chromium, site):
    with desk(chromium, site.url, at=f"/nodes/{site.nodes[1]}") as page:
        expect(page.locator("h1")).to_be_visible()
        page.get_by_role("link", name="Skip to the content").focus()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        assert page.url.endswith(f"#/nodes/{site.nodes[1]}")


def test_a_dry_run_of_several_nodes_shows_how_far_it_is(chromium, site):
    routes = []
    with desk(chromium, site.url, at="/fleet") as page:
        page.route("**/states/provision", lambda route, _: routes.append(route))
        page.get_by_label(f"Select {site.nodes[1]}").check()
        page.get_by_label(f"Select {site.nodes[2]}").check()
        page.get_by_label("Verb").select_option("provide")
        page.get_by_role("button", name="Dry run…").click()
        button = page.get_by_role("button", name="nodes have answered")
        expect(button).to_have_text("0 of 2 nodes have answered…")
        expect(button).to_be_disabled()
        until(lambda: page.wait_for_timeout(20) or len(routes) == 2, "both requests")
        for route in routes:
            route.continue_()
        expect(page.get_by_role("dialog")).to_contain_text("2 of 2 nodes accept it.")
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Dry run…")).to_be_enabled()


def test_ports_are_listed_with_their_nodes(chromium, site):
    body = {"node_uuid": site.nodes[1], "address": "52:54:00:00:00:77"}
    answer = site.http.post(f"{site.url}/v1/ports", json=body, timeout=30)
    assert 201 == answer.status_code, answer.text
    with desk(chromium, site.url, at="/resources?kind=ports") as page:
        page.get_by_role("row", name="52:54:00:00:00:77").get_by_role("link").click()
        expect(page.locator("h1")).to_have_text(site.nodes[1])


def test_a_malformed_address_is_explained(chromium, site):
    with desk(chromium, site.url, at="/nodes/%") as page:
        expect(page.get_by_role("alert")).to_contain_text("Expected UUID or name for node: %")
