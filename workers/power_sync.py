"""
Power synchronisation: does each machine's power agree with its row? Health, boot mode and secure
boot come along.

BMCs are asked concurrently; only what differs is written, and only where neither fence nor
reservation has moved since the node was read. A machine is switched back to its recorded power only
in a state in which nothing acts on it: while a node waits or is being worked on, its power is left
to the operation, which records what it orders; while it is held, what was read is recorded.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app import log
from app.flows import FLOWS
from app.models import Fault, Node, OperationKind
from app.ring import Member, owner
from app.runtime import Runtime
from app.services import conductors, history, operations, planning, reports, targets
from app.services.caller import Caller
from app.states import Kind, State, of_kind
from drivers.core.errors import HardwareError
from drivers.core.target import Target
from drivers.redfish.sweep import asking

logger = log.get(__name__)

#: Nodes looked at in one read, and most threads for what is not asked by Redfish.
PAGE, THREADS = 500, 32
#: One sweep in so many reads a machine's secure boot, which costs a request of its own.
SECURE_BOOT_EVERY = 30
_OF_BOOT = frozenset({"boot_mode", "secure_boot"})
#: States in which a BMC is not asked, as its address and password may be wrong.
_LEFT_ALONE = [flow.failed for flow in FLOWS if flow.checks_bmc]
#: States in which an operation switches the machine, between two looks of a step or by its agent.
_IN_MOTION = of_kind(Kind.BUSY, Kind.WAIT)
_HELD = of_kind(Kind.HOLD)
_SYSTEM = Caller(user_id="power-sync")

#: A power state, or why it could not be read.
Power = str | HardwareError
Change = Callable[["_Row"], None]
#: The changes of a node, given its power and the other facts that its BMC reports.
Judge = Callable[[Node, Power, Mapping[str, Any]], Iterator[Change]]


def sync(runtime: Runtime, conductor: str) -> dict[str, int]:
    """One sweep over the nodes of a conductor; how many were read, corrected, and failed."""
    counts = {"read": 0, "differ": 0, "failed": 0}

    def judge(node: Node, state: Power, told: Mapping[str, Any]) -> Iterator[Change]:
        counts["read"] += 1
        new = {name: value for name, value in told.items() if value != getattr(node, name)}
        if "health" in new:
            yield lambda row: _felt(row, new["health"])
        if node.provision_state in _IN_MOTION:
            return
        if new.keys() & _OF_BOOT:
            facts = {name: new[name] for name in new.keys() & _OF_BOOT}
            yield lambda row: reports.apply(row.session, row.node, facts)
        if isinstance(state, HardwareError):
            counts["failed"] += 1
            yield lambda row: _unreadable(runtime, row, state)
        elif state != node.power_state or node.power_sync_failures:
            counts["differ"] += state != node.power_state
            yield lambda row: _read(runtime, row, state)

    asyncio.run(_sweep(runtime, _pages(runtime, conductor, recovering=False), judge))
    return counts


def recover(runtime: Runtime, conductor: str) -> int:
    """Nodes in maintenance for a power failure whose BMC answers again leave it."""

    def judge(_node: Node, state: Power, _told: Mapping[str, Any]) -> Iterator[Change]:
        if isinstance(state, str):
            yield lambda row: _recovered(row, state)

    return asyncio.run(_sweep(runtime, _pages(runtime, conductor, recovering=True), judge))


async def _sweep(runtime: Runtime, pages: Iterator[Sequence[Node]], judge: Judge) -> int:
    """
    Ask the BMC of each node, many at once, and write what comes of it; how many were written.

    No node waits for the answer of another one's BMC, but for a place among those that are asked.
    """
    conductor, timeout = runtime.settings.conductor, runtime.settings.redfish.sync_timeout
    many, feels = conductor.sync_power_state_workers, conductor.enable_health_monitoring
    sweep = int(time.time() // max(conductor.sync_power_state_interval, 1))
    supply = _Supply(pages)
    written = 0

    async def lane() -> None:
        nonlocal written
        while (node := await supply.next()) is not None:
            target = _target(runtime, node)
            if target is None:
                continue
            state, told = await ask(target, secure_boot=(node.id + sweep) % SECURE_BOOT_EVERY == 0)
            changes = list(judge(node, state, told))
            if changes:  # in a thread: who waits for an answer must not wait for the database
                written += await asyncio.to_thread(_write, runtime, node, changes)

    async def ask(
        target: Target | HardwareError, *, secure_boot: bool
    ) -> tuple[Power, Mapping[str, Any]]:
        if isinstance(target, HardwareError):
            return target, {}
        if target.driver.power.name == "redfish":
            state = await ask_redfish(target, secure_boot=secure_boot)
        else:
            state = await loop.run_in_executor(threads, _ask, target)
        if not feels:
            target.reports.pop("health", None)
        return state, target.reports

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(min(many, THREADS)) as threads:
        async with asking(many, timeout) as ask_redfish:
            await asyncio.gather(*(lane() for _ in range(many)))
    return written


class _Supply:
    """Nodes one by one, of pages that are read while others wait for their BMC."""

    def __init__(self, pages: Iterator[Sequence[Node]]) -> None:
        self._pages = pages
        self._page: deque[Node] = deque()
        self._reading = asyncio.Lock()

    async def next(self) -> Node | None:
        """None: there are no more."""
        if not self._page:
            async with self._reading:
                if not self._page:
                    self._page.extend(await asyncio.to_thread(next, self._pages, ()))
        return self._page.popleft() if self._page else None


def _target(runtime: Runtime, node: Node) -> Target | HardwareError | None:
    """What is to be asked, or why it cannot be; None: nobody has ever known its power."""
    try:
        target = targets.build(runtime, node)
        target.driver.power.validate(target)
    except HardwareError as error:
        return None if node.power_state is None else error
    return target


def _ask(target: Target) -> Power:
    try:
        return target.driver.power.get_power_state(target)
    except HardwareError as error:
        return error


def _pages(runtime: Runtime, conductor: str, *, recovering: bool) -> Iterator[Sequence[Node]]:
    """
    The nodes of a conductor that may be looked at, some at a time.

    All conductors look through all nodes, so only what is one's own is read whole.
    """
    members = conductors.members(runtime)
    last = 0
    while True:
        with runtime.reading() as session:
            rows = session.execute(_query(last, recovering=recovering)).all()
            if not rows:
                return
            last = rows[-1].id
            mine = [row.id for row in rows if _is_at(conductor, row, members)]
            page = session.scalars(select(Node).where(Node.id.in_(mine)).order_by(Node.id)).all()
        if page:
            yield page


def _is_at(conductor: str, row: Any, members: Sequence[Member]) -> bool:
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
        query = query.where(Node.maintenance.is_(False), Node.provision_state.not_in(_LEFT_ALONE))
    return query.order_by(Node.id).limit(PAGE)


def _write(runtime: Runtime, seen: Node, changes: Sequence[Change]) -> bool:
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
        for change in changes:
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
    if node.power_state is None or node.provision_state in _HELD:
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
            OperationKind.POWER,
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
    node.maintenance, node.fault = True, Fault.POWER_FAILURE
    node.maintenance_reason = node.last_error
    history.add(row.session, node, "monitoring", node.last_error, "ERROR")


def _recovered(row: _Row, state: str) -> None:
    node = row.node
    node.power_state, node.power_sync_failures = state, 0
    node.maintenance, node.maintenance_reason, node.fault = False, None, None
    logger.info("power.recovered", node=node.uuid)
