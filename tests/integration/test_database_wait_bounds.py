"""Every wait for a server has one bound, and the server is found again soon after its return."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from structlog.testing import capture_logs

from app.db import connections, postgresql, transactions
from app.engine import dispatch
from tests.chaos.test_black_holes import Proxy
from tests.support.fleet import PATIENCE, until
from tests.support.postgresql import name_of
from workers.conductor import drain, poller

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def remote(postgresql_server, migrated_postgresql, tmp_path, monkeypatch):
    """
    Return a function that makes an engine behind a proxy.

    remote.proxy: the proxy; remote.connects: the names of the threads that have connected.
    """
    url = postgresql_server.database(migrated_postgresql)
    engines, connects = [], []
    connect = postgresql.LimitedConnection.connect

    def noted(*arguments, **options):
        connects.append(threading.current_thread().name)
        return connect(*arguments, **options)

    monkeypatch.setattr(postgresql.LimitedConnection, "connect", noted)
    with Proxy(tmp_path, f"{postgresql_server.folder}/.s.PGSQL.5432") as proxy:

        def make(**options):
            address = f"postgresql://postgres@127.0.0.1:{proxy.port}/{name_of(url)}"
            engines.append(connections.connect(address, **options))
            return engines[-1]

        make.proxy, make.connects = proxy, connects
        yield make
        for engine in engines:
            engine.dispose()
    postgresql_server.drop(url)


def read(engine):
    with transactions.read_connection(engine) as connection:
        return connection.scalar(text("SELECT 1"))


def fails(engine):
    try:
        read(engine)
    except SQLAlchemyError:
        return True
    return False


def test_a_request_that_has_waited_for_a_statement_does_not_wait_for_a_connection(remote):
    engine = remote(connect_timeout=2, statement_timeout=1)
    assert 1 == read(engine)
    remote.proxy.be("lost")
    remote.connects.clear()
    with pytest.raises(OperationalError, match="did not answer a moment ago"):
        transactions.retrying(lambda: read(engine))
    assert [] == remote.connects


def test_the_check_of_an_idle_connection_takes_no_longer_than_a_new_one(remote, monkeypatch):
    engine = remote(connect_timeout=1, statement_timeout=1000)
    assert 1 == read(engine)
    monkeypatch.setattr(postgresql, "FRESH", -1.0)
    remote.proxy.be("lost")
    with ThreadPoolExecutor(1) as pool:
        failed = pool.submit(fails, engine)
        try:
            assert failed.result(PATIENCE)
        finally:
            engine.dispose(close=False)
            remote.proxy.be("cut")


def test_while_the_server_is_lost_a_thread_of_its_own_tries_it_and_no_caller(remote):
    engine = remote(connect_timeout=1, statement_timeout=1)
    remote.proxy.be("cut")
    assert fails(engine)
    remote.connects.clear()
    until(lambda: fails(engine) and "probe" in remote.connects, "a try")
    assert {"probe"} == set(remote.connects)
    remote.proxy.be("whole")
    until(lambda: not fails(engine), "the return")


@pytest.mark.parametrize(
    ("hosts", "seconds"), [("a", 6), ("a,b", 3), ("a,b,c", 2), ("a,b,c,d,e,f,g", 1)]
)
def test_the_hosts_of_a_url_share_the_time_to_connect(monkeypatch, hosts, seconds):
    timeouts = []

    def refuse(*_, **options):
        timeouts.append(options["connect_timeout"])
        raise psycopg.OperationalError("refused")

    monkeypatch.setattr(postgresql.LimitedConnection, "connect", refuse)
    engine = connections.connect(f"postgresql://u@{hosts}/d", connect_timeout=6)
    assert fails(engine)
    assert seconds == timeouts[0]


# floods


def events(logged):
    return [entry["event"] for entry in logged]


@pytest.fixture(autouse=True)
def unlogged(monkeypatch):
    """No test before has logged a line of these modules."""
    for module in (dispatch, drain, poller):
        monkeypatch.setattr(module.seldom, "_logged_at", {})


@SQLITE
def test_many_waiting_operations_log_one_line_while_the_database_is_away(inside):
    monitor = poller.WaitMonitor(inside.runtime)

    def away(*_):
        raise OperationalError("SELECT", {}, Exception("gone"))

    async def wake_all():
        monitor._loop = asyncio.get_running_loop()
        return await asyncio.gather(*(monitor._do(away, number) for number in range(20)))

    with capture_logs() as logged:
        assert {False} == set(asyncio.run(wake_all()))
    assert ["wake.failed"] == events(logged)


@SQLITE
def test_many_messages_that_the_broker_refuses_are_one_line(inside):
    inside.conductor()
    inside.runtime.send = lambda _message: False
    with capture_logs() as logged:
        for _ in range(5):
            inside.request(inside.node("manageable"), "provide")
    assert ["message.not_sent"] == events(logged)


@SQLITE
def test_a_drain_without_database_logs_one_line_for_all_rounds(inside):
    conductor = inside.conductor()

    def away():
        raise OperationalError("SELECT", {}, Exception("gone"))

    conductor.runtime = SimpleNamespace(reading=away)
    with capture_logs() as logged:
        for _ in range(5):
            drain.redispatch_all(conductor)
    assert ["conductor.no_database"] == events(logged)
