"""
The storm: processes are killed, stopped, cut off, emptied and restarted at random, from one seed.

A disturbance is a generator: it does harm, yields the seconds until its next action, and repairs the
harm before it ends. At the end of the storm, each is run to its end at once.
"""

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psycopg
import redis

from drivers.simulator.rude.profiles import PROFILES
from tests.chaos.site import wait
from tests.support.processes import children


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A kind of disturbance."""

    name: str  # in the table
    act: object  # (storm, target) -> generator
    of: object  # storm -> names of possible targets
    weight: float = 1.0  # relative frequency


class Storm:
    """One disturbance every `gap` seconds on average, until `stop` is set."""

    def __init__(self, site, flaky, gap, disturbances=None):
        self.site, self.flaky, self.gap = site, flaky, gap
        self.disturbances = disturbances or DISTURBANCES
        self.random = Random(f"{site.seed}/storm")
        self.counts = Counter()  # by kind of disturbance
        self.stops = []  # (process, from, until) of every stopped process, by the machine's clock
        self._acting = []

    def blow(self, stop):
        while not wait(self.random.expovariate(1 / self.gap), stop):
            self._begin()
            self._go_on()
        self.calm()

    def calm(self):
        """Complete all disturbances, and start the processes that are missing."""
        while self._acting:
            self._go_on(at_once=True)
        for name in (*self.site.roles, "redis", "postgres"):
            self.site.start(name)
        for number in self.flaky:
            self.site.set_faults(number, **dict.fromkeys(PASSING))

    def _begin(self):
        weights = [disturbance.weight for disturbance in self.disturbances]
        (disturbance,) = self.random.choices(self.disturbances, weights)
        busy_targets = {target for _, target, _ in self._acting}
        free = [name for name in disturbance.of(self) if name not in busy_targets]
        if not free:
            return
        target = self.random.choice(free)
        self.counts[disturbance.name] += 1
        self.site.note("disturbance", what=disturbance.name, target=target)
        self._acting.append([0.0, target, disturbance.act(self, target)])

    def _go_on(self, *, at_once=False):
        for entry in list(self._acting):
            due_time, _, act = entry
            if not at_once and time.monotonic() < due_time:
                continue
            try:
                entry[0] = time.monotonic() + next(act)
            except StopIteration:
                self._acting.remove(entry)
        if at_once and self._acting:
            time.sleep(0.1)


# disturbances


def killed(storm, name):
    storm.site.kill(name)
    yield storm.random.choice([0, 0, storm.random.uniform(0, 8)])
    storm.site.start(name)


def drained(storm, name):
    storm.site.signal(name, signal.SIGTERM, group=False)
    end = time.monotonic() + 30
    while name in storm.site.pids:
        if time.monotonic() > end:
            storm.site.note("disturbance", what="does not end", target=name)
            storm.site.kill(name)
        yield 0.2
    yield storm.random.choice([0, 0, storm.random.uniform(0, 8)])
    storm.site.start(name)


def stopped(storm, name):
    """Stop a process (SIGSTOP), or its group; some are declared dead meanwhile."""
    group = storm.random.random() < 0.7
    pid = storm.site.pids.get(name)
    began = time.time()
    storm.site.signal(name, signal.SIGSTOP, group=group)
    yield storm.random.choice([storm.random.uniform(0.2, 4), storm.random.uniform(6, 14)])
    if storm.site.pids.get(name) == pid:
        storm.stops.append((name, began, time.time()))
        storm.site.signal(name, signal.SIGCONT, group=group)


def now_killed(storm, name):
    """Kill the control process of a conductor."""
    for pid in children(storm.site.pids.get(name)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 20
    while name in storm.site.pids and time.monotonic() < end:
        yield 0.2
    storm.site.kill(name)
    storm.site.start(name)


def connections_cut(storm, proxy):
    storm.site.set_proxy(proxy, "cut")
    yield storm.random.choice([0.1, storm.random.uniform(0.5, 8)])
    storm.site.set_proxy(proxy, "whole")


def connections_silent(storm, proxy):
    storm.site.set_proxy(proxy, "silent")
    yield storm.random.uniform(0.5, 8)
    storm.site.set_proxy(proxy, "whole")


def restarted(number, max_pause):
    def act(storm, name):
        storm.site.signal(name, number, group=False)
        while name in storm.site.pids:
            yield 0.1
        yield storm.random.uniform(0, max_pause)
        storm.site.start(name)
        if name == "postgres":
            storm.site.await_postgres()

    return act


def redis_lost(storm, name):
    """Kill Redis, and delete its data."""
    storm.site.kill(name)
    for path in sorted((storm.site.folder / "redis").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    yield storm.random.uniform(0, 4)
    storm.site.start(name)


def redis_emptied(storm, name):
    with suppress(redis.RedisError):
        storm.site.redis.flushall()
    yield 0


def redis_full(storm, name):
    with suppress(redis.RedisError):
        storm.site.redis.config_set("maxmemory", "1mb")
    yield storm.random.uniform(1, 6)
    with suppress(redis.RedisError):
        storm.site.redis.config_set("maxmemory", "0")


def sessions_ended(storm, name):
    """End every session of the database, in the middle of its work."""
    with suppress(psycopg.Error):
        storm.site.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name <> '' AND pid <> pg_backend_pid()"
        )
    yield 0


def backend_killed(storm, name):
    """Kill one process of PostgreSQL (SIGKILL): the server ends all others and recovers."""
    with suppress(psycopg.Error, ProcessLookupError):
        rows = storm.site.query("SELECT pid FROM pg_stat_activity WHERE application_name <> ''")
        if rows:
            os.kill(storm.random.choice(rows)[0], signal.SIGKILL)
    yield 0


def machine_faulty(storm, number):
    """Give a flaky machine one more fault, for a while."""
    (name,) = storm.random.sample(sorted(PASSING), 1)
    storm.site.set_faults(int(number), **{name: PASSING[name]})
    yield storm.random.uniform(3, 20)
    storm.site.set_faults(int(number), **{name: None})


def rudeness(seed, number):
    """Return the permanent faults of a rude BMC: half of those that a right service can bear."""
    pool = PROFILES["rude"]
    names = Random(f"{seed}/rude/{number}").sample(sorted(pool), len(pool) // 2)
    return {name: pool[name] for name in names}


#: Permanent faults of a flaky BMC, and those that come and go.
FLAKY = {"error_rate": 0.03, "drop_rate": 0.03, "latency_jitter": 0.5}
PASSING = {
    "bmc_dead": True,
    "bmc_silent": True,
    "power_stuck": True,
    "agent_never_boots": True,
    "heartbeats_stop": True,
    "agent_dies": "erase_devices_metadata",
    "step_fails": {"*": "it is broken", "erase_devices_metadata": "the disk is broken"},
    "power_on_seconds": 8,
}


def _conductors(storm):
    return storm.site.conductors


def _apis(storm):
    return storm.site.apis


def _beats(storm):
    return storm.site.beats


def _proxies(kind):
    return lambda storm: [f"{name}:{kind}" for name in storm.site.roles]


def _only(name):
    return lambda _storm: [name]


DISTURBANCES = (
    Disturbance("conductor killed (-9)", killed, _conductors, 6),
    Disturbance("conductor stopped by SIGTERM", drained, _conductors, 3),
    Disturbance("conductor stopped and continued", stopped, _conductors, 6),
    Disturbance("control process of a conductor killed", now_killed, _conductors, 1),
    Disturbance("API process killed (-9)", killed, _apis, 3),
    Disturbance("API process stopped by SIGTERM", drained, _apis, 1),
    Disturbance("API process stopped and continued", stopped, _apis, 2),
    Disturbance("beat killed (-9)", killed, _beats, 1),
    Disturbance("beat stopped and continued", stopped, _beats, 1),
    Disturbance("connections of one process to the database cut", connections_cut, _proxies("postgres"), 3),
    Disturbance("connections of one process to the database silent", connections_silent, _proxies("postgres"), 2),
    Disturbance("connections of one process to Redis cut", connections_cut, _proxies("redis"), 3),
    Disturbance("connections of one process to Redis silent", connections_silent, _proxies("redis"), 2),
    Disturbance("connections of clients and agents to the API cut", connections_cut, _only("api"), 1),
    Disturbance("Redis emptied (FLUSHALL)", redis_emptied, _only("redis"), 1.5),
    Disturbance("Redis killed, its data kept", restarted(signal.SIGKILL, 4), _only("redis"), 1),
    Disturbance("Redis killed, its data lost", redis_lost, _only("redis"), 1),
    Disturbance("Redis out of memory", redis_full, _only("redis"), 1),
    Disturbance("database restarted (fast)", restarted(signal.SIGINT, 3), _only("postgres"), 0.7),
    Disturbance("database crashed", restarted(signal.SIGQUIT, 3), _only("postgres"), 0.7),
    Disturbance("database sessions ended", sessions_ended, _only("postgres"), 1.5),
    Disturbance("database process killed (-9)", backend_killed, _only("postgres"), 0.7),
    Disturbance("fault of a flaky machine", machine_faulty, lambda storm: [str(number) for number in storm.flaky], 4),
)  # fmt: skip
