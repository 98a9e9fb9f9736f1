"""
The protocol of docs/protocol.md as a model: conductors, one node, and one operation of three steps.

Step 0 boots the agent and is plain; step 1 gives it a command, waits for it, and goes back to step
0 when its conductor dies; step 2 ends the operation. Between any two actions a process may die,
stop, or be delayed for any time. There is no clock: the effect of a timeout may happen as soon as
its cause is present.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.lifecycle.operation_states import OPERATIONS, Actor, OperationEvent, state_after
from tests.model.checker import Edge
from tests.model.state import (
    ABOVE,
    ATTEMPTING,
    BOOT,
    BUSY,
    COMMAND,
    FOOLED,
    OVER,
    QUEUED,
    REDIS,
    RUNNING,
    UP,
    WAITING,
    Claimant,
    Conductor,
    Key,
    Row,
    State,
    Thread,
    ended,
    spent,
    token,
)


@dataclass(frozen=True)
class World:
    """Parameters of the model."""

    threads: tuple[int, ...] = (0, 1)  # conductor of each thread
    faults: tuple[str, ...] = ()  # each may happen once, at any moment
    last_step: int = 2  # position of the last step; 1: the step that waits ends the operation
    queues: bool = False  # the last step begins another flow, and waits for a slot if none is free
    deaths: int = 2  # of a step, until it fails
    messages: int = 1  # most messages under way at a time
    releases: tuple[int, ...] = (1, 1)  # of the conductors
    needs: int = 1  # release that the operation needs
    prompt: bool = False  # deadlines of steps do not count: they are too late to
    unaware: bool = False  # a conductor of a release without admission is in the fleet
    rows: bool = True  # check the rows of a restored database, too; False: only attempts to write
    without: str = ""  # part of the protocol to leave out, so that it breaks
    #: events of the operation so far, each with the state before it
    fired: set[tuple[str | None, OperationEvent]] = field(default_factory=set, compare=False)

    def start(self) -> State:
        """State after the API has committed the intent; the operation queues until there is a slot."""
        submitted = self.moved(Row(state=None), OperationEvent.SUBMIT, Actor.API, admitted=False)
        return State(
            submitted,
            frozenset(),
            None,
            None,
            (Thread(),) * len(self.threads),
            tuple(Conductor(release=release) for release in self.releases),
            faults=self.faults,
        )

    # --- conditions on the row

    def moved(
        self, row: Row, event: OperationEvent, actor: Actor = Actor.CONDUCTOR, **fields: object
    ) -> Row:
        """
        Return the row after an event of the table in `app.lifecycle.operation_states`.

        Raises IllegalTransition where the table has no such row, unless the protocol lacks a part.
        """
        self.fired.add((row.state, event))
        to = OPERATIONS[event].to if self.without else state_after(row.state, event, actor)
        return row._replace(state=to, **fields)  # type: ignore[arg-type]

    def may_claim(self, row: Row, thread: Thread, conductor: Conductor) -> bool:
        return (
            (row.cursor == thread.cursor or self.without == "cursor and claims in the claim")
            and (row.fence == thread.fence or self.without == "fence in the claim")
            and (self.understands(conductor) or self.without == "version in the claim")
            and (row.admitted or self.without == "admission in the claim")
            and (
                (row.claimed < thread.cursor and row.state == QUEUED)
                or (self.without == "cursor and claims in the claim" and row.state == QUEUED)
                or (self.without == "one claim" and row.state in BUSY)
            )
        )

    def holds(self, row: Row, which: int, thread: Thread) -> bool:
        """Whether an attempt may write."""
        runs = row.state == RUNNING or self.without == "state in the record"
        if self.without == "fence and claim in the record":
            return runs
        mine = self.without == "claim in the record" or row.claim == token(which, thread)
        return runs and row.fence == thread.fence and mine

    def trusts(self, state: State, which: int, where: str) -> bool | None:
        """
        Whether a conductor's watermark lets it trust the database when it writes; where: the claim
        or the record. None: undecided, so that it waits for its next heartbeat.
        """
        if not state.restored:
            return True
        mark = state.conductors[self.threads[which]].mark
        if mark == ABOVE:
            return self.without == f"mark in the {where}"
        return True if mark == FOOLED or self.without == "age of the mark" else None

    def is_dead(self, state: State, claimant: Claimant) -> bool:
        conductor = state.conductors[claimant[0]]
        return conductor.incarnation != claimant[1] or not conductor.fresh

    def understands(self, conductor: Conductor) -> bool:
        return conductor.release >= self.needs

    def key(self, state: State, which: int) -> Key:
        """Value of a thread's lease."""
        conductor = self.threads[which]
        return conductor, state.conductors[conductor].incarnation, state.threads[which].fence

    # --- dispatch

    def handed_out(
        self, state: State, row: Row, event: OperationEvent, actor: Actor
    ) -> Iterator[State]:
        """One state for each conductor that the row's new message may go to."""
        yield from self.sent(state._replace(row=self.dispatched(row, event, actor)))

    def dispatched(self, row: Row, event: OperationEvent, actor: Actor) -> Row:
        """Return the row under its new fence."""
        omissions = {
            OperationEvent.RESUME: "raising the fence at waking",
            OperationEvent.TAKE_OVER: "raising the fence at takeover",
            OperationEvent.DISPATCH: "raising the fence in a queue",
        }
        raised = OPERATIONS[event].new_fence and not (
            self.without and self.without == omissions.get(event)
        )
        return self.moved(
            row, event, actor, fence=row.fence + raised, claimed=row.cursor - 1, claimed_by=None,
            claim=None, reserved=True, recorded_cursor=-1 if raised else row.recorded_cursor,
        )  # fmt: skip

    def able(self, state: State) -> list[int]:
        """The conductors that a message about the operation may be sent to."""
        return [
            index
            for index, conductor in enumerate(state.conductors)
            if conductor.fresh
            and (conductor.lost != REDIS or self.without == "leaving the ring")
            and (self.understands(conductor) or self.without == "sending to a capable receiver")
        ]

    def sent(self, state: State) -> Iterator[State]:
        """
        Yield the states with one more message, which replaces the oldest one at the limit.

        Without an owner there is none. The format is that of its sender's release, any of them.
        """
        row, able = state.row, self.able(state)
        for index in able:
            yield from self.with_message(state, index, row.fence, row.cursor)
        if not able:
            yield state

    def with_message(
        self, state: State, conductor: int, fence: int, cursor: int
    ) -> Iterator[State]:
        messages = sorted(state.messages, key=lambda message: message[1:])[1 - self.messages :]
        kept_messages = messages if self.messages > 1 else []
        for kind in range(1, max(self.releases) + 1):
            new = (conductor, fence, cursor, kind)
            yield state._replace(messages=frozenset({*kept_messages, new}))

    def reconcile(self, state: State) -> Iterator[Edge]:  # noqa: C901 - one branch per state of the row
        """
        Actions of the reconciler. The resume is also done by the API and the wait monitor, the
        admission by every process that submits or ends an operation; it may die before it sends.
        """
        row = state.row
        if not row.admitted:
            admitted = state._replace(row=row._replace(admitted=True))
            yield from (Edge("admit, and send", True, to) for to in self.sent(admitted))
            yield Edge("admit, and die before sending", False, admitted)
            if self.unaware and not self.under_way(state):
                for to in self.sent(state):
                    yield Edge("a reconciler of the older release sends it", False, to)
            if self.without != "the wait for admission":
                return
        if row.state == QUEUED and self.without != "resending" and not self.under_way(state):
            yield from (Edge("reconciler: send again", True, to) for to in self.sent(state))
        if row.state == WAITING:
            yield from self.look_after_the_wait(state)
        if row.state != RUNNING:
            return
        assert row.claimed_by is not None
        if self.is_dead(state, row.claimed_by):
            for to in self.taken_over(state):
                yield Edge("reconciler: take over from the dead", True, to)
        elif self.without != "takeover at the deadline" and not self.prompt:
            if not self.is_attempted(state):
                for to in self.taken_over(state):
                    yield Edge("reconciler: take over at the deadline", True, to)
            elif "slowness" in state.faults:
                for to in self.taken_over(spent(state, "slowness")):
                    yield Edge("fault: slow step, taken over at the deadline", False, to)

    def is_attempted(self, state: State) -> bool:
        """Whether the attempt that has claimed the operation is in progress."""
        return any(
            thread.at in ATTEMPTING and token(which, thread) == state.row.claim
            for which, thread in enumerate(state.threads)
        )

    def look_after_the_wait(self, state: State) -> Iterator[Edge]:
        row = state.row
        if row.called:
            woken = self.handed_out(state, row, OperationEvent.RESUME, Actor.RECONCILER)
            yield from (Edge("wake", True, to) for to in woken)
        if self.without == "deadline of the wait":
            return
        if state.agent == "none":  # a late order has switched it off
            yield Edge("reconciler: the wait has expired", True, self.failed(state))
        elif "silence" in state.faults:
            expired = self.failed(spent(state, "silence"))
            yield Edge("fault: silent agent, the wait expires", False, expired)

    def under_way(self, state: State) -> bool:
        """Whether the same message is under way, so that sending it again changes nothing."""
        return any(
            message[1:3] == (state.row.fence, state.row.cursor)
            and state.conductors[message[0]].fresh
            and (state.conductors[message[0]].lost != REDIS or self.without == "leaving the ring")
            for message in state.messages
        )

    def taken_over(self, state: State) -> Iterator[State]:
        row = state.row
        deaths = list(row.deaths)
        deaths[row.cursor] += 1
        row = row._replace(deaths=tuple(deaths))
        if deaths[row.cursor] >= self.deaths:
            yield self.failed(state._replace(row=row))
            return
        if row.cursor == COMMAND:  # resume="restart"
            row = row._replace(cursor=BOOT)
        yield from self.handed_out(state, row, OperationEvent.TAKE_OVER, Actor.RECONCILER)

    def failed(self, state: State) -> State:
        return self.over(state, OperationEvent.FAIL, Actor.RECONCILER)

    def over(self, state: State, event: OperationEvent, actor: Actor = Actor.CONDUCTOR) -> State:
        """State after the end of the operation: the node is released."""
        end_state = ended(state, self.moved(state.row, event, actor).state)
        is_reserved = self.without == "freeing the node at the end"
        return end_state._replace(row=end_state.row._replace(reserved=is_reserved))

    # --- the end

    def settled(self, state: State) -> bool:
        """Whether the operation has ended, or waits for a conductor of a release that none has."""
        capable = any(
            conductor.life == UP and self.understands(conductor) for conductor in state.conductors
        )
        return state.row.state in OVER or (not capable and self.needs > 1)
