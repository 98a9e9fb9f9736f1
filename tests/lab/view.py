"""Display of a running lab: a live table on a terminal, plain lines elsewhere."""

import threading
import time
from collections import deque
from contextlib import contextmanager

import requests
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

#: Lines below the table.
EVENTS = 8


class View:
    """Display of events and machines."""

    def __init__(self):
        self.console = Console()
        self._began = time.monotonic()
        self._events = deque(maxlen=EVENTS)
        self._live = None

    def say(self, event):
        line = f"{time.monotonic() - self._began:6.1f} s  {event}"
        self._events.append(line)
        if self._live is None:
            print(line, flush=True)

    @contextmanager
    def watching(self, service, journeys):
        """Show the machines for as long as the block takes."""
        if not self.console.is_terminal:
            yield
            return
        ended = threading.Event()
        with Live(console=self.console, refresh_per_second=2) as self._live:

            def show():
                while not ended.wait(1):
                    self._live.update(self._picture(service, journeys))

            thread = threading.Thread(target=show)
            thread.start()
            try:
                yield
            finally:
                ended.set()
                thread.join()
        self._live = None

    def _picture(self, service, journeys):
        table = Table("machine", "phase", "provision state", "step", "console", expand=True)
        for journey in journeys:
            state, step = _where(service, journey.node)
            output = journey.machine.output(max(0, journey.machine.mark() - 400))
            last_line = (output.splitlines() or [""])[-1]
            table.add_row(journey.node, journey.doing, state, step, Text(last_line[-60:]))
        return Group(table, *(Text(line) for line in self._events))

    def table(self, journeys):
        """Print the seconds of each phase of each machine."""
        phases = list(dict.fromkeys(name for journey in journeys for name in journey.times))
        table = Table("phase", *(journey.node for journey in journeys), title="seconds")
        for name in phases:
            seconds = (journey.times.get(name) for journey in journeys)
            table.add_row(name, *("" if second is None else f"{second:.0f}" for second in seconds))
        self.console.print(table)


def _where(service, node):
    try:
        return service.get(f"nodes/{node}")["provision_state"] or "", service.step(node) or ""
    except requests.RequestException:
        return "", ""
