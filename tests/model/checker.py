"""
An explicit-state model checker: every state that can be reached, breadth first.

A model is a set of initial states and a function from a state to its edges. States are hashable
values. As the search is breadth first, the trace to what is wrong is one of the shortest.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Edge(NamedTuple):
    """
    One atomic action. fair: it happens in the end when it stays possible, without anybody's doing;
    faults, and what merely may happen, are not fair.
    """

    label: str
    fair: bool
    to: Hashable


@dataclass
class Broken(Exception):
    """An invariant does not hold; trace: the actions that lead there, and the state."""

    what: str
    trace: list[str]
    state: Hashable

    def __str__(self) -> str:
        lines = (f"{number:3}  {label}" for number, label in enumerate(self.trace, 1))
        return "\n".join([self.what, *lines, f"     {self.state}"])


@dataclass(slots=True)
class Graph:
    """What was reached. came: how each state was reached first, (index of the one before, label)."""

    states: list[Hashable] = field(default_factory=list)
    came: list[tuple[int, str]] = field(default_factory=list)
    #: for each state, those that lead to it by a fair action
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
    All that is reachable from the initial states, each with a label. Raises Broken.

    canonical: the state that stands for all that cannot be told from a given one.
    """
    graph, index = Graph(), {}

    def reach(state: S, came: tuple[int, str]) -> int:
        state = canonical(state)
        known = index.setdefault(state, len(graph.states))
        if known == len(graph.states):
            graph.states.append(state)
            graph.came.append(came)
            graph.fairly_from.append([])
            what = wrong(state)
            if what:
                raise Broken(what, graph.trace(known), state)
        return known

    for label, state in initial:
        reach(state, (-1, label))
    at = 0
    while at < len(graph.states):
        state = graph.states[at]
        for edge in edges(state):
            graph.edges += 1
            what = wrong_edge(state, edge)
            if what:
                raise Broken(what, [*graph.trace(at), edge.label], edge.to)
            to = reach(edge.to, (at, edge.label))
            if edge.fair and to != at:
                graph.fairly_from[to].append(at)
        at += 1
    return graph


def check_that_it_ends(graph: Graph, over: Callable[[S], bool]) -> None:
    """
    From every state some fair continuation, without a further fault, leads to the end.

    Fair actions lead from reachable states to reachable ones. So wherever they have led, the end
    stays possible, and who is strongly fair gets there. Raises Broken.
    """
    ends = bytearray(len(graph.states))
    pending = [index for index, state in enumerate(graph.states) if over(state)]
    for index in pending:
        ends[index] = True
    while pending:
        for before in graph.fairly_from[pending.pop()]:
            if not ends[before]:
                ends[before] = True
                pending.append(before)
    stuck = ends.find(0)
    if stuck >= 0:
        raise Broken("nobody drives it", graph.trace(stuck), graph.states[stuck])
