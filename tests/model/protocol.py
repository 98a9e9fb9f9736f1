"""
The protocol of docs/protocol.md as a model: conductors, one node, and one operation of three steps.

Step 0 boots the agent and is plain; step 1 gives it a command, waits for it, and goes back to step
0 when its conductor dies; step 2 ends the operation. Between any two actions a process may die,
stop, or be delayed for as long as anybody likes. There is no clock: what a timeout allows may
happen as soon as its cause is there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.checker import Edge
from tests.model.state import (
    ACTED,
    ATTEMPTING,
    BOOT,
    BUSY,
    CHECKED,
    CLAIMED,
    COMMAND,
    DEAD,
    FAILED,
    FREED,
    GOT,
    IDLE,
    LEASED,
    LEAVING,
    OVER,
    QUEUED,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    UNSURE,
    UP,
    WAITING,
    Claimant,
    Conductor,
    Key,
    Row,
    State,
    Thread,
    ended,
    is_over,
    spent,
    token,
    with_conductor,
    with_thread,
)


@dataclass(frozen=True)
class World:
    """
    threads: the conductor of each. faults: what may happen, as often as it is named, at any moment. messages:
    most under way at once. without: the name of what the protocol lacks, to see it fail.
    """

    threads: tuple[int, ...] = (0, 1)
    faults: tuple[str, ...] = ()
    last: int = 2  # position of the last step; 1: the step that waits ends the operation
    deaths: int = 2  # of a step, until it fails
    messages: int = 1  # most that are under way at once
    without: str = ""

    def start(self) -> State:
        """The API has committed the intent; it queues until there is a slot."""
        return State(
            Row(admitted=False),
            frozenset(),
            None,
            None,
            (Thread(),) * len(self.threads),
            (Conductor(),) * (max(self.threads) + 1),
            faults=self.faults,
        )

    # --- what is asked of the row

    def may_claim(self, row: Row, thread: Thread) -> bool:
        return (
            row.cursor == thread.cursor
            and (row.fence == thread.fence or self.without == "fence in the claim")
            and (
                (row.claimed < thread.cursor and row.state == QUEUED)
                or (self.without == "one claim" and row.state in BUSY)
            )
        )

    def holds(self, row: Row, which: int, thread: Thread) -> bool:
        """Whether an attempt may write."""
        if self.without == "fence and claim in the record":
            return row.state == RUNNING
        mine = self.without == "claim in the record" or row.claim == token(which, thread)
        return row.state == RUNNING and row.fence == thread.fence and mine

    def is_dead(self, state: State, claimant: Claimant) -> bool:
        conductor = state.conductors[claimant[0]]
        return conductor.incarnation != claimant[1] or not conductor.fresh

    # --- who drives

    def handed_out(self, state: State, row: Row, *, raised: int = 1) -> Iterator[State]:
        """One state for each conductor that the row's new message may go to."""
        row = row._replace(
            state=QUEUED, fence=row.fence + raised, claimed=row.cursor - 1, claimed_by=None,
            claim=None, reserved=True, written=-1 if raised else row.written,
        )  # fmt: skip
        yield from self.sent(state._replace(row=row))

    def sent(self, state: State) -> Iterator[State]:
        """A message more, in the place of the oldest when too many are under way."""
        row, fresh = state.row, [each.fresh for each in state.conductors]
        for index in (index for index, each in enumerate(fresh) if each):
            known = sorted(state.messages, key=lambda each: each[1:])[1 - self.messages :]
            kept = known if self.messages > 1 else []
            yield state._replace(messages=frozenset({*kept, (index, row.fence, row.cursor)}))
        if not any(fresh):  # nobody owns the node
            yield state

    def edges(self, state: State) -> Iterator[Edge]:
        if state.row.state in OVER:
            return
        if any(each.life == UP for each in state.conductors):
            yield from self.reconcile(state)
        yield from self.agent(state)
        yield from self.environment(state)
        for which, thread in enumerate(state.threads):
            if state.conductors[self.threads[which]].life == UP:
                yield from self.work(state, which, thread)

    def reconcile(self, state: State) -> Iterator[Edge]:
        """
        What the reconciler does. The wake-up is also done by the API and the waker, the admission
        by whoever brings an operation or ends another; it may die before it sends.
        """
        row = state.row
        if not row.admitted:
            admitted = state._replace(row=row._replace(admitted=True))
            yield from (Edge("admit, and send", True, to) for to in self.sent(admitted))
            yield Edge("admit, and die", False, admitted)
            if self.without != "the wait for admission":
                return
        if row.state == QUEUED and self.without != "resending" and not self.under_way(state):
            yield from (Edge("reconciler: send again", True, to) for to in self.sent(state))
        if row.state == WAITING and row.called:
            yield from (Edge("wake", True, to) for to in self.handed_out(state, row))
        if row.state == WAITING and state.agent == "none":  # a late order has switched it off
            yield Edge("reconciler: the wait has expired", True, ended(state, FAILED))
        elif row.state == WAITING and "silence" in state.faults:
            expired = ended(spent(state, "silence"), FAILED)
            yield Edge("fault: silent agent, the wait expires", False, expired)
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

    def under_way(self, state: State) -> bool:
        """To send it once more would change nothing: a message may be repeated as it is."""
        return any(
            message[1:] == (state.row.fence, state.row.cursor)
            and state.conductors[message[0]].fresh
            for message in state.messages
        )

    def taken_over(self, state: State) -> Iterator[State]:
        row = state.row
        deaths = list(row.deaths)
        deaths[row.cursor] += 1
        row = row._replace(deaths=tuple(deaths))
        if deaths[row.cursor] >= self.deaths:
            yield ended(state._replace(row=row), FAILED)
            return
        if row.cursor == COMMAND:  # resume="restart"
            row = row._replace(cursor=BOOT)
        raised = 0 if self.without == "raising the fence at takeover" else 1
        yield from self.handed_out(state, row, raised=raised)

    # --- a thread of a conductor

    def work(self, state: State, which: int, thread: Thread) -> Iterator[Edge]:
        """The next atomic action of a thread, and what may go wrong with it."""
        who, row = f"thread {which}", state.row
        conductor = self.threads[which]
        mine: Key = (conductor, state.conductors[conductor].incarnation, thread.fence)

        def now(name: str, to: State, *, freed: bool = False, **fields: object) -> Edge:
            if freed and to.lease == mine:
                to = to._replace(lease=None)
            if fields.get("at") == IDLE:
                return Edge(f"{who}: {name}", True, with_thread(to, which, Thread()))
            return Edge(f"{who}: {name}", True, with_thread(to, which, thread._replace(**fields)))

        if "leaving" in state.faults and thread.at in (GOT, LEASED):
            left = now("its conductor leaves", spent(state, "leaving"), freed=True, at=LEAVING,
                       valid=False)  # fmt: skip
            yield left._replace(label=f"fault: {left.label}", fair=False)
        match thread.at:
            case "idle":
                for message in state.messages:
                    if message[0] != conductor:
                        continue
                    got = with_thread(state, which, Thread(GOT, message[1], message[2]))
                    label = f"{who}: take the message of fence {message[1]}, cursor {message[2]}"
                    yield Edge(label, True, got._replace(messages=state.messages - {message}))
                    if "repetition" in state.faults:
                        again = spent(got, "repetition")
                        yield Edge(f"fault: repeated message; {label}", False, again)
            case "got" if state.lease is None:
                yield now("take the lease", state._replace(lease=mine), at=LEASED, valid=True)
            case "got":
                yield now("another has the lease; drop", state, at=IDLE)
            case "leased" if self.may_claim(row, thread):
                claimed = state._replace(
                    row=row._replace(
                        state=RUNNING, claimed=row.cursor, claimed_by=mine[:2],
                        claim=token(which, thread), called=False,
                    )
                )  # fmt: skip
                yield now("claim", claimed, at=CLAIMED)
                if "answer" in state.faults:
                    lost = spent(claimed, "answer")
                    lost = now("claim, the answer is lost", lost, at=UNSURE)
                    yield lost._replace(label=f"fault: {lost.label}", fair=False)
            case "leased":
                yield now("nothing to claim; drop", state, freed=True, at=IDLE)
            case "unsure":
                found = row.claim == token(which, thread) and self.without != "token of the claim"
                if found:
                    yield now("find its own claim", state, at=CLAIMED)
                else:
                    yield now("find no claim; drop", state, freed=True, at=IDLE)
            case "claimed" if thread.valid:
                yield now("check the lease", state, at=CHECKED)
            case "claimed" if state.lease in (None, mine) and row.fence == thread.fence:
                regained = state._replace(lease=mine)
                yield now("regain the lease", regained, at=CHECKED, valid=True)
            case "claimed":
                yield now("has lost its lease; drop", state, freed=True, at=IDLE)
            case "checked":
                agent = {BOOT: "none", COMMAND: "works"}.get(thread.cursor, state.agent)
                if thread.cursor == COMMAND and state.agent == "done":
                    agent = "done"
                done = thread.cursor != COMMAND or agent == "done"
                yield now("act", state._replace(agent=agent), at=ACTED, done=done)
                if "hanging" in state.faults and state.hung is None:
                    hung = with_thread(spent(state, "hanging"), which, Thread())._replace(hung=mine)
                    yield Edge(f"fault: {who}: act, and never return", False, hung)
            case "acted" if thread.cursor == BOOT and self.holds(row, which, thread):
                yield from self.written(state, which, thread, "go on under this lease", LEASED)
            case "acted":
                yield now("give the lease back", state, freed=True, at=FREED, valid=False)
            case "freed" if is_over(row, which, thread) and row.state == QUEUED:
                yield now("has written already; go on", state, at=GOT, cursor=row.cursor)
            case "freed" if self.holds(row, which, thread):
                yield from self.written(state, which, thread, "record", GOT)
            case "freed":
                yield now("refused", state, at=IDLE)
            case "leaving" if row.state == QUEUED:
                for to in self.handed_out(state, row):
                    yield now("hand over", to, at=IDLE)
                for to in self.sent(state):
                    yield now("send what was handed over", to, at=IDLE)
            case "leaving":
                yield now("nothing to hand over", state, at=IDLE)

    def written(
        self, state: State, which: int, thread: Thread, name: str, next_at: str
    ) -> Iterator[Edge]:
        """Record what came of an attempt; the answer to the commit may be lost."""
        row = state.row._replace(written=thread.cursor)
        follows = Thread()
        if not thread.done:
            keeps = self.without == "freeing the node while it waits"
            waiting = row._replace(state=WAITING, reserved=keeps)
            after = state._replace(row=waiting)
            outcomes = list(self.handed_out(after, waiting)) if row.called else [after]
        elif row.cursor >= self.last:
            outcomes = [ended(state._replace(row=row), SUCCEEDED)]
        else:
            row = row._replace(state=QUEUED, cursor=row.cursor + 1, claimed_by=None)
            agent = "none" if row.cursor > COMMAND else state.agent
            outcomes = [state._replace(row=row, agent=agent)]
            follows = thread._replace(at=next_at, cursor=row.cursor, done=False)
        for to in outcomes:
            label = f"thread {which}: {name}"
            yield Edge(label, True, with_thread(to, which, follows))
            if "answer" in state.faults:
                yield Edge(f"fault: {label}, the answer is lost", False, spent(to, "answer"))

    # --- what is around

    def agent(self, state: State) -> Iterator[Edge]:
        """The agent calls when it has ended its command, and now and then before."""
        called = state._replace(row=state.row._replace(called=True))
        if state.agent == "works":
            yield Edge("agent: done, call", True, called._replace(agent="done"))
            if "impatience" in state.faults and not state.row.called:
                early = spent(called, "impatience")
                yield Edge("fault: the agent calls early", False, early)
        elif state.agent == "done" and not state.row.called and state.row.cursor == COMMAND:
            yield Edge("agent: call again", True, called)

    def environment(self, state: State) -> Iterator[Edge]:
        """Processes, Redis and time."""
        for message in state.messages if "loss" in state.faults else ():
            lost = spent(state, "loss")._replace(messages=state.messages - {message})
            yield Edge(f"fault: the message to conductor {message[0]} is lost", False, lost)
        if "flush" in state.faults and (state.messages or state.lease):
            empty = spent(state, "flush")._replace(messages=frozenset(), lease=None, emptied=True)
            yield Edge("fault: Redis is emptied", False, empty)
        if state.lease is not None and self.runs_out(state, state.lease):
            yield Edge("the lease runs out", True, self.without_lease(state, state.lease))
        for which, thread in enumerate(state.threads):
            if thread.valid and state.lease != self.key(state, which):
                lapsed = with_thread(state, which, thread._replace(valid=False))
                yield Edge(f"thread {which}: its lease is not renewed", True, lapsed)
        for index, conductor in enumerate(state.conductors):
            yield from self.fate(state, index, conductor)

    def fate(self, state: State, index: int, conductor: Conductor) -> Iterator[Edge]:
        def now(name: str, to: State, *, fair: bool, **fields: object) -> Edge:
            return Edge(name, fair, with_conductor(to, index, conductor._replace(**fields)))

        alone = not any(each.life == UP for each in state.conductors)
        if conductor.life == UP and "death" in state.faults:
            killed = self.killed(spent(state, "death"), index)
            yield now(f"fault: conductor {index} dies", killed, fair=False, life=DEAD)
        if conductor.life == UP and "stop" in state.faults:
            stopped = spent(state, "stop")._replace(stopped=True)
            yield now(f"fault: conductor {index} is stopped", stopped, fair=False, life=STOPPED)
        if conductor.life == STOPPED:
            yield now(f"conductor {index} goes on", state, fair=False, life=UP)
        if conductor.life == DEAD:
            yield now(f"conductor {index} starts anew", state, fair=alone, life=UP,
                      incarnation=conductor.incarnation + 1, fresh=True)  # fmt: skip
        if conductor.life != UP and conductor.fresh:
            yield now(f"conductor {index} is silent for too long", state, fair=True, fresh=False)
        if conductor.life == UP and not conductor.fresh:
            yield now(f"conductor {index} gives a sign of life", state, fair=True, fresh=True)

    def killed(self, state: State, index: int) -> State:
        """A conductor's memory is gone, and what it held in it."""
        threads = tuple(
            Thread() if self.threads[which] == index else thread
            for which, thread in enumerate(state.threads)
        )
        hung = None if state.hung and state.hung[0] == index else state.hung
        return state._replace(threads=threads, hung=hung)

    def key(self, state: State, which: int) -> Key:
        conductor = self.threads[which]
        return conductor, state.conductors[conductor].incarnation, state.threads[which].fence

    def runs_out(self, state: State, lease: Key) -> bool:
        """Nobody renews it: its holder does not run, or its step's deadline has passed."""
        conductor = state.conductors[lease[0]]
        if conductor.life != UP or conductor.incarnation != lease[1]:
            return True
        late = lease == state.hung or lease[2] < state.row.fence
        return late and self.without != "an end to renewing"

    def without_lease(self, state: State, lease: Key) -> State:
        threads = tuple(
            thread._replace(valid=False) if self.key(state, which) == lease else thread
            for which, thread in enumerate(state.threads)
        )
        return state._replace(lease=None, threads=threads)

    def stranded(self, state: State) -> Iterator[tuple[str, State]]:
        """All messages are lost and all conductors but one die; no fault comes after that."""
        for index, conductor in enumerate(state.conductors):
            if conductor.life != UP:
                continue
            left = state._replace(messages=frozenset(), faults=())
            for other, each in enumerate(state.conductors):
                if other != index:
                    dead = each._replace(life=DEAD)
                    left = with_conductor(self.killed(left, other), other, dead)
            yield f"only conductor {index} is left", left

    # --- the invariants

    def wrong(self, state: State) -> str | None:
        row = state.row
        if not row.admitted and (row.state != QUEUED or state.messages):
            return "nothing is sent or claimed before it is admitted"
        if row.reserved != (row.state in BUSY):
            return "the node is reserved exactly while its operation is queued or running"
        if (row.state == RUNNING) != (
            row.claimed_by is not None and row.state not in (WAITING, *OVER)
        ):
            return "a running operation has a claimant, a queued one has none"
        holders = sum(
            each.at in ATTEMPTING and self.holds(row, which, each)
            for which, each in enumerate(state.threads)
        )
        if holders > 1:
            return "at most one attempt may record"
        if sum(each.valid for each in state.threads) > 1 and not state.emptied:
            return "while Redis keeps what it holds, at most one thread trusts its lease"
        if row.state == RUNNING and not holders and not self.abandoned(state):
            return "a claim of a living process has its attempt"
        return None

    def abandoned(self, state: State) -> bool:
        """A claim may be without its attempt: dead, hung, or the lease was lost to another."""
        claimant = state.row.claimed_by
        assert claimant is not None
        gone = state.conductors[claimant[0]]
        died = gone.life == DEAD or gone.incarnation != claimant[1]
        hung = state.hung == (*claimant, state.row.fence)
        return died or hung or state.emptied or state.stopped

    def wrong_edge(self, state: State, edge: Edge) -> str | None:
        assert isinstance(edge.to, State)
        before, after = state.row, edge.to.row
        if after.fence < before.fence:
            return "the fence only grows"
        handed_out = after.state == QUEUED and before.state in (RUNNING, WAITING) and (
            after.claimed_by is None and after.claim is None
        )  # fmt: skip
        if handed_out and after.fence == before.fence:
            return "each handing out has a fence of its own"
        if after.cursor != before.cursor:
            went_back = after.cursor < before.cursor and after.fence > before.fence
            if not (went_back or after.cursor == before.cursor + 1):
                return "the cursor goes on by one, or back under a new fence"
        for which, (then, now) in enumerate(zip(state.threads, edge.to.threads, strict=True)):
            if now.at in (CLAIMED, UNSURE) and then.at == LEASED and then.fence != before.fence:
                return "a message of an old fence claims nothing"
            if now.at in (CLAIMED, UNSURE) and then.at == LEASED and before.state != QUEUED:
                return "what another attempt has claimed is not claimed"
            if then.at in (ACTED, FREED) and after.written != before.written and (
                edge.label.removeprefix("fault: ").startswith(f"thread {which}:")
            ):  # fmt: skip
                if before.claim != token(which, then) or before.fence != then.fence:
                    return "the record of a stale attempt is refused"
                if before.written >= then.cursor:
                    return "a step is recorded once per handing out"
        return None
