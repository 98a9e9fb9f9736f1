"""The pages of operations, conductors and resources, in a browser, on a running service."""

import os
import signal
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.support.browser import NARROW, WIDE, desk, grave_findings
from tests.support.fleet import PATIENCE, Fleet, until
from tests.support.ports import free_port

FLOWER = "http://flower.example:5555/"
STEPS = '[{"interface": "deploy", "step": "erase_devices", "args": {}, "order": 1}]'


expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Service with one node that is being deployed, two that wait for its slot, two that failed."""
    settings = {
        "INGOT_API_FLOWER_URL": FLOWER,
        "INGOT_CONDUCTOR_MAX_CONCURRENT_DEPLOY": "1",
        "INGOT_CONDUCTOR_AUTOMATED_CLEAN": "false",
        "INGOT_FAKE_DEPLOY_DELAY": "3600",
    }
    with Fleet(tmp_path_factory.mktemp("fleet"), **settings) as started:
        nodes = [enrol(started, f"worked-{number}", driver="fake-hardware") for number in range(4)]
        for verb, state in (("manage", "manageable"), ("provide", "available")):
            started.provision(nodes, verb)
            started.await_state(nodes, state)
        started.provision(nodes[:3], "active")
        until(lambda: counts(started)["waiting"] == 1 and counts(started)["admission"] == 2)
        address = {"redfish_address": f"http://127.0.0.1:{free_port()}"}
        login = {"redfish_username": "admin", "redfish_password": "secret"}
        dead = [
            enrol(started, f"dead-{number}", driver="redfish", driver_info=address | login)
            for number in range(2)
        ]
        started.provision(dead, "manage")
        until(lambda: started.get("operations/failures")["nodes"] == 2)
        yield started


def enrol(fleet, name, **fields):
    """Enrol a node; return its UUID."""
    body = {"name": name, "resource_class": name.partition("-")[0], **fields}
    answer = fleet.http.post(f"{fleet.url}/v1/nodes", json=body, timeout=30)
    assert 201 == answer.status_code, answer.text
    return answer.json()["uuid"]


def counts(fleet):
    return fleet.get("operations/current")["counts"]


def part(page, name):
    """The part of a page with a heading."""
    return page.locator(f"section[aria-label='{name}']")


def row(inside, text):
    """The row of a table with a text."""
    return inside.locator("tbody tr").filter(has_text=text)


def test_a_group_of_failures_leads_to_its_nodes_with_one_click(chromium, fleet):
    with desk(chromium, fleet.url, at="/operations") as page:
        page.get_by_label("Resource class").check()
        expect(part(page, "Failures").locator("thead")).to_contain_text("Resource class")
        group = row(part(page, "Failures"), "dead")
        expect(group).to_contain_text("unreachable")
        expect(group).to_contain_text("check that its address can be reached from the conductor")
        group.get_by_role("link", name="2 nodes").click()
        expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
        nodes = page.get_by_role("table", name="Nodes")
        expect(nodes.get_by_text("dead-0")).to_be_visible()
        expect(nodes.get_by_text("dead-1")).to_be_visible()
        expect(nodes.get_by_text("worked-0")).to_have_count(0)
        assert "failure_code=unreachable" in page.url
        assert "resource_class=dead" in page.url


def test_groups_that_are_answered_late_do_not_replace_newer_ones(chromium, fleet):
    routes = []
    with desk(chromium, fleet.url, at="/resources") as page:
        page.route(
            "**/operations/failures?*",
            lambda route: route.continue_() if routes else routes.append(route),
        )
        page.goto(f"{fleet.url}/ui#/operations")
        expect(page.get_by_role("heading", name="Failures")).to_be_visible()
        while not routes:
            page.wait_for_timeout(10)
        page.get_by_label("Resource class").check()
        head = part(page, "Failures").locator("thead")
        expect(head).to_contain_text("Resource class")
        with page.expect_response("**/operations/failures?*"):
            routes[0].continue_()
        page.wait_for_timeout(300)
        assert "resource class" in head.inner_text().lower()


def test_work_and_its_queue_are_shown_as_they_change(chromium, fleet):
    with desk(chromium, fleet.url, at="/operations") as page:
        now, queue = part(page, "Now"), part(page, "Waiting for a slot")
        expect(row(now, "worked-")).to_contain_text("deploy.")
        expect(now.locator("[data-state=waiting] dd")).to_have_text("1")
        expect(now.locator("[data-state=admission] dd")).to_have_text("2")
        expect(queue).to_contain_text("2 wait for one of 1 slots")
        expect(row(queue, "worked-")).to_have_count(2)
        expect(part(page, "Slow steps")).to_contain_text("power.")

        fleet.provision(["worked-3"], "active")
        expect(queue).to_contain_text("3 wait for one of 1 slots")
        expect(row(queue, "worked-3").locator("th")).to_have_text("3")
        expect(now.locator("[data-state=admission] dd")).to_have_text("3")


def test_conductors_show_ring_load_queues_and_a_death(chromium, fleet):
    with desk(chromium, fleet.url, at="/conductors") as page:
        for healthy in ("database", "conductors", "beat", "broker"):
            expect(page.locator(f"[data-part={healthy}]")).to_contain_text("healthy")
        assert FLOWER == page.get_by_role("link", name="Tasks in Flower").get_attribute("href")
        expect(row(part(page, "Ring"), "redfish")).to_contain_text("fleet-1, fleet-2")
        expect(row(part(page, "Queues"), "deploy")).to_be_visible()
        second = row(part(page, "Conductors"), "fleet-2")
        expect(second).to_contain_text("alive")

        os.kill(fleet.conductor(2), signal.SIGKILL)
        expect(second).to_contain_text("lost")
        expect(row(part(page, "Ring"), "redfish").locator("td").last).to_have_text("fleet-1")
        page.get_by_role("button", name="Drain fleet-1").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("6 nodes have no other conductor")
        dialog.get_by_role("button", name="Close").click()
        for at in ("fleet", "operations"):
            page.goto(f"{fleet.url}/ui#/{at}")
            fault = part(page, "Conductors at fault").locator("[data-conductor=fleet-2]")
            expect(fault).to_contain_text("lost no heartbeat for")
            expect(fault).to_contain_text("Other conductors get all new work.")
            expect(part(page, "Conductors at fault").locator("p")).to_have_count(1)


def test_a_conductor_is_drained_and_gets_work_again(chromium, fleet):
    with desk(chromium, fleet.url, at="/conductors") as page:
        conductor_row = row(part(page, "Conductors"), "fleet-1")
        page.get_by_role("button", name="Drain fleet-1").click()
        dialog = page.get_by_role("dialog")
        dialog.locator("[name=reason]").fill("new fan")
        dialog.get_by_role("button", name="Drain", exact=True).click()
        expect(dialog).to_have_count(0)
        expect(conductor_row).to_contain_text("drain")
        expect(conductor_row).to_contain_text(": new fan")
        page.get_by_role("button", name="Undrain fleet-1").click()
        expect(conductor_row).to_contain_text("alive")
        expect(page.get_by_role("button", name="Drain fleet-1")).to_be_visible()


def test_a_runbook_is_created_changed_and_deleted_by_forms(chromium, fleet):
    with desk(chromium, fleet.url, at="/resources?kind=runbooks") as page:
        expect(page.get_by_text("There are no runbooks that you may see.")).to_be_visible()
        page.get_by_role("button", name="Create", exact=True).click()
        form = page.get_by_role("dialog")
        create = form.get_by_role("button", name="Create")
        fill = {"name": "no trait", "steps": STEPS, "description": "Wipe it"}
        for name, value in fill.items():
            form.locator(f"[name={name}]").fill(value)
        create.click()
        expect(form.locator("#told-name")).not_to_be_empty()  # by its pattern in the document
        form.locator("[name=name]").fill("CUSTOM_WIPE")
        form.locator("[name=steps]").fill('[{"interface": "nothing", "step": "x", "order": 1}]')
        create.click()
        expect(form.locator("#told-steps")).to_contain_text("interface")  # by the API
        form.locator("[name=steps]").fill(STEPS)
        create.click()
        expect(form).to_have_count(0)
        expect(page.get_by_role("rowheader", name="CUSTOM_WIPE")).to_be_visible()

        page.get_by_role("button", name="Edit CUSTOM_WIPE").click()
        expect(form.locator("[name=description]")).to_have_value("Wipe it")
        form.locator("[name=description]").fill("")
        form.get_by_text("Other fields").click()
        form.locator("[name=extra]").fill('{"rack": 7}')
        form.get_by_role("button", name="Change").click()
        expect(form).to_have_count(0)
        changed = fleet.http.get(
            f"{fleet.url}/v1/runbooks/CUSTOM_WIPE",
            headers={"X-OpenStack-Ironic-API-Version": "latest"}, timeout=30,
        ).json()  # fmt: skip
        assert (None, {"rack": 7}) == (changed["description"], changed["extra"])
        assert "erase_devices" == changed["steps"][0]["step"]

        page.get_by_role("button", name="Delete CUSTOM_WIPE").click()
        assert 1 == len(fleet.get("runbooks")["runbooks"]), "nothing is deleted unasked"
        form.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("There are no runbooks that you may see.")).to_be_visible()
        assert [] == fleet.get("runbooks")["runbooks"]


def test_every_kind_of_resource_has_a_form(chromium, fleet):
    kinds = {
        "Allocations", "Baselines", "Chassis", "Deploy templates", "Holds", "Inspection rules", "Networks", "Port groups",
        "Ports", "Quotas", "Runbooks", "Switches", "Volume connectors", "Volume targets", "Webhooks",
    }  # fmt: skip
    with desk(chromium, fleet.url, at="/resources") as page:
        choice = page.get_by_label("Kind")
        expect(choice).to_be_visible()
        assert kinds == set(choice.locator("option").all_inner_texts())
        for kind in kinds:
            choice.select_option(kind)
            expect(
                page.locator(f"section[aria-label='{kind}'] > :not(:text('Loading'))")
            ).to_be_visible()
            page.get_by_role("button", name="Create", exact=True).click()
            expect(page.get_by_role("dialog").locator("[name=uuid]")).to_be_attached()
            page.get_by_role("dialog").get_by_role("button", name="Close").click()
            expect(page.locator("dialog")).to_have_count(0)  # hidden before it is removed


@contextmanager
def filled(chromium, fleet, at, scheme, size):
    with desk(chromium, fleet.url, at=at, scheme=scheme, size=size) as page:
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        yield page


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
@pytest.mark.parametrize("at", ["/operations", "/conductors", "/resources?kind=ports"])
def test_the_pages_are_accessible(chromium, fleet, at, scheme, size):
    with filled(chromium, fleet, at, scheme, size) as page:
        assert {} == grave_findings(page)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, "the page scrolls sideways"


@pytest.mark.parametrize("at", ["/operations", "/conductors", "/resources?kind=runbooks"])
def test_a_refusal_of_the_api_is_shown_in_its_words(chromium, fleet, at):
    def refuse(route):
        route.fulfill(status=403, json={"error_message": '{"faultstring": "Not for you."}'})

    with desk(chromium, fleet.url, at="/fleet") as page:
        for path in ("operations/*", "operations/failures?*", "service", "runbooks*"):
            page.route(f"**/v1/{path}", refuse)
        page.goto(f"{fleet.url}/ui#{at}")
        expect(page.get_by_role("alert").filter(has_text="Not for you.").first).to_be_visible()
