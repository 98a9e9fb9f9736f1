"""
Power sync: compares recorded and actual power states; also reads health, boot mode and secure boot.

BMCs are polled concurrently. Only differences are written, and only if the node's fence and
reservation have not changed since it was read. A machine is switched back to its recorded power
state only in states in which no operation acts on it. In busy and wait states, the power sync
leaves the power state to the operation; in hold states, and under holds against corrections, it
records the state that it reads.

A machine in transition changes nothing. While the effect of a power order is unknown
(`drivers.core.power_pursuit`), nothing is corrected or recorded but the ordered state itself;
afterwards the machine is corrected to the state that was ordered.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.cluster.hash_ring import Member, owner
from app.db.item_isolation import isolated
from app.db.prepared import Prepared
from app.engine import dispatch, driver_reports
from app.hardware import targets
from app.identity.caller import Caller
from app.inventory import history, holds
from app.lifecycle.flows import FLOWS
from app.lifecycle.hold_kinds import Effect
from app.lifecycle.operation_states import Actor
from app.lifecycle.provision_states import Kind, State, of_kind
from app.metrics.table import POWER_SYNC_NODES, POWER_SYNCS
from app.models import Fault, Node, OperationKind
from app.observe import log
from app.planning import planning
from app.runtime import Runtime, runtime_of
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError, PasswordUnsettled
from drivers.core.power import ReadPower, SweepReader
from drivers.core.power_pursuit import PENDING
from drivers.core.target import Options, Target

logger = log.get(__name__)

#: Most nodes per query, and most threads for BMCs whose driver has no reader for sweeps.
PAGE, THREADS = 500, 32
#: Sweeps per read of a machine's secure boot, which costs an extra request.
SECURE_BOOT_EVERY = 30
_OF_BOOT = frozenset({"boot_mode", "secure_boot"})
#: States in which a BMC is not polled, as its address and password may be wrong.
_EXCLUDED = [flow.failed for flow in FLOWS if flow.checks_bmc]
#: States in which an operation or its agent may switch the machine at any time.
_IN_OPERATION = of_kind(Kind.BUSY, Kind.WAIT)
_HELD = of_kind(Kind.HOLD)
_SYSTEM = Caller(user_id="power-sync")
#: A node: without one there is no machine to ask.
NODE_ONE = Prepared(select(Node.__table__.c.provision_state).limit(1))

#: Sweeps in a row that show another state than the ordered one, until a pending order counts as
#: settled without effect.
PENDING_SWEEPS = 2

#: A power state, or the error of its read; None: the machine is in transition.
Power = str | HardwareError | None
Change = Callable[[Session, Node], None]
#: Yields the changes of a node from its power state and the other facts that its BMC reports.
Compare = Callable[[Node, Power, Mapping[str, Any]], Iterator[Change]]


def sync(
    runtime: Runtime, conductor: str, watch: Callable[[Node, Power], None] = lambda *_: None
) -> dict[str, int]:
    """
    Run one sweep over a conductor's nodes; count the nodes read, different and failed.

    watch: receives each node with its power state.
    """
    counts = {"read": 0, "differ": 0, "failed": 0, "moving": 0}

    def compare(node: Node, state: Power, reports: Mapping[str, Any]) -> Iterator[Change]:
        counts["read"] += 1
        watch(node, state)
        new = {name: value for name, value in reports.items() if value != getattr(node, name)}
        if "health" in new:
            yield lambda session, row: _record_health(session, row, new["health"])
        if node.provision_state in _IN_OPERATION:
            return
        if new.keys() & _OF_BOOT:
            facts = {name: new[name] for name in new.keys() & _OF_BOOT}
            yield lambda session, row: driver_reports.apply(session, row, facts)
        if isinstance(state, HardwareError):
            counts["failed"] += 1
            yield lambda session, row: _count_failure(session, row, state)
        elif state is None:
            counts["moving"] += 1
        elif PENDING in node.driver_internal_info:
            counts["differ"] += state != node.power_state
            yield lambda session, row: _settle(session, row, state)
        elif state != node.power_state or node.power_sync_failures:
            counts["differ"] += state != node.power_state
            yield lambda session, row: _reconcile(session, row, state)

    started = time.monotonic()
    asyncio.run(_sweep(runtime, _pages(runtime, conductor, recovering=False), compare))
    POWER_SYNCS.observe(time.monotonic() - started)
    for result, count in counts.items():
        POWER_SYNC_NODES.add(result, count=count)
    return counts


def recover(runtime: Runtime, conductor: str) -> int:
    """End the maintenance for a power failure of nodes whose BMC answers; return how many."""

    def compare(_node: Node, state: Power, _reports: Mapping[str, Any]) -> Iterator[Change]:
        if isinstance(state, str):
            yield lambda _session, row: _recover(row, state)

    return asyncio.run(_sweep(runtime, _pages(runtime, conductor, recovering=True), compare))


async def _sweep(runtime: Runtime, pages: Iterator[Sequence[Node]], compare: Compare) -> int:
    """
    Poll the BMC of each node concurrently, and write the changes; return how many nodes changed.

    A slow BMC delays other nodes only by the worker that it occupies.
    """
    conductor = runtime.settings.conductor
    workers, health = conductor.sync_power_state_workers, conductor.enable_health_monitoring
    sweep = int(time.monotonic() // max(conductor.sync_power_state_interval, 1))
    supply = _Supply(pages)

    async def worker() -> int:
        written = 0
        while (node := await supply.next()) is not None:
            with isolated("power.not_synced", node=node.uuid):
                written += await sync_one(node)
        return written

    async def sync_one(node: Node) -> bool:
        target = _target(runtime, node)
        if target is None:
            return False
        secure_boot = (node.id + sweep) % SECURE_BOOT_EVERY == 0
        state, reports = await poll(target, secure_boot=secure_boot)
        if isinstance(state, PasswordUnsettled):  # the BMC was not asked
            return False
        changes = list(compare(node, state, reports))
        # in a thread, as the database must not block the event loop
        return bool(changes) and await asyncio.to_thread(_write, runtime, node, changes)

    async def poll(
        target: Target | HardwareError, *, secure_boot: bool
    ) -> tuple[Power, Mapping[str, Any]]:
        if isinstance(target, HardwareError):
            return target, {}
        opened = interfaces_of(target).power.sweep_reader
        if opened is None:
            state = await loop.run_in_executor(threads, _power_of, target)
        else:
            read = await readers.of(opened)
            state = await read(target, secure_boot=secure_boot)
        if not health:
            target.reports.pop("health", None)
        return state, target.reports

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(min(workers, THREADS)) as threads:
        async with AsyncExitStack() as stack:
            readers = _Readers(stack, runtime.settings.options(), workers)
            return sum(await asyncio.gather(*(worker() for _ in range(workers))))


class _Readers:
    """The readers of drivers that have one for sweeps; each is opened when it is needed."""

    def __init__(self, stack: AsyncExitStack, options: Options, connections: int) -> None:
        self._stack, self._options, self._connections = stack, options, connections
        self._open: dict[SweepReader, ReadPower] = {}
        self._opening = asyncio.Lock()

    async def of(self, reader: SweepReader) -> ReadPower:
        async with self._opening:
            if reader not in self._open:
                context = reader(self._options, self._connections)
                self._open[reader] = await self._stack.enter_async_context(context)
        return self._open[reader]


class _Supply:
    """Source of nodes for several workers; reads the next page in a thread."""

    def __init__(self, pages: Iterator[Sequence[Node]]) -> None:
        self._pages = pages
        self._page: deque[Node] = deque()
        self._reading = asyncio.Lock()

    async def next(self) -> Node | None:
        """Return the next node; None: there are no more."""
        if not self._page:
            async with self._reading:
                if not self._page:
                    self._page.extend(await asyncio.to_thread(next, self._pages, ()))
        return self._page.popleft() if self._page else None


def _target(runtime: Runtime, node: Node) -> Target | HardwareError | None:
    """
    Return the target to poll, or its configuration error; None: its power was never readable, or
    never is.
    """
    try:
        target = targets.build(runtime, node)
        if not target.driver.power.switches_off:
            return None
        target.driver.power.validate(target)
    except HardwareError as error:
        return None if node.power_state is None else error
    return target


def _power_of(target: Target) -> Power:
    try:
        return target.driver.power.get_power_state(target)
    except HardwareError as error:
        return error


def _pages(runtime: Runtime, conductor: str, *, recovering: bool) -> Iterator[Sequence[Node]]:
    """
    Yield pages of a conductor's nodes that may be polled.

    The owner is computed here, from a few columns of all nodes; only its own nodes are read whole.
    """
    members = conductors.members(runtime)
    last = 0
    while True:
        with runtime.reading() as session:
            rows = session.execute(_query(last, recovering=recovering)).all()
            if not rows:
                return
            last = rows[-1].id
            owned = [row.id for row in rows if _is_owner(conductor, row, members)]
            page = session.scalars(select(Node).where(Node.id.in_(owned)).order_by(Node.id)).all()
        if page:
            yield page


def _is_owner(conductor: str, row: Any, members: Sequence[Member]) -> bool:
    found = owner(row.uuid, row.driver, row.conductor_group, members)
    return found is not None and found.name == conductor


def _query(last: int, *, recovering: bool) -> Any:
    query = select(Node.id, Node.uuid, Node.driver, Node.conductor_group).where(
        Node.id > last,
        Node.reservation.is_(None),
        Node.target_power_state.is_(None),
        Node.retired.is_(False),
    )
    if recovering:
        query = query.where(
            Node.maintenance,
            Node.fault == Fault.POWER_FAILURE,
            Node.provision_state != State.ENROLL,
        )
    else:
        query = query.where(Node.maintenance.is_(False), Node.provision_state.not_in(_EXCLUDED))
    return query.order_by(Node.id).limit(PAGE)


def _write(runtime: Runtime, seen: Node, changes: Sequence[Change]) -> bool:
    """Apply changes to a node, unless it has changed since it was read; whether they apply."""
    with runtime.transaction(Actor.PERIODIC) as session:
        node = session.scalar(
            select(Node)
            .where(
                Node.id == seen.id,
                Node.fence == seen.fence,
                Node.reservation.is_(None),
                Node.maintenance == seen.maintenance,
            )
            .with_for_update()
        )
        if node is None:
            return False
        for change in changes:
            change(session, node)
        return True


def _settle(session: Session, node: Node, state: str) -> None:
    """Compare a reading with a pending power order; reconcile once it is settled."""
    pending = node.driver_internal_info[PENDING]
    ordered, sweeps = pending["state"], pending["sweeps"] + 1
    others = {key: value for key, value in node.driver_internal_info.items() if key != PENDING}
    if state != ordered and sweeps < PENDING_SWEEPS:
        pending = {"state": ordered, "sweeps": sweeps}
        node.driver_internal_info = {**others, PENDING: pending}
        return
    logger.info("power.settled", node=node.uuid, found=state, ordered=ordered)
    node.driver_internal_info = others
    # an unknown order says nothing about the desired state
    node.power_state = ordered or state
    _reconcile(session, node, state)


def _reconcile(session: Session, node: Node, state: str) -> None:
    """Correct or record a power state that differs; after too many tries, set maintenance."""
    conductor = runtime_of(session).settings.conductor
    if state == node.power_state:
        node.power_sync_failures = 0
        return
    held = node.provision_state in _HELD or holds.with_effect(session, node, Effect.CORRECTION)
    if node.power_state is None or held:
        node.power_state, node.power_sync_failures = state, 0
        return
    node.power_sync_failures += 1
    if node.power_sync_failures > conductor.power_state_sync_max_retries:
        why = f"its power state stays {state!r} despite all corrections"
        _set_maintenance(session, node, state, why)
    elif conductor.force_power_state_during_sync and not node.disable_power_off:
        wanted = node.power_state
        logger.warning("power.corrected", node=node.uuid, found=state, ordered=wanted)
        node.target_power_state = wanted
        dispatch.start(
            session,
            node,
            OperationKind.POWER,
            planning.power(wanted, None),
            {"target": wanted, "timeout": None},
            _SYSTEM,
        )
    else:
        logger.warning("power.recorded", node=node.uuid, found=state, was=node.power_state)
        node.power_state = state


def _count_failure(session: Session, node: Node, error: HardwareError) -> None:
    node.power_sync_failures += 1
    most = runtime_of(session).settings.conductor.power_state_sync_max_retries
    if node.power_sync_failures > most:
        _set_maintenance(session, node, None, str(error))


def _record_health(session: Session, node: Node, health: str | None) -> None:
    bad = health in ("Warning", "Critical")
    event = f"Health is {health or 'unknown'}; it was {node.health or 'unknown'}."
    node.health = health
    history.add(session, node, "monitoring", event, "ERROR" if bad else "INFO")
    if bad:
        logger.warning("health.bad", node=node.uuid, health=health)


def _set_maintenance(session: Session, node: Node, state: str | None, why: str) -> None:
    node.power_state = state
    node.last_error = f"During power synchronisation: {why}"
    node.maintenance, node.fault = True, Fault.POWER_FAILURE
    node.maintenance_reason = node.last_error
    history.add(session, node, "monitoring", node.last_error, "ERROR")


def _recover(node: Node, state: str) -> None:
    node.power_state, node.power_sync_failures = state, 0
    node.maintenance, node.maintenance_reason, node.fault = False, None, None
    logger.info("power.recovered", node=node.uuid)
