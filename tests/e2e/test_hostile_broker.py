"""A running service whose Redis has a password, and a client of that Redis that writes what it likes."""

import base64
import json
import pickle
import uuid
from itertools import product
from pathlib import Path

import pytest
from celery import Celery

from app.broker import queue
from app.config.settings import Settings
from tests.support import processes
from tests.support import redis as own_redis
from tests.support.fleet import Fleet, until

STEPS, NOW = "conductor.fleet-1", "conductor.fleet-1.now"
PASSWORD = "Broker-s3cret-77"
RUN = "ingot.run"


def message(task, args, *, kwargs=None, embed=None, body=None, headers=None, **properties):
    """A message as Kombu stores it in a Redis list."""
    content = [args, kwargs or {}, {"chain": None, "callbacks": None, **(embed or {})}]
    return json.dumps({
        "body": base64.b64encode(body or json.dumps(content).encode()).decode(),
        "content-encoding": "utf-8", "content-type": "application/json",
        "headers": {"lang": "py", "task": task, "id": str(uuid.uuid4()), "shadow": None, **(headers or {})},
        "properties": {
            "delivery_mode": 2, "delivery_info": {"exchange": "", "routing_key": STEPS},
            "body_encoding": "base64", "delivery_tag": str(uuid.uuid4()), **properties,
        },
    }).encode()  # fmt: skip


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def forgeries(node, touched):
    """Entries of a queue that no release of Ingot writes."""
    other, operation = str(uuid.uuid4()), str(uuid.uuid4())
    pickled = json.loads(message(RUN, [], body=pickle.dumps(Payload(touched))))
    pickled |= {"content-type": "application/x-python-serialize", "content-encoding": "binary"}
    link = {"task": RUN, "args": [node, operation, 1, 0], "kwargs": {}, "options": {"queue": STEPS}}
    yield from (
        b"",
        b"\xff\xfe",
        b"no JSON",
        b"[]",
        b"1",
        b"{}",
        b'{"properties": {}}',
        b"[" * 50_000,
    )
    yield message(RUN, [], body=b"\xff no JSON", body_encoding="unknown")
    yield message(RUN, [], body=b"x" * (16 << 20))
    yield message(RUN, [], body=b"[[" + b'"x",' * (1 << 20) + b"1],{},{}]")
    yield json.dumps(pickled).encode()
    for args in (
        [], [node], [node, operation], [node, operation, "1", 0], [node, operation, 1, None],
        [{}, [], 1, 0], [node, operation, 1 << 70, 0], [node, operation, 1, -1],
        [node, "'; DROP TABLE nodes; --", 1, 0], [f"{node}\0", operation, 1, 0], ["x" * 10_000, operation, 1, 0],
        [other, operation, 1, 0], [node, operation, 1, 0],
    ):  # fmt: skip
        yield message(RUN, args)
    yield message(RUN, [node, operation, 1, 0], kwargs={"unknown": 1})
    yield message(RUN, [node, operation, 1, 0], embed={"chain": [1, "x", {}]})
    yield message(
        RUN,
        [node, operation, 1, 0],
        embed={"chain": [link], "callbacks": [link], "errbacks": [link]},
    )
    for header in (
        {"ingot_version": "new"},
        {"ingot_version": {}},
        {"eta": "never"},
        {"expires": {}},
    ):
        yield message(RUN, [node, operation, 1, 0], headers=header)
    for task in (
        "celery.map",
        "celery.chain",
        "celery.group",
        "ingot.fan_out",
        "ingot.ask",
        "ingot.reconcile",
        "os.system",
    ):
        yield message(task, [link, [[1]]])
        yield message(task, ["celery.backend_cleanup"])
    yield message("ingot.ask", [{}, []])
    yield message("ingot.ask", ["no-such-call", node])


def broadcast(url):
    """Send the commands of Celery's remote control; return the answers."""
    with Celery("attacker", broker=url) as application:
        application.control.broadcast("shutdown")
        return application.control.ping(timeout=1) or application.control.inspect(timeout=1).stats()


def tree(pid):
    """A process and its descendants."""
    return [pid, *(descendant for child in processes.children(pid) for descendant in tree(child))]


@pytest.fixture
def port(tmp_path):
    (tmp_path / "redis").mkdir()
    with own_redis.serving(tmp_path / "redis", requirepass=PASSWORD) as redis_port:
        yield redis_port


def test_forged_messages_and_commands_change_nothing_and_the_password_is_not_shown(tmp_path, port):
    url = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    (tmp_path / "broker-url").write_text(f"{url}\n")
    settings = {"INGOT_BROKER_URL_FILE": str(tmp_path / "broker-url")}
    with Fleet(tmp_path, conductors=1, **settings) as fleet:
        (node,) = fleet.create_nodes(1)
        first_pids = fleet.pids()
        client = own_redis.client(port, password=PASSWORD)
        forged_messages = list(forgeries(node, tmp_path / "unpickled"))
        for forgery in forged_messages:
            client.lpush(STEPS, forgery)
            client.lpush(NOW, forgery)
        assert not broadcast(url)
        until(lambda: not client.llen(STEPS) and not client.llen(NOW), "the end of the queues")
        fleet.provision([node], "manage")
        fleet.await_state([node], "manageable")
        assert 1 == len(fleet.operations(node))
        assert first_pids == fleet.pids(), "a process has ended"
        assert not (tmp_path / "unpickled").exists()
        lines = fleet.log("message.malformed")
        assert lines
        # bounded: a message costs less than a line of 10 KB on average, however large it is
        assert len(fleet.text()) < 10_000 * len(forged_messages)

        pids = tree(fleet.process.pid)
        assert (
            len(pids) >= 7
        )  # supervisor, API and its processes, file server, conductor and its control process, beat
        for pid, file in product(pids, ("cmdline", "environ")):
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/{file}").read_bytes()
        assert PASSWORD not in fleet.text()


def test_remote_control_is_off_unless_a_setting_asks_for_it():
    assert not queue.celery(Settings()).conf.worker_enable_remote_control
    assert [] == [name for name in queue.celery(Settings()).tasks if name.startswith("celery.")]
