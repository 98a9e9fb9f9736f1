"""Hosts with different clocks: the takeover after a death takes as long as with equal ones."""

import signal
import time

import pytest

from tests.e2e.roles_alone import ROLES, Site
from tests.support import redis as redis_support
from tests.support import skew
from tests.support.fleet import until

#: Most seconds from the death of a conductor until its interrupted nodes are back. With the settings of
#: `QUICK` it takes three; the start of the heir, on a busy machine, many. A clock that delays it does so for an
#: hour, or for ever.
PATIENCE = 180.0
NODES = 4


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


def await_takeover(site):
    """Kill the conductor amid the power changes of its nodes; wait until another one ends them."""
    conductor = site.processes[1]
    nodes = [
        site.request("POST", "nodes", driver="fake-hardware").json()["uuid"] for _ in range(NODES)
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
