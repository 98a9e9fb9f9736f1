"""Redis and the database are out of reach in all ways: nothing is lost, and reconnection works."""

import time

import pytest

from tests.chaos.outage import OUTAGE, SETTINGS, Outage, ready
from tests.chaos.servers import Redis, a_postgresql, running
from tests.support.fleet import Fleet


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with running(Redis(tmp_path_factory.mktemp("redis"))) as server:
        yield server


@pytest.fixture(scope="module")
def with_redis(redis, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with-redis")
    with Fleet(folder, "--broker", redis.url, **SETTINGS) as fleet:
        yield ready(fleet)


@pytest.mark.parametrize(
    ("begin", "end"),
    [("stop", "start"), ("pause", "go_on"), ("fill", "empty"), ("follow", "lead")],
)
def test_verbs_are_accepted_and_executed_in_any_fault_of_redis(with_redis, redis, begin, end):
    outage = Outage(with_redis)
    outage.clean(getattr(redis, begin), getattr(redis, end), outage.accepted)


# PostgreSQL


@pytest.fixture(scope="module")
def postgres():
    with a_postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def with_postgres(postgres, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with-postgres")
    with Fleet(folder, "--database", postgres.url, **SETTINGS) as fleet:
        postgres.watch_the_disk()
        yield ready(fleet)


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        ("stop", "start", "The database is out of reach"),
        ("crash", "start", "The database is out of reach"),
        ("pause", "go_on", "The database is out of reach"),
        ("crowd", "leave", "The database has no connection left"),
        ("only_read", "write_again", "The database takes no writes"),
        ("fill", "empty", "The database is full"),
    ],
)
def test_writes_are_answered_with_503_in_any_fault_of_postgresql(
    with_postgres, postgres, begin, end, message
):
    outage = Outage(with_postgres)
    begin, end = getattr(postgres, begin), getattr(postgres, end)
    outage.clean(begin, end, lambda nodes: outage.refused(nodes, message))


def test_connections_are_made_again_after_each_of_many_cuts(with_postgres, postgres):
    outage = Outage(with_postgres)

    def cut(nodes):
        outage.later = nodes
        end = time.monotonic() + OUTAGE
        while time.monotonic() < end:
            postgres.cut()
            time.sleep(0.1)

    outage.clean(lambda: None, lambda: None, cut)
