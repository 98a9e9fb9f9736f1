"""
The jobs of an operator on the page, each with the clicks that it takes.

docs/ui.md has the table of the clicks: a click, or a choice in a list, is one; typed text is none.
"""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.browser import NARROW, WIDE, desk, findings, picture
from tests.support.fleet import PATIENCE, Fleet, until
from tests.support.ports import free_port

expect.set_options(timeout=PATIENCE * 1000)

MARKUP = "<img src=x onerror=\"document.title = 'run'\"><b id='bold'>bold</b>"
#: Nodes of the class `small`; more than are drawn at once, and than a page of the list has.
SMALL = 210
#: Count trusted clicks and choices in lists; fields that text is typed into are not counted.
COUNT = """() => {
  window.acts = 0;
  addEventListener("click", event => {
    if (event.isTrusted && !event.target.closest("select, input:not([type=checkbox])")) window.acts += 1;
  }, true);
  addEventListener("change", event => { if (event.target.matches("select")) window.acts += 1; }, true);
}"""
END = "view => { view.scrollTop = view.scrollHeight; }"
DOCUMENTED = dict(
    re.findall(
        r"^\| ([^|]+?) \| (\d+) \|", Path("docs/ui.md").read_text(encoding="utf-8"), re.MULTILINE
    )
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Service with many small nodes, and three whose BMC does not answer."""
    quick = {
        "INGOT_CONDUCTOR_ADVANCE_ROLLOUTS_INTERVAL": "0.3",
        "INGOT_WEBHOOKS_GIVE_UP_AFTER": "1",
        "INGOT_WEBHOOKS_MAX_RETRY_INTERVAL": "1",
    }
    with Fleet(tmp_path_factory.mktemp("jobs"), conductors=1, **quick) as started:
        started.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        started.small = started.create_nodes(SMALL, resource_class="small")
        login = {"redfish_username": "admin", "redfish_password": "secret"}
        address = {"redfish_address": f"http://127.0.0.1:{free_port()}"}
        for name in ("dead-1", "dead-2", "dead-3"):
            started._create(
                "nodes", {"name": name, "driver": "redfish", "driver_info": address | login}
            )
        started.dead = [started.get(f"nodes/dead-{number}")["uuid"] for number in (1, 2, 3)]
        started.provision(started.dead, "manage")
        until(lambda: started.get("operations/failures")["nodes"] == 3, "the failures")
        yield started


@contextmanager
def job(chromium, fleet, at, name=None, **kwargs):
    """Open a page, and check at the end that the job took as many clicks as its documentation has."""
    with desk(chromium, fleet.url, at=at, **kwargs) as page:
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.evaluate(COUNT)
        yield page
        if name is not None:
            assert DOCUMENTED[name] == str(page.evaluate("acts")), name


def bar(page):
    return page.get_by_role("group", name="Selected nodes")


def row(inside, text):
    return inside.locator("tbody tr").filter(has_text=text)


def box(page, number):
    """The checkbox of a row of the fleet, from 0."""
    return page.locator(f"tr[aria-rowindex='{number + 2}'][data-uuid] input")


def test_all_that_match_are_selected_and_ranges_by_shift(chromium, fleet):
    with job(chromium, fleet, "/fleet?resource_class=small") as page:
        expect(page.get_by_role("button", name=f"{SMALL} all")).to_be_visible()
        box(page, 0).click()
        expect(bar(page)).to_contain_text("1 selected")
        box(page, 10).click(modifiers=["Shift"])
        expect(bar(page)).to_contain_text("11 selected")
        expect(box(page, 5)).to_be_checked()
        box(page, 3).click()
        box(page, 5).click(modifiers=["Shift"])  # as the last one: no longer
        expect(bar(page)).to_contain_text("8 selected")
        box(page, 4).click()
        view = page.locator("div.scroll.nodes")
        view.evaluate(END)
        last_box = box(page, SMALL - 1)
        expect(last_box).to_be_visible()
        last_box.click(modifiers=["Shift"])  # across rows that were never drawn
        expect(bar(page)).to_contain_text(f"{3 + SMALL - 4} selected")
        everything = page.get_by_label("Select all nodes that match")
        assert everything.evaluate("box => box.indeterminate")
        everything.check()
        expect(bar(page)).to_contain_text(f"{SMALL} selected, all that match")
        view.evaluate(END)  # the click may have scrolled to the head
        last_box.click()
        expect(bar(page)).to_contain_text(f"{SMALL - 1} selected, all that match")
        page.get_by_label("Verb").select_option("manage")
        expect(bar(page)).to_contain_text("Above 200 nodes, verbs are rolled out")
        expect(bar(page).get_by_role("button", name="Dry run…")).to_be_disabled()


def test_a_field_of_picked_nodes_is_set(chromium, fleet):
    with job(chromium, fleet, "/fleet?resource_class=small", "move nodes to another shard") as page:
        box(page, 0).click()
        box(page, 2).click(modifiers=["Shift"])
        page.get_by_label("Verb").select_option("set field")
        bar(page).get_by_role("button", name="Continue…").click()
        dialog = page.get_by_role("dialog")
        dialog.locator("[name=field]").select_option("shard")
        dialog.locator("[name=value]").fill("row-7")
        dialog.get_by_role("button", name="Request for 3").click()
        expect(page.get_by_text("set field: 3 nodes accepted it.")).to_be_visible()
        expect(bar(page)).to_have_count(0)
    shards = {node["uuid"]: node["shard"] for node in fleet.get("nodes/detail")["nodes"]}
    assert 3 == [*shards.values()].count("row-7")


def test_holds_and_maintenance_are_set_for_all_that_match(chromium, fleet):
    with job(chromium, fleet, "/fleet?where=name%3Ddead-*", "silence all that match") as page:
        expect(page.get_by_role("button", name="3 all")).to_be_visible()
        page.get_by_label("Select all nodes that match").check()
        page.get_by_label("Verb").select_option("maintenance")
        bar(page).get_by_role("button", name="Continue…").click()
        dialog = page.get_by_role("dialog")
        dialog.locator("[name=reason]").fill(MARKUP)
        dialog.get_by_role("button", name="Request for 3").click()
        expect(page.get_by_text("maintenance: 3 nodes accepted it.")).to_be_visible()
    for node in fleet.dead:
        assert MARKUP == fleet.get(f"nodes/{node}")["maintenance_reason"]
        url = f"{fleet.url}/v1/nodes/{node}/maintenance"
        assert 202 == fleet.http.delete(url, timeout=30).status_code


def test_the_failed_are_first_and_one_is_retried(chromium, fleet):
    count = len(fleet.operations(fleet.dead[0]))
    with job(chromium, fleet, "/fleet", "retry one node") as page:
        failed = page.get_by_role("region", name="Failed nodes")
        expect(failed).to_contain_text("3 nodes failed")
        failed.get_by_role("link", name="dead-1").click()
        page.get_by_role("button", name="Retry manage").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("The node becomes verifying")
        dialog.get_by_role("button", name="Start manage").click()
        expect(dialog).to_have_count(0)
        until(lambda: len(fleet.operations(fleet.dead[0])) > count, "the retry")


def test_all_that_failed_are_retried_at_once(chromium, fleet):
    def ended():
        return fleet.get("operations/failures")["nodes"] == 3

    until(ended, "the end of earlier operations")
    counts = {node: len(fleet.operations(node)) for node in fleet.dead}
    with job(chromium, fleet, "/fleet", "retry all that failed") as page:
        page.get_by_role("button", name="Retry failed…").click()
        expect(page.get_by_role("button", name="3 failed")).to_have_attribute(
            "aria-pressed", "true"
        )
        expect(bar(page)).to_contain_text("3 selected, all that match")
        bar(page).get_by_role("button", name="Dry run…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("3 of 3 nodes accept it.")
        expect(dialog).to_contain_text("3 nodes: manage: ")
        dialog.get_by_role("button", name="Start the retry on 3").click()
        expect(page.get_by_text("the retry is requested for 3 nodes.")).to_be_visible()
    for node, count in counts.items():
        assert len(fleet.operations(node)) > count
    until(ended, "the end of the retries")


def test_a_selection_is_rolled_out_in_waves(chromium, fleet):
    at = "/fleet?where=shard%3Drow-7"
    with job(chromium, fleet, at, "roll out a verb to all that match") as page:
        expect(page.get_by_role("button", name="3 all")).to_be_visible()
        page.get_by_label("Select all nodes that match").check()
        page.get_by_label("Verb").select_option("manage")
        bar(page).get_by_role("button", name="Roll out…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("[name=where]")).to_have_value("(shard=row-7)")
        dialog.locator("[name=canary]").fill("1")
        dialog.locator("[name=max_unavailable]").fill("2")
        dialog.get_by_role("button", name="Start the rollout").click()  # it shows the plan first
        expect(dialog).to_contain_text("3 nodes in 2 waves, 0 excluded")
        assert [] == fleet.get("rollouts")["rollouts"]
        dialog.get_by_role("button", name="Start the rollout").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Rollout of manage")
        expect(page.locator("h1 + .badge")).to_have_text("completed")
        nodes = page.get_by_role("region", name="Nodes", exact=True)
        expect(row(nodes, "succeeded")).to_have_count(3)
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_a_strategy_is_refused_at_its_field(chromium, fleet):
    with desk(chromium, fleet.url, at="/rollouts") as page:
        page.get_by_role("button", name="Roll out…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Dry run").click()
        expect(dialog).to_contain_text("Choose what the nodes are asked to do.")
        dialog.locator("[name=target]").select_option("power off")
        dialog.locator("[name=max_unavailable]").fill("0%")
        dialog.get_by_role("button", name="Dry run").click()
        expect(dialog.locator("#told-max_unavailable")).to_contain_text("neither a number of nodes")


def test_a_rollout_pauses_at_failures_and_is_resumed_and_aborted(chromium, fleet):
    body = {
        "target": "manage", "nodes": {"where": "name=dead-*"}, "description": MARKUP,
        "strategy": {"error_budget": "1"},
    }  # fmt: skip
    answer = fleet.http.post(f"{fleet.url}/v1/rollouts", json=body, timeout=30)
    assert 201 == answer.status_code, answer.text
    uuid = answer.json()["uuid"]
    with job(chromium, fleet, "/rollouts", "resume a rollout that paused") as page:
        rollouts = page.get_by_role("region", name="Rollouts", exact=True)
        expect(row(rollouts, "<b id='bold'>")).to_contain_text("paused")
        row(rollouts, "<b id='bold'>").get_by_role("link").click()
        progress = page.get_by_role("region", name="Progress")
        expect(progress).to_contain_text("error budget")
        expect(progress).to_contain_text("1 failed")
        page.get_by_role("button", name="Resume", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("the error budget counts from zero")
        dialog.get_by_role("button", name="Resume it").click()
        until(lambda: fleet.get(f"rollouts/{uuid}")["failed"] == 2, "the second failure")
    with job(chromium, fleet, f"/rollouts/{uuid}", "abort a rollout") as page:
        expect(page.locator("h1 + .badge")).to_have_text("paused")
        page.get_by_role("button", name="Abort", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Abort it").click()
        expect(page.locator("h1 + .badge")).to_have_text("aborted")
    with job(chromium, fleet, f"/rollouts/{uuid}") as page:
        assert (0, "Rollout · Ingot") == (page.locator("#bold, main img").count(), page.title())
        page.get_by_label("State").select_option("failed")
        expect(
            row(page.get_by_role("region", name="Nodes", exact=True), "unreachable")
        ).to_have_count(2)
        page.get_by_role("button", name="Show the failed nodes").click()
        expect(page.locator("tr[data-uuid]")).to_have_count(2)


def test_the_changes_of_a_night_are_on_one_time_line(chromium, fleet):
    with job(chromium, fleet, "/fleet", "see the changes of last night") as page:
        page.get_by_role("link", name="Changes").click()
        line = page.get_by_role("region", name="Time line")
        expect(row(line, "operation").filter(has_text="manage failed").first).to_contain_text(
            "dead-"
        )
        expect(row(line, "update/node/maintenance").first).to_contain_text("dead-")
        expect(row(line, "node.created").first).to_be_visible()
    with job(chromium, fleet, "/changes?range=24h") as page:
        line = page.get_by_role("region", name="Time line")
        page.get_by_label("Node", exact=True).fill("dead-2")
        page.get_by_label("Node", exact=True).press("Enter")
        expect(row(line, "dead-1")).to_have_count(0)
        expect(row(line, "dead-2").first).to_be_visible()
        page.get_by_label("With the words").fill("maintenance request")
        expect(row(line, "node.created")).to_have_count(0)
        assert "words=maintenance" in page.url
        assert "node=dead-2" in page.url
        page.get_by_label("With the words").fill("nothing has these words")
        expect(line).to_contain_text("Nothing has changed in this time.")


def test_a_node_is_enrolled_changed_and_deleted(chromium, fleet):
    with job(chromium, fleet, "/fleet", "enrol a machine") as page:
        page.get_by_role("button", name="Enrol", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.locator("[name=name]").fill("bay-1")
        dialog.locator("[name=driver]").select_option("redfish")
        secret = dialog.locator("[name='driver_info/redfish_password']")
        expect(secret).to_have_attribute("type", "password")
        secret.fill("hunter2")
        dialog.locator("[name='driver_info/redfish_address']").fill("https://192.0.2.7")
        dialog.locator("[name='driver_info/redfish_username']").fill("root")
        dialog.locator("[name=ports]").fill("52:54:00:00:01:01 52:54:00:00:01:02")
        dialog.get_by_role("button", name="Enrol").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("bay-1")
    node = fleet.get("nodes/bay-1")
    assert "https://192.0.2.7" == node["driver_info"]["redfish_address"]
    assert 2 == len(fleet.get("nodes/bay-1/ports")["ports"])

    with job(chromium, fleet, f"/nodes/{node['uuid']}", "change a node's BMC address") as page:
        page.get_by_role("button", name="Edit", exact=True).click()
        dialog = page.get_by_role("dialog")
        address = dialog.locator("[name='driver_info/redfish_address']")
        expect(address).to_have_value("https://192.0.2.7")
        address.fill("https://192.0.2.8")
        dialog.get_by_role("button", name="Change").click()
        notices = page.locator("#notices")
        expect(notices.get_by_text("Changed: driver_info/redfish_address.")).to_be_visible()
    changed = fleet.get("nodes/bay-1")
    assert changed["driver_info"] == node["driver_info"] | {"redfish_address": "https://192.0.2.8"}

    with job(chromium, fleet, f"/nodes/{node['uuid']}") as page:
        page.get_by_role("button", name="Edit", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.locator("[name=name]").fill("not a name")
        dialog.get_by_role("button", name="Change").click()
        expect(dialog.locator("#told-name")).not_to_be_empty()
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("This is not its name.")
    with job(chromium, fleet, f"/nodes/{node['uuid']}", "delete a node") as page:
        page.get_by_role("button", name="Delete", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Type bay-1 to confirm").fill("bay-1")
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    url = f"{fleet.url}/v1/nodes/bay-1"
    assert 404 == fleet.http.get(url, timeout=30).status_code


def test_the_failures_of_a_webhook_are_shown_and_posted_again(chromium, fleet):
    body = {
        "name": "cmdb", "url": f"http://127.0.0.1:{free_port()}/", "secret": "0123456789abcdef0123",
    }  # fmt: skip
    fleet._create("webhooks", body)
    fleet.provision(fleet.small[:1], "inspect")
    until(lambda: fleet.get("webhooks/cmdb/failures")["failures"], "the failure")
    at = "/resources?kind=webhooks"
    with job(chromium, fleet, at, "post a webhook's events again") as page:
        page.get_by_role("button", name="Failures cmdb").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Events that were given up")
        expect(dialog).to_contain_text("failing since")
        dialog.get_by_role("button", name="Post them again").click()
        expect(page.get_by_text("The events are posted again")).to_be_visible()
    assert 204 == fleet.http.delete(f"{fleet.url}/v1/webhooks/cmdb", timeout=30).status_code


def test_release_and_settings_are_shown(chromium, fleet):
    with desk(chromium, fleet.url, at="/conductors") as page:
        settings = page.get_by_role("region", name="Release and settings")
        expect(row(settings, "[webhooks]give_up_after")).to_contain_text("1")
        expect(row(settings, "[api]max_limit")).to_have_count(0)  # it has its default
        settings.get_by_label("Find a setting").fill("max_limit")
        expect(row(settings, "[api]max_limit")).to_contain_text("1000")


@pytest.mark.parametrize(
    ("words", "nodes", "address"),
    [
        ("driver=redfish resource_class=none", 0, "driver=redfish&resource_class=none"),
        ("driver=redfish driver=fake-hardware", 0, "where=driver%3Dredfish+driver%3Dfake-hardware"),
        ("dead-2 or dead-3", 2, "where=dead-2+or+dead-3"),
    ],
)
def test_the_search_takes_each_word_into_account(chromium, fleet, words, nodes, address):
    with desk(chromium, fleet.url) as page:
        page.get_by_role("searchbox").fill(words)
        page.get_by_role("searchbox").press("Enter")
        expect(page.get_by_role("button", name=f"{nodes} all")).to_be_visible()
        assert page.url.endswith(f"#/fleet?{address}")
        expect(page.locator("tr[data-uuid]")).to_have_count(nodes)


def test_an_unfinished_search_is_refused_with_the_place(chromium, fleet):
    with desk(chromium, fleet.url) as page:
        page.get_by_role("searchbox").fill("driver=")
        page.get_by_role("searchbox").press("Enter")
        expect(page.get_by_role("alert")).to_have_count(1)
        expect(page.get_by_role("alert")).to_contain_text("of where:")
        expect(page.locator("tr[data-uuid]")).to_have_count(0)


#: Elements of the content that a finger hits, and that are smaller than 24 pixels; links in a text are not.
SMALL_TARGETS = """() => [...document.querySelectorAll("main :is(button, input, select, summary), nav a")]
  .filter(each => each.checkVisibility() && !each.closest("label.target, label.inline"))
  .map(each => [each.getBoundingClientRect(), each.outerHTML.slice(0, 120)])
  .filter(([place]) => place.width && (place.height < 24 || place.width < 24)).map(([, html]) => html)"""
#: Tables that go on beyond the screen.
CUT = """() => [...document.querySelectorAll("main .scroll")].filter(each => each.checkVisibility())
  .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.ariaLabel)"""


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
def test_every_view_is_accessible_and_fits_a_phone(chromium, fleet, scheme, size):
    (rollout,) = fleet.get("rollouts", state="aborted")["rollouts"]
    paths = {
        "failures": "/fleet", "failed-node": f"/nodes/{fleet.dead[0]}", "operations": "/operations",
        "rollouts": "/rollouts", "rollout": f"/rollouts/{rollout['uuid']}", "changes": "/changes",
        "resources": "/resources?kind=ports", "service": "/conductors",
    }  # fmt: skip
    with desk(chromium, fleet.url, scheme=scheme, size=size) as page:
        for view, at in paths.items():
            page.goto(f"{fleet.url}/ui#{at}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_text(re.compile("^(Loading|Reading)…$"))).to_have_count(0)
            assert {} == findings(page), at
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), at
            picture(page, f"{view}-{'phone-dark' if size == NARROW else 'light'}")
            if size == NARROW:
                assert [] == page.evaluate(CUT), at
                assert [] == page.evaluate(SMALL_TARGETS), at
