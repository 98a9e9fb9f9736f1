"""
Power sync: compares recorded and actual power states; also reads health, boot mode and secure boot.

BMCs are polled concurrently. Only differences are written, and only if the node's fence and
reservation have not changed since it was read. A machine is switched back to its recorded power
state only in provision states without an operation that acts on it. In busy and wait states, the
power sync leaves the power state to the operation; in hold states, and under holds against
corrections, it records the state that it reads.

A machine in transition changes nothing. While the effect of a power order is unknown
(`drivers.core.kinds.power_pursuit`), nothing is corrected or recorded but the ordered state itself;
afterwards the machine is corrected to the state that was ordered.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.item_isolation import isolated
from app.db.prepared import Prepared
from app.engine import dispatch
from app.engine.records import driver_reports
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
from drivers.core.errors import HardwareError, PasswordUnsettled, SecretsUnavailable
from drivers.core.kinds.power import ReadPower
from drivers.core.kinds.power_pursuit import PENDING
from drivers.core.target import Target
from workers.periodic import bmc_sweep

logger = log.get(__name__)

#: Sweeps per read of a machine's secure boot, which costs an extra request.
SECURE_BOOT_EVERY = 30
_OF_BOOT = frozenset({"boot_mode", "secure_boot"})
#: States without polls of the BMC, as its address and password may be wrong.
_EXCLUDED = [flow.failed for flow in FLOWS if flow.checks_bmc]
#: States whose operation or agent may switch the machine at any time.
_IN_OPERATION = of_kind(Kind.BUSY, Kind.WAIT)
_HELD = of_kind(Kind.HOLD)
_SYSTEM = Caller(user_id="power-sync")
#: A node: without one there is no machine to ask.
NODE_ONE = Prepared(select(Node.__table__.c.provision_state).limit(1))

#: Sweeps in a row that show another state than the ordered one, until a pending order counts as
#: settled without effect.
PENDING_SWEEPS = 2

#: A power state, or the error of its read; absent while the machine is in transition.
Power = str | HardwareError | None
Change = Callable[[Session, Node], None]
#: Yields the changes of a node from its power state and the other facts that its BMC reports.
Compare = Callable[[Node, Power, Mapping[str, object]], Iterator[Change]]


def sync(
    runtime: Runtime, conductor: str, watch: Callable[[Node, Power], None] = lambda *_: None
) -> dict[str, int]:
    """
    Run one sweep over a conductor's nodes; count the nodes read, different and failed.

    watch: receives each node with its power state.
    """
    started = time.monotonic()
    counts = _synced(runtime, _pages(runtime, conductor, recovering=False), watch, _count_failure)
    POWER_SYNCS.observe(time.monotonic() - started)
    return counts


def sync_nodes(runtime: Runtime, ids: Sequence[int]) -> dict[str, int]:
    """
    Read the power of some nodes after an event, as a sweep reads it; count them as `sync` does.

    Failures, and orders whose effect is unknown, are left to the sweep: both are judged by their
    number at its pace.
    """
    with runtime.reading() as session:
        query = _query(recovering=False).where(Node.id.in_(ids))
        ids = [row.id for row in session.execute(query)]
    pages = (
        [node for node in page if PENDING not in node.driver_internal_info]
        for page in bmc_sweep.whole_nodes(runtime, [ids])
    )
    return _synced(runtime, pages, lambda *_: None, lambda *_: None)


def _synced(
    runtime: Runtime,
    pages: Iterator[Sequence[Node]],
    watch: Callable[[Node, Power], None],
    count_failure: Callable[[Session, Node, HardwareError], None],
) -> dict[str, int]:
    """Compare the power states of nodes with those of their machines; count them."""
    counts = {"read": 0, "differ": 0, "failed": 0, "moving": 0}

    def compare(node: Node, state: Power, reports: Mapping[str, Any]) -> Iterator[Change]:
        counts["read"] += 1
        watch(node, state)
        changed_facts = {
            name: value for name, value in reports.items() if value != getattr(node, name)
        }
        if "health" in changed_facts:
            yield lambda session, row: _record_health(session, row, changed_facts["health"])
        if node.provision_state in _IN_OPERATION:
            return
        if changed_facts.keys() & _OF_BOOT:
            facts = {name: changed_facts[name] for name in changed_facts.keys() & _OF_BOOT}
            yield lambda session, row: driver_reports.apply(session, row, facts)
        if isinstance(state, HardwareError):
            counts["failed"] += 1
            yield lambda session, row: count_failure(session, row, state)
        elif state is None:
            counts["moving"] += 1
        elif PENDING in node.driver_internal_info:
            counts["differ"] += state != node.power_state
            yield lambda session, row: _settle(session, row, state)
        elif state != node.power_state or node.power_sync_failures:
            counts["differ"] += state != node.power_state
            yield lambda session, row: _reconcile(session, row, state)

    asyncio.run(_sweep(runtime, pages, compare))
    for result, count in counts.items():
        POWER_SYNC_NODES.add(result, count=count)
    return counts


def recover(runtime: Runtime, conductor: str) -> int:
    """End the maintenance for a power failure of nodes whose BMC answers; return how many."""

    def compare(_node: Node, state: Power, _reports: Mapping[str, object]) -> Iterator[Change]:
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
    supply = bmc_sweep.Supply(pages)

    async def worker() -> int:
        written_count = 0
        while (node := await supply.next()) is not None:
            with isolated("power.not_synced", node=node.uuid):
                written_count += await sync_one(node)
        return written_count

    async def sync_one(node: Node) -> bool:
        # in a thread, if it may ask the vault
        in_thread = runtime.vault is not None
        target = (
            await asyncio.to_thread(_target, runtime, node) if in_thread else _target(runtime, node)
        )
        if target is None:
            return False
        secure_boot = (node.id + sweep) % SECURE_BOOT_EVERY == 0
        state, reports = await poll(target, secure_boot=secure_boot)
        if isinstance(state, PasswordUnsettled | SecretsUnavailable):  # the BMC was not asked
            return False
        changes = list(compare(node, state, reports))
        # in a thread, as the database must not block the event loop
        return bool(changes) and await asyncio.to_thread(_write, runtime, node, changes)

    async def poll(
        target: Target | HardwareError, *, secure_boot: bool
    ) -> tuple[Power, Mapping[str, Any]]:
        if isinstance(target, HardwareError):
            return target, {}
        reader_source = interfaces_of(target).power.sweep_reader
        if reader_source is None:
            state = await loop.run_in_executor(threads, _power_of, target)
        else:
            read_state = await readers.of(reader_source)
            state = await read_state(target, secure_boot=secure_boot)
        if not health:
            target.reports.pop("health", None)
        return state, target.reports

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(min(workers, bmc_sweep.THREADS)) as threads:
        async with AsyncExitStack() as stack:
            readers = bmc_sweep.Readers[ReadPower](stack, runtime.settings.options(), workers)
            return sum(await asyncio.gather(*(worker() for _ in range(workers))))


def _target(runtime: Runtime, node: Node) -> Target | HardwareError | None:
    """
    Return the target to poll, or its configuration error, or None if its power was never readable.
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
    """Return pages of a conductor's nodes that may be polled."""
    ids = bmc_sweep.owned_pages(runtime, conductor, _query(recovering=recovering))
    return bmc_sweep.whole_nodes(runtime, ids)


def _query(*, recovering: bool) -> bmc_sweep.OwnersQuery:
    query = select(*bmc_sweep.OWNING).where(
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
    return query


def _write(runtime: Runtime, snapshot: Node, changes: Sequence[Change]) -> bool:
    """Apply changes to a node, unless it has changed since it was read; whether they apply."""
    with runtime.transaction(Actor.PERIODIC) as session:
        node = session.scalar(
            select(Node)
            .where(
                Node.id == snapshot.id,
                Node.fence == snapshot.fence,
                Node.reservation.is_(None),
                Node.maintenance == snapshot.maintenance,
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
    ordered_state, sweeps = pending["state"], pending["sweeps"] + 1
    other_info = {key: value for key, value in node.driver_internal_info.items() if key != PENDING}
    if state != ordered_state and sweeps < PENDING_SWEEPS:
        pending = {"state": ordered_state, "sweeps": sweeps}
        node.driver_internal_info = {**other_info, PENDING: pending}
        return
    logger.info("power.settled", node=node.uuid, found=state, ordered=ordered_state)
    node.driver_internal_info = other_info
    # an unknown order says nothing about the desired state
    node.power_state = ordered_state or state
    _reconcile(session, node, state)


def _reconcile(session: Session, node: Node, state: str) -> None:
    """Correct or record a power state that differs; after too many tries, set maintenance."""
    conductor = runtime_of(session).settings.conductor
    if state == node.power_state:
        node.power_sync_failures = 0
        return
    is_exempt = node.provision_state in _HELD or holds.with_effect(session, node, Effect.CORRECTION)
    if node.power_state is None or is_exempt:
        node.power_state, node.power_sync_failures = state, 0
        return
    node.power_sync_failures += 1
    if node.power_sync_failures > conductor.power_state_sync_max_retries:
        reason = f"its power state stays {state!r} despite all corrections"
        _set_maintenance(session, node, state, reason)
    elif conductor.force_power_state_during_sync and not node.disable_power_off:
        ordered_state = node.power_state
        logger.warning("power.corrected", node=node.uuid, found=state, ordered=ordered_state)
        node.target_power_state = ordered_state
        dispatch.start(
            session,
            node,
            OperationKind.POWER,
            planning.power(ordered_state, None),
            {"target": ordered_state, "timeout": None},
            _SYSTEM,
        )
    else:
        logger.warning("power.recorded", node=node.uuid, found=state, was=node.power_state)
        node.power_state = state


def _count_failure(session: Session, node: Node, error: HardwareError) -> None:
    node.power_sync_failures += 1
    max_failures = runtime_of(session).settings.conductor.power_state_sync_max_retries
    if node.power_sync_failures > max_failures:
        _set_maintenance(session, node, None, str(error))


def _record_health(session: Session, node: Node, health: str | None) -> None:
    is_degraded = health in ("Warning", "Critical")
    event = f"Health is {health or 'unknown'}; it was {node.health or 'unknown'}."
    node.health = health
    history.add(session, node, "monitoring", event, "ERROR" if is_degraded else "INFO")
    if is_degraded:
        logger.warning("health.bad", node=node.uuid, health=health)


def _set_maintenance(session: Session, node: Node, state: str | None, reason: str) -> None:
    node.power_state = state
    node.last_error = f"During power synchronisation: {reason}"
    node.maintenance, node.fault = True, Fault.POWER_FAILURE
    node.maintenance_reason = node.last_error
    history.add(session, node, "monitoring", node.last_error, "ERROR")


def _recover(node: Node, state: str) -> None:
    node.power_state, node.power_sync_failures = state, 0
    node.maintenance, node.maintenance_reason, node.fault = False, None, None
    logger.info("power.recovered", node=node.uuid)
