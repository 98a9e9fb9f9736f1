"""
Inspection reports of agents: match a report to its node, store it, resume the inspection.

A report is stored until the inspection has ended. Hooks and rules run later, in a step of the
inspect interface (`app.inspection`), on a copy of the report; their results are written in the
transaction that ends the step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.agents import lookup
from app.broker.refused_lookups import MOST_MACS
from app.db.clock import age, now
from app.engine import dispatch, operations, wake
from app.errors import Invalid, NotFound, ServiceError
from app.identity.caller import Caller
from app.inventory import nodes
from app.lifecycle.flows import INSPECT
from app.lifecycle.provision_states import State
from app.models import (
    ACTIVE,
    AgentRecord,
    InspectionReport,
    Node,
    Operation,
    OperationKind,
    Port,
)
from app.observe import log
from app.planning import planning
from app.runtime import Runtime, runtime_of
from drivers.core.errors import HardwareError
from drivers.core.interface_kinds import Inspect

logger = log.get(__name__)
seldom = log.RateLimited(logger)

HOUR = 3600
REPORT_STATES = tuple(INSPECT.under_way.values())
#: BMC addresses in an inventory that mean "none found".
NO_BMC_ADDRESS = (None, "", "0.0.0.0", "::/0", "::")  # noqa: S104 - nothing listens there


def receive(
    session: Session,
    report: Mapping[str, Any],
    macs: Sequence[str],
    node_uuid: str | None,
    *,
    with_token: bool,
    caller: str | None = None,
) -> tuple[Node, str | None]:
    """
    Store the report of an agent ({inventory, ...}), and resume the inspection of its node.

    Returns the node and, `with_token`, the agent's token as a lookup returns it. `caller` is the
    address that sent the report.

    Raises Invalid: the report identifies no machine.
    Raises NotFound: no node expects the report; one text for all reasons.
    Raises NodeLocked: the agent has no token yet, and an operation holds the node.
    """
    reported_addresses = (
        report["inventory"].get(name) for name in ("bmc_address", "bmc_v6address")
    )
    addresses = {address for address in reported_addresses if address not in NO_BMC_ADDRESS}
    if not macs and not addresses and not node_uuid:
        raise Invalid("No lookup information provided")
    node_id = _find_node(session, macs, addresses, node_uuid)
    discovers = node_id is None and runtime_of(session).settings.auto_discovery.enabled
    query = select(Node).where(Node.id == node_id).with_for_update()
    node = _enroll(session) if discovers else session.scalar(query)
    if node is None or not (discovers or _expects(session, node)):
        seldom.warning(
            "inspection.report_refused",
            macs=list(macs[:MOST_MACS]),
            count=len(macs),
            bmc=sorted(addresses),
            address=caller,
        )
        raise _not_found()
    _store(session, node, report)
    token = lookup.token(session, node, caller) if with_token else None
    session.flush()
    if discovers:
        plan = planning.method_call("inspect", "process", {})
        dispatch.start(session, node, OperationKind.DISCOVERY, plan, {}, Caller())
    else:
        wake.resume_on_heartbeat(session, node.id)
    return node, token


def check_expected(runtime: Runtime) -> None:
    """
    Check that some node is inspected, or that unknown machines are enrolled.

    Raises NotFound.
    """
    if runtime.settings.auto_discovery.enabled:
        return
    with runtime.reading() as session:
        inspected = select(Node.id).where(Node.provision_state.in_(REPORT_STATES)).limit(1)
        if session.scalar(inspected) is None:
            raise _not_found()


def _enroll(session: Session) -> Node:
    """
    Create a node for an unknown machine (`[auto_discovery]`).

    Raises NotFound: too many were created, or the settings are wrong; the log has the reason, an
    unknown caller does not get it.
    """
    if limit := _reached_limit(session):
        seldom.warning("inspection.discovery_limited", setting=f"[auto_discovery]{limit}")
        raise _not_found()
    fields = {
        "driver": runtime_of(session).settings.auto_discovery.driver,
        "inspect_interface": "agent",
    }
    try:
        node = nodes.create(session, fields, State.ENROLL)
    except (ServiceError, HardwareError) as error:
        logger.error("inspection.discovery_failed", detail=str(error))  # noqa: TRY400 - no defect
        raise _not_found() from None
    logger.info("inspection.discovered", node=node.uuid)
    return node


def _reached_limit(session: Session) -> str | None:
    """Return the setting that forbids to enroll another machine, if one does."""
    settings = runtime_of(session).settings.auto_discovery
    discovered = select(func.count(Operation.node_id.distinct())).where(
        Operation.kind == OperationKind.DISCOVERY
    )
    of_hour = discovered.where(age(Operation.created_at) < HOUR)
    if settings.max_per_hour and session.scalars(of_hour).one() >= settings.max_per_hour:
        return "max_per_hour"
    enrolled = discovered.join(Node, Node.id == Operation.node_id).where(
        Node.provision_state == State.ENROLL
    )
    if settings.max_enrolled and session.scalars(enrolled).one() >= settings.max_enrolled:
        return "max_enrolled"
    return None


def _not_found() -> NotFound:
    return NotFound("node", "", "Resource could not be found: no node expects this report.")


def _find_node(
    session: Session, macs: Sequence[str], addresses: set[str], node_uuid: str | None
) -> int | None:
    """
    Return the id of the node that has this UUID, these MAC addresses and this BMC.

    None if none of them belongs to a node.

    Raises NotFound: they belong to different nodes.
    """
    by_uuid = select(Node.id).where(Node.uuid == node_uuid)
    by_mac = select(Port.node_id).where(Port.address.in_(macs)).distinct()
    node_ids = set(session.scalars(by_uuid)) if node_uuid else set()
    owners = set(session.scalars(by_mac)) if macs else set()
    if (node_uuid and not node_ids) or len(node_ids | owners) > 1:
        raise _not_found()
    node_ids |= owners
    inspected = select(Node.id, Node.driver_internal_info).where(
        Node.provision_state.in_(REPORT_STATES)
    )
    by_bmc = {
        node_id
        for node_id, info in session.execute(inspected)
        if addresses.intersection(info.get(Inspect.BMC_ADDRESSES) or ())
    }
    if by_bmc and node_ids:
        node_ids &= by_bmc  # a port of one node and the BMC of another: one of the records is wrong
    if not owners and not node_uuid:
        node_ids = by_bmc
        if not node_ids:
            return None
    if len(node_ids) != 1:
        raise _not_found()
    return next(iter(node_ids))


def _expects(session: Session, node: Node) -> bool:
    """Whether the inspection waits for a report, or has powered the machine on for it."""
    if node.provision_state not in REPORT_STATES:
        return False
    operation = session.scalar(
        select(Operation).where(
            Operation.node_id == node.id,
            Operation.kind == OperationKind.INSPECT,
            Operation.state.in_(ACTIVE),
        )
    )
    if operation is None:
        return False
    positions = {row.label: row.position for row in operations.steps_of(session, operation)}
    report_position = positions.get("inspect.await_report", -1)
    powered_on = positions.get("power.power_on", report_position)
    return powered_on <= operation.cursor <= report_position


def _store(session: Session, node: Node, report: Mapping[str, object]) -> None:
    row = session.get(InspectionReport, node.id)
    if row is None:
        session.add(InspectionReport(node_id=node.id, body=dict(report)))
    else:
        row.body, row.created_at = dict(report), now()
    agent = session.get(AgentRecord, node.id, with_for_update=True)
    if agent is None:
        agent = AgentRecord(node_id=node.id, heartbeats=0)
        session.add(agent)
    agent.heartbeats += 1  # a conductor that is recording its wait sees the new count
    agent.last_heartbeat_at = now()
    session.flush()
