"""
The protocol of docs/protocol.md as a model: conductors, one node, and one operation of three steps.

Step 0 boots the agent and is plain; step 1 gives it a command, waits for it, and goes back to step
0 when its conductor dies; step 2 ends the operation. Between any two actions a process may die,
stop, or be delayed for as long as anybody likes. There is no clock: what a timeout allows may
happen as soon as its cause is there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.operation_states import OPERATIONS, Actor, OperationEvent, state_after
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
    """
    threads: the conductor of each. faults: what may happen, as often as it is named, at any moment.
    messages: most under way at once. releases: of the conductors; needs: the one that the
    operation needs. rows: what a restored database has in its rows counts, too; else only who would
    write into it. without: the name of what the protocol lacks, to see it fail. fired: the events of
    the operation so far, each with the state that it began in.
    """

    threads: tuple[int, ...] = (0, 1)
    faults: tuple[str, ...] = ()
    last: int = 2  # position of the last step; 1: the step that waits ends the operation
    deaths: int = 2  # of a step, until it fails
    messages: int = 1  # most that are under way at once
    releases: tuple[int, ...] = (1, 1)
    needs: int = 1
    unaware: bool = False  # a conductor of the release before there was admission is in the fleet
    rows: bool = True
    without: str = ""
    fired: set[tuple[str | None, OperationEvent]] = field(default_factory=set, compare=False)

    def start(self) -> State:
        """The API has committed the intent; it queues until there is a slot."""
        submitted = self.moved(Row(state=None), OperationEvent.SUBMIT, Actor.API, admitted=False)
        return State(
            submitted,
            frozenset(),
            None,
            None,
            (Thread(),) * len(self.threads),
            tuple(Conductor(release=each) for each in self.releases),
            faults=self.faults,
        )

    # --- the row, and what is asked of it

    def moved(
        self, row: Row, event: OperationEvent, actor: Actor = Actor.CONDUCTOR, **fields: object
    ) -> Row:
        """
        The row after an event of the table in `app.operation_states`.

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
        What a conductor's water mark says of the database when it writes; where: the claim or the
        record. None: nothing, so that it waits for its next sign of life.
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
        """What a thread's lease holds."""
        conductor = self.threads[which]
        return conductor, state.conductors[conductor].incarnation, state.threads[which].fence

    # --- who drives

    def handed_out(
        self, state: State, row: Row, event: OperationEvent, actor: Actor
    ) -> Iterator[State]:
        """One state for each conductor that the row's new message may go to."""
        kept = {
            OperationEvent.RESUME: "raising the fence at waking",
            OperationEvent.TAKE_OVER: "raising the fence at takeover",
        }
        raised = OPERATIONS[event].new_fence and not (
            self.without and self.without == kept.get(event)
        )
        row = self.moved(
            row, event, actor, fence=row.fence + raised, claimed=row.cursor - 1, claimed_by=None,
            claim=None, reserved=True, written=-1 if raised else row.written,
        )  # fmt: skip
        yield from self.sent(state._replace(row=row))

    def able(self, state: State) -> list[int]:
        """The conductors that a message about the operation may be sent to."""
        return [
            index
            for index, each in enumerate(state.conductors)
            if each.fresh
            and (self.understands(each) or self.without == "sending to a capable receiver")
        ]

    def sent(self, state: State) -> Iterator[State]:
        """
        A message more, in the place of the oldest when too many are under way. Without an owner
        there is none. It is written as the release of its sender does, whichever that is.
        """
        row, able = state.row, self.able(state)
        for index in able:
            yield from self.with_message(state, index, row.fence, row.cursor)
        if not able:
            yield state

    def with_message(
        self, state: State, conductor: int, fence: int, cursor: int
    ) -> Iterator[State]:
        kept = sorted(state.messages, key=lambda each: each[1:])[1 - self.messages :]
        known = kept if self.messages > 1 else []
        for kind in range(1, max(self.releases) + 1):
            new = (conductor, fence, cursor, kind)
            yield state._replace(messages=frozenset({*known, new}))

    def reconcile(self, state: State) -> Iterator[Edge]:  # noqa: C901 - one branch per state of the row
        """
        What the reconciler does. The wake-up is also done by the API and the waker, the admission
        by whoever brings an operation or ends another; it may die before it sends.
        """
        row = state.row
        if not row.admitted:
            admitted = state._replace(row=row._replace(admitted=True))
            yield from (Edge("admit, and send", True, to) for to in self.sent(admitted))
            yield Edge("admit, and die", False, admitted)
            if self.unaware and not self.under_way(state):
                for to in self.sent(state):
                    yield Edge("a reconciler of the release before sends it", False, to)
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
        elif self.without != "takeover at the deadline":
            at_work = any(
                each.at in ATTEMPTING and token(which, each) == row.claim
                for which, each in enumerate(state.threads)
            )
            if not at_work:
                for to in self.taken_over(state):
                    yield Edge("reconciler: take over at the deadline", True, to)
            elif "slowness" in state.faults:
                for to in self.taken_over(spent(state, "slowness")):
                    yield Edge("fault: slow step, taken over at the deadline", False, to)

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
        """To send it once more would change nothing: a message may be repeated as it is."""
        return any(
            message[1:3] == (state.row.fence, state.row.cursor)
            and state.conductors[message[0]].fresh
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
        """The operation has ended, and the node is released."""
        left = ended(state, self.moved(state.row, event, actor).state)
        kept = self.without == "freeing the node at the end"
        return left._replace(row=left.row._replace(reserved=kept))

    # --- what is to come of it

    def settled(self, state: State) -> bool:
        """It has ended, or waits for a conductor of a release that nobody who runs is of."""
        nobody = not any(each.life == UP and self.understands(each) for each in state.conductors)
        return state.row.state in OVER or (nobody and self.needs > 1)
