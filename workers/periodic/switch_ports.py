"""
Comparison of switch ports with the last orders for them: `why` tells of changes by others.

Each switch is read once in a pass, in one session. A node that is reserved, or whose ports have got
another order meanwhile, is left to the next pass.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select

from app.cluster import conductors
from app.db.clock import now
from app.db.item_isolation import isolated
from app.db.prepared import Prepared
from app.hardware import switching
from app.inventory import history
from app.lifecycle.operation_states import Actor
from app.models import Node, Port, Switch
from app.observe import log
from app.runtime import Runtime
from drivers.builtin import switch_ports
from drivers.core.errors import HardwareError
from workers.periodic import bmc_sweep

logger = log.get(__name__)

_NETWORK = "switch"  # name of the network interface
#: A switch: without one there is nothing to compare.
SWITCH_ONE = Prepared(select(Switch.__table__.c.id).limit(1))


class OrderedPort(NamedTuple):
    """A port of a node, and what was ordered for its switch port."""

    id: int
    node_id: int
    order: Mapping[str, Any]  # {switch, port, mode, network?}


def check(runtime: Runtime, conductor: str) -> dict[str, int]:
    """
    Compare the switch ports of a conductor's nodes; count those that agree, differ, and are unread.
    """
    counts = {"agree": 0, "differ": 0, "unread": 0}
    by_switch: dict[str, list[OrderedPort]] = defaultdict(list)
    for port in _ordered_ports(runtime, conductor):
        by_switch[port.order["switch"]].append(port)
    for name, ports in by_switch.items():
        with isolated("switch.check_failed", switch=name):
            for result, count in _check_switch(runtime, name, ports).items():
                counts[result] += count
    return counts


def _ordered_ports(runtime: Runtime, conductor: str) -> Iterator[OrderedPort]:
    """Yield the ports of the conductor's idle nodes whose switch ports have an order."""
    members = conductors.members(runtime)
    query = (
        select(
            Port.id, Port.node_id, Port.internal_info, Node.uuid, Node.driver, Node.conductor_group
        )
        .join(Node, Node.id == Port.node_id)
        .where(Node.network_interface == _NETWORK, Node.reservation.is_(None))
        .order_by(Port.id)
    )
    with runtime.reading() as session:
        for row in session.execute(query):
            order = row.internal_info.get(switch_ports.ORDERED)
            if order and bmc_sweep.is_owner(conductor, row, members):
                yield OrderedPort(row.id, row.node_id, order)


def _check_switch(runtime: Runtime, name: str, ports: Sequence[OrderedPort]) -> dict[str, int]:
    """Read a switch, and record which of its ports differ from their orders."""
    with runtime.reading() as session:
        row = session.scalar(select(Switch).where(Switch.name == name))
        switch = None if row is None else switching.of_row(row)
    if switch is None:
        return {"unread": len(ports)}
    options = runtime.settings.options()[switch_ports.GROUP]
    try:
        modes = switch_ports.read(options, switch, [port.order["port"] for port in ports])
    except HardwareError as error:
        logger.warning("switch.unread", switch=name, detail=str(error))
        return {"unread": len(ports)}
    counts = {"agree": 0, "differ": 0}
    for port in ports:
        drift = switch_ports.drift(port.order, modes[port.order["port"]])
        counts["differ" if drift else "agree"] += 1
        _record(runtime, port, drift)
    return counts


def _record(runtime: Runtime, checked_port: OrderedPort, drift: str | None) -> None:
    """Record what a port differs in, or that it agrees again."""
    with runtime.transaction(Actor.PERIODIC) as session:
        node = session.get(Node, checked_port.node_id, with_for_update=True)
        port = session.get(Port, checked_port.id, with_for_update=True)
        if node is None or port is None or node.reservation is not None:
            return
        info = port.internal_info
        has_new_order = info.get(switch_ports.ORDERED) != checked_port.order
        if has_new_order or info.get(switch_ports.DRIFT) == drift:
            return
        changed_info = {**info, switch_ports.DRIFT: drift}
        port.internal_info = {
            key: value for key, value in changed_info.items() if value is not None
        }
        port.updated_at = now()
        if drift:
            history.add(session, node, "network", f"Port {port.address}: {drift}", "ERROR")
            logger.warning("switch.drift", node=node.uuid, port=port.uuid, detail=drift)
