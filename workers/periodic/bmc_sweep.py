"""
Common part of the sweeps over a conductor's BMCs: its nodes, page by page, for several workers, and
the readers of drivers that read many machines in one event loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, select

from app.cluster import conductors
from app.cluster.hash_ring import Member, owner
from app.models import Node
from app.runtime import Runtime
from drivers.core.target import Options

Read = TypeVar("Read")

#: Most nodes per query, and most threads for BMCs whose driver has no reader for sweeps.
PAGE, THREADS = 500, 32
#: Columns that tell the owner of a node.
OWNING = (Node.id, Node.uuid, Node.driver, Node.conductor_group)
#: A query for nodes, with the columns `OWNING`.
OwnersQuery = Select[int, str, str, str]


class Readers(Generic[Read]):
    """The readers of drivers that have one for sweeps; each is opened when it is needed."""

    def __init__(self, stack: AsyncExitStack, options: Options, connections: int) -> None:
        self._stack, self._options, self._connections = stack, options, connections
        self._open: dict[Any, Read] = {}
        self._opening = asyncio.Lock()

    async def of(self, reader: Callable[[Options, int], AbstractAsyncContextManager[Read]]) -> Read:
        async with self._opening:
            if reader not in self._open:
                context = reader(self._options, self._connections)
                self._open[reader] = await self._stack.enter_async_context(context)
        return self._open[reader]


class Supply:
    """Source of nodes for several workers; reads the next page in a thread."""

    def __init__(self, pages: Iterator[Sequence[Node]]) -> None:
        self._pages = pages
        self._page: deque[Node] = deque()
        self._reading = asyncio.Lock()

    async def next(self) -> Node | None:
        """Return the next node, if there is one."""
        if not self._page:
            async with self._reading:
                if not self._page:
                    self._page.extend(await asyncio.to_thread(next, self._pages, ()))
        return self._page.popleft() if self._page else None


def owned_pages(runtime: Runtime, conductor: str, query: OwnersQuery) -> Iterator[list[int]]:
    """
    Yield the ids of a conductor's nodes in their order, those of each page of the query.

    The owner is computed here, from a few columns of all nodes.
    """
    members = conductors.members(runtime)
    last_id = 0
    while True:
        with runtime.reading() as session:
            page = query.where(Node.id > last_id).order_by(Node.id).limit(PAGE)
            rows = session.execute(page).all()
        if not rows:
            return
        yield [row.id for row in rows if is_owner(conductor, row, members)]
        last_id = rows[-1].id


def owned_ids(runtime: Runtime, conductor: str, query: OwnersQuery) -> list[int]:
    """Return the ids of all pages of `owned_pages`."""
    return [node_id for page in owned_pages(runtime, conductor, query) for node_id in page]


def whole_nodes(runtime: Runtime, pages: Iterable[Sequence[int]]) -> Iterator[Sequence[Node]]:
    """Read the nodes of pages of ids whole; they may be deleted since."""
    for ids in pages:
        query = select(Node).where(Node.id.in_(ids)).order_by(Node.id)
        with runtime.reading() as session:
            nodes = session.scalars(query).all()
        if nodes:
            yield nodes


def is_owner(conductor: str, row: Any, members: Sequence[Member]) -> bool:
    owner_member = owner(row.uuid, row.driver, row.conductor_group, members)
    return owner_member is not None and owner_member.name == conductor
