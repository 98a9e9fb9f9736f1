"""What a state of the protocol's model is made of."""

from typing import NamedTuple

BOOT, COMMAND = 0, 1
QUEUED, RUNNING, WAITING, SUCCEEDED, FAILED = "queued", "running", "waiting", "succeeded", "failed"
#: A conductor dies, or is stopped and goes on; Redis is emptied; a message is lost, or repeated; the
#: answer to a commit is lost; a call never returns, or only after its deadline; the agent is silent,
#: or calls before it is done; a conductor is told to stop.
FAULTS = (
    "death", "stop", "flush", "loss", "repetition", "answer", "hanging", "slowness", "silence",
    "impatience", "leaving",
)  # fmt: skip
BUSY, OVER = (QUEUED, RUNNING), (SUCCEEDED, FAILED)
UP, STOPPED, DEAD = "up", "stopped", "dead"

#: Where a thread stands: before it takes the lease, claims, claims again, checks, acts, writes; or
#: hands over what follows.
IDLE, GOT, LEASED, UNSURE, CLAIMED, CHECKED, ACTED, FREED, LEAVING = (
    "idle", "got", "leased", "unsure", "claimed", "checked", "acted", "freed", "leaving",
)  # fmt: skip
ATTEMPTING = (UNSURE, CLAIMED, CHECKED, ACTED, FREED)

Claimant = tuple[int, int]  # conductor, incarnation
Message = tuple[int, int, int]  # conductor, fence, cursor
Token = tuple[int, int, int]  # thread, fence, cursor: names an attempt
Key = tuple[int, int, int]  # conductor, incarnation, fence: the value of the lease


class Row(NamedTuple):
    """What the database holds. written: ghost, the highest cursor recorded under this fence."""

    state: str = QUEUED
    cursor: int = 0
    fence: int = 1
    claimed: int = -1
    claimed_by: Claimant | None = None
    claim: Token | None = None
    reserved: bool = True
    deaths: tuple[int, ...] = (0, 0, 0)
    called: bool = False  # the agent has called since the claim
    admitted: bool = True
    written: int = -1


class Thread(NamedTuple):
    """A thread of a conductor. valid: it takes its lease for its own without asking."""

    at: str = IDLE
    fence: int = 0
    cursor: int = 0
    done: bool = False  # what came of its attempt: Done or Wait
    valid: bool = False


class Conductor(NamedTuple):
    """fresh: its heartbeat in the database is younger than the timeout."""

    life: str = UP
    incarnation: int = 0
    fresh: bool = True


class State(NamedTuple):
    """
    hung: the lease of a call that never returns, whose process lives. faults: those that may still
    come, as often as named; emptied, stopped: ghosts, whether that fault has been.
    """

    row: Row
    messages: frozenset[Message]
    lease: Key | None
    hung: Key | None
    threads: tuple[Thread, ...]
    conductors: tuple[Conductor, ...]
    agent: str = "none"  # none, works, done
    faults: tuple[str, ...] = ()
    emptied: bool = False
    stopped: bool = False


def token(which: int, thread: Thread) -> Token:
    return which, thread.fence, thread.cursor


def is_over(row: Row, which: int, thread: Thread) -> bool:
    """An attempt has written already, and the answer to its commit was lost."""
    return row.state != RUNNING and row.fence == thread.fence and row.claim == token(which, thread)


def is_ended(state: State) -> bool:
    return state.row.state in OVER


def ended(state: State, how: str) -> State:
    """Nothing that is left in processes or Redis matters any more."""
    row = Row(how, state.row.cursor, state.row.fence, reserved=False, written=state.row.written)
    idle, calm = (
        tuple(Thread() for _ in state.threads),
        tuple(Conductor() for _ in state.conductors),
    )
    return State(row, frozenset(), None, None, idle, calm, faults=state.faults)


def spent(state: State, fault: str) -> State:
    """A fault has been; an emptied Redis, say, is not emptied again."""
    at = state.faults.index(fault)
    return state._replace(faults=state.faults[:at] + state.faults[at + 1 :])


def with_thread(state: State, which: int, thread: Thread) -> State:
    return state._replace(threads=(*state.threads[:which], thread, *state.threads[which + 1 :]))


def with_conductor(state: State, index: int, conductor: Conductor) -> State:
    return state._replace(
        conductors=(*state.conductors[:index], conductor, *state.conductors[index + 1 :])
    )
