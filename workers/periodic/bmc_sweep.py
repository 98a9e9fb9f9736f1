"""
Common part of the sweeps over a conductor's BMCs: its nodes, page by page, for several workers, and
the readers of drivers that read many machines in one event loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

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
#: Returns the query for the nodes after an id, with the columns `OWNING`.
OwnersQuery = Select[int, str, str, str]
QueryAfter = Callable[[int], OwnersQuery]


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


def pages(runtime: Runtime, conductor: str, query_after: QueryAfter) -> Iterator[Sequence[Node]]:
    """
    Yield pages of a conductor's nodes, in the order of their ids.

    The owner is computed here, from a few columns of all nodes; only its own nodes are read whole.
    """
    members = conductors.members(runtime)
    last_id: int | None = 0
    while last_id is not None:
        with runtime.reading() as session:
            ids, last_id = _owned_ids(session, conductor, members, query_after(last_id))
            page = whole_nodes(session, ids)
        if page:
            yield page


def owned_ids(runtime: Runtime, conductor: str, query_after: QueryAfter) -> list[int]:
    """Return the ids of all nodes that `pages` would yield."""
    members = conductors.members(runtime)
    all_ids: list[int] = []
    last_id: int | None = 0
    while last_id is not None:
        with runtime.reading() as session:
            ids, last_id = _owned_ids(session, conductor, members, query_after(last_id))
        all_ids += ids
    return all_ids


def whole_nodes(session: Session, ids: Sequence[int]) -> Sequence[Node]:
    """Read nodes whole, in the order of their ids."""
    return session.scalars(select(Node).where(Node.id.in_(ids)).order_by(Node.id)).all()


def _owned_ids(
    session: Session, conductor: str, members: Sequence[Member], query: OwnersQuery
) -> tuple[list[int], int | None]:
    """Return the conductor's ids in a page of nodes, and the last id of the page, if any."""
    rows = session.execute(query.order_by(Node.id).limit(PAGE)).all()
    ids = [row.id for row in rows if is_owner(conductor, row, members)]
    return ids, rows[-1].id if rows else None


def is_owner(conductor: str, row: Any, members: Sequence[Member]) -> bool:
    owner_member = owner(row.uuid, row.driver, row.conductor_group, members)
    return owner_member is not None and owner_member.name == conductor
