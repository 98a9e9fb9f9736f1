"""What a state of the protocol's model is made of."""

from typing import NamedTuple

from app.models import OperationState

BOOT, COMMAND = 0, 1
QUEUED, RUNNING, WAITING = OperationState.QUEUED, OperationState.RUNNING, OperationState.WAITING
SUCCEEDED, FAILED = OperationState.SUCCEEDED, OperationState.FAILED
#: A conductor dies, or is stopped and goes on; Redis is emptied; a message is lost, or repeated; the
#: answer to a commit is lost; a call never returns, or only after its deadline; the agent is silent,
#: or calls before it is done; a conductor is told to stop; the database is restored from a backup.
FAULTS = (
    "death", "stop", "flush", "loss", "repetition", "answer", "hanging", "slowness", "silence",
    "impatience", "leaving", "restore",
)  # fmt: skip
#: Beside them, where two releases are in the fleet: a conductor is started anew as the other one.
EXCHANGE = "exchange"
BUSY, OVER = (QUEUED, RUNNING), (SUCCEEDED, FAILED)
UP, STOPPED, DEAD = "up", "stopped", "dead"

#: Where a thread stands: before it takes the lease, claims, claims again, checks, acts, writes;
#: gives back the lease after an advance; sends the next link; hands over what follows; or drops
#: what it has handed on.
IDLE, GOT, LEASED, UNSURE, CLAIMED, CHECKED, ACTED, FREED, ADVANCED, FOLLOWING, LEAVING, HANDED = (
    "idle", "got", "leased", "unsure", "claimed", "checked", "acted", "freed", "advanced",
    "following", "leaving", "handed",
)  # fmt: skip
#: What a thread does last that has recorded a step, where the operation goes on.
NEXT_LINK = "send the next link"
ATTEMPTING = (UNSURE, CLAIMED, CHECKED, ACTED, FREED)

Claimant = tuple[int, int]  # conductor, incarnation
Message = tuple[int, int, int, int]  # conductor, fence, cursor; the release that can read it
Token = tuple[int, int, int]  # thread, fence, cursor: names an attempt
Key = tuple[int, int, int]  # conductor, incarnation, fence: the value of the lease

#: What a conductor's water mark says of the database, once that was restored: that it is older; nothing,
#: as it was last raised before the backup, long ago; or, wrongly, that it is the newest.
ABOVE, OLD, FOOLED = "above", "old", "fooled"


class Row(NamedTuple):
    """What the database holds. written: ghost, the highest cursor recorded under this fence."""

    state: OperationState | None = QUEUED  # None: it is not written down yet
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
    """
    fresh: its heartbeat in the database is younger than the timeout. mark: ABOVE, if it was raised
    since the backup. asked: stopped between its question to Redis and its sign of life, and what
    the answer was: ABOVE, or OLD.
    """

    life: str = UP
    incarnation: int = 0
    fresh: bool = True
    release: int = 1
    mark: str = ABOVE
    asked: str = ""


class State(NamedTuple):
    """
    hung: the lease of a call that never returns, whose process lives. faults: those that may still
    come, as often as named; emptied, stopped: ghosts, whether that fault has been. backed_up: there is
    a backup; backup: the row in it; touched: since then Redis has taken down that work begins;
    worked: a ghost, whether it has. restored: it is the row again, and nobody has said so yet.
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
    backed_up: bool = False
    backup: Row | None = None
    touched: bool = False
    worked: bool = False
    restored: bool = False


def token(which: int, thread: Thread) -> Token:
    return which, thread.fence, thread.cursor


def is_over(row: Row, which: int, thread: Thread) -> bool:
    """An attempt has written already, and the answer to its commit was lost."""
    return row.state != RUNNING and row.fence == thread.fence and row.claim == token(which, thread)


def is_ended(state: State) -> bool:
    return state.row.state in OVER


def ended(state: State, how: OperationState | None) -> State:
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
