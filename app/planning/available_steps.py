"""
Available steps: all known steps that a node offers in a flow.
"""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.hardware import targets
from app.hardware.steps import offered
from app.lifecycle.operation_states import UNFINISHED
from app.models import ACTIVE, Node, Operation, OperationStep
from app.planning import plan_rows, planning
from app.runtime import runtime_of
from drivers.core.steps import Flow, Step

#: Retry-After in seconds while an agent is booting and will report its steps.
SOON = 30
#: No agent is booting: the time of the next report is not known.
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """A step with its effective priority."""

    step: Step
    priority: float  # with the overrides of the settings


def steps_of(
    session: Session, node: Node, flow: Flow, min_priority: float | None
) -> list[Entry] | None:
    """
    List the steps of a flow by decreasing priority, also steps of priority 0.

    min_priority: lowest priority to list; all by default. Returns None if the node's agent has
    never reported its steps. Steps of the last report are kept, even if the agent is gone (spec
    manual-cleaning).
    """
    runtime, target = runtime_of(session), targets.of_node(session, node)
    if planning.frame(target, flow).collect and flow.value not in target.agent.steps:
        return None
    entries = [
        Entry(step, plan_rows.priority_of(runtime, flow, step))
        for step in offered(target, flow).values()
    ]
    entries.sort(key=lambda entry: plan_rows.rank(flow, entry.priority, entry.step.interface))
    return [entry for entry in entries if min_priority is None or entry.priority >= min_priority]


def retry_after(session: Session, node: Node) -> int:
    """Return the seconds until the steps may be known: `SOON` or `UNKNOWN`."""
    collecting = session.scalar(
        select(OperationStep.id)
        .join(Operation, Operation.id == OperationStep.operation_id)
        .where(
            Operation.node_id == node.id,
            Operation.state.in_(ACTIVE),
            OperationStep.collects,
            OperationStep.state.in_(UNFINISHED),
        )
        .limit(1)
    )
    return UNKNOWN if collecting is None else SOON
