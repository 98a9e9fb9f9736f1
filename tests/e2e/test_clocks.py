"""Hosts with different clocks: the takeover after a death takes as long as with equal ones."""

import itertools
import signal
import threading
import time
from contextlib import contextmanager
from datetime import datetime

import pytest
from sqlalchemy import select, update

from app.db import connections, transactions
from app.db.clock import after, now
from app.models import ApiToken
from tests.e2e.roles_alone import ROLES, Site
from tests.support import redis as redis_support
from tests.support import skew
from tests.support.fleet import until
from tests.support.local_users import Directory

#: Most seconds from the death of a conductor until its interrupted nodes are back. With the settings
#: of `QUICK` it takes three; the start of the heir, on a busy machine, many. A clock that delays it
#: does so for an hour, or for ever.
PATIENCE = 180.0
NODES = 4
#: By which factor a wrong clock may lengthen that, and by how many seconds a busy machine.
FACTOR, BUSY = 1.5, 2.0


@pytest.fixture
def clock(tmp_path):
    return skew.Clock(tmp_path)


@pytest.fixture
def site(tmp_path, postgresql_server):
    """Roles on PostgreSQL: the clock of SQLite is that of the process that asks."""
    url = postgresql_server.database()
    with redis_support.serving(tmp_path) as port:
        site = Site(tmp_path, lambda _role: f"redis://127.0.0.1:{port}/0", lambda _role: url)
        site.environ |= {"INGOT_FAKE_POWER_DELAY": "4", "INGOT_BROKER_CONNECT_TIMEOUT": "5"}
        try:
            yield site
        finally:
            site.kill()
            postgresql_server.drop(url)


def await_takeover(site, count=NODES):
    """Kill the conductor amid the power changes of its nodes; wait until another one ends them."""
    conductor = site.processes[1]
    nodes = [
        site.request("POST", "nodes", driver="fake-hardware").json()["uuid"] for _ in range(count)
    ]
    for node in nodes:
        site.request("PUT", f"nodes/{node}/states/power", target="power on")
    begun = {"running", "waiting"}
    until(lambda: begun & {state for node in nodes for state in states(site, node)}, "a step")
    conductor.send_signal(signal.SIGKILL)
    site.processes[1] = site.run("conductor", "--name", "heir")
    started = time.monotonic()
    until(
        lambda: all(power_of(site, node) == "power on" for node in nodes),
        f"the takeover; {site.text()[-3000:]}",
        PATIENCE,
    )
    return time.monotonic() - started


def states(site, node):
    """The states of the operations of a node."""
    operations = site.request("GET", f"nodes/{node}/operations").json()["operations"]
    return [operation["state"] for operation in operations]


def power_of(site, node):
    return site.request("GET", f"nodes/{node}").json()["power_state"]


#: Role and seconds by which its clock is wrong; the other combinations are among the slow tests.
QUICK_CASES = {("beat", -3600), ("beat", -3), ("beat", 3), ("conductor", 3600), ("api", -3)}
CASES = [
    pytest.param(role, seconds, marks=[] if (role, seconds) in QUICK_CASES else [pytest.mark.slow])
    for role in ROLES
    for seconds in (-3600, -3, 3, 3600)
]


@pytest.mark.parametrize(("role", "seconds"), CASES)
def test_a_skewed_clock_delays_no_takeover(site, clock, role, seconds):
    clock.set(seconds)
    site.preloads[role] = clock.environ
    site.start()
    await_takeover(site)


def test_a_step_of_all_clocks_delays_no_takeover(site, clock):
    site.preloads = dict.fromkeys(ROLES, clock.environ)
    site.start()
    for seconds in (-3600, 3600):
        clock.set(seconds)
        await_takeover(site)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_wrong_clock_delays_a_takeover_by_half(site, tmp_path):
    """Each process, each skew, and a clock that steps to and fro during the takeover."""
    clocks = {}
    for role in ROLES:
        (tmp_path / f"clock-{role}").mkdir()
        clocks[role] = skew.Clock(tmp_path / f"clock-{role}")
        site.preloads[role] = clocks[role].environ
    site.start()
    usual = max(await_takeover(site, 8) for _ in range(3))
    late = {}
    for role, clock in clocks.items():
        for seconds in (-3600, -3, 3, 3600, None):
            if seconds is None:
                with stepping(clock):
                    took = await_takeover(site, 8)
            else:
                clock.set(seconds)
                took = await_takeover(site, 8)
            clock.set(0)
            if took > FACTOR * usual + BUSY:
                late[role, seconds or "stepping"] = took
    assert {} == late, f"usual: {usual:.1f} s"


@contextmanager
def stepping(clock):
    """Set a clock to and fro every half second."""
    over = threading.Event()

    def step():
        for seconds in itertools.cycle((3600, -3600, 3, -3)):
            clock.set(seconds)
            if over.wait(0.5):
                return

    stepper = threading.Thread(target=step)
    stepper.start()
    try:
        yield
    finally:
        over.set()
        stepper.join()


def moment(text):
    return datetime.fromisoformat(text).replace(tzinfo=None)


def test_all_times_are_of_the_clock_of_the_database(site, tmp_path):
    """Operations, history, holds, rollouts and tokens, with roles whose clocks are wrong."""
    for role, seconds in (("api", -3600), ("conductor", 3600), ("beat", 3600)):
        (tmp_path / f"clock-{role}").mkdir()
        clock = skew.Clock(tmp_path / f"clock-{role}")
        clock.set(seconds)
        site.preloads[role] = clock.environ
    assert 0 == site.run("db", "upgrade").wait(60)
    engine = connections.connect(site.database("owner"))

    def present():
        with transactions.reading(engine) as session:
            return session.scalars(select(now())).one()

    users = Directory(lambda: transactions.transaction(engine))
    users.user("ops", ("admin", None))
    valid, (uuid, expired) = users.token("ops"), users.token_with_uuid("ops")
    with transactions.transaction(
        engine
    ) as session:  # by the API's clock, it has half an hour left
        query = update(ApiToken).where(ApiToken.uuid == uuid)
        session.execute(query.values(expires_at=after(-1800)))
    site.environ |= {
        "INGOT_AUTH_STRATEGY": "local",
    }
    site.http.headers["X-Auth-Token"] = valid
    site.start()
    times = [present()]
    node = site.request("POST", "nodes", driver="fake-hardware").json()["uuid"]
    site.provision(node, "manage", "manageable")
    (operation,) = site.request("GET", f"nodes/{node}/operations").json()["operations"]
    times += [moment(operation[name]) for name in ("created_at", "started_at", "finished_at")]
    times.append(present())
    assert times == sorted(times)
    document = site.request("GET", f"nodes/{node}").json()
    history = site.request("GET", f"nodes/{node}/history?detail=true").json()["history"]
    for text in (document["provision_updated_at"], *(entry["created_at"] for entry in history)):
        assert times[0] <= moment(text) <= times[-1]
    hold = site.request(
        "POST", f"nodes/{node}/holds", kind="scheduling", reason="moves", expires_in=2
    ).json()
    assert 1 < (moment(hold["expires_at"]) - times[-1]).total_seconds() < 30
    until(lambda: not site.request("GET", "holds").json()["holds"], "the end of the hold")
    assert present() > moment(hold["expires_at"])
    rollout = site.request(
        "POST", "rollouts", target="power on", nodes={"driver": "fake-hardware"}
    ).json()
    path = f"rollouts/{rollout['uuid']}"
    until(lambda: site.request("GET", path).json()["state"] == "completed", "the rollout")
    ended = site.request("GET", path).json()["finished_at"]
    assert moment(hold["expires_at"]) < moment(rollout["created_at"]) < moment(ended) < present()
    engine.dispose()
    site.http.headers["X-Auth-Token"] = expired
    assert 401 == site.http.get(f"{site.base}/v1/nodes", timeout=60).status_code
