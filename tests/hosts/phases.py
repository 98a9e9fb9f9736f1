"""
Phases: each is a fault, what it may explain, and how long work may stand still for it.

A fault is a context manager: the block runs while the fault lasts. Faults of one host promise that
no work stands still for longer than `judge.PROMISE`; those of a server that all hosts need last for
some time for all, and the promise begins at their end.
"""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from tests.hosts import broker, database
from tests.hosts.judge import OF_PATHS, PROMISE
from tests.hosts.site import APIS, BEATS, CONDUCTORS, ROLES, SPARE

#: Group of hosts that a path leads to.
ENDS = {
    "database": database.HOSTS,
    "redis": broker.WATCHERS,
    "machines": ("machines",),
    "peers": (*ROLES, SPARE),
    "balancer": ("balancer",),
}
#: Role -> the host that a fault concerns.
ONE = {"api": APIS[:1], "conductor": CONDUCTORS[:1]}


@dataclass(frozen=True, slots=True)
class Phase:
    """A fault for some seconds. fault: makes its context manager, of the site."""

    about: str
    seconds: float
    fault: Callable
    excused: frozenset = frozenset()  # codes of failures that the fault explains
    allowed: float = PROMISE  # seconds for which work may stand still
    loses: float = 0.0  # seconds of acknowledged writes that the database itself loses
    needs: str = ""  # prerequisite: "clocks"; empty: none
    name: str = ""  # in `PHASES`


@contextmanager
def nothing(_site):
    yield


@contextmanager
def _mended(site):
    try:
        yield
    finally:
        site.network.mend()


def _hosts(site, role):
    """Hosts of a role; of beats the one that leads."""
    return (leader(site),) if role == "beat" else ONE[role]


def leader(site):
    """The beat that leads, by the log of both."""
    lines = site.log("beat.leads", "beat.stands_by")
    last_events = {line["role"]: line["event"] for line in lines}
    return next((name for name in BEATS if last_events.get(name) == "beat.leads"), BEATS[0])


@contextmanager
def cut(site, role, end, direction="both"):
    """Cut the paths between a role's host and a group; direction: both, in or out of the host."""
    hosts, group = _hosts(site, role), ENDS[end]
    with _mended(site):
        if direction != "in":
            site.network.cut(hosts, group)
        if direction != "out":
            site.network.cut(group, hosts)
        yield


@contextmanager
def apart(site, *hosts):
    """Cut hosts off from each other and from all others."""
    every = list(site.network.numbers)
    with _mended(site):
        site.network.cut(hosts, every)
        site.network.cut(every, hosts)
        yield


@contextmanager
def impaired(site, role, end, **impairment):
    hosts = _hosts(site, role)
    with _mended(site):
        site.network.impair(hosts, ENDS[end], **impairment)
        site.network.impair(ENDS[end], hosts, **impairment)
        yield


@contextmanager
def stopped(site, role):
    """Stop the processes of a role's host (SIGSTOP)."""
    (host,) = _hosts(site, role)
    began = time.time()
    site.send(host, signal.SIGSTOP)
    try:
        yield
    finally:
        site.send(host, signal.SIGCONT)
        site.stops.append((host, began, time.time()))


@contextmanager
def killed(site, role):
    """Kill the processes of a role's host, which are started again at the end."""
    (host,) = _hosts(site, role)
    site.kill(host)
    try:
        yield
    finally:
        site.start(host)


@contextmanager
def failed_over(site, lost=None):
    """
    Kill the primary of PostgreSQL and promote the standby; bring the former back at the end.

    lost: seconds by which the standby is behind; None: replication is synchronous.
    """
    pair = site.database
    pair.checkpoint()
    if lost is not None:
        pair.stop_replication()
        time.sleep(lost)
    pair.kill(pair.primary)
    time.sleep(1)  # as an operator takes to decide
    pair.promote()
    try:
        yield
    finally:
        pair.bring_back()


@contextmanager
def synchronous(site, fault):
    """Replicate synchronously during a fault."""
    site.database.set_synchronous(on=True)
    try:
        with fault(site):
            yield
    finally:
        site.database.set_synchronous(on=False)


@contextmanager
def database_killed(site):
    """Kill the primary, and start it again at the end."""
    primary = site.database.primary
    site.database.kill(primary)
    try:
        yield
    finally:
        site.database.start_again(primary)


@contextmanager
def disk_full(site):
    primary = site.database.primary
    disk = site.database.disks[primary]
    disk.fill()
    try:
        yield
    finally:
        disk.empty()
        if not site.database.lives(primary):  # it could not write to its log
            site.database.start_again(primary)


@contextmanager
def crowded(site):
    site.database.crowd()
    try:
        yield
    finally:
        site.database.leave()


@contextmanager
def redis_failed_over(site, lost=3.0):
    """Kill the master of Redis, after seconds in which its replica got nothing."""
    trio = site.broker
    master = trio.master
    other = next(host for host in broker.HOSTS if host != master)
    site.network.cut([master], [other])
    time.sleep(lost)
    trio.kill(master)
    site.network.mend()
    try:
        yield
    finally:
        trio.run(master)


@contextmanager
def redis_full(site):
    """Let the master of Redis have no memory for writes."""
    client = site.broker.client(site.broker.master)
    client.config_set("maxmemory", "1mb")
    try:
        yield
    finally:
        client.config_set("maxmemory", "0")


@contextmanager
def redis_emptied(site):
    """Empty Redis again and again."""
    stop = threading.Event()

    def empty():
        while not stop.wait(2):
            site.broker.client(site.broker.master).flushall()

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def skewed(site, role, seconds):
    """Set the clock of a role's host off; the conductor whose work is to be taken over is killed."""
    (host,) = _hosts(site, role)
    victim = CONDUCTORS[1]
    site.skew(host, seconds)
    site.kill(victim)
    try:
        yield
    finally:
        site.start(victim)
        site.skew(host, 0)


@contextmanager
def stepping(site, role, seconds=3600):
    """Step the clock of a role's host back and forth each second."""
    (host,) = _hosts(site, role)
    stop = threading.Event()

    def step():
        sign = 1
        while not stop.wait(1):
            site.skew(host, sign * seconds)
            sign = -sign

    thread = threading.Thread(target=step)
    thread.start()
    try:
        with killed(site, "conductor") if role != "conductor" else nothing(site):
            yield
    finally:
        stop.set()
        thread.join()
        site.skew(host, 0)


@contextmanager
def restarted(site):
    """Restart all roles, one after the other, by SIGTERM."""
    for name in ROLES:
        site.end(name)
        site.start(name)
        time.sleep(2)
    yield


@contextmanager
def scaled(site):
    """Add a conductor, and take two away; bring them back at the end."""
    site.start(SPARE)
    time.sleep(8)
    for name in CONDUCTORS[:2]:
        site.end(name)
    try:
        yield
    finally:
        for name in CONDUCTORS[:2]:
            site.start(name)
        time.sleep(3)
        site.end(SPARE)


SECONDS = 25
#: Role -> groups that it sends to or hears from.
PATHS = {
    "api": ("database", "redis", "balancer"),
    "conductor": ("database", "redis", "machines", "peers"),
    "beat": ("database", "redis"),
}
_BMCS = frozenset(OF_PATHS)
#: Clocks: the wrong wall clock of a role, while a conductor dies.
_SKEWS = {"-1h": -3600, "-3s": -3, "+3s": 3, "+1h": 3600}
_DIRECTIONS = {
    "both": "{} and {} lose all packets to each other",
    "in": "{} hears nothing from {}",
    "out": "{} is not heard by {}",
}


def _phases():
    yield "none", Phase("none", 20, nothing)
    for role, ends in PATHS.items():
        for end in ends:
            yield from _cuts(role, end)
    for role in ("api", "conductor", "beat"):
        fault = partial(apart_of, role=role)
        yield f"cut-{role}-all", Phase(f"{role} is cut off from everything", SECONDS, fault, _BMCS)
        for end in ("database", "redis"):
            yield f"loss-{role}-{end}", Phase(
                f"{role} and {end} lose 30 % of the packets to each other", SECONDS,
                partial(impaired, role=role, end=end, loss=0.3), allowed=PROMISE + SECONDS,
            )  # fmt: skip
            yield f"delay-{role}-{end}", Phase(
                f"{role} is behind a line of 1 s to {end}, each way", SECONDS,
                partial(impaired, role=role, end=end, delay=1.0), allowed=PROMISE + SECONDS,
            )  # fmt: skip
        yield (
            f"stop-{role}",
            Phase(f"{role} is stopped (SIGSTOP)", SECONDS, partial(stopped, role=role)),
        )
        yield f"kill-{role}", Phase(f"{role} is killed", SECONDS, partial(killed, role=role))
        for name, seconds in _SKEWS.items():
            yield f"clock-{role}{name}", Phase(
                f"the clock of {role} is off by {name}, a conductor is killed", SECONDS,
                partial(skewed, role=role, seconds=seconds), needs="clocks",
            )  # fmt: skip
        yield f"clock-{role}-steps", Phase(
            f"the clock of {role} steps by an hour each second", SECONDS,
            partial(stepping, role=role), needs="clocks",
        )  # fmt: skip
    yield "promote-synchronous", Phase(
        "PostgreSQL: primary killed, synchronous standby promoted", SECONDS,
        partial(synchronous, fault=failed_over),
    )  # fmt: skip
    for lost in (0.1, 1.0, 8.0):
        yield f"promote-lost-{lost:g}s", Phase(
            f"PostgreSQL: primary killed, asynchronous standby promoted, last {lost:g} s lost",
            SECONDS, partial(failed_over, lost=lost), excused=frozenset({"restored"}),
            loses=lost, allowed=PROMISE + lost,
        )  # fmt: skip
    yield (
        "database-killed",
        Phase(
            "PostgreSQL: primary killed, back after 15 s", 15, database_killed, allowed=PROMISE + 15
        ),
    )
    yield "database-standby-cut", Phase(
        "PostgreSQL: synchronous standby cut off", 15,
        partial(synchronous, fault=standby_cut), allowed=PROMISE + 15,
    )  # fmt: skip
    yield "database-full", Phase("PostgreSQL: disk full", 20, disk_full, allowed=PROMISE + 20)
    yield "database-crowded", Phase("PostgreSQL: no connection left", SECONDS, crowded)
    yield (
        "redis-failover",
        Phase(
            "Redis: master killed, its last 3 s lost, failover by Sentinel",
            SECONDS,
            redis_failed_over,
        ),
    )
    yield "redis-full", Phase("Redis: no memory for writes", 20, redis_full, allowed=PROMISE + 20)
    yield (
        "redis-emptied",
        Phase("Redis: emptied every 2 s", 15, redis_emptied, allowed=PROMISE + 15),
    )
    yield "restart", Phase("all roles restarted, one after the other", 5, restarted)
    yield "scale", Phase("three conductors, four, two, three", 10, scaled)


def _cuts(role, end):
    excused = _BMCS if end == "machines" else frozenset()
    for direction, about in _DIRECTIONS.items():
        name = f"cut-{role}-{end}" + ("" if direction == "both" else f"-{direction}")
        fault = partial(cut, role=role, end=end, direction=direction)
        yield name, Phase(about.format(role, end), SECONDS, fault, excused)


@contextmanager
def apart_of(site, role):
    with apart(site, *_hosts(site, role)):
        yield


@contextmanager
def standby_cut(site):
    pair = site.database
    with _mended(site):
        site.network.cut([pair.standby], [pair.primary])
        site.network.cut([pair.primary], [pair.standby])
        yield


#: name -> phase
PHASES = {name: replace(phase, name=name) for name, phase in _phases()}
#: The phases of the test.
SHORT = ("cut-conductor-database", "kill-conductor")
