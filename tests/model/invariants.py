"""What must hold in every state, and of every action."""

from tests.model.checker import Edge
from tests.model.protocol import World
from tests.model.state import (
    ACTED,
    ATTEMPTING,
    BUSY,
    CHECKED,
    CLAIMED,
    DEAD,
    FREED,
    GOT,
    HANDED,
    IDLE,
    LEASED,
    NEXT_LINK,
    OVER,
    QUEUED,
    RUNNING,
    UNSURE,
    UP,
    WAITING,
    Message,
    State,
    Thread,
    token,
)


def wrong(world: World, state: State) -> str | None:
    """What does not hold in a state, if anything."""
    row = state.row
    if state.restored and not world.rows:
        return _might_be_written(world, state)
    if row.state != QUEUED and not row.admitted:
        return "nothing is claimed before it is admitted"
    if row.reserved != (row.state in BUSY):
        return "the node is reserved exactly while its operation is queued or running"
    if (row.state == RUNNING) != (row.claimed_by is not None and row.state not in (WAITING, *OVER)):
        return "a running operation has a claimant, a queued one has none"
    holders = sum(
        each.at in ATTEMPTING and world.holds(row, which, each)
        for which, each in enumerate(state.threads)
    )
    if holders > 1:
        return "at most one attempt may record"
    if sum(each.valid for each in state.threads) > 1 and not state.emptied:
        return "while Redis keeps what it holds, at most one thread trusts its lease"
    if row.state == RUNNING and not holders and not _is_abandoned(state):
        return "a claim of a living process has its attempt"
    return None


def _might_be_written(world: World, state: State) -> str | None:
    """Whatever the rows may be, and the attempts."""
    for which, conductor in enumerate(world.threads):
        sure = any(world.trusts(state, which, where) for where in ("claim", "record"))
        if sure and state.conductors[conductor].life == UP:
            return "nobody takes a restored database for the newest"
    return None


def _is_abandoned(state: State) -> bool:
    """A claim may be without its attempt: dead, hung, or the lease was lost to another."""
    claimant = state.row.claimed_by
    assert claimant is not None
    gone = state.conductors[claimant[0]]
    died = gone.life == DEAD or gone.incarnation != claimant[1]
    hung = state.hung == (*claimant, state.row.fence)
    return died or hung or state.emptied or state.stopped or state.restored


def wrong_edge(world: World, state: State, edge: Edge) -> str | None:  # noqa: C901 - one branch per invariant
    """What is wrong with an action, if anything."""
    to = edge.to
    assert isinstance(to, State)
    if to.restored and not state.restored:
        return None  # the rows are what they were
    if state.restored and not to.restored and state.worked and to.row.state not in OVER:
        return "what was worked on since the backup is in doubt"
    sent = to.messages - state.messages
    # the next link follows a claim that was admitted, whatever a restored row says since
    follows = edge.label.endswith(NEXT_LINK)
    if sent and not (to.row.admitted or world.unaware or (state.restored and follows)):
        return "nothing is sent before it is admitted"
    what = None if to.row is state.row else _wrong_in_the_row(state, to)
    if what:
        return what
    for to_whom, *_ in sent if world.needs > 1 else ():
        if to.conductors[to_whom].release < world.needs:
            return "nothing is sent to who does not understand it"
    for which, (then, now) in enumerate(zip(state.threads, to.threads, strict=True)):
        if then is now:
            continue
        what = _wrong_with_a_thread(world, state, to, which, then, now)
        if not what and edge.label.removeprefix("fault: ").startswith(f"thread {which}:"):
            what = _wrong_in_the_record(state, to, which, then) or _dropped(world, state, to, which)
        if what:
            return what
    return None


def _wrong_in_the_row(state: State, to: State) -> str | None:
    before, after = state.row, to.row
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
    return None


def _wrong_with_a_thread(  # noqa: C901 - one branch per invariant
    world: World, state: State, to: State, which: int, then: Thread, now: Thread
) -> str | None:
    row, conductor = state.row, state.conductors[world.threads[which]]
    if then.at == LEASED and now.at in (CLAIMED, UNSURE):
        if state.restored:
            return "nothing is claimed in a restored database"
        if then.fence != row.fence:
            return "a message of an old fence claims nothing"
        if then.cursor != row.cursor:
            return "what is claimed is the step of the message"
        if row.state != QUEUED:
            return "what another attempt has claimed is not claimed"
        if not world.understands(conductor):
            return "what is of a newer release is not claimed"
    if then.at == CLAIMED and now.at == CHECKED:
        if not then.valid and to.lease != world.key(state, which):
            return "an order is given only under a lease"
        if not then.valid and then.fence != row.fence:
            return "who was given up for dead gives no order but the one that it was about to give"
    if then.at == IDLE and now.at == GOT and world.needs > 1:
        taken = _taken(world, state, to, which)
        if any(message[3] > conductor.release for message in taken):
            return "no message of a newer release is read"
    return None


def _wrong_in_the_record(state: State, to: State, which: int, then: Thread) -> str | None:
    before, after = state.row, to.row
    if then.at not in (ACTED, FREED) or after.written == before.written:
        return None
    if state.restored:
        return "nothing is recorded in a restored database"
    if before.claim != token(which, then) or before.fence != then.fence:
        return "the record of a stale attempt is refused"
    if before.written >= then.cursor:
        return "a step is recorded once per handing out"
    return None


def _taken(world: World, state: State, to: State, which: int) -> frozenset[Message]:
    mine = world.threads[which]
    return frozenset(each for each in state.messages - to.messages if each[0] == mine)


def _dropped(world: World, state: State, to: State, which: int) -> str | None:
    """What is of a newer release goes on to one who can read it, if there is one."""
    then, now, row = state.threads[which], to.threads[which], to.row
    if world.needs == 1 or row.state != QUEUED or not row.admitted or not world.able(state):
        return None
    release = state.conductors[world.threads[which]].release
    newer = then.at == now.at == IDLE and any(
        message[3] > release for message in _taken(world, state, to, which)
    )
    refused = then.at == LEASED and now.at == HANDED
    on_its_way = any(each[1:3] == (row.fence, row.cursor) for each in to.messages)
    if (newer or refused) and not on_its_way:
        return "what is of a newer release is handed on"
    return None
