"""
Sensor sweep: reads the sensors of a conductor's nodes, for metrics, history and the API.

BMCs are read concurrently, with the power sync's urgency: an order comes first. A sweep has a time
limit; the machines that were read longest ago come first, so that no machine is left out for ever.
Nodes in operation are left out, as their BMC may be in an update.
"""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

from sqlalchemy import select

from app.db.item_isolation import isolated
from app.hardware import targets
from app.inventory import sensors
from app.inventory.sensors import Read
from app.lifecycle.flows import FLOWS
from app.lifecycle.provision_states import State
from app.metrics.table import SENSOR_SWEEP_NODES, SENSOR_SWEEPS
from app.models import Node, NodeSensors
from app.observe import log
from app.runtime import Runtime
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError, NotSupported, PasswordUnsettled, SecretsUnavailable
from drivers.core.kinds.management import ReadSensors
from drivers.core.target import Target
from workers.periodic import bmc_sweep
from workers.periodic.sensor_notifier import Notifier

logger = log.get(__name__)

#: Nodes whose readings are stored in one transaction.
BATCH = 100
#: States without reads of the BMC, as its address and password may be wrong.
EXCLUDED = [State.ENROLL, *(flow.failed for flow in FLOWS if flow.checks_bmc)]

Answer = list[dict[str, Any]] | HardwareError


def sweep(runtime: Runtime, conductor: str) -> dict[str, int]:
    """
    Read the sensors of a conductor's nodes, and store the readings; count the nodes by result.

    Results: read, none (the BMC lists no sensors), failed, late (the time limit has passed).
    """
    started = time.monotonic()
    counts = _read(runtime, conductor, _ids(runtime, conductor))
    SENSOR_SWEEPS.observe(time.monotonic() - started)
    return counts


def read_nodes(runtime: Runtime, conductor: str, ids: Sequence[int]) -> dict[str, int]:
    """Do for some nodes what a sweep does, as far as it would read them; count as `sweep`."""
    with runtime.reading() as session:
        rows = session.execute(_query(runtime).where(Node.id.in_(ids)))
        read_ids = [row.id for row in rows]
    return _read(runtime, conductor, read_ids)


def _read(runtime: Runtime, conductor: str, ids: Sequence[int]) -> dict[str, int]:
    counts = dict.fromkeys(("read", "none", "failed", "late"), 0)
    if ids:
        asyncio.run(_Sweep(runtime, conductor, counts).run(ids))
    for result, count in counts.items():
        SENSOR_SWEEP_NODES.add(result, count=count)
    if counts["late"]:
        logger.warning("sensors.late", **counts)
    return counts


def _query(runtime: Runtime) -> bmc_sweep.OwnersQuery:
    """Return the query for the nodes whose sensors are read."""
    query = select(*bmc_sweep.OWNING).where(Node.reservation.is_(None), Node.maintenance.is_(False))
    if runtime.settings.sensor_data.enable_for_undeployed_nodes:
        return query.where(Node.provision_state.not_in(EXCLUDED))
    return query.where(Node.provision_state == State.ACTIVE)


def _ids(runtime: Runtime, conductor: str) -> Sequence[int]:
    """Return the ids of the conductor's nodes to read, the ones read longest ago first."""
    ids = bmc_sweep.owned_ids(runtime, conductor, _query(runtime))
    with runtime.reading() as session:
        rows = session.execute(select(NodeSensors.node_id, NodeSensors.read_at))
        read_at = {row.node_id: row.read_at for row in rows}
    return sorted(ids, key=lambda node_id: read_at.get(node_id) or datetime.min)


class _Sweep:
    """One sweep over some nodes."""

    def __init__(self, runtime: Runtime, conductor: str, counts: dict[str, int]) -> None:
        self._runtime, self._counts = runtime, counts
        self._notifier = Notifier(runtime, conductor) if _notifies(runtime) else None
        self._options = runtime.settings.sensor_data
        self._reads: list[Read] = []

    async def run(self, ids: Sequence[int]) -> None:
        pages = (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
        supply = bmc_sweep.Supply(bmc_sweep.whole_nodes(self._runtime, pages))
        workers = min(self._options.workers, len(ids))
        with ThreadPoolExecutor(min(workers, bmc_sweep.THREADS)) as threads:
            async with AsyncExitStack() as stack:
                readers = bmc_sweep.Readers[ReadSensors](
                    stack, self._runtime.settings.options(), workers
                )
                tasks = [
                    asyncio.create_task(self._work(supply, readers, threads))
                    for _ in range(workers)
                ]
                _, late_tasks = await asyncio.wait(tasks, timeout=self._options.wait_timeout)
                for task in late_tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
        await self._store(self._reads)
        if self._notifier is not None:
            self._notifier.close()
        for error in ends:
            if isinstance(error, Exception):  # the database is out of reach
                raise error
        count = sum(self._counts.values())
        self._counts["late"] = max(len(ids) - count, 0) if late_tasks else 0

    async def _work(
        self,
        supply: bmc_sweep.Supply,
        readers: bmc_sweep.Readers[ReadSensors],
        threads: ThreadPoolExecutor,
    ) -> None:
        while (node := await supply.next()) is not None:
            with isolated("sensors.not_read", node=node.uuid):
                await self._read(node, readers, threads)

    async def _read(
        self,
        node: Node,
        readers: bmc_sweep.Readers[ReadSensors],
        threads: ThreadPoolExecutor,
    ) -> None:
        answer = await self._answer(node, readers, threads)
        if isinstance(answer, PasswordUnsettled | SecretsUnavailable):  # the BMC was not asked
            return
        if isinstance(answer, NotSupported):
            self._counts["none"] += 1
            return
        if isinstance(answer, HardwareError):
            self._counts["failed"] += 1
            self._reads.append(Read(node.id, (), str(answer)))
        else:
            self._counts["read"] += 1
            readings = sensors.cleaned(answer)
            self._reads.append(Read(node.id, readings))
            if self._notifier is not None:
                self._notifier.add(node, readings)
        if len(self._reads) >= BATCH:
            reads, self._reads = self._reads, []
            await self._store(reads)

    async def _answer(
        self,
        node: Node,
        readers: bmc_sweep.Readers[ReadSensors],
        threads: ThreadPoolExecutor,
    ) -> Answer:
        try:
            if self._runtime.vault is None:
                target = targets.build(self._runtime, node)
            else:  # it may ask the vault
                target = await asyncio.to_thread(targets.build, self._runtime, node)
            management = interfaces_of(target).management
            management.validate(target)
        except HardwareError as error:
            return error
        if management.sensor_reader is None:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(threads, _sensors_of, target)
        read_sensors = await readers.of(management.sensor_reader)
        return await read_sensors(target)

    async def _store(self, reads: Sequence[Read]) -> None:
        """Store reads in a thread, as the database must not block the event loop."""
        if reads:
            with isolated("sensors.not_stored", nodes=len(reads)):
                await asyncio.to_thread(_write, self._runtime, reads, self._options.history)
        if self._notifier is not None:
            await asyncio.to_thread(self._notifier.send)


def _notifies(runtime: Runtime) -> bool:
    """Whether notifications of the level `info` are sent."""
    return runtime.settings.default.notification_level in ("debug", "info")


def _write(runtime: Runtime, reads: Sequence[Read], length: int) -> None:
    """Store reads in one transaction."""
    # in the order of ids: two conductors may write the same nodes while their owner changes
    in_order = sorted(reads, key=lambda read: read.node_id)
    with runtime.transaction() as session:
        sensors.store(session, in_order, length)


def _sensors_of(target: Target) -> Answer:
    try:
        return interfaces_of(target).management.sensors(target)
    except HardwareError as error:
        return error
