"""The machines of a simulator, with their power and faults."""

import asyncio
from collections.abc import Mapping, Sequence

from drivers.simulator import fault_settings
from drivers.simulator.faults import Faults
from drivers.simulator.machine import Machine
from drivers.simulator.power import Power
from drivers.simulator.redfish_bmc import events


class Fleet:
    """Machines of a simulator. A subclass sets `_loop` and `_powers` when it starts them."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = machines
        self._for_all: dict[str, object] = {}
        self._for_one: list[dict[str, object]] = [{} for _ in machines]
        self._powers: list[Power] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def set_faults(self, number: int | None = None, /, **settings: object) -> None:
        """
        Set faults (see `fault_settings`) of one machine, or of all. None resets a fault.

        Thread-safe. Raises BadFault.
        """
        settings = fault_settings.expanded(settings)
        fault_settings.check(settings)
        layer = self._for_all if number is None else self._for_one[number]
        for name, value in settings.items():
            if value is None:
                layer.pop(name, None)
            else:
                layer[name] = value
        for i in range(len(self.machines)) if number is None else [number]:
            machine = self.machines[i]
            machine.spent -= set(settings)
            for name in settings:
                machine.memory.pop(name, None)
            machine.faults = fault_settings.merge(self._for_all, self._for_one[i])

    def faults(self, number: int | None = None) -> Faults:
        """Return the faults of a machine, or those for machines without settings of their own."""
        layers = [self._for_all] if number is None else [self._for_all, self._for_one[number]]
        return fault_settings.merge(*layers)

    def press(self, number: int, *, on: bool) -> None:
        """Switch a machine on or off by its power button, without the BMC. Thread-safe."""

        def act() -> None:
            if (self.machines[number].power == "On") != on:
                self.machines[number].record("machine", "switched by hand", "on" if on else "off")
                self._powers[number].reset("On" if on else "ForceOff")

        assert self._loop is not None, "the simulator was not started"
        self._loop.call_soon_threadsafe(act)

    def next_power_state(self, number: int) -> str:
        """Return the power state that a machine changes to after a delay; "": none is delayed."""
        return self._powers[number].next_state

    def send_event(self, number: int, event: Mapping[str, object]) -> None:
        """Have a BMC send an event (an object of `Events`) to its subscribers. Thread-safe."""
        assert self._loop is not None, "the simulator was not started"
        self._loop.call_soon_threadsafe(events.send, self._powers[number], event)
