"""
The rigs of a run: each is an isolated process (`tests.hosts.rig`) and takes the next phase.

A rig runs one phase after the other. After a wrong one, or after its own end, a new rig takes its
place, so that remains of one phase never count in another.
"""

import json
import selectors
from contextlib import ExitStack
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Rig:
    """A rig that runs. program: its process, with pipes; close: ends it."""

    number: int
    program: object
    close: object
    phase: str | None = None  # that it runs
    is_ready: bool = False

    def begin(self, phase):
        self.phase = phase
        self.program.stdin.write(phase + "\n")
        self.program.stdin.flush()


class NotReady(Exception):
    """A rig has ended before its site was up."""


@dataclass(slots=True)
class Rigs:
    """
    Runs phases on some rigs at once.

    start: context manager of a new rig's process, by its number, with pipes for the standard input
    and output. say: prints a line. results: by name of the phase.
    """

    limit: int
    start: object
    say: object
    results: dict = field(default_factory=dict)
    _rigs: set = field(default_factory=set)
    _started: int = 0

    def run(self, names):
        """
        Run all phases; return their results, in the order of the names.

        Raises NotReady.
        """
        waiting = list(names)
        with ExitStack() as stack, selectors.DefaultSelector() as selector:
            stack.callback(self._close_all)
            while waiting or any(rig.phase for rig in self._rigs):
                idle = sum(rig.phase is None for rig in self._rigs)
                for _ in range(min(self.limit - len(self._rigs), len(waiting) - idle)):
                    self._add(selector)
                for key, _ in selector.select():
                    self._hear(key.data, key.fileobj.readline(), selector)
                for rig in [rig for rig in self._rigs if rig.is_ready and not rig.phase]:
                    if waiting:
                        self.say(f"rig {rig.number}: {waiting[0]}")
                        rig.begin(waiting.pop(0))
                    else:
                        self._end(rig, selector)
        return [self.results[name] for name in names]

    def _add(self, selector):
        self._started += 1
        stack = ExitStack()
        program = stack.enter_context(self.start(self._started))
        rig = Rig(self._started, program, stack.close)
        self._rigs.add(rig)
        selector.register(program.stdout, selectors.EVENT_READ, rig)

    def _hear(self, rig, line, selector):
        """Take a document of a rig; empty: it has ended."""
        if line:
            result = json.loads(line)
            rig.is_ready = True
            if "phase" not in result:
                return
            rig.phase = None
        elif rig.phase is not None:
            complaint = f"WRONG: rig {rig.number} has ended in {rig.phase}"
            result = {"phase": rig.phase, "ok": False, "line": "", "complaints": [complaint]}
        else:
            raise NotReady(f"rig {rig.number} has ended before its site was up")
        self.results[result["phase"]] = result
        self.say("\n".join([result.get("line", ""), *result.get("complaints", ())]))
        if took := result.get("took"):
            parts = ", ".join(f"{part} {seconds:.0f}" for part, seconds in took.items())
            self.say(f"{result['phase']} took {sum(took.values()):.0f} s: {parts}")
        if not result.get("ok", True):
            self._end(rig, selector)

    def _end(self, rig, selector):
        selector.unregister(rig.program.stdout)
        self._rigs.discard(rig)
        rig.close()

    def _close_all(self):
        for rig in self._rigs:
            rig.close()
