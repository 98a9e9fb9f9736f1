"""
Restoring consoles: a console runs on the conductor that has started it, and ends with that.

When a conductor has started, stopped or died, the consoles of nodes that have another owner now are
started again by that owner.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.db.prepared import Prepared
from app.db.transactions import connection_of
from app.engine import management
from app.engine.records.driver_reports import CONSOLE_CONDUCTOR
from app.errors import Unavailable
from app.identity.caller import Caller
from app.lifecycle.operation_states import Actor
from app.models import Fault, Node
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)

_SYSTEM = Caller(user_id="console-restore")
_ENABLED = select(Node).where(Node.console_enabled, Node.fault.is_distinct_from(Fault.RESTORED))
_ENABLED_ONE = Prepared(select(Node.id).where(Node.console_enabled).limit(1))


class Consoles:
    """Restores consoles when the set of live conductors has changed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._settled: frozenset[str] | None = None  # conductors whose consoles all run

    def restore(self) -> int:
        """Start consoles whose conductor has changed; return how many."""
        incarnations = frozenset(member.incarnation for member in conductors.members(self._runtime))
        if incarnations == self._settled:
            return 0
        with self._runtime.reading() as session:
            enabled_row = _ENABLED_ONE.first(connection_of(session), {})
            enabled = session.scalars(_ENABLED) if enabled_row else ()
            lost_nodes = [node.id for node in enabled if _is_lost(session, node)]
        started = sum(self._start(node_id) for node_id in lost_nodes)
        if started:
            logger.info("consoles.restored", count=started)
        if started == len(lost_nodes):  # else nodes are busy: the next pass tries again
            self._settled = incarnations
        return started

    def _start(self, node_id: int) -> bool:
        with self._runtime.transaction(Actor.PERIODIC) as session:
            node = session.scalar(_ENABLED.where(Node.id == node_id).with_for_update())
            if node is None or node.reservation is not None or not _is_lost(session, node):
                return False
            management.restore_console(session, node, _SYSTEM)
            return True


def _is_lost(session: Session, node: Node) -> bool:
    """Whether the node has an owner that has not started its console."""
    try:
        owner = conductors.owner_of(session, node)
    except Unavailable:
        return False
    return bool(node.driver_internal_info.get(CONSOLE_CONDUCTOR) != owner.incarnation)
