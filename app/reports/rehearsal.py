"""
Rehearsals of a verb: its consequences for a node beyond the steps that are planned at its begin.

The decision is that of `provisioning.decide`, which also carries verbs out. The rest of the plan
depends on the agent: it is built from the agent's last report, by the function that builds it when
the agent reports again (`planning.continued`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.engine.provisioning import Intent
from app.hardware import targets
from app.lifecycle import flows
from app.models import AgentRecord, Node, OperationStep
from app.planning import planning
from app.runtime import runtime_of
from app.text.sentences import joined
from drivers.core.steps import Flow

#: Step that destroys data -> what it does.
DESTROYING: Mapping[str, str] = {
    "deploy.erase_devices": "erases disks: all data on all disks",
    "deploy.erase_devices_metadata": "erases disks: partition tables and file system signatures",
    "deploy.erase_devices_express": "erases disks: all data, or metadata where that takes long",
    "deploy.write_image": "overwrites a disk with the image",
    "raid.delete_configuration": "deletes RAID volumes with their data",
    "raid.create_configuration": "builds RAID volumes, and destroys the data on their disks",
    "raid.apply_configuration": "builds RAID volumes, and destroys the data on their disks",
}


@dataclass(frozen=True, slots=True)
class AgentPart:
    """The part of a plan that depends on the agent's report."""

    report_step: str  # label of the step that reads the report
    reported_at: datetime | None  # time of the last report, if any
    steps: Sequence[OperationStep]  # the rest of the plan after that step, by the last report
    problems: Sequence[str]  # reasons why the operation would fail then
    summary: str


def destroyed(rows: Iterable[OperationStep]) -> list[str]:
    """Tell which steps of a plan destroy data, one text each."""
    return [f"{row.label} {DESTROYING[row.label]}" for row in rows if row.label in DESTROYING]


def agent_part(session: Session, node: Node, intent: Intent) -> AgentPart | None:
    """Return the part of a verb's plan that depends on the agent; None if no agent takes part."""
    index = next((index for index, row in enumerate(intent.rows) if row.collects), None)
    if index is None or intent.declaration is None or intent.declaration.flow is None:
        return None
    runtime, flow = runtime_of(session), flows.of_steps(intent.declaration.flow)
    target = targets.of_node(session, node)
    if intent.tears_down:
        target = targets.without_instance(runtime, node, target)
    finished, pending = list(intent.rows[: index + 1]), intent.rows[index + 1 :]
    report_step = finished[-1].label
    if intent.declaration.flow.value not in target.agent.steps:
        summary = (
            f"The agent of this node has never reported its {flow.step_flow} steps; its own list"
            " decides which of them run."
        )
        if flow.step_flow is Flow.CLEAN:
            summary += " The list of a usual agent erases disks."
        return AgentPart(report_step, None, pending, (), summary)
    rows, problems = planning.continued(runtime, target, flow, finished, pending, intent.steps)
    time = session.scalar(
        select(AgentRecord.steps_refreshed_at).where(AgentRecord.node_id == node.id)
    )
    return AgentPart(report_step, time, rows, problems, _summary(flow.name, time, rows, problems))


def _summary(
    flow: str, time: datetime | None, rows: Sequence[OperationStep], problems: Sequence[str]
) -> str:
    agent_steps = [f"{row.label} ({row.priority:g})" for row in rows if row.in_band]
    when = f" ({time.isoformat(timespec='seconds')}Z)" if time else ""
    return joined(
        f"After that, the agent's own list decides; at its last report{when}, it runs in this"
        f" {flow}: {', '.join(agent_steps) or 'no step'}",
        *destroyed(row for row in rows if row.in_band),
        *(f"It would fail then: {problem}" for problem in problems),
    )
