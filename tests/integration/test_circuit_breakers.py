"""Circuit breakers: a lost server is tried beside all calls, and found soon after its return."""

import socket
import threading
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
import redis
from redis.connection import Connection

from app.broker import backlog, breakers, calls, queue, redis_broker
from app.broker.messages import Link, Message
from app.broker.refused_lookups import Refusals
from app.config import settings
from app.db.sealing import Keyring
from app.errors import Unavailable
from app.process import circuit_breaker
from app.process.circuit_breaker import REMIND, CircuitBreaker
from tests.chaos.test_black_holes import Proxy
from tests.support.fleet import until
from workers.conductor.lease import Leases
from workers.restoration.restore_guard import RestoreGuard

EVENTS = ("server.unreachable", "server.reached_again")
MESSAGE = Message("c-1", "a-node", "an-operation", 1, (Link("a-task", 0, "power.validate"),))
#: `[broker]connect_timeout` of the tests: a call that waits for a lost Redis never ends.
FOR_EVER = 3600


class Server:
    """A server, and its breaker. tries: of the probe."""

    answers, tries, now = False, 0, 100.0

    def __init__(self):
        self.breaker = CircuitBreaker(
            EVENTS, (OSError,), ConnectionError, self._probe, lambda: self.now
        )

    def _probe(self):
        self.tries += 1
        if not self.answers:
            raise OSError("gone")

    def lose(self, error=OSError):
        with pytest.raises(error), self.breaker.guard():
            raise error("gone")

    def call(self):
        """Whether a call is let through."""
        try:
            with self.breaker.guard():
                return True
        except ConnectionError:
            return False


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(circuit_breaker, "PAUSE", 0.01)
    instance = Server()
    yield instance
    instance.answers = True


def test_no_call_is_let_through_until_the_probe_has_reached_the_server(server):
    server.lose()
    until(lambda: not server.call() and server.tries >= 3, "tries")
    server.answers = True
    until(server.call, "the return")


def test_a_probe_that_nobody_needs_ends_and_of_the_next_calls_one_tries(server, monkeypatch):
    monkeypatch.setattr(circuit_breaker, "UNUSED", 0.0)
    count = threading.active_count()
    server.lose()
    until(lambda: threading.active_count() <= count, "the end of the probe")
    server.now += 1
    with server.breaker.guard():
        assert not server.call()
    assert server.call()
    assert 0 == server.tries


def test_a_refused_call_gets_the_error_of_the_last_try(server):
    for error, expected in (
        (ConnectionRefusedError, ConnectionRefusedError),
        (OSError, ConnectionError),
    ):
        server.answers = False
        server.lose(error)
        with pytest.raises(expected) as caught, server.breaker.guard():
            raise AssertionError("let through")
        assert expected is caught.type
        server.answers = True
        until(server.call, "the return")


def test_an_outage_is_logged_at_its_start_at_intervals_and_at_its_end(monkeypatch):
    monkeypatch.setattr(circuit_breaker, "PAUSE", 3600)  # the test tries instead
    events, server = [], Server()
    ear = SimpleNamespace(
        warning=lambda event, **_: events.append(event),
        info=lambda event, **_: events.append(event),
    )
    monkeypatch.setattr("app.process.circuit_breaker.logger", ear)
    for _ in range(int(REMIND) + 1):
        server.breaker._failed(OSError("gone"))
        server.now += 1
    server.breaker._answered()
    assert [EVENTS[0]] * 2 + [EVENTS[1]] == events


# Redis


@contextmanager
def application_of(loaded):
    application = queue.celery(loaded)
    try:
        yield application
    finally:
        application.close()


def messages(application, _loaded, _client):
    send = queue.sender(application)
    return lambda: send(MESSAGE)


def queues(application, loaded, client):
    messages = backlog.messages_of(application, loaded, client)
    read = backlog.reader(messages, application.breakers.of_queues())
    return lambda: read("c-1") >= 0


def calls_of(application, loaded, _client):
    redis_calls = calls.RedisCalls(application, loaded, Keyring(()))
    return lambda: not redis_calls.withdraw("a-key")


def leases(application, _loaded, client):
    holder_leases = Leases(client, "a-holder", 5, "test", application.breakers.of_writes())
    return lambda: bool(holder_leases.take("a-node", 1, lambda: True).valid_until)


def watermarks(application, _loaded, client):
    guard = RestoreGuard(client, "test", application.breakers.of_reads())
    return lambda: guard.recall() == 0


def refusals(application, _loaded, client):
    record = Refusals(client, "test", application.breakers.of_writes())
    moment = datetime(2026, 1, 2, tzinfo=UTC)

    def note():
        record.note((), "", "it is unknown", None, moment)
        return bool(record.since(moment))

    return note


USES = (messages, queues, calls_of, leases, watermarks, refusals)


@pytest.mark.parametrize("use", USES)
def test_a_lost_redis_is_found_while_no_call_waits_for_it(
    redis_url, redis_client, tmp_path, monkeypatch, use
):
    """It refuses connections, then it is silent: a call that tried it would wait for ever."""
    monkeypatch.setattr(circuit_breaker, "PAUSE", 0.05)
    monkeypatch.setattr(breakers, "PROBE_TIMEOUT", 0.3)
    connects, connect = [], Connection._connect
    monkeypatch.setattr(
        Connection, "_connect", lambda connection: connects.append(1) or connect(connection)
    )
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(tmp_path, redis_url.partition("://")[2]))
        url = f"redis://127.0.0.1:{proxy.port}/0"
        loaded = settings.load(
            {"INGOT_BROKER_URL": url, "INGOT_BROKER_CONNECT_TIMEOUT": str(FOR_EVER)}
        )
        application = stack.enter_context(application_of(loaded))
        client = stack.enter_context(redis_broker.client(url, FOR_EVER))
        reaches, results, stop = use(application, loaded, client), [], threading.Event()

        def ask():
            while not stop.wait(0.02):
                redis_client.flushall()  # of leases
                try:
                    results.append(reaches())
                except (redis.RedisError, Unavailable):
                    results.append(False)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        stack.callback(thread.join, 30)
        stack.callback(stop.set)
        until(lambda: results and results[-1], "the first answer")
        proxy.be("cut")
        until(lambda: not results[-1], "the outage")
        proxy.be("lost")
        connects.clear()
        until(lambda: connects, "a try while it is silent")
        proxy.be("whole")
        until(lambda: results[-1], "the return", 20)


def test_a_redis_that_takes_no_writes_is_away_for_writes_alone(redis_url, redis_client):
    redis_breakers = breakers.Breakers(settings.load({"INGOT_BROKER_URL": redis_url}).broker)
    redis_client.config_set("maxmemory", "1")
    redis_breakers._read()
    with pytest.raises(redis.RedisError):
        redis_breakers._write()
    with pytest.raises(redis.RedisError):
        redis_breakers._send()
    redis_client.config_set("maxmemory", "0")
    redis_breakers._call()


def test_silent_sentinels_are_asked_once_more_together_and_not_each_again_and_again(
    monkeypatch,
):
    asked_ports, connect = [], Connection._connect
    monkeypatch.setattr(
        Connection,
        "_connect",
        lambda connection: asked_ports.append(connection.port) or connect(connection),
    )
    with ExitStack() as stack:
        ports = []
        for _ in range(3):
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports.append(silent.getsockname()[1])
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        client = stack.enter_context(redis_broker.client(f"sentinel://{hosts}/main", 0.3))
        with pytest.raises(redis.ConnectionError, match="No master found"):
            client.get("a")
    assert 2 * ports == asked_ports
