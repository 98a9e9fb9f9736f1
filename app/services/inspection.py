"""
Inspection: whose report it is that an agent posts, and how what is found comes into the rows.

The steps of an inspection are those of its interface; hooks and rules run in one of them, on a copy
(`drivers.inspection`). So a report that was taken is kept in a row until the inspection has ended,
and what came of it is written in the transaction that ends the step.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app import log
from app.db import now
from app.errors import AlreadyExists, Invalid, NotFound, ServiceError
from app.flows import INSPECT
from app.models import (
    ACTIVE,
    AgentRecord,
    InspectionReport,
    Node,
    NodeInventory,
    NodeTrait,
    Operation,
    OperationKind,
    OperationStep,
    Port,
)
from app.runtime import Runtime, of
from app.services import (
    agents,
    inspection_rules,
    inventory,
    node_rules,
    nodes,
    operations,
    planning,
    rows,
    targets,
    traits,
    vifs,
    waking,
)
from app.services.caller import Caller
from app.states import State
from drivers.agent.inspect import BMC_ADDRESSES
from drivers.core.errors import HardwareError, InspectionFailed
from drivers.core.kinds import KINDS
from drivers.core.target import Material
from drivers.inspection.subject import NODE_FIELDS, PORT_FIELDS, Findings

logger = log.get(__name__)

EXPECTING = tuple(INSPECT.under_way.values())
#: What an agent says when it knows of no address of its BMC.
NO_ADDRESS = (None, "", "0.0.0.0", "::/0", "::")  # noqa: S104 - nothing listens there

_INTERFACES = tuple(f"{kind}_interface" for kind in KINDS)
_READ = ("uuid", *NODE_FIELDS, "driver_internal_info", "power_state", "provision_state")


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
    token = agents.token(session, node, caller) if with_token else None
    session.flush()
    if discovers:
        plan = planning.single("inspect", "process", {})
        operations.start(session, node, OperationKind.DISCOVERY, plan, {}, Caller())
    else:
        waking.agent_called(session, node.id)
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


def material_of(runtime: Runtime, node: Node, step: OperationStep) -> dict[str, Any]:
    """
    What `targets.build` is to be told for a step of an inspection: nothing, at no cost, for others.

    Raises InspectionFailed.
    """
    if step.interface != "inspect":
        return {}
    with runtime.reading() as session:
        return {"material": _material(session, node)}


def _material(session: Session, node: Node) -> Material:
    report, kept = session.get(InspectionReport, node.id), session.get(NodeInventory, node.id)
    ports = session.scalars(select(Port).where(Port.node_id == node.id).order_by(Port.id))
    rules: list[dict[str, Any]] = []
    interface = targets.driver_of(of(session), node).inspect.name
    if interface in of(session).settings.inspection_rules.supported_inspect_interfaces:
        try:
            rules = inspection_rules.in_order(session)
        except ValueError as error:
            raise InspectionFailed(f"[inspection_rules]built_in_rules: {error}") from error
    return Material(
        report=None if report is None else report.body,
        node={name: getattr(node, name) for name in (*_READ, *_INTERFACES)},
        ports=[
            {"uuid": port.uuid, "bound": vifs.bound(port) is not None}
            | {name: getattr(port, name) for name in PORT_FIELDS}
            for port in ports
        ],
        traits=traits.of_node(session, node),
        rules=rules,
        before=None if kept is None else kept.inventory,
    )


def write(session: Session, node: Node, findings: Findings) -> None:
    """
    What came of an inspection becomes rows; the caller has locked the node's row.

    Raises InspectionFailed when it cannot; then nothing is written.
    """
    try:
        with session.begin_nested():
            _write_node(session, node, findings.node)
            if findings.traits is not None:
                _write_traits(session, node, findings.traits)
            if findings.ports is not None:
                _write_ports(session, node, findings.ports)
            kept = of(session).settings.inventory.data_backend == "database"
            if kept and findings.inventory is not None:
                inventory.store(session, node, findings.inventory, findings.plugin_data)
            if findings.inventory is not None:
                used = delete(InspectionReport).where(InspectionReport.node_id == node.id)
                session.execute(used)
    except (ServiceError, HardwareError) as error:
        raise InspectionFailed(f"what was found cannot be kept: {error}") from error


def _write_node(session: Session, node: Node, values: Mapping[str, Any]) -> None:
    """Raises Invalid, AlreadyExists, InvalidDriverInfo."""
    wanted = {name: value for name, value in values.items() if name in (*NODE_FIELDS, *_INTERFACES)}
    if not wanted:
        return
    _check_lengths(Node, wanted)
    rows.change(session, node, wanted)
    targets.driver_of(of(session), node)


def _write_traits(session: Session, node: Node, wanted: Sequence[str]) -> None:
    traits.check_count(wanted)
    known = traits.of_node(session, node)
    for trait in wanted:
        if not traits.is_trait(trait):
            raise Invalid(f"{trait!r} is neither CUSTOM_[A-Z0-9_]+ nor a standard trait")
        if trait not in known:
            session.add(NodeTrait(node_id=node.id, trait=trait))
    for trait in set(known) - set(wanted):
        session.delete(session.get_one(NodeTrait, (node.id, trait)))


def _write_ports(session: Session, node: Node, wanted: Iterable[Mapping[str, Any]]) -> None:
    """A new port whose address another node has already is left out, as Ironic does."""
    query = select(Port).where(Port.node_id == node.id)
    known = {port.uuid: port for port in session.scalars(query)}
    for fields in wanted:
        values = {name: fields[name] for name in PORT_FIELDS if name in fields}
        _check_lengths(Port, values)
        port = known.pop(fields["uuid"], None)
        if port is not None:
            changed = {name: each for name, each in values.items() if getattr(port, name) != each}
            if changed:
                rows.change(session, port, changed)
            continue
        try:
            with session.begin_nested():
                row = rows.make(Port, {"uuid": fields["uuid"], "node_id": node.id, **values})
                rows.add(session, row)
        except AlreadyExists:
            logger.warning("inspection.port_taken", node=node.uuid, address=values["address"])
    for port in known.values():
        session.delete(port)


def _check_lengths(model: type[Node] | type[Port], values: Mapping[str, Any]) -> None:
    """Raises Invalid for a text that is too long for its column, or refused by databases."""
    for name, value in values.items():
        longest = getattr(model.__table__.c[name].type, "length", None)
        if isinstance(value, str) and (len(value) > (longest or len(value)) or "\0" in value):
            raise Invalid(f"{name}: {value[:40]!r}... is too long or contains NUL")
    if model is Node and values.get("name") is not None:
        node_rules.check_name(values["name"])
