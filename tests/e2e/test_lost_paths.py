"""A role that has lost the broker or the database alone: the others do its work, and say why."""

import signal
from contextlib import contextmanager

import pytest

from tests.e2e.roles_alone import Site
from tests.support import redis as redis_support
from tests.support.fleet import PATIENCE, until
from tests.support.postgresql import ACCOUNT

#: Users of Redis, each for one process.
USERS = ("api", "near", "far", "first", "second")


class Paths:
    """Each process reaches Redis as a user of its own, which the test can lock out."""

    def __init__(self, port):
        self.port = port
        with redis_support.client(port) as admin:
            for user in USERS:
                admin.acl_setuser(
                    user, enabled=True, passwords=["+secret"], categories=["+@all"], keys=["*"], channels=["*"]
                )  # fmt: skip

    def url(self, user):
        return f"redis://{user}:secret@127.0.0.1:{self.port}/0"

    def cut(self, user):
        with redis_support.client(self.port) as admin:
            admin.execute_command("ACL", "SETUSER", user, "off")
            admin.execute_command("CLIENT", "KILL", "USER", user)

    def mend(self, user):
        with redis_support.client(self.port) as admin:
            admin.execute_command("ACL", "SETUSER", user, "on")


@pytest.fixture
def paths(tmp_path):
    with redis_support.serving(tmp_path) as port:
        yield Paths(port)


@contextmanager
def site_of(tmp_path, paths, *roles, database=None, api=()):
    """
    Run the roles, each with the path of its name to Redis: (name, words of its command).

    database: name -> its URL of the database. api: options of the API.
    """
    current = "api"
    site = Site(
        tmp_path, lambda _role: paths.url(current), database and (lambda _role: database(current))
    )
    site.environ |= {"INGOT_BROKER_CONNECT_TIMEOUT": "2", "INGOT_FAKE_POWER_DELAY": "0.1"}
    processes = {}
    try:
        assert 0 == site.run("db", "upgrade").wait(PATIENCE)
        for name, *words in [("api", "api", *api), *roles]:
            current = name
            processes[name] = site.run(*words)
        site.processes = list(processes.values())
        names = {name for name, *words in roles if words[0] == "conductor"}
        until(lambda: names == alive(site), "the conductors")
        yield site, processes
    except BaseException:
        print(site.text()[-6000:])
        raise
    finally:
        site.kill()


def alive(site):
    return {row["hostname"] for row in site.conductors() or () if row["alive"]}


def nodes_of(site, count):
    return [
        site.request("POST", "nodes", driver="fake-hardware").json()["uuid"] for _ in range(count)
    ]


def power_on(site, nodes):
    for node in nodes:
        site.request("PUT", f"nodes/{node}/states/power", target="power on")


def await_power_on(site, nodes, seconds=20.0):
    def is_on(node):
        return site.request("GET", f"nodes/{node}").json()["power_state"] == "power on"

    until(lambda: all(map(is_on, nodes)), f"the power; {site.text()[-2000:]}", seconds)


def conductor(name):
    return (name, "conductor", "--name", name)


def test_the_work_of_a_conductor_without_broker_is_done_by_its_neighbour(tmp_path, paths):
    roles = [conductor("near"), conductor("far"), ("first", "beat")]
    with site_of(tmp_path, paths, *roles) as (site, _):
        nodes = nodes_of(site, 12)
        paths.cut("far")
        power_on(site, nodes)
        await_power_on(site, nodes)
        until(lambda: {"near"} == alive(site), "the impediment")
        conductors = {
            row["hostname"]: row for row in site.request("GET", "service").json()["conductors"]
        }
        assert "impeded" == conductors["far"]["state"]
        assert "the broker has not answered" in conductors["far"]["impediment"]
        assert conductors["near"]["impediment"] is None
        paths.mend("far")
        until(lambda: {"near", "far"} == alive(site), "the return")
        later_nodes = nodes_of(site, 12)
        power_on(site, later_nodes)
        await_power_on(site, later_nodes)
        owners = {site.request("GET", f"nodes/{node}").json()["conductor"] for node in later_nodes}
        assert {"near", "far"} == owners


def test_when_no_conductor_has_the_broker_why_says_so(tmp_path, paths):
    with site_of(tmp_path, paths, conductor("far"), ("first", "beat")) as (site, _):
        (node,) = nodes_of(site, 1)
        paths.cut("far")
        until(lambda: set() == alive(site), "the impediment")
        power_on(site, [node])
        summary = site.request("GET", f"nodes/{node}/why").json()["summary"]
        assert "o conductor can do new work (far: the broker has not answered" in summary
        paths.mend("far")
        await_power_on(site, [node])


def test_a_leading_beat_that_loses_the_broker_is_replaced(tmp_path, paths):
    roles = [conductor("near"), conductor("far"), ("first", "beat")]
    with site_of(tmp_path, paths, *roles) as (site, processes):
        until(lambda: "beat.leads" in site.text(), "the lead")
        with site_second_beat(site, paths):
            nodes = nodes_of(site, 8)
            paths.cut("first")
            power_on(site, nodes[:4])
            processes["near"].send_signal(signal.SIGKILL)
            power_on(site, nodes[4:])
            await_power_on(site, nodes)
            assert "beat.stands_by" in site.text()


USERS_OF_DATABASE = ("api", "near", "far", "first")


class Accounts:
    """Each process is a user of its own of PostgreSQL, whom the test can lock out."""

    def __init__(self, server):
        self.server = server
        self.owner = server.database()
        for user in USERS_OF_DATABASE:
            server.execute(f"CREATE ROLE lost_{user} SUPERUSER LOGIN")

    def url(self, user):
        return self.owner.replace(f"user={ACCOUNT}", f"user=lost_{user}")

    def cut(self, user):
        self.server.execute(f"ALTER ROLE lost_{user} NOLOGIN")
        self.server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'lost_{user}'"
        )

    def drop(self):
        self.server.drop(self.owner)
        for user in USERS_OF_DATABASE:
            self.server.execute(f"DROP ROLE lost_{user}")


@pytest.fixture
def accounts(postgresql_server):
    accounts = Accounts(postgresql_server)
    yield accounts
    accounts.drop()


def test_a_conductor_that_loses_the_database_hands_its_leases_over(tmp_path, paths, accounts):
    """It has taken the leases of nodes whose messages it received, and cannot claim their steps."""
    roles = [conductor("near"), conductor("far"), ("first", "beat")]
    with site_of(tmp_path, paths, *roles, database=accounts.url) as (site, _):
        nodes = nodes_of(site, 16)
        accounts.cut("far")
        power_on(site, nodes)
        await_power_on(site, nodes)
        assert "database.awaited" in site.text(), "no message has reached the conductor"


@contextmanager
def site_second_beat(site, paths):
    keep, site.broker = site.broker, lambda _role: paths.url("second")
    site.processes.append(site.run("beat"))
    site.broker = keep
    yield
