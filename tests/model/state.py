"""State of the protocol's model."""

from typing import NamedTuple

from app.models import OperationState

BOOT, COMMAND = 0, 1
QUEUED, RUNNING, WAITING = OperationState.QUEUED, OperationState.RUNNING, OperationState.WAITING
SUCCEEDED, FAILED = OperationState.SUCCEEDED, OperationState.FAILED
#: A conductor dies, or is stopped and continues; Redis is emptied; a message is lost, or repeated; the
#: answer to a commit is lost; a call never returns, or only after its deadline; the agent is silent,
#: or calls before it is done; a conductor is drained; the database is restored from a backup.
FAULTS = (
    "death", "stop", "flush", "loss", "repetition", "answer", "hanging", "slowness", "silence",
    "impatience", "leaving", "restore",
)  # fmt: skip
#: A beat loses the database or the broker, a conductor loses Redis, or the database: others do not.
CUTS = ("beat's cut", "Redis' cut", "database's cut")
#: A standby without the last writes is promoted: the row is an earlier one, as in a restore, but less
#: is lost than the time between two heartbeats, which no watermark shows.
PROMOTION = "promotion"
PROMOTED = "fault: the standby is promoted"
#: A further fault in a fleet of two releases: a conductor restarts as the other release.
EXCHANGE = "exchange"
BUSY, OVER = (QUEUED, RUNNING), (SUCCEEDED, FAILED)
UP, STOPPED, DEAD = "up", "stopped", "dead"
#: Dependencies that a conductor may have lost.
REDIS, DATABASE = "redis", "database"

#: Next action of a thread: take the lease, claim, claim again, check, act, write; give back the
#: lease after an advance; send the next link; redispatch at a drain; or send an operation again
#: whose claim was refused.
IDLE, GOT, LEASED, UNSURE, CLAIMED, CHECKED, ACTED, FREED, ADVANCED, FOLLOWING, LEAVING, REFUSED = (
    "idle", "got", "leased", "unsure", "claimed", "checked", "acted", "freed", "advanced",
    "following", "leaving", "refused",
)  # fmt: skip
#: Last action of a thread that has recorded a step, if the operation continues.
NEXT_LINK = "send the next link"
ATTEMPTING = (UNSURE, CLAIMED, CHECKED, ACTED, FREED)

Claimant = tuple[int, int]  # conductor, incarnation
Message = tuple[int, int, int, int]  # conductor, fence, cursor; the release that can read it
Token = tuple[int, int, int]  # thread, fence, cursor: names an attempt
Key = tuple[int, int, int]  # conductor, incarnation, fence: the value of the lease

#: Verdict of a conductor's watermark on a restored database: it is older; no verdict, as the mark was
#: last raised long before the backup; or, wrongly, that it is the newest.
ABOVE, OLD, FOOLED = "above", "old", "fooled"


class Row(NamedTuple):
    """The operation and its node in the database."""

    state: OperationState | None = QUEUED  # None: it is not submitted yet
    cursor: int = 0
    fence: int = 1
    claimed: int = -1
    claimed_by: Claimant | None = None
    claim: Token | None = None
    reserved: bool = True
    deaths: tuple[int, ...] = (0, 0, 0)
    called: bool = False  # the agent has called since the claim
    admitted: bool = True
    recorded_cursor: int = -1  # ghost: the highest cursor recorded under this fence


class Thread(NamedTuple):
    """A thread of a conductor."""

    at: str = IDLE
    fence: int = 0
    cursor: int = 0
    is_done: bool = False  # outcome of its attempt: Done, else Wait
    valid: bool = False  # it trusts its lease without a read from Redis


class Conductor(NamedTuple):
    """A process of a conductor."""

    life: str = UP
    incarnation: int = 0
    fresh: bool = True  # its heartbeat in the database is younger than the timeout
    release: int = 1
    mark: str = ABOVE  # ABOVE: raised since the backup
    answer: str = ""  # ABOVE or OLD: it was stopped between this answer of Redis and its heartbeat
    behind: bool = False  # it has not seen the promotion yet
    lost: str = ""  # REDIS or DATABASE, which it does not reach; the other one it reaches


class State(NamedTuple):
    """The whole system."""

    row: Row
    messages: frozenset[Message]
    lease: Key | None
    hung: Key | None  # lease of a call that never returns, whose process lives
    threads: tuple[Thread, ...]
    conductors: tuple[Conductor, ...]
    agent: str = "none"  # none, works, done
    leaderless: bool = False  # the leading beat cannot trigger the reconciler
    faults: tuple[str, ...] = ()  # that may still happen, once per occurrence
    emptied: bool = False  # ghost: this fault has happened
    stopped: bool = False  # ghost: this fault has happened, or a conductor was cut off
    backed_up: bool = False
    backup: Row | None = None
    touched: bool = False  # Redis has a note of work since the backup
    worked: bool = False  # ghost: there was work since the backup
    promoted: bool = False  # ghost: this fault has happened
    restored: bool = False  # the row is the backup's, and no conductor has declared it yet


def token(which: int, thread: Thread) -> Token:
    return which, thread.fence, thread.cursor


def is_over(row: Row, which: int, thread: Thread) -> bool:
    """Whether an attempt has recorded already, and the answer to its commit was lost."""
    return row.state != RUNNING and row.fence == thread.fence and row.claim == token(which, thread)


def is_ended(state: State) -> bool:
    return state.row.state in OVER


def ended(state: State, outcome: OperationState | None) -> State:
    """State after the end: processes and Redis have no further effect."""
    row = Row(
        outcome,
        state.row.cursor,
        state.row.fence,
        reserved=False,
        recorded_cursor=state.row.recorded_cursor,
    )
    idle, calm = (
        tuple(Thread() for _ in state.threads),
        tuple(Conductor() for _ in state.conductors),
    )
    return State(row, frozenset(), None, None, idle, calm, faults=state.faults)


def spent(state: State, fault: str) -> State:
    """Remove one occurrence of a fault, which has happened."""
    at = state.faults.index(fault)
    return state._replace(faults=state.faults[:at] + state.faults[at + 1 :])


def with_thread(state: State, which: int, thread: Thread) -> State:
    return state._replace(threads=(*state.threads[:which], thread, *state.threads[which + 1 :]))


def with_conductor(state: State, index: int, conductor: Conductor) -> State:
    return state._replace(
        conductors=(*state.conductors[:index], conductor, *state.conductors[index + 1 :])
    )
