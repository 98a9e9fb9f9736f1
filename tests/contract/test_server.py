"""The real server with the real clients."""

import http.client
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

import openstack
import psutil
import pytest
import requests
from sqlalchemy.orm import Session

from app.db import connections
from app.models import Conductor
from drivers.builtin import HARDWARE_TYPES
from drivers.core import registry
from tests.contract.clients.cli import Baremetal
from tests.support import programs
from tests.support.fleet import PATIENCE, ROOT, until
from tests.support.ports import free_port
from tests.support.processes import children

API = "tests.contract.api_process"
#: Most seconds of events that take a few on an idle machine. Without the time limit under test they
#: take a minute, or do not happen.
BUSY = 20
NEWEST = {"X-OpenStack-Ironic-API-Version": "1.115"}


@contextmanager
def started(database, port, function="main", *, forked=True, **settings):
    """
    Start a server process, and end it after the test in any case.

    function: of API. forked: from the fork server, which kills what is left of an ended process.
    """
    environ = {
        **os.environ,
        "INGOT_DATABASE_CONNECTION": database,
        "INGOT_BROKER_URL": "redis://127.0.0.1:1/0",  # no broker: messages are only hints
        "INGOT_API_PORT": str(port),
        "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "1000",
        **settings,
    }
    with TemporaryFile("w+") as errors:
        if forked:
            process = programs.start(f"{API}:{function}", environ=environ, stderr=errors)
        else:
            command = [sys.executable, "-m", API]
            process = subprocess.Popen(command, cwd=ROOT, env=environ, stderr=errors)
        process.errors = lambda: os.pread(errors.fileno(), 100_000, 0).decode()
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()


def await_answer(url, process):
    def answer():
        try:
            return [requests.get(url, timeout=PATIENCE)]
        except requests.ConnectionError:
            assert process.poll() is None, process.errors()
            return None

    (response,) = until(answer, "an answer of the server", between=0.02)
    return response


def copied(template, folder):
    """Copy a migrated database, with one live conductor that has all drivers; return its URL."""
    path = folder / "ingot.db"
    shutil.copy(template, path)
    engine = connections.connect(f"sqlite:///{path}")
    with Session(engine) as session:
        session.add(
            Conductor(
                hostname="rack-1",
                incarnation="1",
                interfaces={
                    name: {kind: list(names) for kind, names in kinds.items()}
                    for name, kinds in registry.load(HARDWARE_TYPES).types.items()
                },
            )
        )
        session.commit()
    engine.dispose()
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def database(migrated_sqlite, tmp_path_factory):
    return copied(migrated_sqlite, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def server(database):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with started(database, port) as process:
        await_answer(url, process)
        yield url


def test_the_command_line_client_works_unchanged(server):
    """Once as a process, which takes seconds to start, then in this process."""
    program = Path(sys.executable).with_name("baremetal")
    command = [program, "--os-auth-type", "none", "--os-endpoint", server, "driver", "list"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert 0 == process.returncode, process.stderr
    assert "fake-hardware" in process.stdout

    baremetal = Baremetal(server)
    uuid = baremetal("node", "create", "--driver", "fake-hardware", "--name", "cli")["uuid"]
    baremetal("node", "set", "cli", "--extra", "a=b", "--automated-clean", "--owner", "me")
    baremetal("node", "unset", "cli", "--automated-clean", "--owner")
    assert {"a": "b"} == baremetal("node", "show", "cli")["extra"]
    assert uuid in str(baremetal("node", "list"))
    baremetal("port", "create", "52:54:00:00:00:aa", "--node", uuid)
    assert "52:54:00:00:00:aa" in str(baremetal("port", "list", "--node", "cli"))
    assert "rack-1" in str(baremetal("conductor", "list"))
    baremetal("node", "manage", "cli")
    assert "verifying" == baremetal("node", "show", "cli")["provision_state"]


def test_the_python_sdk_works_unchanged(server):
    cloud = openstack.connect(
        auth_type="none", endpoint=server, baremetal_endpoint_override=server, region_name="x"
    )
    node = cloud.baremetal.create_node(driver="fake-hardware", name="sdk", owner="me")
    cloud.baremetal.update_node(node, description="described")
    port = cloud.baremetal.create_port(node_id=node.id, address="52:54:00:00:00:bb")

    assert "described" == cloud.baremetal.get_node("sdk").description
    assert node.id in [listed_node.id for listed_node in cloud.baremetal.nodes(details=True)]
    assert [port.id] == [listed_port.id for listed_port in cloud.baremetal.ports(node=node.id)]
    assert "fake-hardware" in [driver.name for driver in cloud.baremetal.drivers()]
    cloud.baremetal.set_node_maintenance(node, reason="why")
    assert cloud.baremetal.validate_node(node, required=None)["power"].result
    assert cloud.baremetal.find_node("nonesuch") is None
    cloud.baremetal.delete_node(node)
    cloud.close()


def test_waiting_requests_do_not_delay_others(migrated_sqlite, tmp_path):
    """20 requests wait for a node, until the test unlocks it; others are answered meanwhile."""
    port = free_port()
    url, database = f"http://127.0.0.1:{port}", copied(migrated_sqlite, tmp_path)
    patient = {"INGOT_CONDUCTOR_NODE_LOCKED_RETRY_ATTEMPTS": "600"}
    with ThreadPoolExecutor(20) as pool, started(database, port, **patient) as process:
        await_answer(url, process)
        node = requests.post(f"{url}/v1/nodes", json={"driver": "fake-hardware"}, headers=NEWEST)
        path = f"{url}/v1/nodes/{node.json()['uuid']}"
        locked = {"json": {"target": "manage"}, "headers": NEWEST}
        assert 202 == requests.put(f"{path}/states/provision", **locked).status_code

        def wait_for_the_lock(_number):
            return requests.put(f"{path}/maintenance", json={}, headers=NEWEST).status_code

        waiting = [pool.submit(wait_for_the_lock, number) for number in range(20)]
        for _ in range(10):
            answer = requests.get(f"{url}/v1/nodes", headers=NEWEST, timeout=PATIENCE)
            assert 200 == answer.status_code
        assert not any(future.done() for future in waiting)
        with sqlite3.connect(tmp_path / "ingot.db", timeout=PATIENCE) as ours:
            ours.execute("UPDATE nodes SET reservation = NULL, operation_id = NULL")
        assert {202} == {future.result() for future in waiting}


@contextmanager
def idle(database, count, function="main", **settings):
    """Open connections, send one request on each, and keep them open, like agents."""
    port = free_port()
    with (
        started(database, port, function, INGOT_API_API_WORKERS="1", **settings) as process,
        ExitStack() as stack,
    ):
        await_answer(f"http://127.0.0.1:{port}", process)
        idle_connections = [
            http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(count)
        ]
        for connection in idle_connections:
            stack.callback(connection.close)
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            assert 200 == answer.status
        yield idle_connections


def test_open_connections_do_not_block_new_ones(database):
    with idle(database, 300, "with_short_backlog"):
        pass


def test_beyond_their_limit_connections_wait_until_idle_ones_are_closed(database):
    few = {"INGOT_API_MAX_CONNECTIONS": "5", "INGOT_API_KEEP_ALIVE_TIME": "1"}
    with idle(database, 12, **few) as idle_connections:
        assert b"" == idle_connections[0].sock.recv(1)


def test_a_low_limit_of_open_files_lowers_the_number_of_connections_with_a_warning(database, capfd):
    with idle(database, 60, "with_few_files", INGOT_API_KEEP_ALIVE_TIME="1"):
        pass
    assert "api.too_few_files" in capfd.readouterr().out


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_every_way_to_end_leaves_no_process_running(database, signal_number):
    port = free_port()
    with started(database, port, forked=False) as process:
        await_answer(f"http://127.0.0.1:{port}", process)
        until(lambda: both(process), "two processes")  # one may answer before the other runs
        family = [process, *psutil.Process(process.pid).children(recursive=True)]
        assert 3 == len(family)

        process.send_signal(signal_number)
        status = process.wait(BUSY)
        _, remaining_processes = psutil.wait_procs(family[1:], timeout=BUSY)

    assert [] == remaining_processes
    assert (-signal_number if signal_number == signal.SIGKILL else 0) == status


def test_processes_that_are_killed_one_after_the_other_are_replaced(database):
    port = free_port()
    with started(database, port, INGOT_API_API_WORKERS="2") as process:
        await_answer(f"http://127.0.0.1:{port}", process)
        for _ in range(4):
            victim = max(until(lambda: both(process), "two processes"))  # the newest
            os.kill(victim, signal.SIGKILL)
            until(lambda pid=victim: pid not in children(process.pid), "its death")
        until(lambda: both(process), "two processes")
        assert requests.get(f"http://127.0.0.1:{port}", timeout=PATIENCE).ok


def both(process):
    """Return the pids of both processes of a server, None if there is one; fail if it has ended."""
    assert process.poll() is None, process.errors()
    pids = children(process.pid)
    return pids if len(pids) == 2 else None


def test_processes_that_cannot_start_end_the_server(database):
    with started(database, free_port(), "that_cannot_record") as process:
        assert 1 == process.wait(PATIENCE)


def test_a_missing_setting_stops_the_start_with_one_line(database):
    with started(database, free_port(), INGOT_AUTH_STRATEGY="keystone") as process:
        status = process.wait(PATIENCE)
        error = process.errors()

    assert 0 != status
    assert error.strip().endswith("[keystone_authtoken]auth_url: Keystone needs it")


def test_http_basic_accepts_the_users_of_the_file(database, tmp_path):
    bcrypt = pytest.importorskip("bcrypt")
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
    (tmp_path / "htpasswd").write_text(f"ali:{hashed}\n")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "INGOT_AUTH_STRATEGY": "http_basic",
        "INGOT_HTTP_BASIC_AUTH_USER_FILE": str(tmp_path / "htpasswd"),
    }
    with started(database, port, **settings) as process:
        assert 200 == await_answer(url, process).status_code
        nodes = f"{url}/v1/nodes"
        refused = requests.get(nodes, headers={"Accept": "*/*"})
        assert (401, True) == (refused.status_code, "WWW-Authenticate" in refused.headers)
        assert 401 == requests.get(nodes, auth=("ali", "wrong")).status_code
        assert 401 == requests.get(nodes, auth=("baba", "sesame")).status_code
        right = [requests.get(nodes, auth=("ali", "sesame")).status_code for _ in range(2)]
        assert [200, 200] == right
        assert 404 == requests.get(f"{url}/v1/lookup?node_uuid=x").status_code


#: paths of agents and operators that accept a body, with and without a prefix
STALLED = (
    "/v1/continue_inspection", "/v1/heartbeat/2c683317-1ef8-4645-b76b-321ffa501c0a",
    "/v1/nodes", "/nodes/", "/v1/nodes/x/states/provision", "/v1/ports", "/v1/heartbeat", "/x",
)  # fmt: skip


def stall(port, path, headers="Content-Length: 1000\r\n", body="{"):
    """Open a connection with a request that never ends."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    request = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\r\n"
    connection.sendall(f"{request}{body}".encode())
    return connection


def seconds_until_closed(connection, begun):
    with suppress(ConnectionError):
        while connection.recv(4096):
            pass
    return time.monotonic() - begun


@contextmanager
def body_timeout(database, seconds):
    """Run a server with one process and a time limit of bodies; yield its port."""
    port = free_port()
    settings = {"INGOT_API_BODY_TIMEOUT": str(seconds), "INGOT_API_API_WORKERS": "1"}
    with started(database, port, **settings) as process:
        await_answer(f"http://127.0.0.1:{port}", process)
        yield port


@pytest.fixture(scope="module")
def short_timeout(database):
    with body_timeout(database, 2) as port:
        yield port


@pytest.fixture(scope="module")
def long_timeout(database):
    """Longer than a test."""
    with body_timeout(database, 600) as port:
        yield port


on_many_routes = pytest.mark.parametrize(
    "paths", [STALLED * 2, STALLED[1:2] * 140], ids=["on many routes", "140 heartbeats"]
)


@on_many_routes
def test_missing_bodies_delay_no_other_request(long_timeout, paths):
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(stall(long_timeout, path))
        for path in ("/healthcheck", "/v1/nodes") * 3:
            url = f"http://127.0.0.1:{long_timeout}{path}"
            assert 200 == requests.get(url, headers=NEWEST, timeout=PATIENCE).status_code


@on_many_routes
def test_missing_bodies_end_in_time(short_timeout, paths):
    with ExitStack() as stack:
        begun = time.monotonic()
        stalled = [stack.enter_context(stall(short_timeout, path)) for path in paths]
        took = [seconds_until_closed(connection, begun) for connection in stalled]
        assert max(took) < BUSY, "a connection is still open"
        answer = requests.post(f"http://127.0.0.1:{short_timeout}/v1/nodes", json={"driver": "no"})
        assert 400 == answer.status_code


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"),
        ("Content-Length: 1000\r\nExpect: 100-continue\r\n", ""),
        (f"Content-Length: {1 << 20}\r\n", "{" * 100_000),
    ],
)
def test_a_body_of_any_form_has_a_time_limit(short_timeout, headers, body):
    begun = time.monotonic()
    with stall(short_timeout, "/v1/nodes", headers, body) as connection:
        assert 1.5 < seconds_until_closed(connection, begun) < BUSY


def test_a_slowly_arriving_body_has_a_time_limit(short_timeout):
    begun = time.monotonic()
    with stall(short_timeout, "/v1/nodes") as connection, suppress(ConnectionError):
        while time.monotonic() - begun < BUSY:
            connection.sendall(b"{")
            time.sleep(0.2)
    assert time.monotonic() - begun < BUSY


def test_a_body_that_arrives_in_parts_is_accepted(short_timeout):
    body = b'{"driver": "nonesuch"}'
    headers = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
    with stall(short_timeout, "/v1/nodes", headers, "") as connection:
        for byte in body:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
        with connection.makefile("rb") as answer:
            assert b"nonesuch" in answer.read()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(short_timeout, chunked):
    data = b" " * (2 << 20)
    connection = http.client.HTTPConnection("127.0.0.1", short_timeout, timeout=30)
    with closing(connection), suppress(BrokenPipeError, ConnectionResetError):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/nodes", [data] if chunked else data, headers,
                           encode_chunked=chunked)  # fmt: skip
        assert 413 == connection.getresponse().status


def test_http_2_is_not_supported(short_timeout):
    """Its streams have no time limit for bodies; a proxy in front may support it."""
    with socket.create_connection(("127.0.0.1", short_timeout), timeout=30) as connection:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
        )
        with suppress(ConnectionError):
            assert connection.recv(9) in (b"", b"HTTP/1.1 ")
