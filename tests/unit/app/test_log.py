"""What libraries say of a broker that is out of reach: a line, now and then."""

import io
import logging
import sys

import pytest

from app import log


@pytest.fixture
def lines(monkeypatch):
    """What is on standard error, in lines."""
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    with monkeypatch.context() as patch:
        patch.setattr(logging.root, "handlers", [])
        log.set_up(form="json")
        yield lambda: said.getvalue().splitlines()


def full(logger):
    try:
        raise MemoryError("used memory > 'maxmemory' at 100 %s")
    except MemoryError:
        logging.getLogger(logger).warning("%s, will retry", "Redis error", exc_info=True)


def test_what_the_broker_answered_is_told_without_where_it_was_noticed(lines):
    full("kombu.transport.redis")
    (line,) = lines()
    assert "Redis error, will retry: used memory > 'maxmemory' at 100 %s" in line
    assert "Traceback" not in line


def test_what_is_tried_all_the_time_is_told_now_and_then(lines):
    for _ in range(5):
        full("celery.worker.consumer.consumer")
    assert 1 == len(lines())


def test_what_is_no_brokers_keeps_its_traceback(lines):
    full("sushy")
    assert "Traceback" in lines()[0]
