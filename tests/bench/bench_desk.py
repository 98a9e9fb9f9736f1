"""
The page at /ui with 100,000 nodes in a browser: its first sight, a filter, and the way to the last row.

The API runs in this process, on SQLite and on PostgreSQL. Server time is that of the requests of the
API that the page sends; the lowest of the rounds counts. Work of the browser is measured by its own
list of long tasks.
"""

import tempfile
import threading
import time
from collections import namedtuple
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.bench.bench_fleet_pages import NODES, filled
from tests.support import postgresql
from tests.support.browser import browser, desk

ROUNDS, STEP = 5, 1_000
#: Most milliseconds of the server for the first sight and for a filter, and of one task of the browser.
FIRST_SIGHT, FILTER, TASK = 300, 150, 100
#: Most rows of the table that are elements.
ROWS = 100
HEIGHT = 34  # of a row, in pixels
#: Milliseconds to wait for the page.
PATIENCE = 300_000

Served = namedtuple("Served", "path wall cpu")

OBSERVE = """() => {
  window.tasks = [];
  new PerformanceObserver(list => tasks.push(...list.getEntries().map(each => each.duration)))
    .observe({ type: "longtask", buffered: true });
}"""


def main(nodes):
    nodes = nodes or NODES
    with browser() as chromium:
        with tempfile.TemporaryDirectory() as folder:
            measure(chromium, "SQLite", f"sqlite:///{Path(folder, 'fleet.db')}", nodes)
        with postgresql.serving() as server:
            measure(chromium, "PostgreSQL", server.database(), nodes)


def measure(chromium, database, url, nodes):
    app = filled(url, nodes).application
    with serving(app) as (address, requests):
        sights = [first_sight(chromium, address, requests, nodes) for _ in range(ROUNDS)]
        report(database, "first sight", sights, FIRST_SIGHT)
        filters = [filtered(chromium, address, requests, nodes) for _ in range(ROUNDS)]
        report(database, "filter", filters, FILTER)
        scroll(chromium, address, database, nodes)


def report(database, name, rounds, target):
    """Print the round with the lowest server time, and its requests."""
    best = min(rounds, key=lambda requests: sum(one.wall for one in requests))
    wall, cpu = sum(request.wall for request in best), sum(request.cpu for request in best)
    verdict = "" if wall < target else f", over {target} ms"
    print(f"{database}, {name}: server {wall:.0f} ms, CPU {cpu:.0f} ms{verdict}", flush=True)
    for request in best:
        print(f"  {request.wall:6.1f} ms, CPU {request.cpu:6.1f} ms  {request.path}", flush=True)


def first_sight(chromium, address, requests, nodes):
    """Open the page; return the requests until counts and rows are shown."""
    with opened(chromium, address, requests, nodes):
        return [*requests]


def filtered(chromium, address, requests, nodes):
    """Filter by a resource class; return the requests of it."""
    with opened(chromium, address, requests, nodes) as page:
        page.get_by_label("Filter", exact=True).select_option("resource_class")
        page.get_by_label("resource_class", exact=True).fill("large")
        page.get_by_role("button", name="Filter", exact=True).click()
        everything = page.get_by_role("button", name=f"{nodes:,} all")
        expect(everything).to_have_count(0, timeout=PATIENCE)
        shown(page)
        return [request for request in requests if "resource_class=large" in request.path]


def scroll(chromium, address, database, nodes):
    """Scroll to the last row; print the longest task of the browser, and the most rows."""
    with opened(chromium, address, [], nodes) as page:
        page.evaluate(OBSERVE)
        view, peak, began = page.locator("div.scroll.nodes"), 0, time.perf_counter()
        for row in (*range(STEP, nodes, STEP), nodes):
            view.evaluate("(view, top) => { view.scrollTop = top; }", row * HEIGHT)
            expect(page.locator(f"tr[aria-rowindex='{row}'][data-uuid]")).to_be_visible(
                timeout=PATIENCE
            )
            peak = max(peak, page.locator("tr[aria-rowindex]").count())
        seconds, tasks = time.perf_counter() - began, page.evaluate("tasks")
    assert peak < ROWS, f"{peak} rows are elements"
    slow = [task for task in tasks if task > TASK]
    print(
        f"{database}, {nodes:,} rows: {seconds:.0f} s, at most {peak} rows as elements,"
        f" longest task {max(tasks, default=0):.0f} ms, {len(slow)} over {TASK} ms",
        flush=True,
    )


@contextmanager
def opened(chromium, address, requests, nodes):
    """The page of the whole fleet; `requests` has those of its first sight."""
    requests.clear()
    with desk(chromium, address) as page:
        expect(page.get_by_role("button", name=f"{nodes:,} all")).to_be_visible(timeout=PATIENCE)
        shown(page)
        yield page


def shown(page):
    expect(page.locator("tr[data-uuid]").first).to_be_visible(timeout=PATIENCE)


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


@contextmanager
def serving(app):
    """Serve an application; yield its address, and the list of the answered requests of the API."""
    requests = []

    def measured(environ, start_response):
        wall, cpu = time.perf_counter(), time.thread_time()
        answer = app.wsgi_app(environ, start_response)
        path = environ["PATH_INFO"]
        if path.startswith("/v1/") and not path.startswith("/v1/events"):
            words = f"{path}?{environ['QUERY_STRING']}"
            took = (time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000
            requests.append(Served(words, *took))
        return answer

    server = make_server("127.0.0.1", 0, measured, threaded=True, request_handler=Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
