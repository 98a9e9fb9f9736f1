"""
Recordings: the exchanges of a node's operations with its BMC, while that is switched on.

A key of the node's `driver_internal_info` is the switch, so that a step of any other node costs no
query. The end of a recording is a time of the database's clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from app.db.clock import moment
from app.errors import Invalid
from app.hardware import targets
from app.models import BmcExchanges, Node, Operation, OperationStep
from app.runtime import Runtime, runtime_of
from drivers.core.errors import HardwareError
from drivers.core.recording.traffic import Exchange, Traffic

#: Key of `driver_internal_info`: {"until": time in ISO format}.
SWITCH = "bmc_recording"
#: Longest time, in minutes, that a recording is on.
LONGEST = 24 * 60
#: Limits of a node's recording: exchanges, and bytes of their bodies.
MOST, MOST_BYTES = 5000, 8 << 20
#: Seconds after which recorded exchanges are deleted.
KEPT = 2 * 86400


@dataclass(frozen=True, slots=True)
class Recording:
    """The recording of a node."""

    until: datetime | None  # None: it is off
    left_out: int  # exchanges, or bodies, above the limits
    exchanges: Sequence[Exchange]  # with `operation` and `step`, in their order


def is_on(node: Node) -> bool:
    """Whether the exchanges of a node's steps are to be recorded; `keep` looks at the time."""
    return SWITCH in node.driver_internal_info


def start(session: Session, node: Node, minutes: int) -> datetime:
    """
    Record the node's operations for some minutes; delete what is recorded. Return the end.

    Raises Invalid: no interface of the node records what it exchanges.
    """
    try:
        interfaces = targets.driver_of(runtime_of(session), node).by_kind.values()
    except HardwareError as error:
        raise Invalid(str(error)) from error
    if not any(interface.records_exchanges for interface in interfaces):
        raise Invalid(
            f"Node {node.uuid} has no interface redfish or of its kin, so that no exchange with its"
            " BMC can be recorded."
        )
    _clear(session, node)
    until = moment(session) + timedelta(minutes=minutes)
    node.driver_internal_info = {**node.driver_internal_info, SWITCH: {"until": until.isoformat()}}
    return until


def stop(session: Session, node: Node) -> None:
    """Record no more, and delete what is recorded."""
    _clear(session, node)
    _switch_off(node)


def of_node(session: Session, node: Node) -> Recording:
    """Return what is recorded."""
    rows = session.scalars(
        select(BmcExchanges).where(BmcExchanges.node_id == node.id).order_by(BmcExchanges.id)
    ).all()
    until = _until(node)
    return Recording(
        until if until and until > moment(session) else None,
        sum(row.left_out for row in rows),
        [
            {"operation": row.operation, "step": row.step, **exchange}
            for row in rows
            for exchange in row.exchanges
        ],
    )


def keep(
    runtime: Runtime, node: Node, operation: Operation, step: OperationStep, traffic: Traffic
) -> None:
    """Keep what a step has exchanged, within the limits, unless the recording is over."""
    if not (traffic.exchanges or traffic.left_out):
        return
    with runtime.transaction() as session:
        row = session.get(Node, node.id, with_for_update=True)
        if row is None or (until := _until(row)) is None:
            return
        if until <= moment(session):
            _switch_off(row)
            return
        count, size = session.execute(
            select(
                func.coalesce(func.sum(func.json_array_length(BmcExchanges.exchanges)), 0),
                func.coalesce(func.sum(BmcExchanges.size), 0),
            ).where(BmcExchanges.node_id == node.id)
        ).one()
        fits = count + len(traffic.exchanges) <= MOST and size + traffic.size <= MOST_BYTES
        session.add(
            BmcExchanges(
                node_id=node.id,
                operation=operation.uuid,
                step=step.label,
                size=traffic.size if fits else 0,
                left_out=traffic.left_out + (0 if fits else len(traffic.exchanges)),
                exchanges=traffic.exchanges if fits else [],
            )
        )


def _until(node: Node) -> datetime | None:
    """Return the end of a node's recording; None: it is off."""
    switch: Any = node.driver_internal_info.get(SWITCH)
    return datetime.fromisoformat(switch["until"]) if switch else None


def _switch_off(node: Node) -> None:
    info = node.driver_internal_info
    node.driver_internal_info = {key: info[key] for key in info if key != SWITCH}


def _clear(session: Session, node: Node) -> None:
    session.execute(delete(BmcExchanges).where(BmcExchanges.node_id == node.id))
