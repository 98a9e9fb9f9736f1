"""The table of the fleet: any row of a long list is shown after few requests."""

import random

import pytest
from playwright.sync_api import expect
from sqlalchemy import delete, insert

from app.db import schema
from app.models import Node
from app.server.application import create_app
from tests.bench.bench_api import VERSION
from tests.bench.bench_desk import HEIGHT, opened, serving
from tests.bench.bench_fleet_pages import fill, node
from tests.support.fleet import PATIENCE, until
from tests.support.inside import Inside

expect.set_options(timeout=PATIENCE * 1000)

NODES, PAGE = 6_000, 200
#: Count how often the rows of the table are replaced.
COUNT_DRAWINGS = """table => {
  window.drawings = 0;
  new MutationObserver(() => { window.drawings += 1; }).observe(table, { childList: true });
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Address of a service with many nodes, the requests that it has answered, a client, and its runtime."""
    url, chance = f"sqlite:///{tmp_path_factory.mktemp('long') / 'ingot.db'}", random.Random(1)
    schema.upgrade(url)
    inside = Inside(url)
    fill(inside, Node, (node(number, chance) for number in range(NODES)))
    app = create_app(inside.runtime)
    with serving(app) as (address, requests):
        yield address, requests, app.test_client(), inside.runtime


@pytest.fixture
def page(chromium, site):
    address, requests, *_ = site
    with opened(chromium, address, requests, NODES) as opened_page:
        yield opened_page


def scroll(page, row):
    view = page.locator("div.scroll.nodes")
    view.evaluate("(view, top) => { view.scrollTop = top; }", row * HEIGHT)


def expect_node(page, row, name):
    """Wait until the row, from 0, shows the node."""
    link = page.locator(f"tr[aria-rowindex='{row + 2}'][data-uuid] a")
    expect(link).to_have_text(name)


def lists(site):
    """Take the queries of the table since the last call; the list of failed nodes has `where`."""
    requests = site[1]
    queries = [request.path for request in requests if request.path.startswith("/v1/nodes?")]
    table_queries = [query for query in queries if "where=" not in query]
    requests.clear()
    return table_queries


def test_the_last_row_costs_a_page_from_the_other_end(page, site):
    lists(site)
    scroll(page, NODES)
    expect_node(page, NODES - 1, f"n{NODES - 1}")
    expect_node(page, NODES - 20, f"n{NODES - 20}")
    queries = lists(site)  # with one that reads the first rows again after the connection
    assert len(queries) <= 2, queries
    assert "sort_dir=desc" in queries[-1]
    scroll(page, NODES - PAGE - 50)
    expect_node(page, NODES - PAGE - 40, f"n{NODES - PAGE - 40}")
    scroll(page, 0)
    expect_node(page, 0, "n0")
    assert len(lists(site)) <= 2


def test_a_row_in_the_middle_is_reached_by_passing_over_pages(page, site):
    lists(site)
    for middle in (NODES // 2 - 400, NODES // 2 + 400):  # from one end, and from the other
        scroll(page, middle)
        expect_node(page, middle + 10, f"n{middle + 10}")
        queries = lists(site)
        assert any("fields=uuid&" in query for query in queries), queries
        assert len(queries) <= 8, queries  # page by page they would be more than 12


def test_a_sorted_list_has_the_same_rows_from_both_ends(page, site):
    order = {"sort_key": "resource_class", "sort_dir": "desc", "fields": "name", "limit": "1000"}
    names, answer = [], {"next": "first"}
    while "next" in answer:
        answer = site[2].get("/v1/nodes", query_string=order, headers=VERSION).json
        names += [node["name"] for node in answer["nodes"]]
        order["marker"] = answer.get("next", "").rpartition("marker=")[2]
    for _ in range(2):  # ascending, then descending
        page.get_by_role("button", name="resource class").click()
    expect_node(page, 0, names[0])
    lists(site)
    for row in (NODES - 1, NODES - 3 * PAGE, NODES // 2 + PAGE, NODES // 2 - PAGE, PAGE):
        scroll(page, row - 5)
        expect_node(page, row, names[row])
    assert len(lists(site)) < NODES // PAGE


def test_a_new_node_is_the_last_row_of_a_table_that_shows_its_end(page, site):
    runtime, newest = site[3], node(NODES, random.Random(2))
    scroll(page, NODES)
    expect_node(page, NODES - 1, f"n{NODES - 1}")
    with runtime.transaction() as session:
        session.execute(insert(Node), [newest])
    try:
        expect(page.get_by_role("button", name=f"{NODES + 1:,} all")).to_be_visible()
        scroll(page, NODES + 1)
        expect_node(page, NODES, f"n{NODES}")
        expect_node(page, NODES - 1, f"n{NODES - 1}")
    finally:
        with runtime.transaction() as session:
            session.execute(delete(Node).where(Node.uuid == newest["uuid"]))
    expect(page.get_by_role("button", name=f"{NODES:,} all")).to_be_visible()
    expect_node(page, NODES - 1, f"n{NODES - 1}")


def test_a_page_that_was_awaited_during_much_scrolling_is_drawn_once(page):
    routes = []
    page.route("**/v1/nodes?*", lambda route: routes.append(route))  # noqa: PLW0108 - not a builtin
    for row in range(1000, 1030):
        scroll(page, row)
        page.evaluate("() => new Promise(requestAnimationFrame)")
    page.locator("table.nodes tbody").evaluate(COUNT_DRAWINGS)
    until(lambda: page.wait_for_timeout(20) or routes, "the request")
    while page.locator("tr[aria-rowindex='1030'][data-uuid]").count() == 0:
        drawings = page.evaluate("drawings")
        routes.pop().continue_()
        until(
            lambda drawings=drawings: (
                page.wait_for_timeout(20) or page.evaluate("drawings") > drawings
            ),
            "the rows",
        )
        assert drawings + 1 == page.evaluate("drawings")
