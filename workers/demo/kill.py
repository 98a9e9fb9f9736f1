"""Kill of a conductor during the demo, and the takeover of its operations."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from workers.demo.client import Line
from workers.demo.display import format_span

#: Share of all steps after which the conductor is killed.
SHARE = 0.5


@dataclass(slots=True)
class ConductorKill:
    """Kills the conductor with the most active nodes, once, and measures the takeover."""

    conductors: Callable[[], dict[str, int]]  # returns name -> pid of the running conductors
    say: Callable[[str], None]  # prints an event
    victim: str = ""  # name of the killed conductor; "": none yet
    pid: int = 0
    killed_at: float = 0.0  # monotonic time of the kill
    dead: set[str] = field(default_factory=set)  # incarnations
    in_hand: dict[str, str] = field(default_factory=dict)  # UUID -> name: not yet taken over
    seconds: list[float] = field(default_factory=list)  # until the takeover, one for each node
    restart_seconds: float | None = None  # seconds until the conductor was started again
    notes: dict[str, str] = field(default_factory=dict)  # node UUID -> note in the table

    def update(self, lines: Sequence[Line]) -> None:
        """Kill the conductor once SHARE is reached; afterwards, follow the takeover."""
        if self.victim:
            self._follow(lines)
        else:
            done_steps, total = (
                sum(line.done_steps for line in lines),
                sum(line.total for line in lines),
            )
            if done_steps >= SHARE * total:
                self._kill(lines)

    def _kill(self, lines: Sequence[Line]) -> None:
        busy = [line for line in lines if line.active and line.claimed_by]
        pids = self.conductors()
        count = {name: sum(line.conductor == name for line in busy) for name in pids}
        victim = max(count, key=count.__getitem__, default="")
        if not victim or not count[victim]:
            return
        self.victim, self.pid, self.killed_at = victim, pids[victim], time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        for line in busy:
            if line.conductor == victim:
                self.dead.add(line.claimed_by)
                self.in_hand[line.uuid] = line.name
                self.notes[line.uuid] = "conductor killed"
        self.say(f"{victim} killed (SIGKILL to {self.pid}) with {len(self.in_hand)} nodes in hand")

    def _follow(self, lines: Sequence[Line]) -> None:
        elapsed = time.monotonic() - self.killed_at
        if (
            self.restart_seconds is None
            and self.conductors().get(self.victim, self.pid) != self.pid
        ):
            self.restart_seconds = elapsed
            self.say(f"{self.victim} started again by the supervisor after {elapsed:.1f} s")
        for line in lines:
            if line.uuid in self.in_hand and line.claimed_by not in self.dead:
                del self.in_hand[line.uuid]
                self.seconds.append(elapsed)
                self.notes[line.uuid] = f"resumed in {elapsed:.1f} s"
                if not self.in_hand:
                    self.say(f"all nodes of the killed {self.victim} go on after {elapsed:.1f} s")

    def row(self) -> Sequence[str]:
        count = f"{len(self.seconds)} of {len(self.seconds) + len(self.in_hand)}"
        return (
            f"{self.victim or 'no conductor'} killed, taken over",
            count,
            *format_span(self.seconds),
        )
