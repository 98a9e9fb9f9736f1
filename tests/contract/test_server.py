"""The real server, spoken to by the real clients."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

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
from tests.support.ports import free_port

SERVE = "import os; from app import serve; from app.config import settings; serve.main(settings.load(os.environ))"
NEWEST = {"X-OpenStack-Ironic-API-Version": "1.115"}


@contextmanager
def started(database, port, before="", **settings):
    """A server's process; whatever comes of the test, it is gone afterwards."""
    environ = {
        **os.environ,
        "INGOT_DATABASE_CONNECTION": database,
        "INGOT_BROKER_URL": "redis://127.0.0.1:1/0",  # nobody there: messages are only hints
        "INGOT_API_PORT": str(port),
        "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "1000",
        **settings,
    }
    with subprocess.Popen(
        [sys.executable, "-c", before + SERVE], env=environ, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=10)


def await_answer(url, process):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            return requests.get(url, timeout=5)
        except requests.ConnectionError:
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.02)
    raise AssertionError("the server does not answer")


@pytest.fixture(scope="module")
def database(migrated_sqlite, tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "ingot.db"
    shutil.copy(migrated_sqlite, path)
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
def server(database):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with started(database, port) as process:
        await_answer(url, process)
        yield url


def test_the_command_line_client_works_unchanged(server):
    """As a process, once; as starting one takes seconds, then inside of this one."""
    program = Path(sys.executable).with_name("baremetal")
    command = [program, "--os-auth-type", "none", "--os-endpoint", server, "driver", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr
    assert "fake-hardware" in done.stdout

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
    assert node.id in [each.id for each in cloud.baremetal.nodes(details=True)]
    assert [port.id] == [each.id for each in cloud.baremetal.ports(node=node.id)]
    assert "fake-hardware" in [each.name for each in cloud.baremetal.drivers()]
    cloud.baremetal.set_node_maintenance(node, reason="why")
    assert cloud.baremetal.validate_node(node, required=None)["power"].result
    assert cloud.baremetal.find_node("nonesuch") is None
    cloud.baremetal.delete_node(node)
    cloud.close()


def test_requests_that_wait_do_not_hold_up_the_others(server):
    node = requests.post(f"{server}/v1/nodes", json={"driver": "fake-hardware"}, headers=NEWEST)
    path = f"{server}/v1/nodes/{node.json()['uuid']}"
    locked = {"json": {"target": "manage"}, "headers": NEWEST}
    assert 202 == requests.put(f"{path}/states/provision", **locked).status_code

    def wait_for_the_lock(_number):
        return requests.put(f"{path}/maintenance", json={}, headers=NEWEST).status_code

    with ThreadPoolExecutor(20) as pool:
        waiting = pool.map(wait_for_the_lock, range(20))
        took = []
        for _ in range(10):
            begun = time.monotonic()
            assert 200 == requests.get(f"{server}/v1/nodes", headers=NEWEST).status_code
            took.append(time.monotonic() - begun)
        assert {409} == set(waiting)
    assert sorted(took)[5] < 0.5


@contextmanager
def idle(database, count, **settings):
    """Connections to one process that have asked once and are kept open, as agents' are."""
    port = free_port()
    with (
        started(database, port, INGOT_API_API_WORKERS="1", **settings) as process,
        ExitStack() as stack,
    ):
        await_answer(f"http://127.0.0.1:{port}", process)
        kept = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(count)]
        for each in kept:
            stack.callback(each.close)
            each.request("GET", "/")
            answer = each.getresponse()
            answer.read()
            assert 200 == answer.status
        yield kept


def test_connections_that_are_kept_open_keep_nobody_out(database):
    with idle(database, 300, INGOT_API_BACKLOG="128"):
        pass


def test_beyond_their_limit_connections_wait_until_idle_ones_are_closed(database):
    few = {"INGOT_API_MAX_CONNECTIONS": "5", "INGOT_API_KEEP_ALIVE_TIME": "1"}
    with idle(database, 12, **few) as kept:
        assert b"" == kept[0].sock.recv(1)


def test_a_process_that_may_open_few_files_has_fewer_connections_and_says_so(database, capfd):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)); "
    with idle(database, 60, before=limit, INGOT_API_KEEP_ALIVE_TIME="1"):
        pass
    assert "api.too_few_files" in capfd.readouterr().out


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_whichever_way_it_ends_nothing_is_left_running(database, how):
    port = free_port()
    with started(database, port) as process:
        await_answer(f"http://127.0.0.1:{port}", process)
        family = [process, *psutil.Process(process.pid).children(recursive=True)]
        assert 3 == len(family)

        begun = time.monotonic()
        process.send_signal(how)
        status = process.wait(10)
        _, left = psutil.wait_procs(family[1:], timeout=10)

    assert [] == left
    assert time.monotonic() - begun < 10  # far below a graceful period; a busy machine needs some
    assert (-how if how == signal.SIGKILL else 0) == status


def test_a_setting_that_is_missing_stops_the_start_with_one_line(database):
    with started(database, free_port(), INGOT_AUTH_STRATEGY="keystone") as process:
        told = process.stderr.read().decode()
        status = process.wait(30)

    assert 0 != status
    assert told.strip().endswith("[keystone_authtoken]auth_url: Keystone needs it")


def test_http_basic_lets_in_who_is_in_the_file(database, tmp_path):
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


#: paths that take a body, of agents and of operators, with and without what lies before them
STALLED = (
    "/v1/continue_inspection", "/v1/heartbeat/2c683317-1ef8-4645-b76b-321ffa501c0a",
    "/v1/nodes", "/nodes/", "/v1/nodes/x/states/provision", "/v1/ports", "/v1/heartbeat", "/x",
)  # fmt: skip


def stall(port, path, headers="Content-Length: 1000\r\n", sent="{"):
    """A connection whose request never ends."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    request = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n{headers}\r\n"
    connection.sendall(f"{request}{sent}".encode())
    return connection


def seconds_until_closed(connection, begun):
    with suppress(ConnectionError):
        while connection.recv(4096):
            pass
    return time.monotonic() - begun


def seconds_of_an_answer(url):
    begun = time.monotonic()
    assert 200 == requests.get(url, headers=NEWEST, timeout=30).status_code
    return time.monotonic() - begun


@pytest.fixture(scope="module")
def impatient(database):
    """The port of a server with one process, which waits for two seconds for a body."""
    port = free_port()
    settings = {"INGOT_API_BODY_TIMEOUT": "2", "INGOT_API_API_WORKERS": "1"}
    with started(database, port, **settings) as process:
        await_answer(f"http://127.0.0.1:{port}", process)
        yield port


@pytest.mark.parametrize(
    ("paths", "slowest"),
    [(STALLED * 2, 1.5), (STALLED[1:2] * 140, 4.0)],
    ids=["on many routes", "140 heartbeats"],
)
def test_bodies_that_never_arrive_hold_up_nobody_else_and_end_in_time(impatient, paths, slowest):
    with ExitStack() as stack:
        begun = time.monotonic()
        stalled = [stack.enter_context(stall(impatient, path)) for path in paths]
        for path in ("/healthcheck", "/v1/nodes") * 3:
            assert seconds_of_an_answer(f"http://127.0.0.1:{impatient}{path}") < slowest
        took = [seconds_until_closed(each, begun) for each in stalled]
        assert max(took) < 15, "a connection is still open"
        answer = requests.post(f"http://127.0.0.1:{impatient}/v1/nodes", json={"driver": "no"})
        assert 400 == answer.status_code


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"),
        ("Content-Length: 1000\r\nExpect: 100-continue\r\n", ""),
        (f"Content-Length: {1 << 20}\r\n", "{" * 100_000),
    ],
)
def test_a_body_of_any_form_has_a_time_limit(impatient, headers, sent):
    begun = time.monotonic()
    with stall(impatient, "/v1/nodes", headers, sent) as connection:
        assert 1.5 < seconds_until_closed(connection, begun) < 10


def test_a_body_that_trickles_in_has_a_time_limit(impatient):
    begun = time.monotonic()
    with stall(impatient, "/v1/nodes") as connection, suppress(ConnectionError):
        while time.monotonic() - begun < 20:
            connection.sendall(b"{")
            time.sleep(0.2)
    assert time.monotonic() - begun < 10


def test_a_body_that_arrives_in_parts_is_taken(impatient):
    body = b'{"driver": "nonesuch"}'
    headers = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
    with stall(impatient, "/v1/nodes", headers, "") as connection:
        for byte in body:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
        with connection.makefile("rb") as answer:
            assert b"nonesuch" in answer.read()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(impatient, chunked):
    data = b" " * (2 << 20)
    connection = http.client.HTTPConnection("127.0.0.1", impatient, timeout=30)
    with closing(connection), suppress(BrokenPipeError, ConnectionResetError):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/nodes", [data] if chunked else data, headers,
                           encode_chunked=chunked)  # fmt: skip
        assert 413 == connection.getresponse().status


def test_http_2_is_not_spoken(impatient):
    """Its streams have no time limit for bodies; a proxy in front may speak it."""
    with socket.create_connection(("127.0.0.1", impatient), timeout=10) as connection:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
        )
        with suppress(ConnectionError):
            assert connection.recv(9) in (b"", b"HTTP/1.1 ")
