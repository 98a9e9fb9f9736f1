"""
Inspection: whose report it is that an agent posts, and how what is found comes into the rows.

The steps of an inspection are those of its interface; hooks and rules run in one of them, on a copy
(`drivers.inspection`). So a report that was taken is kept in a row until the inspection has ended,
and what came of it is written in the transaction that ends the step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app import log
from app.agents import lookup
from app.db.clock import now
from app.engine import operations, planning, resume
from app.errors import Invalid, NotFound, ServiceError
from app.flows import INSPECT
from app.inventory import nodes
from app.kit.caller import Caller
from app.models import (
    ACTIVE,
    AgentRecord,
    InspectionReport,
    Node,
    Operation,
    OperationKind,
    Port,
)
from app.runtime import of
from app.states import State
from drivers.agent.inspect import BMC_ADDRESSES
from drivers.core.errors import HardwareError

logger = log.get(__name__)

EXPECTING = tuple(INSPECT.under_way.values())
#: What an agent says when it knows of no address of its BMC.
NO_ADDRESS = (None, "", "0.0.0.0", "::/0", "::")  # noqa: S104 - nothing listens there


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
    Take what the agent of a node has found, and let the node's inspection go on.

    report: {inventory, ...}. Returns the node and, if wanted, its agent's token, as a lookup does.
    Raises Invalid, NotFound, with one text for all reasons, and NodeLocked when a token must be
    made.
    """
    told = (report["inventory"].get(name) for name in ("bmc_address", "bmc_v6address"))
    addresses = {address for address in told if address not in NO_ADDRESS}
    if not macs and not addresses and not node_uuid:
        raise Invalid("No lookup information provided")
    node_id = _look_up(session, macs, addresses, node_uuid)
    discovers = node_id is None and of(session).settings.auto_discovery.enabled
    known = select(Node).where(Node.id == node_id).with_for_update()
    node = _enroll(session) if discovers else session.scalar(known)
    if node is None or not (discovers or _expects(session, node)):
        logger.warning("inspection.report_refused", macs=list(macs), bmc=sorted(addresses))
        raise _nowhere()
    _keep(session, node, report)
    token = lookup.token(session, node, caller) if with_token else None
    session.flush()
    if discovers:
        plan = planning.single("inspect", "process", {})
        operations.start(session, node, OperationKind.DISCOVERY, plan, {}, Caller())
    else:
        resume.agent_called(session, node.id)
    return node, token


def _enroll(session: Session) -> Node:
    """
    A node for a machine that reports itself and is not known (`[auto_discovery]`).

    Raises NotFound: who reports needs not know what is wrong with our settings.
    """
    fields = {"driver": of(session).settings.auto_discovery.driver, "inspect_interface": "agent"}
    try:
        node = nodes.create(session, fields, State.ENROLL)
    except (ServiceError, HardwareError) as error:
        logger.error("inspection.discovery_failed", detail=str(error))  # noqa: TRY400 - no defect
        raise _nowhere() from None
    logger.info("inspection.discovered", node=node.uuid)
    return node


def _nowhere() -> NotFound:
    return NotFound("node", "", "Resource could not be found: no node that waits sends this.")


def _look_up(
    session: Session, macs: Sequence[str], addresses: set[str], node_uuid: str | None
) -> int | None:
    """
    The id of the node that all who know it agree upon: its UUID, ports and BMC. None: nobody
    knows it. Raises NotFound when they do not agree.
    """
    by_uuid = select(Node.id).where(Node.uuid == node_uuid)
    by_mac = select(Port.node_id).where(Port.address.in_(macs)).distinct()
    known = set(session.scalars(by_uuid)) if node_uuid else set()
    owners = set(session.scalars(by_mac)) if macs else set()
    if (node_uuid and not known) or len(known | owners) > 1:
        raise _nowhere()
    known |= owners
    inspected = select(Node.id, Node.driver_internal_info).where(
        Node.provision_state.in_(EXPECTING)
    )
    by_bmc = {
        node_id
        for node_id, info in session.execute(inspected)
        if addresses.intersection(info.get(BMC_ADDRESSES) or ())
    }
    if by_bmc and known:
        known &= by_bmc  # a port of one node, the BMC of another: one of them is wrong
    if not owners and not node_uuid:
        known = by_bmc
        if not known:
            return None
    if len(known) != 1:
        raise _nowhere()
    return next(iter(known))


def _expects(session: Session, node: Node) -> bool:
    """Whether its inspection waits for a report, or is about to: the machine was switched on."""
    if node.provision_state not in EXPECTING:
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
    awaited = positions.get("inspect.await_report", -1)
    began = positions.get("power.power_on", awaited)
    return began <= operation.cursor <= awaited


def _keep(session: Session, node: Node, report: Mapping[str, Any]) -> None:
    row = session.get(InspectionReport, node.id)
    if row is None:
        session.add(InspectionReport(node_id=node.id, body=dict(report)))
    else:
        row.body, row.created_at = dict(report), now()
    agent = session.get(AgentRecord, node.id, with_for_update=True)
    if agent is None:
        agent = AgentRecord(node_id=node.id, heartbeats=0)
        session.add(agent)
    agent.heartbeats += 1  # whoever just now records that he waits for it, sees it
    agent.last_heartbeat_at = now()
    session.flush()
