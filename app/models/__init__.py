"""The tables of the database. Importing this package defines all of them."""

from sqlalchemy.orm import configure_mappers

from app.models.agent import AgentRecord
from app.models.allocation import Allocation, AllocationState
from app.models.base import Base
from app.models.chassis import Chassis
from app.models.conductor import BeatLease, Conductor, Watermark
from app.models.hardware import BiosSetting, FirmwareComponent, NodeInventory
from app.models.history import NodeHistory
from app.models.idempotency import Answered
from app.models.inspection import InspectionReport, InspectionRule
from app.models.node import Fault, Node
from app.models.operation import (
    ACTIVE,
    BESIDE,
    ENDED,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    StepSource,
    StepState,
)
from app.models.port import Port
from app.models.portgroup import Portgroup
from app.models.template import DeployTemplate, Runbook
from app.models.trait import NodeTrait
from app.models.volume import VolumeConnector, VolumeTarget

__all__ = [
    "ACTIVE",
    "BESIDE",
    "ENDED",
    "AgentRecord",
    "Allocation",
    "AllocationState",
    "Answered",
    "Base",
    "BeatLease",
    "BiosSetting",
    "Chassis",
    "Conductor",
    "DeployTemplate",
    "Fault",
    "FirmwareComponent",
    "InspectionReport",
    "InspectionRule",
    "Node",
    "NodeHistory",
    "NodeInventory",
    "NodeTrait",
    "Operation",
    "OperationKind",
    "OperationState",
    "OperationStep",
    "Port",
    "Portgroup",
    "Runbook",
    "StepSource",
    "StepState",
    "VolumeConnector",
    "VolumeTarget",
    "Watermark",
]

configure_mappers()  # at the first query otherwise, by each of the processes that are forked later
