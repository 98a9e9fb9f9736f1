"""Fixtures of tests that run the service in the test process."""

import subprocess

import psycopg
import pytest

from app.broker import redis_broker
from tests.support.inside import Inside
from workers.supervisor import redis_server


@pytest.fixture
def inside(database):
    view = Inside(database)
    yield view
    view.close()


@pytest.fixture
def redis_url(tmp_path):
    """URL of an empty, private Redis without persistence."""
    path = tmp_path / "redis.sock"
    (tmp_path / "redis").mkdir()
    command = redis_server.command(redis_server.find(), tmp_path, path)
    with subprocess.Popen([*command, "--appendonly", "no"], stdout=subprocess.DEVNULL) as server:
        try:
            url = f"redis+socket://{path}"
            redis_server.await_answer(url, 1, 10)
            yield url
        finally:
            server.kill()


@pytest.fixture
def redis_client(redis_url):
    with redis_broker.client(redis_url, 2) as client:
        yield client


@pytest.fixture
def round_trips(monkeypatch):
    """Count the waits for an answer of the server; psycopg calls `wait` also without one."""
    found, wait = [], psycopg.Connection.wait

    def noted(connection, waits):
        try:
            wanted = next(waits)
            found.append(connection)
            while True:
                wanted = waits.send((yield wanted))
        except StopIteration as end:
            return end.value

    def counted(self, waits, *args, **named):
        return wait(self, noted(self, waits), *args, **named)

    monkeypatch.setattr(psycopg.Connection, "wait", counted)
    return found
