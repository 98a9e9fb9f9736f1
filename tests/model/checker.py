"""
An explicit-state model checker: every state that can be reached, breadth first.

A model is a set of initial states and a function from a state to its edges. States are hashable
values. As the search is breadth first, the trace to a violation is one of the shortest.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Edge(NamedTuple):
    """One atomic action."""

    label: str
    fair: bool  # it happens eventually if it stays possible; faults are not fair
    to: Hashable


@dataclass
class Broken(Exception):
    """An invariant is violated."""

    violation: str
    trace: list[str]  # the actions that lead to the state
    state: Hashable

    def __str__(self) -> str:
        lines = (f"{number:3}  {label}" for number, label in enumerate(self.trace, 1))
        return "\n".join([self.violation, *lines, f"     {self.state}"])


@dataclass(slots=True)
class Graph:
    """The reached states."""

    states: list[Hashable] = field(default_factory=list)
    #: for each state, how it was reached first: (index of the state before, label)
    came: list[tuple[int, str]] = field(default_factory=list)
    #: for each state, the indexes of states that lead to it by a fair action
    fairly_from: list[list[int]] = field(default_factory=list)
    edges: int = 0

    def trace(self, index: int) -> list[str]:
        labels = []
        while index >= 0:
            index, label = self.came[index]
            labels.append(label)
        return labels[::-1]


def explore(
    initial: Iterable[tuple[str, S]],
    edges: Callable[[S], Iterator[Edge]],
    wrong: Callable[[S], str | None],
    wrong_edge: Callable[[S, Edge], str | None],
    canonical: Callable[[S], S] = lambda state: state,
) -> Graph:
    """
    Explore all states that are reachable from the initial ones, (label, state). Raises Broken.

    canonical: returns the representative of the states that are equivalent to a given one.
    """
    graph, index = Graph(), {}

    def reach(state: S, came: tuple[int, str]) -> int:
        state = canonical(state)
        number = index.setdefault(state, len(graph.states))
        if number == len(graph.states):
            graph.states.append(state)
            graph.came.append(came)
            graph.fairly_from.append([])
            violation = wrong(state)
            if violation:
                raise Broken(violation, graph.trace(number), state)
        return number

    for label, state in initial:
        reach(state, (-1, label))
    at = 0
    while at < len(graph.states):
        state = graph.states[at]
        for edge in edges(state):
            graph.edges += 1
            violation = wrong_edge(state, edge)
            if violation:
                raise Broken(violation, [*graph.trace(at), edge.label], edge.to)
            to = reach(edge.to, (at, edge.label))
            if edge.fair and to != at:
                graph.fairly_from[to].append(at)
        at += 1
    return graph


def check_that_it_ends(graph: Graph, over: Callable[[S], bool]) -> None:
    """
    Check that from every state some fair continuation, without a further fault, leads to the end.

    Fair actions lead from reachable states to reachable ones. So the end stays possible after them,
    and a strongly fair system reaches it. Raises Broken.
    """
    ends = bytearray(len(graph.states))
    pending = [index for index, state in enumerate(graph.states) if over(state)]
    for index in pending:
        ends[index] = True
    while pending:
        for origin in graph.fairly_from[pending.pop()]:
            if not ends[origin]:
                ends[origin] = True
                pending.append(origin)
    stuck = ends.find(0)
    if stuck >= 0:
        raise Broken("no conductor drives the operation", graph.trace(stuck), graph.states[stuck])
