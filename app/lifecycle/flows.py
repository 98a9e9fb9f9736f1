"""
Flows of the provision state machine: one declaration each, the counterpart of
`app.lifecycle.provision_states`.

A verb starts a flow: it takes a node from a busy state, perhaps through a wait and a hold state, to
its stable target state or to its failed state. `drivers.core.steps.Flow` names the flows with steps
of drivers and callers; here they are the `step_flow` of a `ProvisionFlow`. Other modules get their
tables of flows by queries over `FLOWS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.lifecycle.provision_states import Kind, State
from app.models import BESIDE, Fault, OperationKind
from drivers.core.conditions import Condition
from drivers.core.steps import Flow


class Effect(StrEnum):
    """
    Change to a node at the end of a flow, besides the transition (`app.engine.provision_state`).
    """

    FORGET_AGENT = "the agent and its token are forgotten"
    RELEASE_AGENT = "the agent and its token are forgotten, unless fast track keeps it running"
    FORGET_REPORT = "the report of the inspection is deleted"
    FORGET_PASSWORD = "the rescue password is deleted"
    WIPE_INSTANCE = "the instance and its allocation are deleted"
    DETACH_VIFS = "the VIFs of the tenant, which are disconnected, are detached"
    UNKNOWN_POWER = "the power state is unknown"
    SET_FAULT = "maintenance, with the fault of the flow"
    SET_FAULT_IF_ATTEMPTED = "maintenance, with the fault of the flow, if a step was attempted"
    CLEAR_FAULT = "maintenance ends, if the fault of the flow had set it"


S, K, X = State, OperationKind, Effect
#: Conditions of a machine that a tenant gets.
_IN_USE = (Condition.INSTANCE, Condition.TENANT_NETWORKS)
#: Selects states of a flow by their kind.
StateKinds = tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit on the number of concurrent operations."""

    queue: str  # admission queue of the operations beyond the limit
    setting: str  # option of [conductor]


DEPLOYMENTS = Limit("deploy", "max_concurrent_deploy")
CLEANINGS = Limit("clean", "max_concurrent_clean")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionFlow:
    name: str  # key of its frame in the drivers' `frames`
    operations: tuple[OperationKind, ...]  # kinds of the operations that run it
    busy: State
    wait: State | None = None
    hold: State | None = None
    failed: State
    step_flow: Flow | None = None  # of its steps; without one it has only its frame
    ends: tuple[Condition, ...] = ()  # conditions of the machine at its end
    forbidden_steps: str | None = None  # option of [api]: steps refused to callers
    limit: Limit | None = None
    callback_timeout: str = "deploy_callback_timeout"  # option of [conductor]
    cleanup: bool = True  # whether the frame's cleanup runs after a failure
    #: option of [conductor]: power the machine off after a failure before the first step
    power_off_on_failure: str | None = None
    #: fault that its effects set, and a failed cleanup after an abort
    fault: Fault | None = None
    #: whether it tests access to the BMC: power sync skips nodes in its failed state
    checks_bmc: bool = False
    event_type: str  # of history entries about its operations
    steps_event: str | None = None  # prefix of event types of entries about its steps
    looks_up: StateKinds = ()  # states that allow a lookup by the agent
    looks_up_if_kept: StateKinds = ()  # further ones, where fast track keeps agents running
    heard: StateKinds = ()  # states that record heartbeats
    #: whether to boot the machine again if its agent sends no heartbeat in the wait state
    boots_again: bool = False
    changeable: StateKinds = ()  # states that allow changes of the node's fields
    on_done: tuple[Effect, ...] = ()  # effects of success
    on_fail: tuple[Effect, ...] = ()  # effects of a failure
    on_abort: tuple[Effect, ...] = ()  # effects of an abort in a busy, wait or hold state
    on_abandon: tuple[Effect, ...] = ()  # effects of an abort in the failed state

    @property
    def under_way(self) -> Mapping[Kind, State]:
        """Map the kind of a state to the flow's state of that kind: busy, wait, hold."""
        states = {Kind.BUSY: self.busy, Kind.WAIT: self.wait, Kind.HOLD: self.hold}
        return {kind: state for kind, state in states.items() if state is not None}

    def states(self, kinds: StateKinds) -> frozenset[State]:
        """Select the flow's busy, wait and hold states of these kinds."""
        return frozenset(state for kind, state in self.under_way.items() if kind in kinds)


VERIFY = ProvisionFlow(
    name="verify", operations=(K.MANAGE,), busy=S.VERIFYING, failed=S.ENROLL,
    step_flow=Flow.VERIFY, cleanup=False, checks_bmc=True,
    event_type="verify", changeable=(Kind.BUSY,),
)  # fmt: skip
INSPECT = ProvisionFlow(
    name="inspect", operations=(K.INSPECT,),
    busy=S.INSPECTING, wait=S.INSPECT_WAIT, failed=S.INSPECT_FAIL,
    callback_timeout="inspect_wait_timeout", event_type="introspection",
    # the agent posts its report before any heartbeat: hence no `boots_again`
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.WAIT,), changeable=(Kind.BUSY, Kind.WAIT),
    on_done=(X.FORGET_REPORT, X.RELEASE_AGENT),
    on_fail=(X.FORGET_REPORT, X.FORGET_AGENT), on_abort=(X.FORGET_REPORT, X.FORGET_AGENT),
)  # fmt: skip
CLEAN = ProvisionFlow(
    name="clean", operations=(K.PROVIDE, K.CLEAN),
    busy=S.CLEANING, wait=S.CLEAN_WAIT, hold=S.CLEAN_HOLD, failed=S.CLEAN_FAIL,
    step_flow=Flow.CLEAN, forbidden_steps="disallow_clean_steps", limit=CLEANINGS,
    callback_timeout="clean_callback_timeout", power_off_on_failure="poweroff_in_cleanfail",
    fault=Fault.CLEAN_FAILURE, event_type="cleaning", steps_event="automated_cleaning",
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.BUSY, Kind.WAIT, Kind.HOLD), boots_again=True,
    # a failed clean always puts the node into maintenance (spec implement-cleaning-states)
    on_done=(X.CLEAR_FAULT, X.RELEASE_AGENT), on_fail=(X.SET_FAULT, X.FORGET_AGENT),
    on_abort=(X.FORGET_AGENT,),
)  # fmt: skip
DEPLOY = ProvisionFlow(
    name="deploy", operations=(K.ACTIVE, K.REBUILD),
    busy=S.DEPLOYING, wait=S.DEPLOY_WAIT, hold=S.DEPLOY_HOLD, failed=S.DEPLOY_FAIL,
    step_flow=Flow.DEPLOY, ends=_IN_USE, forbidden_steps="disallow_deploy_steps", limit=DEPLOYMENTS,
    callback_timeout="deploy_callback_timeout",
    event_type="deploying", steps_event="deployment",
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.BUSY, Kind.WAIT, Kind.HOLD), boots_again=True,
    on_done=(X.FORGET_AGENT,), on_fail=(X.FORGET_AGENT,), on_abort=(X.FORGET_AGENT,),
)  # fmt: skip
DELETE = ProvisionFlow(
    name="delete", operations=(K.DELETED,), busy=S.DELETING, failed=S.ERROR,
    # no limit: an instance ends at once, and the node waits for its cleaning
    event_type="unprovision",
    # VIFs that could not be disconnected stay, for the next tear-down
    on_done=(X.WIPE_INSTANCE, X.DETACH_VIFS), on_fail=(X.WIPE_INSTANCE,),
)  # fmt: skip
ADOPT = ProvisionFlow(
    name="adopt", operations=(K.ADOPT,), busy=S.ADOPTING, failed=S.ADOPT_FAIL,
    cleanup=False, checks_bmc=True, event_type="adoption",
    on_fail=(X.UNKNOWN_POWER,),
)  # fmt: skip
RESCUE = ProvisionFlow(
    name="rescue", operations=(K.RESCUE,),
    busy=S.RESCUING, wait=S.RESCUE_WAIT, failed=S.RESCUE_FAIL,
    callback_timeout="rescue_callback_timeout", fault=Fault.RESCUE_ABORT_FAILURE,
    event_type="rescue",
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.BUSY, Kind.WAIT), boots_again=True,
    on_done=(X.FORGET_PASSWORD, X.FORGET_AGENT), on_fail=(X.FORGET_PASSWORD, X.FORGET_AGENT),
    on_abort=(X.FORGET_PASSWORD, X.FORGET_AGENT),
)  # fmt: skip
UNRESCUE = ProvisionFlow(
    name="unrescue", operations=(K.UNRESCUE,), busy=S.UNRESCUING, failed=S.UNRESCUE_FAIL,
    ends=(Condition.INSTANCE,),
    event_type="rescue", on_done=(X.FORGET_PASSWORD, X.FORGET_AGENT),
)  # fmt: skip
SERVICE = ProvisionFlow(
    name="service", operations=(K.SERVICE,),
    busy=S.SERVICING, wait=S.SERVICE_WAIT, hold=S.SERVICE_HOLD, failed=S.SERVICE_FAIL,
    step_flow=Flow.SERVICE, ends=_IN_USE, forbidden_steps="disallow_service_steps",
    callback_timeout="service_callback_timeout", power_off_on_failure="poweroff_in_servicefail",
    fault=Fault.SERVICE_FAILURE, event_type="servicing", steps_event="servicing",
    looks_up=(Kind.WAIT,), looks_up_if_kept=(Kind.BUSY, Kind.HOLD),
    heard=(Kind.BUSY, Kind.WAIT, Kind.HOLD), changeable=(Kind.HOLD,), boots_again=True,
    on_done=(X.CLEAR_FAULT, X.FORGET_AGENT), on_fail=(X.SET_FAULT_IF_ATTEMPTED, X.FORGET_AGENT),
    on_abort=(X.FORGET_AGENT,), on_abandon=(X.CLEAR_FAULT,),
)  # fmt: skip

FLOWS = (VERIFY, INSPECT, CLEAN, DEPLOY, DELETE, ADOPT, RESCUE, UNRESCUE, SERVICE)
#: Provision states whose nodes record heartbeats of their agents.
HEARTBEAT_STATES = frozenset().union(*(flow.states(flow.heard) for flow in FLOWS))

_EVENT_TYPES: Mapping[str, str] = {
    **{kind: flow.event_type for flow in FLOWS for kind in flow.operations},
    **dict.fromkeys(BESIDE, "conductor"),
    K.CONSOLE: "console",
    K.REFRESH: "refresh",
    K.DISCOVERY: INSPECT.event_type,
}
#: Queue -> its limit.
QUEUES: Mapping[str, Limit] = {flow.limit.queue: flow.limit for flow in FLOWS if flow.limit}
_BUSY: Mapping[str, ProvisionFlow] = {flow.busy: flow for flow in FLOWS}
_FAILED: Mapping[str, ProvisionFlow] = {flow.failed: flow for flow in FLOWS}
_UNDER_WAY: Mapping[str, ProvisionFlow] = {
    state: flow for flow in FLOWS for state in flow.under_way.values()
}
_BY_OPERATION: Mapping[str, ProvisionFlow] = {
    kind: flow for flow in FLOWS for kind in flow.operations
}
_BY_STEP_FLOW = {flow.step_flow: flow for flow in FLOWS if flow.step_flow}


def busy_in(state: str) -> ProvisionFlow | None:
    return _BUSY.get(state)


def under_way_in(state: str) -> ProvisionFlow | None:
    """Return the flow with this busy, wait or hold state."""
    return _UNDER_WAY.get(state)


def failed_in(state: str) -> ProvisionFlow | None:
    return _FAILED.get(state)


def of_operation(kind: str) -> ProvisionFlow:
    """Return the flow that the operations of a kind run."""
    return _BY_OPERATION[kind]


def of_steps(step_flow: Flow) -> ProvisionFlow:
    """Return the flow that runs the steps of a step flow."""
    return _BY_STEP_FLOW[step_flow]


def event_type(kind: str) -> str:
    """Event type of a node's history entries about operations of a kind."""
    return _EVENT_TYPES.get(kind, kind)
