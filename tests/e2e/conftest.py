"""Fixtures of tests against real services."""

import pytest

from tests.e2e.command_line import piped
from tests.support.browser import browser


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def ingot(fleet):
    """Run a command, and check its exit status; return its result."""

    def run(*words, status=0, stdin=""):
        answer = piped(fleet.url, *words, stdin=stdin)
        assert status == answer.status, answer
        return answer

    return run
