"""Documents of steps, in Ironic's format."""

from app.models import Operation, OperationStep
from app.text.masking import mask
from drivers.core.steps import Flow

View = dict[str, object]
#: The operation in progress, its current step, and all its steps.
Progress = tuple[Operation, OperationStep | None, list[OperationStep]]


def step_view(step: OperationStep) -> View:
    """Document of a step, in Ironic's format."""
    return {
        "interface": step.interface,
        "step": step.name,
        "args": mask(step.args) or None,
        "priority": int(step.priority) if step.priority == int(step.priority) else step.priority,
        "abortable": step.abortable,
        "requires_ramdisk": step.requires_ramdisk,
    }


def current_step(progress: Progress, flow: Flow) -> View:
    """Document of the current step; empty if it belongs to another flow."""
    step = progress[1]
    return step_view(step) if step is not None and step.flow == flow else {}
