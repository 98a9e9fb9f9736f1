"""Environment of the threads: the agent, processes, Redis, time, and the restored database."""

from collections.abc import Iterator

from app.lifecycle.operation_states import OperationEvent
from tests.model.checker import Edge
from tests.model.protocol import World
from tests.model.state import (
    ABOVE,
    ACTED,
    ADVANCED,
    CHECKED,
    CLAIMED,
    COMMAND,
    DATABASE,
    DEAD,
    EXCHANGE,
    FOOLED,
    LEASED,
    OLD,
    OVER,
    PROMOTED,
    QUEUED,
    REDIS,
    RUNNING,
    STOPPED,
    UNSURE,
    UP,
    Conductor,
    Key,
    Row,
    State,
    Thread,
    spent,
    with_conductor,
    with_thread,
)
from tests.model.threads import work

#: Positions of a thread in which it renews its lease.
KEEPING = (LEASED, UNSURE, CLAIMED, CHECKED, ACTED, ADVANCED)


def edges(world: World, state: State) -> Iterator[Edge]:
    """Yield all possible next actions."""
    if state.row.state in OVER:
        return
    for index, conductor in enumerate(state.conductors):
        yield from _fate(world, state, index, conductor)
        yield from _connections(world, state, index)
    if state.restored and not world.rows:
        return
    if any(conductor.life == UP and not conductor.lost for conductor in state.conductors):
        yield from _reconcile(world, state)
    yield from _agent(state)
    yield from _redis(world, state)
    yield from _database(world, state)
    yield from _promotion(state)
    for which in range(len(state.threads)):
        if state.conductors[world.threads[which]].life == UP:
            yield from work(world, state, which)


def _reconcile(world: World, state: State) -> Iterator[Edge]:
    """The leading beat triggers the reconciler of a conductor that reaches all it needs."""
    if not state.leaderless:
        yield from world.reconcile(state)
    elif world.without != "stepping down of a beat":
        yield Edge("another beat leads", True, state._replace(leaderless=False))
    if "beat's cut" in state.faults:
        cut = spent(state, "beat's cut")._replace(leaderless=True)
        yield Edge("fault: the leading beat loses the database or the broker", False, cut)


def _agent(state: State) -> Iterator[Edge]:
    """The agent calls after its command has ended, and sometimes before."""
    called = state._replace(row=state.row._replace(called=True))
    if state.agent == "works":
        yield Edge("agent: done, call", True, called._replace(agent="done"))
        if "impatience" in state.faults and not state.row.called:
            early = spent(called, "impatience")
            yield Edge("fault: the agent calls early", False, early)
    elif state.agent == "done" and not state.row.called and state.row.cursor == COMMAND:
        yield Edge("agent: call again", True, called)


def _redis(world: World, state: State) -> Iterator[Edge]:
    for message in state.messages if "loss" in state.faults else ():
        lost = spent(state, "loss")._replace(messages=state.messages - {message})
        yield Edge(f"fault: the message to conductor {message[0]} is lost", False, lost)
    # the witness in Redis is not lost together with the database
    if "flush" in state.faults and (state.messages or state.lease) and not state.restored:
        empty = spent(state, "flush")._replace(messages=frozenset(), lease=None, emptied=True)
        yield Edge("fault: Redis is emptied", False, empty)
    if state.lease is not None and _runs_out(world, state, state.lease):
        yield Edge("the lease runs out", True, _without_lease(world, state, state.lease))
    for which, thread in enumerate(state.threads):
        if thread.valid and state.lease != world.key(state, which):
            lapsed = with_thread(state, which, thread._replace(valid=False))
            yield Edge(f"thread {which}: its lease is not renewed", True, lapsed)


def _runs_out(world: World, state: State, lease: Key) -> bool:
    """Whether a lease expires: its holder does not run, or its step's deadline has passed."""
    conductor = state.conductors[lease[0]]
    if conductor.life != UP or conductor.incarnation != lease[1] or conductor.lost == REDIS:
        return True
    if lease != state.hung and not _is_kept(world, state, lease, KEEPING):
        return True  # giving it back has failed
    drives = _is_kept(world, state, lease, (CHECKED,))
    if conductor.lost == DATABASE and not conductor.fresh and not drives:
        return world.without != "an end to renewing without the database"
    late = lease == state.hung or lease[2] < state.row.fence
    return late and world.without != "an end to renewing"


def _is_kept(world: World, state: State, lease: Key, places: tuple[str, ...]) -> bool:
    """Whether a thread in one of these positions renews a lease; in CHECKED it calls a driver."""
    return any(
        thread.at in places and world.key(state, which) == lease
        for which, thread in enumerate(state.threads)
    )


def _without_lease(world: World, state: State, lease: Key) -> State:
    ends = world.without != "an end to trusting the lease"
    threads = tuple(
        thread._replace(valid=False) if ends and world.key(state, which) == lease else thread
        for which, thread in enumerate(state.threads)
    )
    return state._replace(lease=None, threads=threads)


def _database(world: World, state: State) -> Iterator[Edge]:
    """
    Make a backup, and restore the database from it.

    At the restore the backup is older than a conductor's timeout, and Redis has seen a conductor's
    heartbeat since.
    """
    if "restore" not in state.faults:
        return
    if not state.backed_up:
        conductors = tuple(conductor._replace(mark=OLD) for conductor in state.conductors)
        backup = state.row if world.rows else None
        backup_state = state._replace(backed_up=True, backup=backup, conductors=conductors)
        yield Edge("a backup is made", False, backup_state)
    elif any(conductor.mark == ABOVE for conductor in state.conductors):
        silent = tuple(conductor._replace(fresh=False) for conductor in state.conductors)
        restored = spent(state, "restore")._replace(
            row=state.backup or Row(),
            conductors=silent,
            backed_up=False,
            backup=None,
            restored=True,
        )
        if not world.rows:
            idle = (Thread(),) * len(state.threads)
            restored = restored._replace(
                messages=frozenset(), lease=None, hung=None, threads=idle, agent="none"
            )
        yield Edge("fault: the database is restored", False, restored)


def _fate(world: World, state: State, index: int, conductor: Conductor) -> Iterator[Edge]:
    def now(name: str, to: State, *, fair: bool, **fields: object) -> Edge:
        fault = "fault: " if fields.get("life") in (DEAD, STOPPED) else ""
        label = f"{fault}conductor {index} {name}"
        return Edge(label, fair, with_conductor(to, index, conductor._replace(**fields)))

    alone = _all_are_down(state)
    if conductor.life == UP:
        raises = state.restored or (state.backed_up and conductor.mark == OLD)
        reaches = not conductor.lost or (conductor.lost == REDIS and not state.restored)
        if reaches and (raises or conductor.answer or not conductor.fresh):
            yield from _heartbeat(world, state, index)
        if "death" in state.faults:
            killed = _killed(world, spent(state, "death"), index)
            yield now("dies", killed, fair=False, life=DEAD, answer="", lost="")
        if "stop" in state.faults:
            stopped = spent(state, "stop")._replace(stopped=True)
            yield now("is stopped", stopped, fair=False, life=STOPPED)
            if state.restored or "restore" in state.faults:
                yield now("is stopped between its read from Redis and its heartbeat", stopped,
                          fair=False, life=STOPPED, answer=_witness(state))  # fmt: skip
        return
    if conductor.fresh:
        yield now("is silent for too long", state, fair=True, fresh=False)
    if conductor.life == STOPPED:
        yield now("goes on", state, fair=alone, life=UP)
    else:
        yield from _born(world, state, index, fair=alone)


def _all_are_down(state: State) -> bool:
    """Whether no conductor reaches all it needs; some one will, in the end."""
    return not any(conductor.life == UP and not conductor.lost for conductor in state.conductors)


def _connections(world: World, state: State, index: int) -> Iterator[Edge]:
    """A conductor loses Redis or the database, has lost it, or sees that a standby was promoted."""
    conductor = state.conductors[index]

    def now(name: str, to: State, *, fair: bool, **fields: object) -> Edge:
        changed = with_conductor(to, index, conductor._replace(**fields))  # type: ignore[arg-type]
        return Edge(f"conductor {index} {name}", fair, changed)

    if conductor.life == UP and not conductor.lost:
        for fault, lost in (("Redis' cut", REDIS), ("database's cut", DATABASE)):
            if fault in state.faults:
                cut = spent(state, fault)._replace(stopped=True)
                edge = now(f"loses its {lost}", cut, fair=False, lost=lost)
                yield Edge(f"fault: {edge.label}", False, edge.to)
    if conductor.lost:
        yield now("reaches everything again", state, fair=_all_are_down(state), lost="")
    if conductor.lost == DATABASE and conductor.fresh:
        yield now("is silent for too long", state, fair=True, fresh=False)
    elif conductor.behind and conductor.life == UP and conductor.lost != DATABASE:
        aware_state = with_conductor(state, index, conductor._replace(behind=False))
        for to in _given_up(world, aware_state, index):
            yield Edge(f"conductor {index} sees the promotion", True, to)


def _given_up(world: World, state: State, index: int) -> Iterator[State]:
    """After a promotion: the claim of a conductor that makes no attempt of it is taken over."""
    row = state.row
    if row.state != RUNNING or world.without == "giving up what a promotion has lost":
        yield state
        return
    ours = row.claimed_by == (index, state.conductors[index].incarnation)
    if ours and not world.is_attempted(state):
        yield from world.taken_over(state)
    else:
        yield state


def _promotion(state: State) -> Iterator[Edge]:
    """A standby that lacks the last writes becomes the primary; no watermark shows it."""
    if "promotion" not in state.faults:
        return
    if state.backup is None:
        received = state._replace(backup=state.row)
        yield Edge("the standby receives no more writes", False, received)
        return
    behind = tuple(
        conductor._replace(behind=conductor.life != DEAD) for conductor in state.conductors
    )
    promoted = spent(state, "promotion")._replace(
        row=state.backup, backup=None, touched=False, worked=False, conductors=behind, promoted=True
    )
    yield Edge(PROMOTED, False, promoted)


def _witness(state: State) -> str:
    """Answer of Redis: whether it has seen the database with a higher mark than the backup's."""
    is_seen = state.restored or any(conductor.mark == ABOVE for conductor in state.conductors)
    return ABOVE if is_seen and (state.backed_up or state.restored) else OLD


def _heartbeat(world: World, state: State, index: int) -> Iterator[Edge]:
    """A heartbeat raises the mark: above the backup's; or it finds the restored mark low."""
    conductor = state.conductors[index]
    label = f"conductor {index} sends a heartbeat"
    alive = conductor._replace(fresh=True, answer="")
    if not state.restored:
        mark = conductor.mark if conductor.answer else ABOVE
        yield Edge(label, True, with_conductor(state, index, alive._replace(mark=mark)))
        return
    asks = conductor.answer == "" and world.without != "witness at a heartbeat"
    if asks or ABOVE in (conductor.mark, conductor.answer):
        yield from _noticed(world, state, label)
        return
    dates_from_the_question = conductor.answer and world.without != "date of the mark"
    mark = conductor.mark if dates_from_the_question else FOOLED
    yield Edge(label, True, with_conductor(state, index, alive._replace(mark=mark)))


def _noticed(world: World, state: State, label: str) -> Iterator[Edge]:
    """The database is declared restored: for all nodes; or for those that it may be wrong about."""
    yield Edge(f"{label}; all nodes in doubt", True, world.over(state, OperationEvent.RESTORE))
    row = state.row
    in_doubt = state.touched or row.state == RUNNING or (row.state == QUEUED and row.admitted)
    if world.rows and not in_doubt and not world.unaware:
        newest = tuple(conductor._replace(mark=ABOVE) for conductor in state.conductors)
        new_state = state._replace(restored=False, worked=False, conductors=newest)
        yield Edge(f"{label}; this node is not in doubt", True, new_state)


def _born(world: World, state: State, index: int, *, fair: bool) -> Iterator[Edge]:
    """A conductor starts again, and registers; it may have become one of the other release."""
    label = f"conductor {index} starts again"
    if state.restored and world.without != "witness at the start":
        yield from (edge._replace(fair=fair) for edge in _noticed(world, state, label))
        return
    old = state.conductors[index]
    mark = FOOLED if state.restored else ABOVE
    new = Conductor(incarnation=old.incarnation + 1, release=old.release, mark=mark)
    yield Edge(label, fair, with_conductor(state, index, new))
    if EXCHANGE in state.faults:
        other = new._replace(release=3 - old.release)
        became = with_conductor(spent(state, EXCHANGE), index, other)
        yield Edge(f"fault: {label} as release {other.release}", False, became)


def _killed(world: World, state: State, index: int) -> State:
    """State after the death of a conductor: its memory is lost."""
    threads = tuple(
        Thread() if world.threads[which] == index else thread
        for which, thread in enumerate(state.threads)
    )
    hung = None if state.hung and state.hung[0] == index else state.hung
    return state._replace(threads=threads, hung=hung)


def stranded(world: World, state: State) -> Iterator[tuple[str, State]]:
    """All messages are lost and all conductors but one die; no fault follows."""
    for index, conductor in enumerate(state.conductors):
        if conductor.life != UP:
            continue
        stranded_state = state._replace(messages=frozenset(), faults=())
        stranded_state = with_conductor(stranded_state, index, conductor._replace(lost=""))
        for other, victim in enumerate(state.conductors):
            if other != index:
                dead = victim._replace(life=DEAD, answer="", lost="")
                stranded_state = with_conductor(_killed(world, stranded_state, other), other, dead)
        yield f"only conductor {index} is left", stranded_state
