"""
The catalogue of steps: all that a node can do in a flow, as far as it is known.
"""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import ACTIVE, Node, Operation, OperationStep, StepState
from app.runtime import of
from app.services import planning, targets
from app.services.steps import offered
from drivers.core.steps import Flow, Step

#: Seconds after which it is worth asking again, when the agent is about to list its steps.
SOON = 30
#: Nobody knows when.
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """A step, with the priority that settings give it."""

    step: Step
    priority: float


def steps_of(session: Session, node: Node, flow: Flow, least: float | None) -> list[Entry] | None:
    """
    The steps of a flow by decreasing priority, 0 included; those below `least` are left out.

    None while the node's agent has never listed its steps. What it listed last is kept, whatever
    became of it (spec manual-cleaning).
    """
    runtime, target = of(session), targets.of_node(session, node)
    if planning.frame(target, flow).collect and flow.value not in target.agent.steps:
        return None
    entries = [
        Entry(step, planning.priority_of(runtime, flow, step))
        for step in offered(target, flow).values()
    ]
    entries.sort(key=lambda entry: planning.rank(flow, entry.priority, entry.step.interface))
    return [entry for entry in entries if least is None or entry.priority >= least]


def retry_after(session: Session, node: Node) -> int:
    """Seconds after which the steps may be known: `SOON` or `UNKNOWN`."""
    unfinished = (StepState.PENDING, StepState.RUNNING, StepState.WAITING)
    booting = session.scalar(
        select(OperationStep.id)
        .join(Operation, Operation.id == OperationStep.operation_id)
        .where(
            Operation.node_id == node.id,
            Operation.state.in_(ACTIVE),
            OperationStep.collects,
            OperationStep.state.in_(unfinished),
        )
        .limit(1)
    )
    return UNKNOWN if booting is None else SOON
