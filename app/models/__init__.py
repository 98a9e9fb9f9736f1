"""The tables. Importing this package makes all of them known."""

from app.models.agent import AgentRecord
from app.models.base import Base
from app.models.conductor import BeatLease, Conductor
from app.models.history import NodeHistory
from app.models.idempotency import Answered
from app.models.node import Node
from app.models.operation import (
    ACTIVE,
    ENDED,
    Operation,
    OperationState,
    OperationStep,
    StepState,
)
from app.models.port import Port

__all__ = [
    "ACTIVE",
    "ENDED",
    "AgentRecord",
    "Answered",
    "Base",
    "BeatLease",
    "Conductor",
    "Node",
    "NodeHistory",
    "Operation",
    "OperationState",
    "OperationStep",
    "Port",
    "StepState",
]
