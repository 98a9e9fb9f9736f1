"""
The lease of a node: a fast gate in Redis before hardware is touched.

It keeps two conductors from talking to one machine. What keeps them from writing is the fence in
the node's row; so when Redis is gone, the row alone decides.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import redis

from app.broker import reach
from app.reach import Reach
from drivers.core.errors import LeaseLost

_RENEW = """
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
#: Give back a key, if it is still ours.
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


@dataclass(slots=True, eq=False)
class Lease:
    """
    One holder's right to give orders to one machine.

    valid_until: by this process's monotonic clock, which runs on while the process is stopped.
    renewed_until: by the same; after that it is left to run out, as nobody waits for a call that
    never returns. fence: of the work that it was taken for.
    still_ours: asks the database whether the node's fence is still the one this work was given.
    """

    key: str
    value: str
    still_ours: Callable[[], bool]
    leases: "Leases"
    fence: int = 0
    valid_until: float = 0.0
    renewed_until: float = math.inf

    def keep(self, seconds: float) -> None:
        """Have it renewed for as long as a call may take that begins now."""
        self.renewed_until = time.monotonic() + seconds

    def check(self) -> None:
        """Called right before each order. Raises LeaseLost."""
        if time.monotonic() < self.valid_until:
            return
        if not self.leases.regain(self) or not self.still_ours():
            raise LeaseLost("another conductor was given this node meanwhile")


@dataclass(slots=True)
class Leases:
    """All leases that this process holds, renewed together by a thread of their own."""

    client: redis.Redis
    holder: str
    ttl: float
    prefix: str
    _reach: Reach = field(default_factory=reach)
    _held: set[Lease] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _renewing: threading.Thread | None = None

    def start(self) -> None:
        self._renewing = threading.Thread(target=self._renew_forever, name="leases", daemon=True)
        self._renewing.start()

    def stop(self) -> None:
        """Renew no more; whoever owns the connection may close it afterwards."""
        self._stop.set()
        if self._renewing is not None:
            self._renewing.join(self.ttl)

    def take(self, node: str, fence: int, still_ours: Callable[[], bool]) -> Lease | None:
        """
        The lease of a node, or None while somebody else holds it.

        A call of this process that holds it for work since taken away (an abort, a deadline) gives
        no further order, and its lease runs out even if it never returns.
        """
        key = f"{self.prefix}:lease:{node}"
        lease = Lease(key, f"{self.holder}:{fence}", still_ours, self, fence)
        try:
            taken = self._set(lease)
        except redis.RedisError:  # the row decides alone, before each order
            taken = True
        if not taken:
            self._revoke_older(lease)
            return None
        with self._lock:
            self._held.add(lease)
        return lease

    def _revoke_older(self, lease: Lease) -> None:
        with self._lock:
            for held in self._held:
                if held.key == lease.key and held.fence < lease.fence:
                    held.valid_until = held.renewed_until = 0.0

    def give_back(self, lease: Lease) -> None:
        with self._lock:
            self._held.discard(lease)
        try:
            with self._reach.trying():
                self.client.eval(RELEASE, 1, lease.key, lease.value)
        except redis.RedisError:  # it runs out by itself
            return

    def regain(self, lease: Lease) -> bool:
        """Renew a lease that has run out, where nobody took it; True also without Redis."""
        try:
            with self._reach.trying():
                renewed = self.client.eval(_RENEW, 1, lease.key, lease.value, self._ttl_ms)
            if renewed:
                lease.valid_until = time.monotonic() + self.ttl
            return bool(renewed) or self._set(lease)
        except redis.RedisError:
            return True

    @property
    def _ttl_ms(self) -> int:
        return int(self.ttl * 1000)

    def _set(self, lease: Lease) -> bool:
        asked = time.monotonic()
        with self._reach.trying():
            taken = self.client.set(lease.key, lease.value, nx=True, px=self._ttl_ms)
        if taken:
            lease.valid_until = asked + self.ttl
            return True
        return False

    def _renew_forever(self) -> None:
        while not self._stop.wait(self.ttl / 3):
            asked = time.monotonic()
            with self._lock:
                held = [lease for lease in self._held if asked < lease.renewed_until]
            if not held:
                continue
            try:
                with (
                    self._reach.trying(),
                    self.client.pipeline(transaction=False) as pipeline,
                ):
                    for lease in held:
                        pipeline.eval(_RENEW, 1, lease.key, lease.value, self._ttl_ms)
                    answers = pipeline.execute()
            except redis.RedisError:  # they are checked before each order
                continue
            for lease, renewed in zip(held, answers, strict=True):
                if renewed:
                    lease.valid_until = asked + self.ttl
