"""Behaviour of a conductor's thread: take a message, claim, act, record; its next atomic action."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.lifecycle.operation_states import Actor, OperationEvent
from tests.model.checker import Edge
from tests.model.protocol import World
from tests.model.state import (
    ACTED,
    ADVANCED,
    BOOT,
    CHECKED,
    CLAIMED,
    COMMAND,
    DATABASE,
    FOLLOWING,
    FREED,
    GOT,
    IDLE,
    LEASED,
    LEAVING,
    NEXT_LINK,
    OVER,
    QUEUED,
    REDIS,
    REFUSED,
    UNSURE,
    Key,
    State,
    Thread,
    is_over,
    spent,
    token,
    with_thread,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A thread that is about to act, in a state."""

    world: World
    state: State
    which: int

    @property
    def thread(self) -> Thread:
        return self.state.threads[self.which]

    @property
    def mine(self) -> Key:
        return self.world.key(self.state, self.which)

    def now(self, name: str, to: State, *, freed: bool = False, **fields: object) -> Edge:
        """Return the thread's action. freed: it gives its lease back."""
        if freed and (to.lease == self.mine or self._gives_back_anything):
            to = to._replace(lease=None)
        is_idle = fields.get("at") == IDLE
        thread = Thread() if is_idle else self.thread._replace(**fields)  # type: ignore[arg-type]
        return Edge(f"thread {self.which}: {name}", True, with_thread(to, self.which, thread))

    def fault(self, fault: str, name: str, to: State, **fields: object) -> Edge:
        edge = self.now(name, spent(to, fault), **fields)  # type: ignore[arg-type]
        return Edge(f"fault: {edge.label}", False, edge.to)

    @property
    def _gives_back_anything(self) -> bool:
        return self.world.without == "giving back only what is ours" and self.thread.at != GOT


def work(world: World, state: State, which: int) -> Iterator[Edge]:
    """Yield the next atomic action of a thread, and its possible faults."""
    turn = Turn(world, state, which)
    lost = state.conductors[world.threads[which]].lost
    if lost:
        yield from _cut_off(turn, lost)
        return
    if "leaving" in state.faults and turn.thread.at in (GOT, LEASED, FOLLOWING):
        yield turn.fault("leaving", "its conductor leaves", state, freed=True, at=LEAVING,
                         valid=False)  # fmt: skip
    yield from NEXT[turn.thread.at](turn)


def _cut_off(turn: Turn, lost: str) -> Iterator[Edge]:
    """Yield the next action of a thread whose conductor does not reach Redis, or the database."""
    state, thread = turn.state, turn.thread
    if thread.at in NEEDS[lost]:
        return
    for edge in NEXT[thread.at](turn):
        to = edge.to
        assert isinstance(to, State)
        if lost == REDIS and to.row.state not in OVER:
            if to.threads[turn.which].valid and not thread.valid:
                yield turn.now("cannot regain its lease; drop", state, at=IDLE)
                continue
            to = to._replace(messages=state.messages, lease=state.lease)
        yield edge._replace(to=to)


def _take_message(turn: Turn) -> Iterator[Edge]:
    state, world = turn.state, turn.world
    conductor = world.threads[turn.which]
    for message in state.messages:
        to, fence, cursor, kind = message
        if to != conductor:
            continue
        noted = state.backup is not None and world.without != "note of the work"
        new_state = state._replace(
            messages=state.messages - {message}, touched=noted or state.touched
        )
        name = f"take the message of fence {fence}, cursor {cursor}"
        if kind > state.conductors[conductor].release and world.without != "kind of a message":
            yield from _hand_on(turn, new_state, f"{name}, and hand it on", at=IDLE)
            continue
        got = turn.now(name, new_state, at=GOT, fence=fence, cursor=cursor)
        yield got
        if "repetition" in state.faults:
            assert isinstance(got.to, State)
            again = spent(got.to, "repetition")._replace(messages=state.messages)
            yield Edge(f"fault: repeated message; {got.label}", False, again)


def _hand_on(turn: Turn, state: State, name: str, *, at: str) -> Iterator[Edge]:
    """Send an operation to its owner, which understands it."""
    row = state.row
    if row.state == QUEUED and row.admitted and turn.world.without != "handing on":
        yield from (turn.now(name, to, at=at) for to in turn.world.sent(state))
    else:
        yield turn.now(name, state, at=at)


def _take_lease(turn: Turn) -> Iterator[Edge]:
    state = turn.state
    if state.lease is None or turn.world.without == "one lease":
        yield turn.now("take the lease", state._replace(lease=turn.mine), at=LEASED, valid=True)
    else:
        yield turn.now("another has the lease; drop", state, at=IDLE)


def _claim(turn: Turn) -> Iterator[Edge]:
    state, row, thread = turn.state, turn.state.row, turn.thread
    conductor = state.conductors[turn.world.threads[turn.which]]
    trusts = turn.world.trusts(state, turn.which, "claim")
    if trusts is None:
        return
    if trusts and turn.world.may_claim(row, thread, conductor):
        claimed = state._replace(
            row=turn.world.moved(
                row, OperationEvent.CLAIM, claimed=row.cursor, claimed_by=turn.mine[:2],
                claim=token(turn.which, thread), called=False,
            ),
            worked=state.backup is not None,
        )  # fmt: skip
        yield turn.now("claim", claimed, at=CLAIMED)
        if "answer" in state.faults:
            yield turn.fault("answer", "claim, the answer is lost", claimed, at=UNSURE)
    else:
        yield turn.now(
            "give the lease back; nothing to claim", state, freed=True, at=REFUSED, valid=False
        )


def _refused(turn: Turn) -> Iterator[Edge]:
    """Send the operation again, as its message may have been dropped for this thread's lease."""
    world, state = turn.world, turn.state
    understands = world.understands(state.conductors[world.threads[turn.which]])
    if state.row.fence > turn.thread.fence or not understands:
        yield from _hand_on(turn, state, "hand on the refused operation", at=IDLE)
    else:
        yield turn.now("drop", state, at=IDLE)


def _find_claim(turn: Turn) -> Iterator[Edge]:
    mine = turn.state.row.claim == token(turn.which, turn.thread)
    if mine and turn.world.without != "token of the claim":
        yield turn.now("find its own claim", turn.state, at=CLAIMED)
    else:
        yield turn.now("find no claim; drop", turn.state, freed=True, at=IDLE)


def _check(turn: Turn) -> Iterator[Edge]:
    state, without = turn.state, turn.world.without
    is_ours = state.row.fence == turn.thread.fence or without == "fence when regaining the lease"
    if turn.thread.valid or without == "check before an order":
        yield turn.now("check the lease", state, at=CHECKED)
    elif state.lease in (None, turn.mine) and is_ours:
        yield turn.now("regain the lease", state._replace(lease=turn.mine), at=CHECKED, valid=True)
    elif turn.world.prompt and turn.world.holds(state.row, turn.which, turn.thread):
        for to in turn.world.taken_over(state):  # its deadline passes at once
            yield turn.now("has lost its lease; give up", to, freed=True, at=IDLE)
    else:
        yield turn.now("has lost its lease; drop", state, freed=True, at=IDLE)


def _act(turn: Turn) -> Iterator[Edge]:
    state, cursor = turn.state, turn.thread.cursor
    agent = {BOOT: "none", COMMAND: "works"}.get(cursor, state.agent)
    if cursor == COMMAND and state.agent == "done":
        agent = "done"
    is_done = cursor != COMMAND or agent == "done"
    # after being declared dead: this one pending order cannot be prevented
    in_time = state.row.fence == turn.thread.fence
    worked = state.worked or (state.backup is not None and in_time)
    acted = state._replace(agent=agent, worked=worked)
    yield turn.now("act", acted, at=ACTED, is_done=is_done)
    if "hanging" in state.faults and state.hung is None:
        hung = state._replace(hung=turn.mine)
        yield turn.fault("hanging", "act, and never return", hung, at=IDLE)


def _advance(turn: Turn) -> Iterator[Edge]:
    holds = turn.world.holds(turn.state.row, turn.which, turn.thread)
    trusts = turn.world.trusts(turn.state, turn.which, "record")
    if turn.thread.cursor == BOOT and holds and trusts:
        yield from _written(turn, "advance under this lease", ADVANCED)
    elif trusts is not None:
        yield turn.now("give the lease back", turn.state, freed=True, at=FREED, valid=False)


def _record(turn: Turn) -> Iterator[Edge]:
    row, thread = turn.state.row, turn.thread
    trusts = turn.world.trusts(turn.state, turn.which, "record")
    if trusts is None:
        return
    knows_it_again = turn.world.without not in ("state in the record", "recognizing its own record")
    if knows_it_again and is_over(row, turn.which, thread) and row.state == QUEUED:
        yield turn.now("has written already; go on", turn.state, at=FOLLOWING, cursor=row.cursor)
    elif trusts and turn.world.holds(row, turn.which, thread):
        yield from _written(turn, "record", FOLLOWING)
    else:
        yield turn.now("refused", turn.state, at=IDLE)


def _written(turn: Turn, name: str, next_at: str) -> Iterator[Edge]:
    """The row has the outcome of the attempt; the answer to the commit may be lost."""
    world, state, thread = turn.world, turn.state, turn.thread
    row = state.row._replace(recorded_cursor=thread.cursor)
    state = state._replace(worked=state.backup is not None)
    follows = Thread()
    if not thread.is_done:
        keeps = world.without == "freeing the node while it waits"
        waiting = world.moved(row, OperationEvent.WAIT, reserved=keeps)
        waiting_state = state._replace(row=waiting)
        at_once = row.called and world.without != "waking at once"
        outcomes = [waiting_state]
        if at_once:
            woken = world.handed_out(waiting_state, waiting, OperationEvent.RESUME, Actor.CONDUCTOR)
            outcomes = list(woken)
    elif row.cursor >= world.last_step:
        outcomes = [world.over(state._replace(row=row), OperationEvent.SUCCEED)]
    else:
        row = world.moved(row, OperationEvent.ADVANCE, cursor=row.cursor + 1, claimed_by=None)
        agent = "none" if row.cursor > COMMAND else state.agent
        outcomes = [state._replace(row=row, agent=agent)]
        follows = thread._replace(at=next_at, cursor=row.cursor, is_done=False)
        if world.queues and row.cursor == world.last_step:
            row = world.dispatched(row, OperationEvent.DISPATCH, Actor.CONDUCTOR)
            queued = state._replace(row=row._replace(admitted=False), agent=agent)
            yield turn.now(f"{name}, and enter a queue", queued, at=IDLE)
    for to in outcomes:
        label = f"thread {turn.which}: {name}"
        yield Edge(label, True, with_thread(to, turn.which, follows))
        if "answer" in state.faults:
            yield Edge(f"fault: {label}, the answer is lost", False, spent(to, "answer"))


def _give_back(turn: Turn) -> Iterator[Edge]:
    yield turn.now("give the lease back", turn.state, freed=True, at=FOLLOWING, valid=False)


def _follow(turn: Turn) -> Iterator[Edge]:
    """Send the next link of the chain to the conductor's own queue, without reading the row again."""
    world, thread = turn.world, turn.thread
    link = (world.threads[turn.which], thread.fence, thread.cursor)
    for to in world.with_message(turn.state, *link):
        yield turn.now(NEXT_LINK, to, at=IDLE)


def _hand_over(turn: Turn) -> Iterator[Edge]:
    state = turn.state
    may = state.row.state == QUEUED and state.row.admitted
    if not may or turn.world.without == "handing over":
        yield turn.now("nothing to hand over", state, at=IDLE)
        return
    for to in turn.world.handed_out(state, state.row, OperationEvent.DISPATCH, Actor.CONDUCTOR):
        yield turn.now("hand over", to, at=IDLE)
    for to in turn.world.sent(state):
        yield turn.now("send what was handed over", to, at=IDLE)


#: Lost dependency -> positions of a thread whose next action needs it.
NEEDS = {REDIS: (IDLE, GOT), DATABASE: (LEASED, UNSURE, ACTED, FREED, REFUSED, LEAVING)}
#: Position of a thread -> its next action.
NEXT = {
    IDLE: _take_message,
    GOT: _take_lease,
    LEASED: _claim,
    REFUSED: _refused,
    UNSURE: _find_claim,
    CLAIMED: _check,
    CHECKED: _act,
    ACTED: _advance,
    FREED: _record,
    ADVANCED: _give_back,
    FOLLOWING: _follow,
    LEAVING: _hand_over,
}
