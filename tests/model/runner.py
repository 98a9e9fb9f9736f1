"""What is checked of a world."""

from collections.abc import Iterator

from tests.model.checker import Edge, Graph, check_that_it_ends, explore
from tests.model.protocol import World
from tests.model.state import State, is_ended


def check(world: World, *, alone: bool = False) -> int:
    """
    Explore a world; the number of its states. Raises Broken.

    It ends from wherever it may have come, when no more faults happen. alone: also when, at any
    moment, all messages are lost and all conductors but one die for good.
    """
    graph = explore([("start", world.start())], world.edges, world.wrong, world.wrong_edge)
    check_that_it_ends(graph, is_ended)
    if not alone:
        return len(graph.states)

    def fair(state: State) -> Iterator[Edge]:
        return (edge for edge in world.edges(state) if edge.fair)

    rest = explore(_stranded(world, graph), fair, world.wrong, world.wrong_edge)
    check_that_it_ends(rest, is_ended)
    return len(graph.states)


def _stranded(world: World, graph: Graph) -> Iterator[tuple[str, State]]:
    for index, state in enumerate(graph.states):
        if not is_ended(state):
            for label, left in world.stranded(state):
                yield f"state {index}: {label}", left
