"""Redis on two hosts, and three Sentinels that promote the replica when the master is away."""

import signal
from contextlib import suppress
from pathlib import Path

import redis

from tests.support.fleet import until
from workers.supervisor import redis_server

HOSTS = ("redis-1", "redis-2")
#: Hosts with a Sentinel.
WATCHERS = (*HOSTS, "sentinel")
MASTER = "ingot"
PORT, WATCH_PORT = 6379, 26379
QUORUM = 2
#: Milliseconds until the master counts as away, and until the next attempt of a failover.
DOWN_AFTER, FAILOVER_TIMEOUT = 3000, 10000


class Trio:
    """The servers. folder: of their files. start: runs a command on a host."""

    def __init__(self, folder, network, start):
        self._folder, self._network, self._start = Path(folder), network, start
        self._programs = {}

    @property
    def url(self):
        names = ",".join(f"{self._network.address(host)}:{WATCH_PORT}" for host in WATCHERS)
        return f"sentinel://{names}/{MASTER}/0"

    def begin(self):
        for host in HOSTS:
            self.run(host, replica=host != HOSTS[0])
        until(lambda: self._synchronised(HOSTS[1]), "the replica")
        for host in WATCHERS:
            self.watch(host)
        until(lambda: all(self._knows_all(host) for host in WATCHERS), "the Sentinels")

    def run(self, host, *, replica=True):
        """Start the Redis of a host, without data."""
        folder = self._folder / host
        folder.mkdir(exist_ok=True)
        command = [
            redis_server.find(), "--port", str(PORT), "--bind", self._network.address(host),
            "--protected-mode", "no", "--save", "", "--dir", str(folder), "--repl-timeout", "10",
            "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "2",
        ]  # fmt: skip
        if replica:
            other = next(name for name in HOSTS if name != host)
            command += ["--replicaof", self._network.address(other), str(PORT)]
        self._programs[host] = self._start(host, command)
        until(lambda: self._answers(host), f"Redis on {host}")

    def watch(self, host):
        folder = self._folder / f"watch-{host}"
        folder.mkdir(exist_ok=True)
        configuration = folder / "sentinel.conf"
        configuration.write_text(
            f"port {WATCH_PORT}\nbind {self._network.address(host)}\nprotected-mode no\n"
            f"dir {folder}\n"
            f"sentinel monitor {MASTER} {self._network.address(HOSTS[0])} {PORT} {QUORUM}\n"
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER}\n"
            f"sentinel failover-timeout {MASTER} {FAILOVER_TIMEOUT}\n"
        )
        command = [redis_server.find(), str(configuration), "--sentinel"]
        self._programs[f"watch-{host}"] = self._start(host, command)

    def client(self, host, port=PORT):
        return redis.Redis(host=self._network.address(host), port=port, socket_timeout=3)

    def _answers(self, host):
        with suppress(redis.RedisError):
            return self.client(host).ping()
        return False

    def _synchronised(self, host):
        return self.client(host).info("replication").get("master_link_status") == "up"

    def _knows_all(self, host):
        with suppress(redis.RedisError, IndexError):
            master = self.client(host, WATCH_PORT).sentinel_master(MASTER)
            return master["num-other-sentinels"] == 2 and master["num-slaves"] >= 1
        return False

    @property
    def master(self):
        """Host of the present master, as the third Sentinel sees it."""
        address, _ = self.client(WATCHERS[-1], WATCH_PORT).sentinel_get_master_addr_by_name(MASTER)
        return next(
            host
            for host in HOSTS
            if self._network.address(host)
            == (address if isinstance(address, str) else address.decode())
        )

    def kill(self, host):
        self._programs[host].kill()
        self._programs[host].wait(30)

    def stop(self, host):
        self._programs[host].send_signal(signal.SIGSTOP)

    def resume(self, host):
        self._programs[host].send_signal(signal.SIGCONT)
