"""The page's holds: badges, form, list and end on the page of a node, column of the fleet."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import desk, grave_findings
from tests.support.fleet import PATIENCE, Fleet

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("page"), conductors=1) as fleet:
        fleet.nodes = fleet.create_nodes(2, resource_class="small")
        yield fleet


def test_a_hold_is_set_shown_changed_and_ended(chromium, site):
    node = site.nodes[0]
    with desk(chromium, site.url, at=f"/nodes/{node}") as page:
        section = page.get_by_role("region", name="Holds of the node")
        expect(page.get_by_role("region", name="Why")).to_be_visible()
        expect(section).to_have_count(0)
        verbs = page.get_by_role("group", name="Verbs")
        verbs.get_by_role("button", name="Hold", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Set a hold").click()
        expect(dialog.locator("[aria-invalid=true]")).to_have_count(1)  # the kind is required
        dialog.get_by_label("kind").select_option("hardware")
        dialog.get_by_label("reason").fill("new DIMM")
        dialog.get_by_label("hours").fill("4")
        dialog.get_by_role("button", name="Set a hold").click()
        expect(section).to_contain_text("new DIMM")
        expect(section).to_contain_text("in 3 h")
        badge = page.locator("h1 ~ .badge.hold")
        expect(badge).to_have_text("hold: hardware")
        expect(page.get_by_role("region", name="Why")).to_contain_text("Held by a hardware hold")
        assert {} == grave_findings(page)
        (hold,) = site.get(f"nodes/{node}/holds", detail="true")["holds"]
        assert ("hardware", "new DIMM") == (hold["kind"], hold["reason"])

        expect(verbs.get_by_role("button", name="manage")).to_have_count(0)
        reason = page.get_by_role("region", name="Why").locator("dt", has_text="manage is refused")
        expect(reason.locator("+ dd")).to_contain_text(f"is held: hardware hold {hold['uuid']}")

        section.get_by_role("button", name="Change the hardware hold").click()
        dialog.get_by_label("reason").fill("DIMM ordered")
        dialog.get_by_role("button", name="Change the hold").click()
        expect(section).to_contain_text("DIMM ordered")
        expect(section).to_contain_text("when it is ended")
        section.get_by_role("button", name="End the hardware hold").click()
        dialog.get_by_role("button", name="End the hold").click()
        expect(section).to_have_count(0)
        expect(badge).to_have_count(0)
        expect(verbs.get_by_role("button", name="manage")).to_be_visible()


def test_holds_of_others_appear_in_the_fleet_and_among_the_resources(chromium, site):
    node = site.nodes[1]
    with desk(chromium, site.url, at="/fleet") as page:
        row = page.locator(f"tr[data-uuid='{node}']")
        expect(row).to_be_visible()
        body = {"node_uuid": node, "kind": "scheduling", "reason": "moves"}
        site._create("holds", body)
        expect(row).to_contain_text("hold: scheduling")  # by its change event
        page.goto(f"{site.url}/ui#/fleet?hold=scheduling")
        expect(page.get_by_role("button", name="1 all")).to_be_visible()
        page.goto(f"{site.url}/ui#/resources?kind=holds")
        region = page.get_by_role("region", name="Holds", exact=True).first
        expect(region).to_contain_text("moves")
