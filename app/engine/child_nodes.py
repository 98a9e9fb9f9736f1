"""
Child nodes: reserved while a step of their parent's operation runs on them.
"""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session

from app.errors import Invalid
from app.hardware import targets
from app.hardware.steps import RequestedStep, of_driver, wrong_args
from app.identity.caller import Caller
from app.inventory import holds
from app.lifecycle.hold_kinds import Effect
from app.models import Node, Operation
from drivers.core import reserved
from drivers.core.steps import Flow


def problems(session: Session, flow: Flow, requested_steps: Iterable[RequestedStep]) -> list[str]:
    """
    List the errors in steps of a flow that are requested for child nodes, one sentence each.

    In-band steps cannot run on a child: only the parent's agent is booted.
    """
    errors = []
    for requested_step in requested_steps:
        if not requested_step.get("child") or requested_step["step"] in reserved.METHODS:
            continue
        child = session.scalars(select(Node).where(Node.uuid == requested_step["child"])).one()
        driver_steps = {step.key: step for step in of_driver(targets.of_node(session, child), flow)}
        step = driver_steps.get((requested_step["interface"], requested_step["step"]))
        if step is None:
            errors.append(
                f"{requested_step['interface']}.{requested_step['step']}: the driver of child node"
                f" {child.uuid} has no"
                f" {flow} step of that name, and steps of an agent cannot be run on child nodes"
            )
        else:
            errors += wrong_args(requested_step, step.args)
    return errors


def check_project(
    session: Session, node: Node, requested_steps: Iterable[RequestedStep], caller: Caller
) -> None:
    """
    Check that a caller of a project may have requested steps run on child nodes of a node.

    The project must own the children, or, for a node that it only leases, own or lease them.

    Raises Invalid: a child is another project's.
    """
    children, project = (
        {step["child"] for step in requested_steps if step.get("child")},
        caller.project_id,
    )
    if not children or project is None:
        return
    of_project: ColumnElement[bool] = Node.owner == project
    if node.owner != project:
        of_project |= Node.lessee == project
    if session.scalar(select(func.count()).where(Node.uuid.in_(children), of_project)) != len(
        children
    ):
        raise Invalid(
            f"Steps on child nodes of node {node.uuid} are refused: a child node is not of your"
            " project."
        )


def check_not_held(session: Session, requested_steps: Iterable[RequestedStep]) -> None:
    """Raises NodeHeld: a child node of the requested steps has a hold against operations."""
    if children := {step["child"] for step in requested_steps if step.get("child")}:
        holds.check_uuids(session, children, Effect.OPERATIONS)


def reserve(session: Session, operation: Operation, child: str, holder: str) -> Node | None:
    """Reserve a child node for an operation of its parent; None if it is reserved otherwise."""
    result = session.execute(
        update(Node)
        .where(
            Node.uuid == child,
            or_(Node.reservation.is_(None), Node.operation_id == operation.id),
        )
        .values(reservation=holder, operation_id=operation.id)
        .execution_options(synchronize_session=False)
    )
    if not result.rowcount:  # type: ignore[attr-defined]
        return None
    return session.scalar(select(Node).where(Node.uuid == child))


def release(session: Session, operation: Operation) -> None:
    """Release the child nodes that are reserved for this operation."""
    session.execute(
        update(Node)
        .where(Node.operation_id == operation.id, Node.id != operation.node_id)
        .values(reservation=None, operation_id=None)
        .execution_options(synchronize_session=False)
    )
