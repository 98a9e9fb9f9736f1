"""
Power synchronisation: does each machine's power agree with its row? Its health comes along.

Rules are Ironic's (PERIODIC §1-2). BMCs are asked concurrently; only what differs is written, and
only where neither fence nor reservation has moved since the node was read.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app import log
from app.models import Node
from app.ring import owner
from app.runtime import Runtime
from app.services import conductors, history, operations, planning, targets
from app.services.caller import Caller
from app.states import State
from drivers.errors import HardwareError
from drivers.redfish.sweep import power_states
from drivers.target import Target

logger = log.get(__name__)

PAGE = 500
POWER_FAILURE = "power failure"
#: States in which a machine's power is not ours to judge.
_LEFT_ALONE = (State.DEPLOY_WAIT, State.CLEAN_WAIT, State.ENROLL, State.ADOPT_FAIL)
_SYSTEM = Caller(user_id="power-sync")


def sync(runtime: Runtime, conductor: str) -> dict[str, int]:
    """One sweep over the nodes of a conductor; how many were read, corrected, and failed."""
    counts = {"read": 0, "differ": 0, "failed": 0}
    for page in _pages(runtime, conductor, recovering=False):
        states, healths = read(runtime, page)
        for node in page:
            state = states.get(node.uuid)
            if state is None:
                continue
            counts["read"] += 1
            if healths.get(node.uuid, node.health) != node.health:
                _write(runtime, node, lambda row, now=healths[node.uuid]: _felt(row, now))
            if isinstance(state, HardwareError):
                counts["failed"] += 1
                _write(runtime, node, lambda row, error=state: _unreadable(runtime, row, error))
            elif state != node.power_state or node.power_sync_failures:
                counts["differ"] += state != node.power_state
                _write(runtime, node, lambda row, found=state: _read(runtime, row, found))
    return counts


def recover(runtime: Runtime, conductor: str) -> int:
    """Nodes in maintenance for a power failure whose BMC answers again leave it."""
    recovered = 0
    for page in _pages(runtime, conductor, recovering=True):
        states, _ = read(runtime, page)
        for node in page:
            state = states.get(node.uuid)
            if isinstance(state, str):
                recovered += _write(runtime, node, lambda row, found=state: _recovered(row, found))
    return recovered


def read(
    runtime: Runtime, nodes: Sequence[Node]
) -> tuple[Mapping[str, str | HardwareError], Mapping[str, str | None]]:
    """
    node uuid -> its power state, or why it cannot be read; many BMCs at once.

    Beside it, node uuid -> health, of those whose BMC was asked for it.
    """
    result: dict[str, str | HardwareError] = {}
    by_sweep: list[Target] = []
    by_thread: list[Target] = []
    for node in nodes:
        try:
            target = targets.build(runtime, node)
            target.driver.power.validate(target)
        except HardwareError as error:
            if node.power_state is not None:
                result[node.uuid] = error
            continue
        sweeps = target.driver.power.name == "redfish"
        (by_sweep if sweeps else by_thread).append(target)
    settings = runtime.settings
    if by_sweep:
        result |= asyncio.run(
            power_states(
                by_sweep,
                concurrency=settings.conductor.sync_power_state_workers,
                timeout=settings.redfish.sync_timeout,
            )
        )
    if by_thread:
        with ThreadPoolExecutor(min(settings.conductor.sync_power_state_workers, 32)) as threads:
            states = threads.map(_ask, by_thread)
            result |= dict(zip((each.uuid for each in by_thread), states, strict=True))
    told = by_sweep if settings.conductor.enable_health_monitoring else ()
    healths = {each.uuid: each.reports["health"] for each in told if "health" in each.reports}
    return result, healths


def _ask(target: Target) -> str | HardwareError:
    try:
        return target.driver.power.get_power_state(target)
    except HardwareError as error:
        return error


def _pages(runtime: Runtime, conductor: str, *, recovering: bool) -> Iterator[list[Node]]:
    """The nodes of a conductor that may be looked at, some at a time."""
    members = conductors.members(runtime)
    last = 0
    while True:
        with runtime.reading() as session:
            rows = list(session.scalars(_query(last, recovering=recovering)))
        if not rows:
            return
        last = rows[-1].id
        mine = []
        for node in rows:
            found = owner(node.uuid, node.driver, node.conductor_group, members)
            if found is not None and found.name == conductor:
                mine.append(node)
        if mine:
            yield mine


def _query(last: int, *, recovering: bool) -> Any:
    query = select(Node).where(
        Node.id > last,
        Node.reservation.is_(None),
        Node.target_power_state.is_(None),
        Node.retired.is_(False),
    )
    if recovering:
        query = query.where(
            Node.maintenance, Node.fault == POWER_FAILURE, Node.provision_state != State.ENROLL
        )
    else:
        query = query.where(Node.maintenance.is_(False), Node.provision_state.not_in(_LEFT_ALONE))
    return query.order_by(Node.id).limit(PAGE)


def _write(runtime: Runtime, seen: Node, change: Any) -> bool:
    """Change a node as long as it is as it was read."""
    with runtime.transaction() as session:
        node = session.scalar(
            select(Node)
            .where(
                Node.id == seen.id,
                Node.fence == seen.fence,
                Node.reservation.is_(None),
                or_(Node.maintenance == seen.maintenance),
            )
            .with_for_update()
        )
        if node is None:
            return False
        change(_Row(session, node))
        return True


class _Row:
    """A locked node with its session."""

    def __init__(self, session: Session, node: Node) -> None:
        self.session = session
        self.node = node


def _read(runtime: Runtime, row: _Row, state: str) -> None:
    node, conductor = row.node, runtime.settings.conductor
    if state == node.power_state:
        node.power_sync_failures = 0
        return
    if node.power_state is None:
        node.power_state, node.power_sync_failures = state, 0
        return
    node.power_sync_failures += 1
    if node.power_sync_failures > conductor.power_state_sync_max_retries:
        _give_up(row, state, f"its power stays {state!r}, whatever is ordered")
    elif conductor.force_power_state_during_sync and not node.disable_power_off:
        wanted = node.power_state
        logger.warning("power.corrected", node=node.uuid, found=state, ordered=wanted)
        node.target_power_state = wanted
        operations.start(
            row.session,
            node,
            "power",
            planning.power(wanted, None),
            {"target": wanted, "timeout": None},
            _SYSTEM,
        )
    else:
        logger.warning("power.recorded", node=node.uuid, found=state, was=node.power_state)
        node.power_state = state


def _unreadable(runtime: Runtime, row: _Row, error: HardwareError) -> None:
    row.node.power_sync_failures += 1
    if row.node.power_sync_failures > runtime.settings.conductor.power_state_sync_max_retries:
        _give_up(row, None, str(error))


def _felt(row: _Row, health: str | None) -> None:
    node = row.node
    bad = health in ("Warning", "Critical")
    event = f"Health is {health or 'unknown'}; it was {node.health or 'unknown'}."
    node.health = health
    history.add(row.session, node, "monitoring", event, "ERROR" if bad else "INFO")
    if bad:
        logger.warning("health.bad", node=node.uuid, health=health)


def _give_up(row: _Row, state: str | None, why: str) -> None:
    node = row.node
    node.power_state = state
    node.last_error = f"During power synchronisation: {why}"
    node.maintenance, node.maintenance_reason, node.fault = True, node.last_error, POWER_FAILURE
    history.add(row.session, node, "monitoring", node.last_error, "ERROR")


def _recovered(row: _Row, state: str) -> None:
    node = row.node
    node.power_state, node.power_sync_failures = state, 0
    node.maintenance, node.maintenance_reason, node.fault = False, None, None
    logger.info("power.recovered", node=node.uuid)
