"""
The ramdisk of an agent: its tasks, and the effects of commands on it and on the machine.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from drivers.simulator.machine import Machine

#: Between the answer to `power_off` and the end of the agent.
GRACE = 0.05


class Ramdisk:
    """
    A machine that runs an agent.

    client: the HTTP client of the agent; None until it has started.
    on_power: called with "off" or "restart" when a command orders that.
    insecure: the certificates of servers are not checked.
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
        """Be gone, at once."""
        self.serving = False
        for task in list(self._tasks):
            task.cancel()

    def lose(self, state: str) -> None:
        """Stop serving and beating; the machine stays on."""
        self.machine.agent = state
        self.kill()

    def leave(self, state: str) -> None:
        """As `lose`, once the command that asked for it has been answered."""
        asyncio.get_running_loop().call_later(GRACE, self.lose, state)

    def switch(self, kind: str) -> None:
        """Switch the machine ("off" or "restart"), once the command has been answered."""

        def act() -> None:
            if self.serving:
                self.lose("stopped")
                self._on_power(kind)

        asyncio.get_running_loop().call_later(GRACE, act)

    def spawn(self, work: Any) -> "asyncio.Task[None]":
        """Run a coroutine for as long as the agent lives."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
