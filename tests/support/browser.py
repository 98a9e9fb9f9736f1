"""
A browser, Debian's Chromium, for tests of the page at /ui.

    with browser() as chromium, desk(chromium, fleet.url) as page:
        page.get_by_role("link", name="Fleet").click()
"""

import os
import shutil
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.support import debian
from tests.support.fleet import PATIENCE
from tests.support.prerequisites import not_run

#: Of a laptop, and of a phone.
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
#: Impacts of findings that a page must not have.
GRAVE = ("serious", "critical")


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
def desk(chromium, url, *, at="/fleet", scheme="light", size=WIDE):
    """
    Open the page at /ui of a service; check that no script of it fails.

    at: path of its first page. scheme: light or dark.
    """
    context = chromium.new_context(color_scheme=scheme, viewport=size, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    broken = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("console", lambda line: broken.append(line.text) if _is_policy(line) else None)
    try:
        page.goto(f"{url}/ui#{at}")
        yield page
        assert [] == broken
    finally:
        context.close()


def _is_policy(line):
    """Whether a line of the console reports a violation of the Content-Security-Policy."""
    return line.type == "error" and "Content Security Policy" in line.text


def grave_findings(page):
    """Findings of axe on the page that are serious: rule -> the elements."""
    found = Axe().run(page).response["violations"]
    return {
        each["id"]: [node["html"][:200] for node in each["nodes"]]
        for each in found
        if each["impact"] in GRAVE
    }
