"""
A browser, Debian's Chromium, for tests of the page at /ui.

    with browser() as chromium, desk(chromium, fleet.url) as page:
        page.get_by_role("link", name="Fleet").click()
"""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import sync_playwright

from tests.support import debian
from tests.support.fleet import PATIENCE
from tests.support.prerequisites import not_run

#: Of a laptop, and of a phone.
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
#: Impacts of findings that a page must not have.
GRAVE = ("serious", "critical")
#: Folder for pictures of the pages, as docs/images; unset: none are taken.
PICTURES = os.environ.get("PAGE_PICTURES")


@contextmanager
def browser():
    """Start Chromium; a test that cannot have it is not run."""
    program = debian.provide(lambda: shutil.which("chromium"), "chromium")
    if program is None:
        not_run("there is no Chromium")
    # a root user has no sandbox; /dev/shm of containers is too small for a browser
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=[*root, "--disable-dev-shm-usage"]
        )
        try:
            yield started
        finally:
            started.close()


@contextmanager
def desk(chromium, url, *, at="/fleet", scheme="light", size=WIDE, new=False):
    """
    Open the page at /ui of a service; check that no script of it fails.

    at: path of its first page. scheme: light or dark. new: in a new window, which is closed at the
    end; else in that of an earlier test, which costs half of the CPU time.
    """
    page = _opened(chromium) if new or not _free(chromium) else _free(chromium).pop()
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    broken = []
    noted = {
        "pageerror": lambda error: broken.append(str(error)),
        "console": lambda line: broken.append(line.text) if _is_policy(line) else None,
    }
    for event, note in noted.items():
        page.on(event, note)
    try:
        page.goto(f"{url}/ui#{at}")
        yield page
        assert [] == broken
    except BaseException:
        new = True
        raise
    finally:
        for event, note in noted.items():
            page.remove_listener(event, note)
        if new:
            page.context.close()
        else:
            _empty(page)
            _free(chromium).append(page)


def _free(chromium):
    """The open windows of a browser that no test uses."""
    return vars(chromium).setdefault("free_windows", [])


def _opened(chromium):
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE * 1000)
    return context.new_page()


def _empty(page):
    """Delete what a test has left in a window: routes, other tabs, cookies, and stored values."""
    page.unroute_all(behavior="ignoreErrors")
    for other in page.context.pages:
        if other is not page:
            other.close()
    page.evaluate("localStorage.clear(); sessionStorage.clear()")
    page.goto("about:blank")
    page.context.clear_cookies()


def _is_policy(line):
    """Whether a line of the console reports a violation of the Content-Security-Policy."""
    return line.type == "error" and "Content Security Policy" in line.text


def picture(page, name):
    """Keep a picture of the page for the documentation, if there is a folder for them."""
    if PICTURES:
        page.screenshot(path=Path(PICTURES, f"ui-{name}.png"))


def grave_findings(page):
    """Findings of axe on the page that are serious: rule -> the elements."""
    return findings(page, GRAVE)


def findings(page, impacts=("minor", "moderate", *GRAVE)):
    """Findings of axe on the page: rule -> the elements."""
    if page.evaluate("typeof axe") == "undefined":  # the document has not loaded it yet
        page.evaluate(AXE_SCRIPT)
    violations = page.evaluate(
        "axe.run({resultTypes: ['violations']}).then(each => each.violations)"
    )
    return {
        violation["id"]: [node["html"][:200] for node in violation["nodes"]]
        for violation in violations
        if violation["impact"] in impacts
    }
