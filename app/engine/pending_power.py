"""Power orders of attempts without a record: an abort or a death may have come after the order."""

from app.models import Node, Operation, OperationState, OperationStep
from drivers.core.power import PENDING


def note(node: Node, operation: Operation, step: OperationStep) -> None:
    """
    Note on a node that the attempt of its step, which is given up, may have sent a power order.

    The next power step then does not believe a single reading. An attempt that has recorded its
    order needs no note, as its report has set it.
    """
    if step.child or not (operation.state == OperationState.RUNNING or step.deaths):
        return
    if PENDING not in node.driver_internal_info:
        pending = {"state": None, "sweeps": 0}
        node.driver_internal_info = {**node.driver_internal_info, PENDING: pending}
