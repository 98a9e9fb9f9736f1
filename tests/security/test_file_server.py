"""The boot file server under attack: clients that read slowly, or send no request."""

import http.client
import os
import socket
import ssl
import subprocess
import time
import urllib.request
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial

import psutil
import pytest
import requests

from app.config import settings
from app.observe import log
from tests.integration import test_refused_starts
from tests.support import programs
from tests.support.fleet import PATIENCE, until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run
from workers.supervisor import file_server

LARGE = 64 << 20
pair = test_refused_starts.pair  # a fixture


def serve(seconds, rate, connections):
    """Run a file server in a process of its own, with other limits: see `file_server`."""
    file_server.REQUEST_TIMEOUT = file_server.RESPONSE_TIMEOUT = seconds
    file_server.LEAST_RATE, file_server.MAX_CONNECTIONS = rate, connections
    log.set_up("info", "json")
    file_server.main(settings.load(os.environ))


@contextmanager
def serving(
    root,
    seconds=3.0,
    *,
    rate=file_server.LEAST_RATE,
    connections=file_server.MAX_CONNECTIONS,
    **variables,
):
    """A file server with short timeouts, of so many seconds; yields its port."""
    port = free_port()
    environ = {
        **os.environ, "INGOT_DEPLOY_HTTP_ROOT": str(root), "INGOT_DEPLOY_HTTP_PORT": str(port),
        **variables,
    }  # fmt: skip
    process = programs.start(f"{__name__}:serve", seconds, rate, connections, environ=environ)
    try:
        until(lambda: is_open(port) or process.poll() is not None, "the file server")
        assert process.poll() is None
        yield port
    finally:
        process.terminate()
        assert 0 == process.wait(PATIENCE)


def is_open(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "http"
    (folder / "nodes").mkdir(parents=True)
    (folder / "boot.ipxe").write_text("#!ipxe\n")
    (folder / "initrd.gz").write_bytes(b"\x1f\x8b0123456789")
    (folder / "link").symlink_to("nodes/../boot.ipxe")
    with (folder / "image").open("wb") as file:
        file.truncate(LARGE)
    (tmp_path / "secret").write_text("not served")
    return folder


def connect(port, path="/image", source="127.0.0.1"):
    """Request a file and read nothing of it; with path None, send no request."""
    connection = socket.create_connection(("127.0.0.1", port), 10, source_address=(source, 0))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    if path:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return connection


def is_cut(connection):
    """Whether the server has closed the connection; reads what has arrived."""
    connection.settimeout(0.2)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def established(port):
    """Number of connections that the server holds; reading from one would help a slow reader."""
    return sum(
        connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == port
        for connection in psutil.net_connections("tcp4")
        if connection.pid
    )


def get(port, path, **options):
    return requests.get(f"http://127.0.0.1:{port}{path}", timeout=10, **options)


def test_slow_readers_do_not_stop_others_and_are_cut_off(root):
    with serving(root, 10.0, rate=LARGE) as port, ExitStack() as stack:
        slow = [stack.enter_context(closing(connect(port))) for _ in range(50)]
        until(lambda: 50 == established(port), "the connections")
        assert "#!ipxe\n" == get(port, "/boot.ipxe").text
        assert 50 <= established(port), "the answer has waited for them"
        until(lambda: 0 == established(port), "the end of the slow ones")
        assert [] == [connection for connection in slow if not is_cut(connection)]


def test_connections_without_a_complete_request_are_closed(root):
    with serving(root) as port, closing(connect(port, None)) as idle:
        with closing(connect(port, None)) as trickling:
            trickling.sendall(b"GET /boot.ipxe HTTP/1.1\r\nX-Slow: ")
            with suppress(ConnectionError):
                for _ in range(40):
                    trickling.sendall(b"x")
                    time.sleep(0.25)
                raise AssertionError("the connection is still open")
        until(lambda: is_cut(idle), "the end of the connection")


def test_an_address_has_few_connections_and_leaves_room_for_others(root):
    with serving(root, connections=8) as port, ExitStack() as stack:
        many = [stack.enter_context(closing(connect(port, source="127.0.0.9"))) for _ in range(8)]
        with (
            suppress(ConnectionError),  # it may be reset before the request is sent
            closing(connect(port, "/boot.ipxe", "127.0.0.9")) as refused,
        ):
            refused.settimeout(PATIENCE)
            assert b"" == refused.recv(1), "it is closed without an answer"
        assert 200 == get(port, "/boot.ipxe").status_code
        many.pop().close()

        def served():
            with (
                suppress(ConnectionError),
                closing(connect(port, "/boot.ipxe", "127.0.0.9")) as one,
            ):
                return one.recv(12) == b"HTTP/1.1 200"

        until(served, "an answer")


def test_files_are_served_as_they_are_with_ranges_and_nothing_else(root):
    with serving(root) as port:
        packed = get(port, "/initrd.gz")
        assert b"\x1f\x8b0123456789" == packed.content
        assert "application/octet-stream" == packed.headers["Content-Type"]
        assert "Content-Encoding" not in packed.headers
        part = get(port, "/initrd.gz", headers={"Range": "bytes=2-4"})
        assert (206, b"012") == (part.status_code, part.content)
        assert (
            str(LARGE)
            == requests.head(f"http://127.0.0.1:{port}/image", timeout=10).headers["Content-Length"]
        )
        assert "#!ipxe\n" == get(port, "/link").text
        assert 204 == get(port, "/").status_code  # for health checks
        for path in (
            "/nodes",
            "/nodes/",
            "/nonesuch",
            "/..%2fsecret",
            "/%2e%2e/secret",
            "//etc/passwd",
            "/%00",
        ):
            answer = get(port, path)
            assert 404 == answer.status_code, path
            assert answer.content, "UEFI waits for the body of an answer without one"
        with closing(connect(port, "/../secret")) as raw:
            assert b"404" in raw.recv(64)
        assert 405 == requests.put(f"http://127.0.0.1:{port}/boot.ipxe", timeout=10).status_code
        assert "#!ipxe\n" == (root / "boot.ipxe").read_text()


def test_a_connection_serves_several_files(root):
    with serving(root) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with closing(connection):
            connection.connect()
            connection.auto_open = 0  # do not connect again
            for method in ("GET", "HEAD", "GET"):
                connection.request(method, "/boot.ipxe")
                answer = connection.getresponse()
                assert 200 == answer.status
                assert ("" if method == "HEAD" else "#!ipxe\n") == answer.read().decode()


def test_files_are_served_over_https_if_a_setting_says_so(root, pair):
    chain, key = pair("files")
    settings = {
        "INGOT_DEPLOY_ENABLE_SSL_FILES": "true", "INGOT_API_CERT_FILE": chain,
        "INGOT_API_KEY_FILE": key,
    }  # fmt: skip
    with serving(root, **settings) as port:
        context = ssl.create_default_context(cafile=chain)
        context.check_hostname = False
        url = f"https://127.0.0.1:{port}/boot.ipxe"
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:
            assert b"#!ipxe\n" == answer.read()
        with pytest.raises(requests.ConnectionError):
            get(port, "/boot.ipxe")


@pytest.mark.parametrize(
    "request_", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: \0\r\n\r\n", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n"]
)  # fmt: skip
def test_malformed_requests_write_few_short_lines(root, capfd, request_):
    with serving(root) as port:
        for _ in range(20):
            with closing(socket.create_connection(("127.0.0.1", port))) as client:
                client.sendall(request_)
                assert b" 400 " in client.recv(100)
    lines = capfd.readouterr().err.splitlines()
    assert "files.started" in lines[0]
    assert len(lines) < 10
    assert max(map(len, lines)) < 1000


def test_the_folder_that_a_read_only_volume_lacks_is_waited_for(tmp_path):
    """In a container the volume is that of the conductors, which make the folder at their first start."""
    if os.geteuid():
        not_run("only root may mount")
    volume = tmp_path / "volume"
    volume.mkdir()
    run = partial(subprocess.run, check=True, timeout=PATIENCE)
    run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", volume])
    try:
        with serving(volume / "httpboot") as port:
            probe = f"http://127.0.0.1:{port}/"
            assert 503 == requests.get(probe, timeout=PATIENCE).status_code
            assert 404 == requests.get(f"{probe}boot.ipxe", timeout=PATIENCE).status_code
            run(["mount", "-o", "remount,rw", volume])
            (volume / "httpboot").mkdir()
            assert 204 == requests.get(probe, timeout=PATIENCE).status_code
    finally:
        run(["umount", volume])
