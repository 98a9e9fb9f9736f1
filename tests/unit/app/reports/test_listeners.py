"""Servers that hang, as a client sees them."""

import socket
import ssl
import threading
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from app.config.settings import Settings
from app.reports import listeners
from app.reports.listeners import Listener, hangs
from tests.support.tls import certificate


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(listeners, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def at(server, *, uses_tls=False):
    return Listener("server", "127.0.0.1", server.getsockname()[1], uses_tls, "")


def answering(server, answer):
    """Answer one connection in a thread."""

    def serve():
        connection, _ = server.accept()
        with closing(connection), suppress(OSError):
            answer(connection)

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize("uses_tls", [True, False])
def test_a_process_that_takes_no_connection_hangs(server, uses_tls):
    assert hangs(at(server, uses_tls=uses_tls))


def test_a_process_that_takes_a_connection_and_says_nothing_hangs(server):
    end = threading.Event()
    answering(server, lambda _connection: end.wait(30))
    assert hangs(at(server))
    end.set()


@pytest.mark.parametrize(
    "answer",
    [
        lambda connection: connection.sendall(b"HTTP/1.0 404 Not Found\r\n\r\n"),
        lambda connection: connection.recv(1),  # and closes it
    ],
)
@pytest.mark.parametrize("uses_tls", [True, False])
def test_a_process_that_answers_or_closes_does_not_hang(server, answer, uses_tls):
    answering(server, answer)
    assert not hangs(at(server, uses_tls=uses_tls))


def test_a_handshake_is_an_answer(server, tmp_path):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate(tmp_path, "server"))
    answering(server, lambda connection: context.wrap_socket(connection, server_side=True))
    assert not hangs(at(server, uses_tls=True))


def test_a_server_that_is_away_is_not_judged(server):
    absent = at(server)
    server.close()
    assert not hangs(absent)
    assert not hangs(replace(absent, host="no-such-host.invalid"))


@pytest.mark.parametrize(
    ("url", "port", "expected"),
    [
        (None, None, []),
        (None, 0, []),
        ("http://192.0.2.1:8080/boot", None, [("192.0.2.1", 8080, False)]),
        ("https://files.example", None, [("files.example", 443, True)]),
        ("http://[2001:db8::1]", None, [("2001:db8::1", 80, False)]),
        (None, 9100, [("127.0.0.1", 9100, False)]),
    ],
)
def test_the_settings_name_the_servers(url, port, expected):
    settings = Settings()
    settings = replace(
        settings,
        deploy=replace(settings.deploy, http_url=url),
        metrics=replace(settings.metrics, port=port, host_ip="0.0.0.0"),
    )
    servers = listeners.listeners(settings)
    assert expected == [(listener.host, listener.port, listener.uses_tls) for listener in servers]
