"""Log lines of libraries about an unreachable broker: short, and rate-limited."""

import json
import logging

import pytest

from tests.support.log_output import logged


@pytest.fixture
def lines(monkeypatch):
    """Read the lines of standard error."""
    with logged(monkeypatch, "json") as text:
        yield lambda: text().splitlines()


def full(logger):
    try:
        raise MemoryError("used memory > 'maxmemory' at 100 %s")
    except MemoryError:
        logging.getLogger(logger).warning("%s, will retry", "Redis error", exc_info=True)


def test_an_error_of_the_broker_is_logged_without_a_traceback(lines):
    full("kombu.transport.redis")
    (line,) = lines()
    assert "Redis error, will retry: used memory > 'maxmemory' at 100 %s" in line
    assert "Traceback" not in line


def test_a_repeated_error_is_logged_at_a_limited_rate(lines):
    for _ in range(5):
        full("celery.worker.consumer.consumer")
    assert 1 == len(lines())


def test_an_error_that_quotes_its_objects_is_one_short_line(lines):
    error = "No master found for 'ingot' : <redis.client.Redis(" + "host=10.0.0.1, " * 200 + ")>"
    logging.getLogger("celery.worker.consumer.consumer").error(
        "consumer: Cannot connect to %s: %s.\n%s\n", "sentinel://10.0.0.1", error, "Will retry."
    )
    (line,) = lines()
    event = json.loads(line)["event"]
    assert "sentinel://10.0.0.1: No master found for 'ingot'" in event
    assert len(event) <= 500
    assert "\n" not in event


def test_other_errors_keep_their_traceback(lines):
    full("sushy")
    assert "Traceback" in lines()[0]


def test_facts_of_drivers_are_in_the_line_and_those_of_libraries_are_not(lines):
    """Drivers know no structlog: a refused URL without its address and setting helps no operator."""
    facts = {"url": "http://10.0.0.1/a", "setting": "[conductor]fetch_denied_networks"}
    logging.getLogger("drivers.net.fetch").warning("fetch.refused", extra=facts)
    logging.getLogger("celery.app.trace").warning("a task", extra={"data": {"args": "secret"}})
    ours, theirs = map(json.loads, lines())
    assert facts == {name: ours[name] for name in facts}
    assert "data" not in theirs
