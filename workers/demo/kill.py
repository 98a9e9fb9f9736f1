"""The demo's accident: one conductor is killed, and what it had in hand is followed."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from workers.demo.client import Line
from workers.demo.display import span

#: The share of all steps after which it strikes.
SHARE = 0.5


@dataclass(slots=True)
class Strike:
    """
    Kills the conductor that has the most nodes in hand, once.

    conductors: name -> pid of those that run. say: tells what has happened. in_hand: UUID -> name
    of the nodes that nobody has gone on with since. seconds: until somebody went on, for each of
    the others. notes: UUID -> what to tell of a node.
    """

    conductors: Callable[[], dict[str, int]]
    say: Callable[[str], None]
    victim: str = ""
    pid: int = 0
    at: float = 0.0
    dead: set[str] = field(default_factory=set)
    in_hand: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    back: float | None = None
    notes: dict[str, str] = field(default_factory=dict)

    def look(self, lines: Sequence[Line]) -> None:
        """Strike when it is time; afterwards, see what has become of it."""
        if self.victim:
            self._follow(lines)
        else:
            done, total = sum(each.done for each in lines), sum(each.total for each in lines)
            if done >= SHARE * total:
                self._strike(lines)

    def _strike(self, lines: Sequence[Line]) -> None:
        busy = [each for each in lines if each.active and each.claimed_by]
        pids = self.conductors()
        count = {name: sum(each.conductor == name for each in busy) for name in pids}
        victim = max(count, key=count.__getitem__, default="")
        if not victim or not count[victim]:
            return
        self.victim, self.pid, self.at = victim, pids[victim], time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        for line in busy:
            if line.conductor == victim:
                self.dead.add(line.claimed_by)
                self.in_hand[line.uuid] = line.name
                self.notes[line.uuid] = "conductor killed"
        self.say(f"{victim} killed (SIGKILL to {self.pid}) with {len(self.in_hand)} nodes in hand")

    def _follow(self, lines: Sequence[Line]) -> None:
        elapsed = time.monotonic() - self.at
        if self.back is None and self.conductors().get(self.victim, self.pid) != self.pid:
            self.back = elapsed
            self.say(f"{self.victim} started again by the supervisor after {elapsed:.1f} s")
        for line in lines:
            if line.uuid in self.in_hand and line.claimed_by not in self.dead:
                del self.in_hand[line.uuid]
                self.seconds.append(elapsed)
                self.notes[line.uuid] = f"resumed in {elapsed:.1f} s"
                if not self.in_hand:
                    self.say(f"all nodes of the killed {self.victim} go on after {elapsed:.1f} s")

    def row(self) -> Sequence[str]:
        """Its row of the summary."""
        count = f"{len(self.seconds)} of {len(self.seconds) + len(self.in_hand)}"
        return (f"{self.victim or 'no conductor'} killed, taken over", count, *span(self.seconds))
