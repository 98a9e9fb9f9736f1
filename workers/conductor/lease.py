"""
Leases of nodes: keys in Redis that keep two conductors from using one machine.

Leases guard orders to machines; writes to the database are guarded by the fence in the node's row.
While Redis is unavailable, the row alone decides.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import redis

from app.process.circuit_breaker import CircuitBreaker
from drivers.core.errors import LeaseLost

_RENEW = """
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
#: Delete a key if it still has our value.
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


@dataclass(slots=True, eq=False)
class Lease:
    """One holder's exclusive right to send orders to one machine."""

    key: str
    value: str
    #: Reads from the database whether the holder's fence is still the node's.
    has_valid_fence: Callable[[], bool]
    leases: "Leases"
    #: Fence of the work that the lease was taken for.
    fence: int = 0
    #: Monotonic time of expiry, counted from before the request to Redis, so that it is never later
    #: than the key's. This clock also runs while the process is stopped.
    valid_until: float = 0.0
    #: Monotonic time after which the lease is left to expire, so that a hung call cannot keep it.
    renewed_until: float = math.inf
    #: Whether a call of a driver runs, which may be sending orders to the machine.
    is_calling: bool = False

    def keep(self, seconds: float) -> None:
        """Renew the lease for at most `seconds` from now, the longest time of a call."""
        self.renewed_until = time.monotonic() + seconds

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Keep the lease during a call of a driver, even while the database is out of reach."""
        self.is_calling = True
        try:
            yield
        finally:
            self.is_calling = False

    def check(self) -> None:
        """
        Check the lease; call this right before each order.

        Raises LeaseLost: the node has another owner.
        """
        if time.monotonic() < self.valid_until:
            return
        if not self.leases.regain(self) or not self.has_valid_fence():
            raise LeaseLost("another conductor has taken over this node")


@dataclass(slots=True)
class Leases:
    """All leases that this process holds, renewed together by one thread."""

    client: redis.Redis
    holder: str  # incarnation of the process
    ttl: float  # seconds
    prefix: str  # of the keys
    reach: CircuitBreaker  # of Redis
    #: Whether the other processes count this one as alive. If not, they may need its leases: only
    #: the leases of running calls are renewed.
    is_alive: Callable[[], bool] = lambda: True
    _leases: set[Lease] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _renewing: threading.Thread | None = None

    def start(self) -> None:
        self._renewing = threading.Thread(target=self._renew_forever, name="leases", daemon=True)
        self._renewing.start()

    def stop(self) -> None:
        """Stop renewals; the connection to Redis is not used by them afterwards."""
        self._stop.set()
        if self._renewing is not None:
            self._renewing.join(self.ttl)

    def take(self, node: str, fence: int, has_valid_fence: Callable[[], bool]) -> Lease | None:
        """
        Take the lease of a node, by its UUID; returns None if another holder has it.

        A call of this process that still holds the lease with a lower fence (after an abort or a
        deadline) is revoked: it sends no further order, and its lease expires.
        """
        key = f"{self.prefix}:lease:{node}"
        lease = Lease(key, f"{self.holder}:{fence}", has_valid_fence, self, fence)
        try:
            acquired = self._set(lease)
        except redis.RedisError:  # the node's row decides alone, before each order
            acquired = True
        if not acquired:
            self._revoke_older(lease)
            return None
        with self._lock:
            self._leases.add(lease)
        return lease

    def _revoke_older(self, lease: Lease) -> None:
        with self._lock:
            for older_lease in self._leases:
                if older_lease.key == lease.key and older_lease.fence < lease.fence:
                    older_lease.valid_until = older_lease.renewed_until = 0.0

    def give_back(self, lease: Lease) -> None:
        with self._lock:
            self._leases.discard(lease)
        try:
            with self.reach.guard():
                self.client.eval(RELEASE, 1, lease.key, lease.value)
        except redis.RedisError:  # it expires by itself
            return

    def regain(self, lease: Lease) -> bool:
        """Take an expired lease again; False: another holder has it. True if Redis is away."""
        requested = time.monotonic()
        try:
            with self.reach.guard():
                renewed = self.client.eval(_RENEW, 1, lease.key, lease.value, self._ttl_ms)
            if renewed:
                lease.valid_until = requested + self.ttl
            return bool(renewed) or self._set(lease)
        except redis.RedisError:
            return True

    @property
    def _ttl_ms(self) -> int:
        return int(self.ttl * 1000)

    def _set(self, lease: Lease) -> bool:
        requested = time.monotonic()
        with self.reach.guard():
            acquired = self.client.set(lease.key, lease.value, nx=True, px=self._ttl_ms)
        if acquired:
            lease.valid_until = requested + self.ttl
            return True
        return False

    def _renew_forever(self) -> None:
        while not self._stop.wait(self.ttl / 3):
            requested = time.monotonic()
            with self._lock:
                is_alive = self.is_alive()
                held_leases = [
                    lease
                    for lease in self._leases
                    if requested < lease.renewed_until and (is_alive or lease.is_calling)
                ]
            if not held_leases:
                continue
            try:
                with (
                    self.reach.guard(),
                    self.client.pipeline(transaction=False) as pipeline,
                ):
                    for lease in held_leases:
                        pipeline.eval(_RENEW, 1, lease.key, lease.value, self._ttl_ms)
                    answers = pipeline.execute()
            except redis.RedisError:  # `Lease.check` decides before each order
                continue
            for lease, renewed in zip(held_leases, answers, strict=True):
                if renewed:
                    lease.valid_until = requested + self.ttl
