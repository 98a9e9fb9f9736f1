"""Declarations of the verbs: operation, plan and guards, or the effect on an operation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy.orm import Session

from app.engine import (
    dispatch,
    operations,
    provision_state,
    transitions,
)
from app.engine.guards import (
    Guard,
    boot_mode_allowed,
    interfaces_valid,
    not_in_maintenance,
    not_in_maintenance_by_settings,
    not_protected,
    not_restored,
    not_retired,
    served,
    service_not_held,
    service_not_in_maintenance,
)
from app.hardware import targets
from app.identity.caller import Caller
from app.lifecycle import flows
from app.lifecycle.hold_kinds import Effect
from app.lifecycle.provision_states import (
    Event,
    State,
)
from app.models import Node, OperationKind
from app.planning import planning, requested_steps
from drivers.core.steps import Flow


@dataclass(frozen=True, slots=True)
class Verb:
    """
    Declaration of a verb that runs an operation.

    Without work to do, as for `manage` of an available node, only `guards` and the transition
    apply.
    """

    kind: OperationKind
    plan: planning.Plan
    read_request: requested_steps.RequestReader = (
        requested_steps.no_steps
    )  # finds the requested steps
    flow: Flow | None = None  # of the requested steps; without one they are not checked
    fails: bool = False  # invalid steps fail the operation; else the API refuses them
    target: State | None = None  # target provision state; the state machine's by default
    guards: tuple[Guard, ...] = ()  # checked in this order, before any change
    # a hold with this effect refuses the verb, if an operation starts
    held_by: Effect = Effect.OPERATIONS
    before_work: tuple[Guard, ...] = (served,)  # checked next, if an operation starts


_DEPLOYABLE = (
    served, interfaces_valid("power", "deploy", "boot", "network", "storage"), boot_mode_allowed
)  # fmt: skip


_RESCUABLE = (served, interfaces_valid("power", "rescue", "network"))


#: Event -> declaration. MANAGE runs an operation only from `enroll`, to verify the node.
DECLARATIONS: Mapping[Event, Verb] = {
    Event.MANAGE: Verb(OperationKind.MANAGE, planning.verify),
    Event.PROVIDE: Verb(
        OperationKind.PROVIDE, planning.clean, requested_steps.by_settings, Flow.CLEAN,
        guards=(not_restored, not_in_maintenance_by_settings, not_retired),
    ),
    Event.CLEAN: Verb(
        OperationKind.CLEAN, partial(planning.in_requested_order, Flow.CLEAN),
        partial(requested_steps.requested, "clean_steps"), Flow.CLEAN, fails=True,
        target=State.MANAGEABLE, guards=(not_in_maintenance,),
        before_work=(served, interfaces_valid("power", "network")),
    ),
    Event.DEPLOY: Verb(
        OperationKind.ACTIVE, planning.deploy, requested_steps.to_deploy, Flow.DEPLOY,
        guards=(not_in_maintenance, not_retired), before_work=_DEPLOYABLE,
        held_by=Effect.INSTANCES,
    ),
    Event.REBUILD: Verb(
        OperationKind.REBUILD, planning.deploy, requested_steps.to_deploy, Flow.DEPLOY,
        guards=(not_in_maintenance, not_protected, not_retired), before_work=_DEPLOYABLE,
    ),
    Event.DELETE: Verb(
        OperationKind.DELETED, planning.delete, requested_steps.by_settings, Flow.CLEAN,
        guards=(not_restored, not_protected), before_work=(served, interfaces_valid("power")),
    ),
    Event.INSPECT: Verb(
        OperationKind.INSPECT, partial(planning.frame_only, flows.INSPECT),
        guards=(not_restored,), before_work=(served, interfaces_valid("power", "inspect")),
    ),
    Event.ADOPT: Verb(
        OperationKind.ADOPT, partial(planning.frame_only, flows.ADOPT),
        guards=(not_retired,), before_work=(served, interfaces_valid("power")),
    ),
    Event.RESCUE: Verb(
        OperationKind.RESCUE, partial(planning.frame_only, flows.RESCUE),
        guards=(not_in_maintenance,), before_work=_RESCUABLE,
    ),
    Event.UNRESCUE: Verb(
        OperationKind.UNRESCUE, partial(planning.frame_only, flows.UNRESCUE),
        guards=(not_in_maintenance,), before_work=_RESCUABLE,
    ),
    Event.SERVICE: Verb(
        OperationKind.SERVICE, partial(planning.in_requested_order, Flow.SERVICE),
        partial(requested_steps.requested, "service_steps"), Flow.SERVICE, fails=True,
        guards=(not_in_maintenance,), before_work=(served, interfaces_valid("power", "network")),
    ),
}  # fmt: skip


def _abort(session: Session, node: Node, caller: Caller) -> None:
    """Abort the active operation; end a failed service instead, with the cleanup of its frame."""
    if node.provision_state != State.SERVICE_FAIL:
        transitions.request_abort(session, node)
        return
    past_operations = operations.of_node(session, node.id)
    failed_service = next(
        (operation for operation in past_operations if operation.kind == OperationKind.SERVICE),
        None,
    )
    rows = []
    if failed_service and operations.has_frame(session, failed_service):
        rows = planning.abort_cleanup(targets.of_node(session, node), Flow.SERVICE)
    if rows:
        dispatch.start(session, node, OperationKind.SERVICE, rows, {}, caller, aborting=True)
    else:
        state = State(node.provision_state)
        ended_operation = operations.record_finished(session, node, OperationKind.SERVICE, caller)
        provision_state.move(session, node, Event.ABORT)
        provision_state.apply_effects(session, node, state, Event.ABORT, ended_operation)


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Declaration of a verb that changes the active operation instead of starting one."""

    act: Callable[[Session, Node, Caller], None]
    guards: tuple[Guard, ...] = ()


INTERRUPTS: Mapping[Event, Interrupt] = {
    Event.ABORT: Interrupt(_abort, (service_not_in_maintenance, service_not_held)),
    Event.UNHOLD: Interrupt(lambda session, node, _caller: transitions.unhold(session, node)),
}
