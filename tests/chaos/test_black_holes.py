"""
Packets vanish on the way to Redis or PostgreSQL, and no connection is closed.

The kernel drops them for a while; or they are swallowed, as by a tunnel whose other end is gone, and
the connections of that time stay silent for ever.
"""

import json
import socket
import subprocess
import sys
from contextlib import closing
from functools import partial

import pytest

from tests.chaos import network
from tests.chaos.outage import SETTINGS, Outage, ready
from tests.chaos.servers import Redis, a_postgresql, running
from tests.support import postgresql
from tests.support.fleet import ROOT, Fleet, until
from tests.support.ports import free_ports

#: Most seconds, on a busy machine, until all dead connections are given up and the work is done; by
#: the settings it is 3 s for Redis, 4 s for PostgreSQL. Without those, TCP waits for a quarter of an hour.
NOTICED = 45


class Proxy:
    """A TCP proxy in its own process."""

    def __init__(self, folder, to):
        self.port, self._control = free_ports(2)
        plan = folder / "proxy.json"
        plan.write_text(
            json.dumps({"control": self._control, "it": {"port": self.port, "to": [to]}})
        )
        self._command = [sys.executable, "-m", "tests.chaos.tcp_proxy", str(plan)]

    def __enter__(self):
        self._process = subprocess.Popen(self._command, cwd=ROOT)
        until(self._listens, "the proxy")
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def _listens(self):
        with closing(socket.socket()) as to:
            return to.connect_ex(("127.0.0.1", self._control)) == 0

    def be(self, mode):
        with closing(socket.create_connection(("127.0.0.1", self._control))) as to:
            to.sendall(json.dumps(["it", mode]).encode() + b"\n")
            to.recv(100)

    def lose(self):
        self.be("lost")

    def mend(self):
        self.be("whole")


class Dropping(Proxy):
    """A proxy in a private network whose packets the kernel drops; TCP retransmits them."""

    def lose(self):
        network.drop(self.port)

    def mend(self):
        network.drop_none()


@pytest.fixture(params=["swallowed", pytest.param("dropped", marks=pytest.mark.slow)])
def proxy(request):
    """Class of a proxy that loses packets, by one of two mechanisms."""
    if request.param == "swallowed":
        yield Proxy
        return
    with network.private():
        yield Dropping


@pytest.fixture
def redis(tmp_path, proxy):
    with running(Redis(tmp_path)) as server:
        yield server


def test_verbs_are_accepted_and_executed_while_no_packet_reaches_redis(redis, proxy, tmp_path):
    with proxy(tmp_path, redis.port) as way:
        url = f"redis://127.0.0.1:{way.port}/0"
        with Fleet(tmp_path, "--broker", url, **SETTINGS) as fleet:
            outage = Outage(ready(fleet))
            assert NOTICED > outage.clean(way.lose, way.mend, outage.accepted)


@pytest.fixture
def postgres():
    with a_postgresql() as server:
        yield server


def test_writes_are_answered_with_503_while_no_packet_reaches_postgresql(postgres, proxy, tmp_path):
    database = postgresql.name_of(postgres.url)
    with proxy(tmp_path, f"{postgres.folder}/.s.PGSQL.5432") as way:
        url = (
            f"postgresql://{postgresql.ACCOUNT}@127.0.0.1:{way.port}/{database}"
            "?sslmode=disable&gssencmode=disable"
        )
        with Fleet(tmp_path, INGOT_DATABASE_CONNECTION=url, **SETTINGS) as fleet:
            outage = Outage(ready(fleet))
            refused = partial(outage.refused, message="The database is out of reach")
            assert NOTICED > outage.clean(way.lose, way.mend, refused)
