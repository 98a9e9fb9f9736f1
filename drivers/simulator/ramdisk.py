"""Ramdisk of a simulated agent: its tasks, and the effects of commands on it and the machine."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from drivers.simulator.machine import Machine

#: Seconds between the answer to `power_off` and the end of the agent.
GRACE = 0.05


class Ramdisk:
    """
    A machine that runs an agent.

    - client: HTTP client of the agent; None until the agent starts.
    - on_power: called with "off" or "restart" when a command demands it.
    - insecure: do not verify certificates of servers.
    """

    def __init__(
        self,
        machine: Machine,
        macs: Sequence[str],
        client: aiohttp.ClientSession | None,
        on_power: Callable[[str], None],
        *,
        insecure: bool,
    ) -> None:
        self.machine = machine
        self.macs = tuple(macs)
        self.serving = False
        self._client = client
        self._on_power = on_power
        self.insecure = insecure
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def client(self) -> aiohttp.ClientSession:
        assert self._client is not None, "the agent was not started"
        return self._client

    def kill(self) -> None:
        """Stop the agent at once."""
        self.serving = False
        for task in list(self._tasks):
            task.cancel()

    def lose(self, state: str) -> None:
        """Stop the agent's API and heartbeats; the machine stays on."""
        self.machine.agent = state
        self.kill()

    def leave(self, state: str) -> None:
        """Call `lose` after the answer to the current command."""
        asyncio.get_running_loop().call_later(GRACE, self.lose, state)

    def switch(self, kind: str) -> None:
        """Switch the machine ("off" or "restart") after the answer to the current command."""

        def act() -> None:
            if self.serving:
                self.lose("stopped")
                self._on_power(kind)

        asyncio.get_running_loop().call_later(GRACE, act)

    def spawn(self, work: Any) -> "asyncio.Task[None]":
        """Run a coroutine as a task that ends with the agent."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
