"""Fixtures of tests that run the service in the test process."""

import base64
import subprocess

import psycopg
import pytest

from app.broker import redis_broker
from app.rows import data_keys
from tests.support.inside import Inside
from workers.supervisor import redis_server

#: Master keys; services of the fixture `sealed` have the first.
KEY, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


@pytest.fixture
def inside(database):
    view = Inside(database)
    yield view
    view.close()


@pytest.fixture
def sealed(database):
    """A service whose secrets are encrypted with KEY."""
    starter = Inside(database, INGOT_DATABASE_SECRETS_KEY=KEY)
    data_keys.start(starter.settings.database)
    starter.close()
    service = starter.another()
    yield service
    service.close()


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
    connections, wait = [], psycopg.Connection.wait

    def noted(connection, waits):
        try:
            readiness = next(waits)
            connections.append(connection)
            while True:
                readiness = waits.send((yield readiness))
        except StopIteration as end:
            return end.value

    def counted(self, waits, *args, **options):
        return wait(self, noted(self, waits), *args, **options)

    monkeypatch.setattr(psycopg.Connection, "wait", counted)
    return connections
