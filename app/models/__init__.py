"""The tables of the database. Importing this package defines all of them."""

from sqlalchemy.orm import configure_mappers

from app.models import placing  # its listeners act when sessions flush
from app.models.agent import AgentRecord
from app.models.allocation import Allocation, AllocationState, Quota
from app.models.audit import AuditCheckpoint, AuditRecord, Outcome
from app.models.base import Base
from app.models.baseline import Baseline, BaselineNode, Compliance, FailedBenchmark
from app.models.change_event import RESOURCE_TYPES, TYPES, ChangeEvent, ChangeType
from app.models.conductor import BeatLease, Conductor, PeriodicPass, Watermark
from app.models.hardware import (
    Benchmark,
    BiosSetting,
    EventSubscription,
    FirmwareComponent,
    InventorySource,
    NodeInventory,
    NodeRefresh,
    NodeSensors,
    PartState,
)
from app.models.history import BmcExchanges, NodeHistory, SanitationReport
from app.models.hold import Hold
from app.models.idempotency import Answered
from app.models.identity import ApiToken, Group, Membership, Project, RoleAssignment, User
from app.models.inspection import InspectionReport, InspectionRule
from app.models.network import Network, Switch
from app.models.node import Chassis, Fault, Node, NodeSearch, NodeTrait
from app.models.operation import (
    ACTIVE,
    BESIDE,
    ENDED,
    READING,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    StepSource,
    StepState,
)
from app.models.port import Port, Portgroup
from app.models.rollout import (
    UNENDED,
    PauseCause,
    Rollout,
    RolloutNode,
    RolloutNodeState,
    RolloutState,
    StartRefusal,
)
from app.models.secret import DataKey, SealedTable, Secret, VaultSecret, VaultState
from app.models.subscriber import NotificationCursor, PowerUpdateCursor, Webhook, WebhookFailure
from app.models.template import DeployTemplate, Runbook
from app.models.volume import VolumeConnector, VolumeTarget

configure_mappers()  # at the first query otherwise, by each of the processes that are forked later
