"""Checks of a world."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from tests.model import invariants, surroundings
from tests.model.checker import Edge, Graph, check_that_it_ends, explore
from tests.model.protocol import World
from tests.model.state import State
from tests.model.symmetry import canonical


def check(world: World, *, alone: bool = False) -> int:
    """
    Explore a world; return the number of its states. Raises Broken.

    The operation must end from every state without further faults. alone: also if, at any moment,
    all messages are lost and all conductors but one die for good.
    """
    graph = reached(world, [("start", world.start())])
    check_that_it_ends(graph, world.settled)
    if alone:
        stranded_graph = reached(world, _stranded(world, graph), fairly=True)
        check_that_it_ends(stranded_graph, world.settled)
    return len(graph.states)


def reached(
    world: World,
    initial: Iterable[tuple[str, State]],
    *,
    fairly: bool = False,
    one: Callable[[State], State] = canonical,
) -> Graph:
    """
    Explore all reachable states. Raises Broken.

    fairly: only by fair actions. one: returns the representative of equivalent states.
    """

    def edges(state: State) -> Iterator[Edge]:
        every = surroundings.edges(world, state)
        return (edge for edge in every if edge.fair) if fairly else every

    wrong, wrong_edge = partial(invariants.wrong, world), partial(invariants.wrong_edge, world)
    return explore(initial, edges, wrong, wrong_edge, one)


def _stranded(world: World, graph: Graph) -> Iterator[tuple[str, State]]:
    for index, state in enumerate(graph.states):
        assert isinstance(state, State)
        if not world.settled(state):
            for label, stranded_state in surroundings.stranded(world, state):
                yield f"state {index}: {label}", stranded_state
