"""The page at /ui in a browser: the fleet, a node's life, its operation, and what axe finds."""

import os
import re
import signal

import pytest
from playwright.sync_api import expect

from drivers.simulator.simulator import running
from tests.support.browser import NARROW, WIDE, desk, grave_findings, picture
from tests.support.fleet import AGENTS, PATIENCE, Fleet, until

expect.set_options(timeout=PATIENCE * 1000)

PACE = {"boot_seconds": 0.5, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}
HOLD = '[{"step": "hold", "args": {}, "priority": 90}]'


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A fleet with two simulated machines, one available and one failed, and fake nodes."""
    with (
        running(machines=2, **PACE) as simulator,
        Fleet(tmp_path_factory.mktemp("page"), conductors=1, **AGENTS) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        fleet.good, fleet.bad = fleet.enrol(simulator, automated_clean=False)
        fleet.fakes = fleet.create_nodes(300, resource_class="fake")
        change(fleet, fleet.good, "name", "rack1-u1")
        change(fleet, fleet.bad, "driver_info/redfish_password", "wrong")
        fleet.provision([fleet.good, fleet.bad], "manage")
        fleet.await_state([fleet.good], "manageable")
        fleet.provision([fleet.good], "provide")
        fleet.await_state([fleet.good], "available")
        until(lambda: fleet.get(f"nodes/{fleet.bad}")["last_error"], "the failure")
        yield fleet


def change(fleet, node, field, value):
    patch = [{"op": "add", "path": f"/{field}", "value": value}]
    answer = fleet.http.patch(f"{fleet.url}/v1/nodes/{node}", json=patch, timeout=30)
    assert 200 == answer.status_code, answer.text


def steps(page):
    return page.get_by_role("list", name=re.compile("Steps of"))


def test_a_node_is_found_by_a_filter_and_shows_its_failure(chromium, site):
    with desk(chromium, site.url) as page:
        expect(page.get_by_role("button", name="302 all")).to_be_visible()
        picture(page, "fleet")
        page.get_by_label("Filter", exact=True).select_option("driver")
        page.get_by_label("driver", exact=True).fill("redfish")
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page.get_by_role("button", name="2 all")).to_be_visible()
        assert page.url.endswith("#/fleet?driver=redfish")
        failed = page.locator(f"tr[data-uuid='{site.bad}']")  # its state is that of a new node
        expect(failed).to_contain_text("does not accept driver_info/redfish_username")
        page.get_by_role("button", name="1 enroll").click()
        expect(page.locator("tr[data-uuid]")).to_have_count(1)
        page.get_by_role("link", name=site.bad).click()
        region = page.get_by_role("region", name="Why")
        hint = "correct them; after several failures"  # once, as a sentence of the summary
        expect(region).to_contain_text(hint, ignore_case=True)
        expect(region).to_contain_text("the BMC does not accept the user and the password")
        page.go_back()
        expect(page.locator("tr[data-uuid]")).to_have_count(1)  # the filters are in the address


def test_the_table_shows_only_rows_in_view_and_reaches_the_last_node(chromium, site):
    with desk(chromium, site.url, at="/fleet?resource_class=fake") as page:
        expect(page.get_by_role("button", name="300 all")).to_be_visible()
        last_node = site.get("nodes", resource_class="fake", limit=1000)["nodes"][-1]["uuid"]
        table = page.get_by_role("region", name="Nodes")
        table.evaluate("each => { each.scrollTop = each.scrollHeight; }")
        expect(page.locator(f"tr[data-uuid='{last_node}']")).to_be_visible()
        assert page.locator("tr[data-uuid]").count() < 100
        assert "301" == page.get_by_role("table", name="Nodes").get_attribute("aria-rowcount")


def test_the_keyboard_moves_opens_and_searches(chromium, site):
    with desk(chromium, site.url, at="/fleet?driver=redfish") as page:
        expect(page.locator("tr[data-uuid]")).to_have_count(2)
        page.keyboard.press("j")
        expect(page.locator("tr.current")).to_have_attribute("data-uuid", site.bad)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(site.bad)
        page.keyboard.press("/")
        page.keyboard.type("rack1-u1\n")
        expect(page.get_by_role("heading", level=1)).to_have_text("rack1-u1")
        page.keyboard.press("g")
        page.keyboard.press("f")
        expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("next, previous row")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("nonesuch\n")
        expect(page.get_by_text("No node matches the filters.")).to_be_visible()
        assert page.url.endswith("#/fleet?where=nonesuch")
        for words in ("name=rack1-* or name=nonesuch", "rack1-", "ack1-U"):
            page.keyboard.press("Escape")
            page.get_by_role("searchbox").fill(words)
            page.keyboard.press("Enter")
            expect(page.get_by_role("link", name="rack1-u1")).to_be_visible()


def test_a_verb_for_several_nodes_is_rehearsed_and_its_refusals_are_named(chromium, site):
    with desk(chromium, site.url, at="/fleet?driver=redfish") as page:
        expect(page.locator("tr[data-uuid]")).to_have_count(2)
        for box in page.get_by_role("checkbox").all():
            box.check()
        expect(page.get_by_role("group", name="Selected nodes")).to_contain_text("2 selected")
        page.get_by_label("Verb").select_option("manage")
        change(site, site.fakes[0], "name", "first")  # the table is drawn again, and keeps its rows
        page.get_by_role("button", name="Dry run…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("2 of 2 nodes accept it")
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_label("Verb")).to_have_value("manage")
        page.get_by_label("Verb").select_option("adopt")
        page.get_by_role("button", name="Dry run…").click()
        expect(dialog).to_contain_text("0 of 2 nodes accept it")
        expect(dialog).to_contain_text("Not started")
        expect(dialog.get_by_role("button", name=re.compile("Start"))).to_have_count(0)
    assert "available" == site.states()[site.good]


def test_a_verb_starts_only_when_its_dry_run_is_shown(chromium, site):
    with desk(chromium, site.url, at=f"/nodes/{site.good}") as page:
        routes = []
        page.route("**/states/provision", lambda route: routes.append(route))  # noqa: PLW0108 - not a builtin
        page.get_by_role("button", name="deploy install", exact=True).click()
        dialog = page.get_by_role("dialog")
        start = dialog.get_by_role("button", name="Start deploy")
        expect(dialog).to_contain_text("Asking")
        expect(start).to_be_disabled()  # a request now would be one for a plan that is not shown
        dialog.get_by_label("deploy_steps").fill(HOLD)
        until(lambda: page.wait_for_timeout(20) or routes, "the first dry run")
        routes.pop().continue_()
        expect(dialog).to_contain_text("deploy.write_image")
        expect(start).to_be_enabled()
        start.click()  # the plan that is shown is that of the request before the edit
        until(lambda: page.wait_for_timeout(20) or routes, "the second dry run")
        assert routes[0].request.post_data_json["dry_run"]
        routes.pop().continue_()
        expect(dialog.get_by_role("listitem").filter(has_text="hold")).to_have_count(1)
        dialog.get_by_role("button", name="Close").click()
    assert "available" == site.states()[site.good]


def test_a_deployment_is_rehearsed_started_held_and_watched_to_active(chromium, site):
    with desk(chromium, site.url, at=f"/nodes/{site.good}") as page:
        page.get_by_text("State machine", exact=True).click()  # folded until asked for
        states = page.get_by_role("region", name="State machine")
        expect(states.get_by_role("img")).to_have_attribute(
            "aria-label", re.compile("The node is available; it may become deploying")
        )
        page.get_by_role("button", name="deploy install", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("deploy.write_image")
        assert "available" == site.states()[site.good]  # a dry run changes nothing
        picture(page, "dry-run")
        dialog.get_by_label("deploy_steps").fill("[{]")
        dialog.get_by_role("button", name="Dry run").click()
        expect(dialog).to_contain_text("deploy_steps: this is not JSON")
        dialog.get_by_label("deploy_steps").fill(HOLD)
        dialog.get_by_label("configdrive").fill('{"meta_data": 5}')
        dialog.get_by_role("button", name="Dry run").click()
        expect(dialog).to_contain_text("configdrive: meta_data is of the wrong type")
        dialog.get_by_label("configdrive").fill('{"meta_data": {"name": "first"}}')
        dialog.get_by_role("button", name="Start deploy").click()  # it shows the new plan first
        expect(dialog.get_by_role("listitem").filter(has_text="hold")).to_have_count(1)
        assert "available" == site.states()[site.good]
        dialog.get_by_role("button", name="Start deploy").click()
        expect(dialog).to_have_count(0)

        expect(page.locator("h1 + .badge")).to_have_text("deploy hold")
        assert "configdrive" in site.get(f"nodes/{site.good}")["instance_info"]
        region = page.get_by_role("region", name="Why")
        expect(region).to_contain_text("it is held until unhold or abort is requested")
        expect(steps(page).locator("li", has_text="hold")).to_have_attribute(
            "data-state", "waiting"
        )
        expect(steps(page).locator("li", has_text="deploy.write_image")).to_have_attribute(
            "data-state", "pending"
        )
        picture(page, "node")
        page.get_by_role("button", name="unhold").click()
        expect(dialog.get_by_role("button", name="Start unhold")).to_be_enabled()
        dialog.get_by_role("button", name="Start unhold").click()
        expect(page.locator("h1 + .badge")).to_have_text("active")
        expect(steps(page).locator("li:not([data-state=done])")).to_have_count(0)
        expect(steps(page).get_by_text("by fleet-1")).to_have_count(1)
        planned = site.operation(site.good, "active")["steps"]
        names = ".".join
        assert [
            names((step["interface"], step["step"])) for step in planned if step["interface"]
        ] == [name for name in steps(page).locator("li code").all_inner_texts() if "." in name]
        expect(page.get_by_role("tabpanel")).to_contain_text("The node was deployed.")


def test_a_killed_conductor_and_the_takeover_are_shown(chromium, tmp_path):
    stop = {"INGOT_KILL_POINTS": f"any:acted:manage=stop-{tmp_path / 'stopped'}"}
    with Fleet(tmp_path, **stop) as fleet:
        (node,) = fleet.create_nodes(1)

        def stopped():
            return [pid for pid in fleet.pids()["conductors"].values() if fleet.stopped(pid)]

        with desk(chromium, fleet.url, at=f"/nodes/{node}") as page:
            page.get_by_role("button", name="manage check the BMC").click()
            page.get_by_role("dialog").get_by_text("The node becomes verifying").wait_for()
            page.get_by_role("button", name="Start manage").click()
            (pid,) = until(stopped, "the stop")
            conductors = fleet.pids()["conductors"].items()
            (survivor,) = [name for name, other_pid in conductors if other_pid != pid]
            os.kill(pid, signal.SIGKILL)
            expect(page.locator("h1 + .badge")).to_have_text("manageable")
            expect(steps(page)).to_contain_text("1 attempt ended with the death of its conductor")
            expect(steps(page)).to_contain_text(f"by {survivor}")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium, site, scheme, size):
    with desk(chromium, site.url, scheme=scheme, size=size) as page:
        expect(page.locator("tr[data-uuid]").first).to_be_visible()
        assert {} == grave_findings(page)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        assert {} == grave_findings(page)
        page.keyboard.press("Escape")
        for at in (f"/nodes/{site.bad}", f"/nodes/{site.good}"):
            page.goto(f"{site.url}/ui#{at}")
            expect(page.get_by_role("region", name="Why")).to_contain_text("Node")
            expect(page.get_by_role("tabpanel")).to_contain_text("severity")
            assert {} == grave_findings(page)


def test_the_tab_of_sensors_reads_the_machine_and_says_why_it_is_empty(chromium, site):
    with desk(chromium, site.url, at=f"/nodes/{site.good}") as page:
        page.get_by_role("tab", name="Sensors").click()
        row = page.get_by_role("tabpanel").get_by_role("row")
        expect(row.filter(has_text="Inlet")).to_contain_text("°C")
        expect(row.filter(has_text="Inlet")).to_contain_text("ok")
        assert {} == grave_findings(page)
    change(site, site.fakes[1], "management_interface", "noop")
    with desk(chromium, site.url, at=f"/nodes/{site.fakes[1]}") as page:
        page.get_by_role("tab", name="Sensors").click()
        expect(page.get_by_role("tabpanel")).to_contain_text("noop management has no sensors")
        expect(page.get_by_role("tabpanel").get_by_role("alert")).to_have_count(0)


def test_the_tab_of_benchmarks_shows_each_metric_with_its_trend(chromium, site):
    def number(metric, value, step):
        return {
            "sequence": 1, "metric": metric, "value": value, "unit": "MB/s", "step": step,
            "operation_uuid": site.good, "started_at": None,
            "recorded_at": "2026-03-02T10:15:00+00:00",
        }  # fmt: skip

    answer = {
        "benchmarks": [
            number("fio.write", 7, "deploy.burnin_disk"),
            number("fio.read", 512.25, "deploy.burnin_disk"),
            number("fio.read", 480, "deploy.burnin_disk"),
        ]
    }
    with desk(chromium, site.url, at=f"/nodes/{site.good}") as page:
        panel = page.get_by_role("tabpanel")
        page.get_by_role("tab", name="Benchmarks").click()
        expect(panel).to_contain_text("No step has measured numbers on this node.")
        page.route("**/benchmarks?*", lambda route: route.fulfill(json=answer))
        page.get_by_role("tab", name="Sensors").click()
        page.get_by_role("tab", name="Benchmarks").click()
        rows = panel.get_by_role("row")
        expect(rows).to_have_count(3)
        expect(rows.nth(1)).to_contain_text("512.25 MB/s")
        expect(rows.nth(1)).to_contain_text("480 to 512.25 (2)")
        expect(rows.nth(1).locator("polyline")).to_have_count(1)
        expect(rows.nth(2)).to_contain_text("7 MB/s")
        expect(rows.nth(2).locator("polyline")).to_have_count(0)
        assert {} == grave_findings(page)


def test_the_tab_of_the_console_shows_whether_it_is_started(chromium, site):
    with desk(chromium, site.url, at=f"/nodes/{site.fakes[2]}") as page:
        page.get_by_role("tab", name="Console").click()
        panel = page.get_by_role("tabpanel")
        expect(panel).to_contain_text("The console is not enabled")
        url = f"{site.url}/v1/nodes/{site.fakes[2]}"
        answer = site.http.put(f"{url}/states/console", json={"enabled": True}, timeout=30)
        assert 202 == answer.status_code, answer.text
        until(lambda: site.get(f"nodes/{site.fakes[2]}")["console_enabled"], "the console")
        page.get_by_role("tab", name="Console").click()
        expect(panel).to_contain_text("The console is started.")
        page.route("**/states/console", lambda route: route.fulfill(json={
            "console_enabled": True, "console_info": {"type": "vnc", "url": "https://bmc.example/console"},
        }))  # fmt: skip
        page.get_by_role("tab", name="Ports").click()
        page.get_by_role("tab", name="Console").click()
        link = page.get_by_role("link", name="https://bmc.example/console")
        expect(link).to_have_attribute("rel", "noreferrer noopener")


def test_texts_of_nodes_are_shown_as_text(chromium, site):
    markup = "<img src=x onerror=\"document.title = 'run'\"><b id='bold'>bold</b>"
    change(site, site.fakes[3], "description", markup)
    answer = site.http.put(
        f"{site.url}/v1/nodes/{site.fakes[3]}/maintenance", json={"reason": markup}, timeout=30
    )
    assert 202 == answer.status_code, answer.text
    script = (
        "() => localStorage.setItem('ingot.columns', '[\"description\", \"maintenance_reason\"]')"
    )
    with desk(chromium, site.url, at=f"/nodes/{site.fakes[3]}") as page:
        page.get_by_role("tab", name="Fields").click()
        expect(page.get_by_role("tabpanel")).to_contain_text("<b id='bold'>")
        page.get_by_role("button", name="End maintenance").click()
        expect(page.get_by_role("dialog")).to_contain_text(markup)
        assert 0 == page.locator("#bold").count()
        page.evaluate(script)
        page.goto(f"{site.url}/ui#/fleet?maintenance=true")
        page.reload()
        expect(page.get_by_role("cell", name=markup)).to_have_count(2)
        assert (0, "Fleet · Ingot") == (page.locator("#bold, main img").count(), page.title())


def test_a_missing_node_and_an_unknown_address_say_so(chromium, site):
    with desk(chromium, site.url, at="/nodes/nonesuch") as page:
        expect(page.get_by_role("alert")).to_contain_text("nonesuch")
        page.goto(f"{site.url}/ui#/nowhere")
        expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_the_scheme_is_switched_and_kept(chromium, site):
    with desk(chromium, site.url) as page:
        ground = "() => getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.get_by_role("button", name="Light or dark").click()
        dark = page.evaluate(ground)
        assert light != dark
        page.reload()
        assert dark == page.evaluate(ground)
