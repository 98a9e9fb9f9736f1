"""
The simulator: a fleet of machines on loopback addresses, one per BMC.

    async with Simulator(machines=8) as simulator: ...
    with running(machines=8) as simulator: ...      # in a thread, for tests

Machine i answers Redfish requests, and those to the agent's API while its agent runs, at its own
address, 127.77.x.y by default, on a common port. The control endpoint is 127.77.0.1 on that port.
"""

import asyncio
import errno
import resource
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import aiohttp

from drivers.simulator import media
from drivers.simulator.control import Control
from drivers.simulator.fleet import Fleet
from drivers.simulator.machine import build
from drivers.simulator.power import Power
from drivers.simulator.redfish import Redfish
from drivers.simulator.server import CUT, Request, Response, Server

#: First two parts of all addresses, by default.
NETWORK = "127.77"
#: Attempts to find a port that is free on all addresses.
PORT_TRIES = 20


def address(number: int, network: str = NETWORK) -> str:
    """Return the address of a machine's BMC."""
    high, low = divmod(number, 250)
    return f"{network}.{high + 1}.{low + 1}"


class Simulator(Fleet):
    """
    A fleet of `machines` machines at `port` (0: any free port). A seed gives the same identities.

    username, password: of all BMCs. pxe: see `Power`. network: first two parts of all addresses,
    which this host must have. behaviour: settings of faults for all
    machines, see `fault_settings`.
    """

    def __init__(
        self,
        machines: int = 8,
        port: int = 0,
        seed: int = 1,
        *,
        username: str = "admin",
        password: str = "admin",  # noqa: S107 - of simulated machines
        pxe: str = "",
        network: str = NETWORK,
        **behaviour: object,
    ) -> None:
        super().__init__([build(i, address(i, network), port, seed) for i in range(machines)])
        self._control = f"{network}.0.1"
        self.port = port
        for machine in self.machines:
            machine.username, machine.password = username, password
        self._pxe = pxe
        self._server = Server()
        self._client: aiohttp.ClientSession | None = None
        self.set_faults(None, **behaviour)

    @property
    def url(self) -> str:
        """URL of the control endpoint."""
        return f"http://{self._control}:{self.port}"

    def medium(self, api_url: str) -> str:
        """Return the URL of a medium that boots the agent for the service at `api_url`."""
        return f"{self.url}/agent.iso?api={api_url}"

    def ramdisk(self) -> dict[str, str]:
        """Return `driver_info` of nodes whose boot medium the service builds."""
        kernel, ramdisk = (f"{self.url}{name}" for name in media.PARTS)
        return {"deploy_kernel": kernel, "deploy_ramdisk": ramdisk}

    async def start(self) -> None:
        """Listen on all addresses. Raises OSError."""
        self._loop = asyncio.get_running_loop()
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._powers = [Power(machine, self._client, self._pxe) for machine in self.machines]
        handlers = [_front(power, Redfish(power)) for power in self._powers]
        for attempt in range(PORT_TRIES):
            try:
                port = await self._server.listen(self._control, self.port, Control(self).handle)
                for machine, handler in zip(self.machines, handlers, strict=True):
                    machine.port = await self._server.listen(machine.address, port, handler)
            except OSError as error:
                await self._server.stop()
                is_taken = error.errno == errno.EADDRINUSE
                if self.port or not is_taken or attempt == PORT_TRIES - 1:
                    await self._client.close()
                    raise
            else:
                self.port = port
                return

    async def stop(self) -> None:
        """Switch all machines off and close all sockets."""
        for power in self._powers:
            power.unplug()
        await self._server.stop()
        if self._client is not None:
            await self._client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()


def _front(power: Power, redfish: Redfish) -> Callable[[Request], Response | Awaitable[Response]]:
    """Return the handler of one address: the BMC below /redfish, the agent elsewhere."""

    def handle(request: Request) -> Response | Awaitable[Response]:
        if request.path.startswith("/redfish"):
            return redfish.handle(request)
        if power.agent is not None:
            return power.agent.handle(request)
        return CUT  # the machine is off, or its system does not listen

    return handle


@contextmanager
def running(
    machines: int = 8, port: int = 0, seed: int = 1, **settings: Any
) -> Iterator[Simulator]:
    """Run a simulator in a thread, started when entered. Raises errors of `start`."""
    simulator = Simulator(machines, port, seed, **settings)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="simulator", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(simulator.start(), loop).result()
        try:
            yield simulator
        finally:
            asyncio.run_coroutine_threadsafe(simulator.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
