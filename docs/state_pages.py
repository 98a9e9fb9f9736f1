"""Generated pages about states: those of nodes, operations, steps and rollouts."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from app.api.declarations import versions
from app.lifecycle.flows import FLOWS, ProvisionFlow
from app.lifecycle.operation_states import OPERATIONS, STEPS, Origins
from app.lifecycle.provision_states import (
    MACHINE,
    VERBS,
    WITHOUT_INSTANCE,
    Event,
    Kind,
    State,
    allows,
    of_kind,
    waits_in,
)
from app.lifecycle.rollout_states import ROLLOUTS
from app.models import StepState
from docs.markdown import Lines, code, table

KINDS: Mapping[Kind, tuple[str, str]] = {
    Kind.STABLE: ("no one: the node waits for a request", "fill:#d5f0d5"),
    Kind.BUSY: ("a conductor acts; the node is reserved for it", "fill:#d5e4f7"),
    Kind.WAIT: ("the agent or the BMC acts; a deadline runs", "fill:#fdf3cf"),
    Kind.HOLD: ("an operator acts; no deadline", "fill:#ece0f6"),
    Kind.FAILED: ("an operator decides; `last_error` has the reason", "fill:#f9d9d5"),
}


def states() -> Lines:
    yield "# The states of a node\n"
    yield "Generated from one table, [app/lifecycle/provision_states.py]"
    yield "(../app/lifecycle/provision_states.py).\n"
    yield from table(
        ("kind", "actor", "states"),
        ((kind, KINDS[kind][0], code(*_in_order(of_kind(kind)))) for kind in Kind),
    )
    yield "## Transitions without failures\n"
    good = set(Event) - {Event.FAIL}
    yield from diagram(_reached(State.ENROLL, good) & of_kind(Kind.STABLE, Kind.BUSY), good)
    yield "## Each flow, with its waits, holds and failures\n"
    for busy in _in_order(of_kind(Kind.BUSY)):
        yield f"### {busy}\n"
        turns = {Event.WAIT, Event.HOLD, Event.FAIL, Event.UNHOLD}
        family = {busy, *(to for event, to in MACHINE[busy].moves.items() if event in turns)}
        yield from diagram(family, set(Event), beyond=True)
    yield "## Flows\n"
    yield "From [app/lifecycle/flows.py](../app/lifecycle/flows.py). `operations`: the kinds that"
    yield "start it, as `GET /v1/operations` has them. `event type`: of entries in the node's"
    yield "history. Options are in `[conductor]`; the last one powers the machine off after a"
    yield "failure before the first step.\n"
    yield from table(
        (
            "flow",
            "operations",
            "steps",
            "callback timeout",
            "limit",
            "fault",
            "event type",
            "power off",
        ),
        (_facts(flow) for flow in FLOWS),
    )
    yield "Effects of the end of each flow, beside the move:\n"
    yield from table(
        ("flow", "done", "failed", "aborted", "aborted in its failed state"),
        (
            (
                flow.name,
                *("; ".join(effects) for effects in (flow.on_done, flow.on_fail, flow.on_abort)),
                "; ".join(flow.on_abandon),
            )
            for flow in FLOWS
            if flow.on_done or flow.on_fail
        ),
    )
    yield "Rights of the agent in states of the flow, and transient states in which a node may be"
    yield "changed. With fast track, lookups are answered and heartbeats recorded also in"
    yield f"{code(*_in_order(WITHOUT_INSTANCE))}.\n"
    yield from table(
        ("flow", "lookup", "lookup, fast track only", "heartbeats", "booted again", "changes"),
        (_rights(flow) for flow in FLOWS if flow.changeable or flow.looks_up or flow.heard),
    )
    yield "## Verbs\n"
    yield '`PUT /v1/nodes/<node>/states/provision` with `{"target": ...}`. A node in a busy'
    yield "state is reserved. If its flow has a wait state, it takes the verbs of that state:"
    yield "`abort`, which ends the current step or follows one that must not be interrupted; the"
    yield "others only as long as the operation waits for its turn in the admission queue.\n"
    yield from table(
        ("target", "since", "in state", "in busy state", "in busy state while queued"),
        (
            (
                code(verb),
                f"1.{versions.VERBS.get(verb, versions.MIN)}",
                code(*_taking(event)),
                code(*(_busy_taking(event) if event is Event.ABORT else ())),
                code(*(_busy_taking(event) if event is not Event.ABORT else ())),
            )
            for verb, event in VERBS.items()
        ),
    )
    yield "## Every state\n"
    yield "`target`: the target provision state on entry, unless another is given. Within a flow"
    yield "it is kept, so a manual clean has the target `manageable` throughout. The last column is"
    yield "the name under which the node's history records the end of a state with success.\n"
    yield from table(
        ("state", "kind", "target", "event → next state", "recorded as"),
        (
            (
                code(state),
                row.kind,
                code(row.target) if row.target else "",
                " · ".join(f"{event} → `{to}`" for event, to in row.moves.items()),
                row.passed or "",
            )
            for state, row in MACHINE.items()
        ),
    )


def _facts(flow: ProvisionFlow) -> Iterator[str]:
    yield flow.name
    yield code(*flow.operations)
    yield flow.step_flow or ""
    yield code(flow.callback_timeout)
    yield code(flow.limit.setting) if flow.limit else ""
    yield flow.fault or ""
    yield flow.event_type
    yield code(flow.power_off_on_failure) if flow.power_off_on_failure else ""


def _rights(flow: ProvisionFlow) -> Iterator[str]:
    yield flow.name
    for kinds in (flow.looks_up, flow.looks_up_if_kept, flow.heard):
        yield code(*_in_order(flow.states(kinds)))
    yield code(flow.wait) if flow.boots_again else ""
    yield code(*_in_order(flow.states(flow.changeable)))


def diagram(sources: Iterable[State], events: set[Event], *, beyond: bool = False) -> Lines:
    """
    Draw the transitions from some states by some events, as mermaid.

    beyond: include transitions that leave these states.
    """
    sources = _in_order(sources)
    arrows = [
        (state, event, to)
        for state in sources
        for event, to in MACHINE[state].moves.items()
        if event in events and (beyond or to in sources)
    ]
    states = _in_order({*sources, *(to for _, _, to in arrows)})
    yield "```mermaid"
    yield "stateDiagram-v2"
    for state in states:
        yield f'    state "{state}" as {state.name}'
    for (state, to), group in groupby(arrows, lambda arrow: (arrow[0], arrow[2])):
        yield f"    {state.name} --> {to.name}: {', '.join(event for _, event, _ in group)}"
    for kind, (_, style) in KINDS.items():
        members = [state.name for state in states if MACHINE[state].kind is kind]
        if members:
            yield f"    classDef {kind} {style}"
            yield f"    class {', '.join(members)} {kind}"
    yield "```\n"


def _in_order(members: Iterable[State]) -> list[State]:
    return [state for state in MACHINE if state in set(members)]


def _reached(start: State, events: set[Event]) -> set[State]:
    """Return the states that are reachable from a state by some events."""
    reached, edge = set(), {start}
    while edge:
        reached |= edge
        moves = [move for state in edge for move in MACHINE[state].moves.items()]
        edge = {to for event, to in moves if event in events} - reached
    return reached


def _taking(event: Event) -> list[State]:
    return [
        state for state, row in MACHINE.items() if event in row.moves and row.kind is not Kind.BUSY
    ]


def _busy_taking(event: Event) -> list[State]:
    return [state for state in MACHINE if (waits := waits_in(state)) and allows(waits, event)]


def operation_states() -> Lines:
    yield "Of an operation; `by` lists the actors whose transactions may fire the event:\n"
    yield from table(
        ("state", "event", "next state", "by", "new fence", "when"),
        (
            (
                _before(states),
                event,
                code(row.to),
                actors,
                "yes" if row.new_fence else "",
                row.about,
            )
            for event, row in OPERATIONS.items()
            for actors, states in _by_actors(row.origins)
        ),
    )
    yield "Of a step:\n"
    yield from table(
        ("state", "event", "next state", "when"),
        (
            (_before(sorted(row.origins, key=_STEP_ORDER.index)), event, code(row.to), row.about)
            for event, row in STEPS.items()
        ),
    )


def rollout_states() -> Lines:
    yield from table(
        ("state", "event", "next state", "by", "when"),
        (
            (_before(states), event, code(row.to), actors, row.about)
            for event, row in ROLLOUTS.items()
            for actors, states in _by_actors(row.origins)
        ),
    )


_STEP_ORDER = (None, *StepState)


def _by_actors(origins: Origins) -> Iterator[tuple[str, list[str | None]]]:
    """Actors, and the states in which just they may fire an event."""
    for actors in dict.fromkeys(origins.values()):
        yield ", ".join(actors), [state for state, by in origins.items() if by == actors]


def _before(states: Iterable[str | None]) -> str:
    return ", ".join(code(state) if state else "new" for state in states)
