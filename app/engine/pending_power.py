"""Power orders of attempts without a record: an abort or a death may have come after the order."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import Node, Operation, OperationState, OperationStep
from drivers.core.kinds.power_pursuit import PENDING


def note(session: Session, node: Node, operation: Operation, step: OperationStep) -> None:
    """
    Note on the machine of a step, whose attempt is given up, that a power order may have been sent.

    The machine is that of the node, or of the child node that the step runs on.

    The next power step then does not believe a single reading. An attempt that has recorded its
    order needs no note, as its report has set it.
    """
    if not (operation.state == OperationState.RUNNING or step.deaths):
        return
    machine: Node | None = node
    if step.child:
        machine = session.scalar(select(Node).where(Node.uuid == step.child).with_for_update())
    if machine is not None:
        pending = {"state": None, "sweeps": 0}
        machine.driver_internal_info = {**machine.driver_internal_info, PENDING: pending}
