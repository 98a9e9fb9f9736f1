"""
Equivalence of states: states are equivalent if they differ in names only.

Only the order of fences counts; conductors with a thread each are interchangeable; values that are
never read again are cleared.
"""

from collections.abc import Mapping

from tests.model.state import (
    ATTEMPTING,
    IDLE,
    QUEUED,
    Row,
    State,
    Thread,
    token,
)


def canonical(state: State) -> State:
    """Return the representative of all states that differ from this one in names only."""
    state = _renumbered_from_one(_forgetful(state))
    if len(state.threads) != len(state.conductors):
        return state
    one, two = zip(state.conductors, state.threads, strict=True)
    if one < two:
        return state
    return _swapped(state) if two < one else min(state, _swapped(state), key=_order)


def _forgetful(state: State) -> State:
    row = _of_use(state, state.row)
    backup = state.backup and _of_use(state, state.backup)
    if row is state.row and backup is state.backup:
        return state
    return state._replace(row=row, backup=backup)


def _of_use(state: State, row: Row) -> Row:
    """Clear the token of an attempt that is over, and a call that the next claim resets."""
    if row.claim is not None and not any(
        thread.at in ATTEMPTING and token(which, thread) == row.claim
        for which, thread in enumerate(state.threads)
    ):
        row = row._replace(claim=None)
    if row.called and row.state == QUEUED:
        row = row._replace(called=False)
    return row


def _renumbered_from_one(state: State) -> State:
    """
    Renumber the fences without gaps, from 1.

    Gaps are kept for a row that was or may be restored: it is dispatched that many times before its
    fence equals a known one.
    """
    used = {row.fence for row in (state.row, state.backup) if row}
    used.update([row.claim[1] for row in (state.row, state.backup) if row and row.claim])
    used.update([thread.fence for thread in state.threads if thread.at != IDLE])
    used.update([message[1] for message in state.messages])
    used.update([lease[2] for lease in (state.lease, state.hung) if lease])
    least = min(used)
    if least == 1 and len(used) == max(used):
        return state
    if state.backup or max(used) > state.row.fence:
        if least == 1:
            return state
        return _renumbered(state, {fence: fence - least + 1 for fence in used})
    return _renumbered(state, {fence: at for at, fence in enumerate(sorted(used), 1)})


def _renumbered(state: State, new: Mapping[int, int]) -> State:
    def of_row(row: Row) -> Row:
        claim = row.claim and (row.claim[0], new[row.claim[1]], row.claim[2])
        return row._replace(fence=new[row.fence], claim=claim)

    def of_thread(thread: Thread) -> Thread:
        return thread if thread.at == IDLE else thread._replace(fence=new[thread.fence])

    return state._replace(
        row=of_row(state.row),
        backup=state.backup and of_row(state.backup),
        messages=frozenset(
            (message[0], new[message[1]], *message[2:]) for message in state.messages
        ),
        lease=state.lease and (*state.lease[:2], new[state.lease[2]]),
        hung=state.hung and (*state.hung[:2], new[state.hung[2]]),
        threads=tuple(map(of_thread, state.threads)),
    )


def _swapped(state: State) -> State:
    """Exchange the names of the two conductors, and of their threads."""

    def of_row(row: Row) -> Row:
        claimant, claim = row.claimed_by, row.claim
        return row._replace(
            claimed_by=claimant and (1 - claimant[0], claimant[1]),
            claim=claim and (1 - claim[0], *claim[1:]),
        )

    return state._replace(
        row=of_row(state.row),
        backup=state.backup and of_row(state.backup),
        messages=frozenset((1 - message[0], *message[1:]) for message in state.messages),
        lease=state.lease and (1 - state.lease[0], *state.lease[1:]),
        hung=state.hung and (1 - state.hung[0], *state.hung[1:]),
        threads=state.threads[::-1],
        conductors=state.conductors[::-1],
    )


def _order(state: State) -> tuple[object, ...]:
    """Sort key of states whose conductors and threads are equal."""
    row, backup = state.row, state.backup
    return (
        row.claimed_by or (), row.claim or (), state.lease or (), state.hung or (),
        sorted(state.messages), backup and (backup.claimed_by or (), backup.claim or ()),
    )  # fmt: skip
