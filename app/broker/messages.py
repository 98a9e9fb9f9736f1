"""Messages to conductors: steps of operations, and tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Link:
    """One step of an operation as a Celery task of a chain."""

    task: str  # UUID of the task
    position: int  # of the step
    label: str  # of the step, the name of the task in Flower


@dataclass(frozen=True, slots=True)
class Message:
    """Message to a conductor: run an operation. It carries the chain of the remaining steps."""

    conductor: str  # name
    node: str  # UUID
    operation: str  # UUID
    fence: int
    links: tuple[Link, ...]  # not empty; the first is to be run
    root: str | None = None  # UUID of the chain's first task; None: this message's first link
    parent: str | None = None  # UUID of the task before the first link; None: there is none
    name: str | None = None  # of the node, for monitors; None: it has none

    @property
    def cursor(self) -> int:
        """Position of the step to run."""
        return self.links[0].position

    @property
    def rest(self) -> "Message | None":
        """Message with the chain after its first link, if there is one."""
        first_link, *links = self.links
        if not links:
            return None
        return replace(
            self, links=tuple(links), root=self.root or first_link.task, parent=first_link.task
        )


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """Message to any free conductor: run a task."""

    task: str
    arguments: Sequence[str]
    delay: float = 0  # seconds until it is sent
