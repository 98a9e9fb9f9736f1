"""
Bulk read of sensors, by the requests of `drivers.redfish.sweep`.

The first read of a BMC searches the documents with readings; later ones read only these, so that
most machines cost two requests. Each request has a turn of its own, so that an order waits for one
request at most.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from drivers.core.bmc import Urgency
from drivers.core.driver import interfaces_of
from drivers.core.errors import Busy, HardwareError, LoginRefused, Refused, Unexpected
from drivers.core.kinds.management import ReadSensors
from drivers.core.password_rotation import require_settled
from drivers.core.target import Options, Target
from drivers.net.networks import of_bmcs
from drivers.redfish import sensors, sweep
from drivers.redfish.sensors import Reading, Source
from drivers.redfish.transport import access, client
from drivers.redfish.transport.documents import Document
from drivers.redfish.transport.errors import errors_of

#: Seconds after which the documents with readings are searched again: parts are plugged in.
PLAN_LIFETIME = 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The documents of a BMC that have readings."""

    sources: Sequence[Source]
    made_at: float  # on time.monotonic

    @property
    def is_current(self) -> bool:
        return time.monotonic() - self.made_at < PLAN_LIFETIME


@asynccontextmanager
async def open_reader(options: Options, connections: int) -> AsyncIterator[ReadSensors]:
    """Open the reader of the sensor sweep, as `Management.sensor_reader` describes."""
    timeout = options["redfish"]["sync_timeout"]
    reach = of_bmcs(options, "redfish_address")
    async with sweep.http_client(reach, connections, timeout) as http:

        async def read(target: Target) -> list[Reading] | HardwareError:
            try:
                require_settled(target, access.PASSWORD)
                return await _Reader(http, target, timeout).readings()
            except HardwareError as error:
                return error

        yield read


class _Reader:
    """Reads the sensors of one machine."""

    def __init__(self, http: Any, target: Target, max_wait: float) -> None:
        self._http, self._max_wait = http, max_wait
        self._access = access.access(target)
        self._bmcs = interfaces_of(target).management.bmcs
        self._error: HardwareError | None = None  # of the last document that could not be read

    async def readings(self) -> list[Reading]:
        """
        Read all sensors.

        Raises NotSupported: the BMC lists none. Raises HardwareError.
        """
        documents = await self._planned() or await self._searched()
        if not documents and self._error is not None:
            raise self._error
        return sensors.listed(documents, self._access.address)

    async def _planned(self) -> list[tuple[Source, Document]]:
        """Read the documents of the last search; empty if there is none, or one is gone."""
        connection = self._bmcs.get(self._access.key).connection
        plan = getattr(connection, "sensor_plan", None)
        if plan is None or connection.access != self._access or not plan.is_current:
            return []
        documents = []
        for source in plan.sources:
            document = await self._document(source.path)
            if document is None:
                return []
            documents.append((source, document))
        return documents

    async def _searched(self) -> list[tuple[Source, Document]]:
        """Search the documents with readings, and keep where they are."""
        system = await self._in_turn(partial(sweep.system, self._http))
        search = sensors.sources(system, expands=True)
        try:
            path = next(search)
            while True:
                path = search.send(await self._document(path))
        except StopIteration as end:
            documents: list[tuple[Source, Document]] = end.value
        connection = self._bmcs.get(self._access.key).connection
        if documents and isinstance(connection, client.Connection):
            sources = [source for source, _ in documents]
            connection.sensor_plan = Plan(sources, time.monotonic())
        return documents

    async def _document(self, path: str) -> Document | None:
        """
        Read a document; None if the BMC lacks it, or serves it malformed.

        Raises HardwareError: no answer, the login is refused, or the BMC is busy.
        """
        try:
            return await self._in_turn(lambda connection: sweep.read(self._http, connection, path))
        except (LoginRefused, Busy):
            raise
        except (Refused, Unexpected) as error:
            self._error = error
            return None

    async def _in_turn(
        self, read: Callable[[client.Connection], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """
        Read from the BMC within a turn of it.

        Raises HardwareError.
        """
        turn = self._bmcs.async_turn(self._access.key, Urgency.SYNC, max_wait=self._max_wait)
        async with turn as bmc:
            with errors_of(self._access):
                return await read(client.connection(bmc, self._access))
