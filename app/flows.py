"""
The flows of the provision state machine: one declaration each, the counterpart of `app.states`.

A flow is what a verb starts: it takes a node from a busy state, perhaps through a wait and a hold
state, to the stable state that it leads to or to its failed state. `drivers.core.steps.Flow` names
those flows in which drivers and callers have steps; here they are the `step_flow` of a
`ProvisionFlow`.
What the other modules know of a flow is a query over `FLOWS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from app.models import BESIDE, Fault, OperationKind
from app.states import Kind, State
from drivers.core.steps import Flow

S, K = State, OperationKind
#: Kinds of states: of those of a flow, the ones in which something holds.
StateKinds = tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """
    A limit on the number of operations under way.

    queue: the queue in which further operations wait. setting: the option of [conductor].
    """

    queue: str
    setting: str


DEPLOYMENTS = Limit("deploy", "max_concurrent_deploy")
CLEANINGS = Limit("clean", "max_concurrent_clean")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionFlow:
    """All facts about one flow."""

    #: the key of its frame in the drivers' `frames`
    name: str
    #: kinds of the operations that start it
    operations: tuple[OperationKind, ...]
    busy: State
    wait: State | None = None
    hold: State | None = None
    failed: State
    #: the step flow that it runs
    step_flow: Flow | None = None
    #: option of [api]: the steps that a caller may not ask for
    forbidden_steps: str | None = None
    limit: Limit | None = None
    #: option of [conductor]
    callback_timeout: str = "deploy_callback_timeout"
    #: whether the frame's cleanup runs after a failure
    cleanup: bool = True
    #: option of [conductor]: power the machine off after a failure before the first step
    power_off_on_failure: str | None = None
    #: set when the cleanup of an aborted operation failed, and by effects in `services.moves`
    fault: Fault | None = None
    #: it proves that the BMC can be used: power sync leaves nodes alone in its failed state
    checks_bmc: bool = False
    #: event type of history entries about its operations
    event_type: str
    #: prefix of the event types of history entries about its steps
    steps_event: str | None = None
    #: the agent may look its node up in these states
    looks_up: StateKinds = ()
    #: it may in these as well, where agents are kept running between operations
    looks_up_if_kept: StateKinds = ()
    #: heartbeats are recorded in these states
    heard: StateKinds = ()
    #: a machine whose agent never called in the wait state is booted again
    boots_again: bool = False
    #: fields of the node may be changed in these states
    changeable: StateKinds = ()

    @property
    def under_way(self) -> Mapping[Kind, State]:
        """Its states before the end, by kind."""
        states = {Kind.BUSY: self.busy, Kind.WAIT: self.wait, Kind.HOLD: self.hold}
        return {kind: state for kind, state in states.items() if state is not None}

    def states(self, kinds: StateKinds) -> frozenset[State]:
        """Those of its states that are of these kinds."""
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
    # the first that is heard of the agent is its report: hence no `boots_again`
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.WAIT,), changeable=(Kind.BUSY, Kind.WAIT),
)  # fmt: skip
CLEAN = ProvisionFlow(
    name="clean", operations=(K.PROVIDE, K.CLEAN),
    busy=S.CLEANING, wait=S.CLEAN_WAIT, hold=S.CLEAN_HOLD, failed=S.CLEAN_FAIL,
    step_flow=Flow.CLEAN, forbidden_steps="disallow_clean_steps", limit=CLEANINGS,
    callback_timeout="clean_callback_timeout", power_off_on_failure="poweroff_in_cleanfail",
    fault=Fault.CLEAN_FAILURE, event_type="cleaning", steps_event="automated_cleaning",
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.BUSY, Kind.WAIT, Kind.HOLD), boots_again=True,
)  # fmt: skip
DEPLOY = ProvisionFlow(
    name="deploy", operations=(K.ACTIVE, K.REBUILD),
    busy=S.DEPLOYING, wait=S.DEPLOY_WAIT, hold=S.DEPLOY_HOLD, failed=S.DEPLOY_FAIL,
    step_flow=Flow.DEPLOY, forbidden_steps="disallow_deploy_steps", limit=DEPLOYMENTS,
    callback_timeout="deploy_callback_timeout",
    event_type="deploying", steps_event="deployment",
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.BUSY, Kind.WAIT, Kind.HOLD), boots_again=True,
)  # fmt: skip
DELETE = ProvisionFlow(
    name="delete", operations=(K.DELETED,), busy=S.DELETING, failed=S.ERROR,
    limit=CLEANINGS, event_type="unprovision",
)  # fmt: skip
ADOPT = ProvisionFlow(
    name="adopt", operations=(K.ADOPT,), busy=S.ADOPTING, failed=S.ADOPT_FAIL,
    cleanup=False, checks_bmc=True, event_type="adoption",
)  # fmt: skip
RESCUE = ProvisionFlow(
    name="rescue", operations=(K.RESCUE,),
    busy=S.RESCUING, wait=S.RESCUE_WAIT, failed=S.RESCUE_FAIL,
    callback_timeout="rescue_callback_timeout", fault=Fault.RESCUE_ABORT_FAILURE,
    event_type="rescue",
    looks_up=(Kind.BUSY, Kind.WAIT), heard=(Kind.BUSY, Kind.WAIT), boots_again=True,
)  # fmt: skip
UNRESCUE = ProvisionFlow(
    name="unrescue", operations=(K.UNRESCUE,), busy=S.UNRESCUING, failed=S.UNRESCUE_FAIL,
    event_type="rescue",
)  # fmt: skip
SERVICE = ProvisionFlow(
    name="service", operations=(K.SERVICE,),
    busy=S.SERVICING, wait=S.SERVICE_WAIT, hold=S.SERVICE_HOLD, failed=S.SERVICE_FAIL,
    step_flow=Flow.SERVICE, forbidden_steps="disallow_service_steps",
    callback_timeout="service_callback_timeout", power_off_on_failure="poweroff_in_servicefail",
    fault=Fault.SERVICE_FAILURE, event_type="servicing", steps_event="servicing",
    looks_up=(Kind.WAIT,), looks_up_if_kept=(Kind.BUSY, Kind.HOLD),
    heard=(Kind.BUSY, Kind.WAIT, Kind.HOLD), changeable=(Kind.HOLD,), boots_again=True,
)  # fmt: skip

FLOWS = (VERIFY, INSPECT, CLEAN, DEPLOY, DELETE, ADOPT, RESCUE, UNRESCUE, SERVICE)

_EVENT_TYPES: Mapping[str, str] = {
    **{kind: flow.event_type for flow in FLOWS for kind in flow.operations},
    **dict.fromkeys(BESIDE, "conductor"),
    K.CONSOLE: "console",
    K.DISCOVERY: INSPECT.event_type,
}
#: Kind of operation -> its limit; other kinds are never queued.
LIMITED: Mapping[str, Limit] = {
    kind: flow.limit for flow in FLOWS for kind in flow.operations if flow.limit
}
#: Queue -> its limit.
QUEUES: Mapping[str, Limit] = {limit.queue: limit for limit in LIMITED.values()}
_BUSY: Mapping[str, ProvisionFlow] = {flow.busy: flow for flow in FLOWS}
_FAILED: Mapping[str, ProvisionFlow] = {flow.failed: flow for flow in FLOWS}
_UNDER_WAY: Mapping[str, ProvisionFlow] = {
    state: flow for flow in FLOWS for state in flow.under_way.values()
}
_BY_STEP_FLOW = {flow.step_flow: flow for flow in FLOWS if flow.step_flow}


def busy_in(state: str) -> ProvisionFlow | None:
    """The flow whose busy state this is."""
    return _BUSY.get(state)


def under_way_in(state: str) -> ProvisionFlow | None:
    """The flow whose busy, wait or hold state this is."""
    return _UNDER_WAY.get(state)


def failed_in(state: str) -> ProvisionFlow | None:
    """The flow that leads to this state when it fails."""
    return _FAILED.get(state)


def of_steps(step_flow: Flow) -> ProvisionFlow:
    """The flow that runs the steps of a step flow."""
    return _BY_STEP_FLOW[step_flow]


def event_type(kind: str) -> str:
    """The event type of entries about an operation of this kind in a node's history."""
    return _EVENT_TYPES.get(kind, kind)
