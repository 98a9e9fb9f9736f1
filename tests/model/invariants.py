"""Invariants of states and of actions; each violation has the words of docs/protocol.md."""

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
    IDLE,
    LEASED,
    NEXT_LINK,
    OVER,
    PROMOTED,
    QUEUED,
    REFUSED,
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
    """Return the violation in a state, if any."""
    row = state.row
    if state.restored and not world.rows:
        return _might_be_written(world, state)
    if row.state != QUEUED and not row.admitted:
        return "a claim before the admission"
    if row.reserved != (row.state in BUSY):
        return "the reservation does not match the operation's state"
    if (row.state == RUNNING) != (row.claimed_by is not None and row.state not in (WAITING, *OVER)):
        return "a running operation has no claimant, or another operation has one"
    holders = sum(
        thread.at in ATTEMPTING and world.holds(row, which, thread)
        for which, thread in enumerate(state.threads)
    )
    if holders > 1:
        return "two attempts may record"
    if sum(thread.valid for thread in state.threads) > 1 and not state.emptied:
        return "two threads trust their lease"  # an emptied Redis may grant a second one
    if row.state == RUNNING and not holders and not _is_abandoned(state):
        return "a claim of a live process has no attempt"
    return None


def _might_be_written(world: World, state: State) -> str | None:
    """Return the violation for any content of the restored rows."""
    for which, conductor in enumerate(world.threads):
        sure = any(world.trusts(state, which, where) for where in ("claim", "record"))
        if sure and state.conductors[conductor].life == UP:
            return "a conductor trusts a restored database"
    return None


def _is_abandoned(state: State) -> bool:
    """Whether a claim may lack its attempt: claimant dead or hung, or its lease lost to another."""
    claimant = state.row.claimed_by
    assert claimant is not None
    conductor = state.conductors[claimant[0]]
    died = conductor.life == DEAD or conductor.incarnation != claimant[1]
    hung = state.hung == (*claimant, state.row.fence)
    return died or hung or conductor.behind or state.emptied or state.stopped or state.restored


def wrong_edge(world: World, state: State, edge: Edge) -> str | None:  # noqa: C901 - one branch per invariant
    """Return the violation by an action, if any."""
    to = edge.to
    assert isinstance(to, State)
    if (to.restored and not state.restored) or edge.label == PROMOTED:
        return None  # the rows are those of the backup
    if state.restored and not to.restored and state.worked and to.row.state not in OVER:
        return "an operation with work since the backup continues"
    new_messages = to.messages - state.messages
    # the next link follows an admitted claim, even if a restored row says otherwise
    follows = edge.label.endswith(NEXT_LINK)
    claimable = any(fence == to.row.fence for _, fence, *_ in new_messages)
    if claimable and not (
        to.row.admitted or world.unaware or ((state.restored or state.promoted) and follows)
    ):
        return "an operation is sent before its admission"
    violation = None if to.row is state.row else _wrong_in_the_row(state, to)
    if violation:
        return violation
    for to_whom, *_ in new_messages if world.needs > 1 else ():
        if to.conductors[to_whom].release < world.needs:
            return "a message to a conductor that does not understand it"
    for which, (then, now) in enumerate(zip(state.threads, to.threads, strict=True)):
        if then is now:
            continue
        violation = _wrong_with_a_thread(world, state, to, which, then, now)
        if not violation and edge.label.removeprefix("fault: ").startswith(f"thread {which}:"):
            violation = _wrong_in_the_record(state, to, which, then) or _dropped(
                world, state, to, which
            )
        if violation:
            return violation
    return None


def _wrong_in_the_row(state: State, to: State) -> str | None:
    before, after = state.row, to.row
    if after.fence < before.fence:
        return "the fence decreases"
    dispatched = after.state == QUEUED and before.state in (RUNNING, WAITING) and (
        after.claimed_by is None and after.claim is None
    )  # fmt: skip
    if dispatched and after.fence == before.fence:
        return "two dispatches have one fence"
    if after.cursor != before.cursor:
        went_back = after.cursor < before.cursor and after.fence > before.fence
        if not (went_back or after.cursor == before.cursor + 1):
            return "the cursor skips a step, or goes back under the same fence"
    return None


def _wrong_with_a_thread(  # noqa: C901 - one branch per invariant
    world: World, state: State, to: State, which: int, then: Thread, now: Thread
) -> str | None:
    row, conductor = state.row, state.conductors[world.threads[which]]
    if then.at == LEASED and now.at in (CLAIMED, UNSURE):
        if state.restored:
            return "a claim in a restored database"
        if then.fence != row.fence:
            return "a message of an old fence claims"
        if then.cursor != row.cursor:
            return "the claimed step is not the message's"
        if row.state != QUEUED:
            return "a claimed step is claimed again"
        if not world.understands(conductor):
            return "an operation of a newer release is claimed"
    if then.at == CLAIMED and now.at == CHECKED:
        if not then.valid and to.lease != world.key(state, which):
            return "an order is given without a lease"
        if not then.valid and then.fence != row.fence:
            return "a conductor that was declared dead gives more than its pending order"
    if then.at == IDLE and now.at == GOT and world.needs > 1:
        messages = _taken(world, state, to, which)
        if any(message[3] > conductor.release for message in messages):
            return "a message of a newer release is read"
    return None


def _wrong_in_the_record(state: State, to: State, which: int, then: Thread) -> str | None:
    before, after = state.row, to.row
    if then.at not in (ACTED, FREED) or after.recorded_cursor == before.recorded_cursor:
        return None
    if state.restored:
        return "a record in a restored database"
    if before.claim != token(which, then) or before.fence != then.fence:
        return "a stale attempt records"
    if before.recorded_cursor >= then.cursor:
        return "a step is recorded twice per dispatch"
    return None


def _taken(world: World, state: State, to: State, which: int) -> frozenset[Message]:
    mine = world.threads[which]
    return frozenset(message for message in state.messages - to.messages if message[0] == mine)


def _dropped(world: World, state: State, to: State, which: int) -> str | None:
    """Return the violation if an operation is dropped although a capable conductor exists."""
    then, now, row = state.threads[which], to.threads[which], to.row
    if world.needs == 1 or row.state != QUEUED or not row.admitted or not world.able(state):
        return None
    release = state.conductors[world.threads[which]].release
    newer = then.at == now.at == IDLE and any(
        message[3] > release for message in _taken(world, state, to, which)
    )
    refused = then.at == REFUSED and now.at == IDLE and release < world.needs
    on_its_way = any(message[1:3] == (row.fence, row.cursor) for message in to.messages)
    if (newer or refused) and not on_its_way:
        return "an operation of a newer release is not redispatched"
    return None
