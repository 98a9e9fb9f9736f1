"""The tables of the database. Importing this package defines all of them."""

from sqlalchemy.orm import configure_mappers

from app.models import placing  # noqa: F401 -- its listeners act when sessions flush
from app.models.agent import AgentRecord
from app.models.allocation import Allocation, AllocationState
from app.models.audit import AuditCheckpoint, AuditRecord, Outcome
from app.models.base import Base
from app.models.change_event import RESOURCE_TYPES, TYPES, ChangeEvent, ChangeType
from app.models.chassis import Chassis
from app.models.conductor import BeatLease, Conductor, PeriodicPass, Watermark
from app.models.data_key import DataKey, SealedTable
from app.models.hardware import BiosSetting, FirmwareComponent, NodeInventory
from app.models.history import NodeHistory
from app.models.hold import Hold
from app.models.idempotency import Answered
from app.models.identity import ApiToken, Group, Membership, Project, RoleAssignment, User
from app.models.inspection import InspectionReport, InspectionRule
from app.models.node import Fault, Node
from app.models.notification import NotificationCursor
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
from app.models.power_update import PowerUpdateCursor
from app.models.rollout import (
    UNENDED,
    PauseCause,
    Rollout,
    RolloutNode,
    RolloutNodeState,
    RolloutState,
    StartRefusal,
)
from app.models.secret import Secret
from app.models.template import DeployTemplate, Runbook
from app.models.trait import NodeTrait
from app.models.volume import VolumeConnector, VolumeTarget
from app.models.webhook import Webhook, WebhookFailure

__all__ = [
    "ACTIVE",
    "BESIDE",
    "ENDED",
    "RESOURCE_TYPES",
    "TYPES",
    "UNENDED",
    "AgentRecord",
    "Allocation",
    "AllocationState",
    "Answered",
    "ApiToken",
    "AuditCheckpoint",
    "AuditRecord",
    "Base",
    "BeatLease",
    "BiosSetting",
    "ChangeEvent",
    "ChangeType",
    "Chassis",
    "Conductor",
    "DataKey",
    "DeployTemplate",
    "Fault",
    "FirmwareComponent",
    "Group",
    "Hold",
    "InspectionReport",
    "InspectionRule",
    "Membership",
    "Node",
    "NodeHistory",
    "NodeInventory",
    "NodeTrait",
    "NotificationCursor",
    "Operation",
    "OperationKind",
    "OperationState",
    "OperationStep",
    "Outcome",
    "PauseCause",
    "PeriodicPass",
    "Port",
    "Portgroup",
    "PowerUpdateCursor",
    "Project",
    "RoleAssignment",
    "Rollout",
    "RolloutNode",
    "RolloutNodeState",
    "RolloutState",
    "Runbook",
    "SealedTable",
    "Secret",
    "StartRefusal",
    "StepSource",
    "StepState",
    "User",
    "VolumeConnector",
    "VolumeTarget",
    "Watermark",
    "Webhook",
    "WebhookFailure",
]

configure_mappers()  # at the first query otherwise, by each of the processes that are forked later
