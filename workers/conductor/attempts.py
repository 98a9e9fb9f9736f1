"""
Attempts: claim a step, call the driver, record the outcome, send the next message of the chain.

Each attempt is a Celery task. Claim and record (`recording.py`) are short transactions, and no
transaction is open while the driver talks to the machine.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from celery import Celery, Task
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.broker import chain, monitoring, outages, queue
from app.broker.chain import RUN
from app.broker.messages import Link, Message
from app.broker.outages import OUT_OF_REACH, until_available
from app.db.diagnosis import reason
from app.engine import child_nodes, refreshes
from app.engine.records import bmc_recordings, inspection_findings
from app.hardware import targets
from app.inspection.process import process
from app.metrics.kinds import OTHER
from app.metrics.table import CLAIMS, REFUSALS, STEPS
from app.models import READING, AgentRecord, Operation, OperationKind, OperationStep, Port
from app.observe import log
from app.process import kill_points, release, tracing
from app.runtime import Runtime
from drivers.core import reserved
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError, LeaseLost, NotSupported, SecretsUnavailable
from drivers.core.recording.traffic import Traffic
from drivers.core.steps import Done, Failed, Flow, Outcome, Wait
from drivers.core.target import Target
from workers.conductor import claims, drain, recording, results
from workers.conductor.abilities import StepThreads
from workers.conductor.claims import Attempt
from workers.conductor.conductor import Conductor
from workers.conductor.lease import Lease
from workers.conductor.redispatch import forward, forward_refused, send_again

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds between two tries to reserve a child node that another operation holds.
CHILD_BUSY = 2.0
#: Seconds between two tries to read the secrets of a node while the vault does not give them.
SECRETS_PAUSE = 5.0
#: Kinds of operations whose steps use the secrets of an instance.
USES_INSTANCE = (OperationKind.ACTIVE, OperationKind.REBUILD)
#: Result of a message that is outdated: its step was run, dispatched again, or claimed elsewhere.
NOT_RUN = "not run"
#: Seconds that a message may wait for the conductor to be registered.
REGISTER_TIMEOUT = 5.0


class StepFailed(Exception):
    """A step failed, and the failure is recorded; Flower shows the reason."""


def register_task(
    application: Celery, conductor: Conductor, registered: threading.Event, threads: StepThreads
) -> None:
    """
    Register the task that runs one step.

    registered: set when the conductor is registered in the database; no step is claimed before.
    threads: those that run steps.
    """

    @application.task(
        name=RUN, bind=True, acks_late=True, ignore_result=True, throws=(StepFailed,), shared=False
    )
    def run_step(self: Task, *arguments: object) -> str:
        """Run one step; return the name of its outcome, which Flower shows."""
        try:
            if queue.version_of(self.request) > release.UNDERSTOOD:
                self.request.chain = None
                forward(conductor.runtime, chain.operation_of(arguments))
                return "forwarded"
            message = chain.received(conductor.name, self.request, arguments)
        except chain.Malformed as error:
            seldom.warning("message.malformed", detail=str(error))
            return NOT_RUN
        if not registered.wait(REGISTER_TIMEOUT):
            return NOT_RUN  # the reconciler sends again
        outcome = None
        with threads.at_work(), outages.log_outages(RUN):
            outcome = run(
                conductor, message, partial(monitoring.withdraw, application, conductor.name)
            )
        if isinstance(outcome, Failed):
            raise StepFailed(outcome.reason)
        return type(outcome).__name__.lower() if outcome else NOT_RUN


def run(
    conductor: Conductor,
    message: Message,
    withdraw: Callable[[Sequence[Link]], None] = lambda _links: None,
) -> Outcome | None:
    """
    Run the step of a message, unless the message is outdated, and send the remaining chain.

    withdraw: called after the step, with the later links of the chain that it has not sent.
    Returns the recorded outcome of the step, or None if no outcome was recorded.
    """
    started_at, waiting = time.time_ns(), list(message.links[1:])
    with ExitStack() as scope:
        kill_points.reach("received")
        node, operation, position = message.node, message.operation, message.cursor
        if not conductor.witness.note(node):
            return None  # the reconciler sends again
        if conductor.draining.is_set():
            drain.redispatch(conductor, operation)
            return None
        lease = _take_lease(conductor, message)
        if lease is None:
            return None  # the reconciler sends again
        kill_points.reach("leased")
        try:
            lease.keep(conductor.runtime.settings.conductor.step_timeout)
            attempt = claims.claim(conductor, operation, message.fence, position, node)
            if attempt is None:
                REFUSALS.add("outdated")
                # after the lease is given back
                scope.callback(forward_refused, conductor.runtime, operation, message.fence)
                return None
            # not before: another delivery of this message may have sent them
            scope.callback(withdraw, waiting)
            CLAIMS.add()
            scope.callback(conductor.attempts.discard, attempt.operation.claim)
            kind, step = attempt.operation.kind, attempt.step
            kill_points.reach("claimed", kind)
            _trace(scope, message, attempt, started_at)
            with tracing.inside(step.label, conductor=conductor.name, attempt=step.attempts):
                outcome = _act(conductor, attempt, lease)
            kill_points.reach("acted", kind)
            if outcome is None:
                return None
            is_advanced = recording.advance(conductor, attempt, outcome)
        finally:
            # before the record is written: it may let another process work on the node
            conductor.leases.give_back(lease)
        next_position: int | None = position + 1
        if not is_advanced:
            kill_points.reach("freed", kind)
            next_position = recording.record(conductor, attempt, outcome)
        kill_points.reach("recorded", kind)
        if next_position is not None:
            if _follow(conductor, message, next_position):
                waiting.clear()
            kill_points.reach("followed", kind)
        return attempt.outcome


def _take_lease(conductor: Conductor, message: Message) -> Lease | None:
    """Take the lease of a message's node, unless another conductor holds it."""
    node, operation, fence = message.node, message.operation, message.fence
    lease = conductor.leases.take(
        node,
        fence,
        lambda: until_available(lambda: _is_dispatched(conductor.runtime, operation, fence)),
    )
    if lease is None:
        logger.info("lease.held_by_another", node=node, operation=operation)
        REFUSALS.add("lease")
    return lease


def _trace(scope: ExitStack, message: Message, attempt: Attempt, started_at: int) -> None:
    """Add the facts of a claimed step to all lines of the log and to the trace, until the end."""
    request, step = attempt.operation.request_id, attempt.step.label
    facts = {"node": message.node, "operation": message.operation, "step": step}
    scope.enter_context(log.bound(**facts, request_id=request))
    scope.enter_context(
        tracing.continued(request, RUN, began=started_at, **facts, position=attempt.step.position)
    )


def _follow(conductor: Conductor, message: Message, position: int) -> bool:
    """
    Send the step at `position`: the rest of the chain, or a new chain if that differs.

    Returns whether it was the rest of the chain.
    """
    remainder = message.rest
    if conductor.draining.is_set():
        drain.redispatch(conductor, message.operation)
    elif remainder is None or remainder.cursor != position:
        with outages.log_outages(RUN):
            send_again(conductor.runtime, message.operation)
    elif conductor.runtime.send(remainder):
        return True
    else:
        seldom.warning("message.not_sent", operation=message.operation)
    return False


def _is_dispatched(runtime: Runtime, operation: str, fence: int) -> bool:
    """Whether the operation is still active, and has this fence."""
    query = select(Operation.id).where(
        Operation.uuid == operation, Operation.fence == fence, Operation.finished_at.is_(None)
    )
    with runtime.reading() as session:
        return session.scalar(query) is not None


def _act(conductor: Conductor, attempt: Attempt, lease: Lease) -> Outcome | None:
    """Call the driver; None when this process may no longer act on the node."""
    step, started = attempt.step, time.monotonic()
    try:
        if step.child and not until_available(lambda: _borrow_child(conductor, attempt)):
            return Wait(step.progress, poll_after=CHILD_BUSY)
        reads = attempt.operation.kind in READING
        before_order = refreshes.refuse_order if reads else lease.check
        target = until_available(lambda: _target(conductor, attempt, before_order))
        with lease.calling(), _recorded(conductor, attempt, target) as target:
            outcome = results.checked(call_of(target, step)())
            process(target)
        if step.child and isinstance(outcome, Wait):
            outcome = _wait_of_child(target, step, outcome)
    except (LeaseLost, *OUT_OF_REACH) as error:
        logger.warning("claim.given_up", detail=reason(error))
        REFUSALS.add("given_up")
        with suppress(*OUT_OF_REACH):  # the reconciler then waits for the step's deadline
            claims.expire(conductor, attempt)
        return None
    except SecretsUnavailable as error:  # it says nothing about the machine
        attempt.postponed = True
        outcome = Wait(step.progress, poll_after=SECRETS_PAUSE, reason=str(error))
    except HardwareError as error:
        outcome = results.failure(step.label, error)
    except BaseException as error:  # includes SystemExit: a driver's defect must not stall its node
        logger.exception("step.crashed")
        outcome = results.failure(step.label, error)
    attempt.seconds = time.monotonic() - started
    name = type(outcome).__name__.lower()
    STEPS.observe(attempt.seconds, _measured_as(conductor.runtime, attempt), name)
    failure = {}
    if isinstance(outcome, Failed):
        failure = {"code": outcome.code, "reason": outcome.reason}
    tracing.note(outcome=name, code=failure.get("code"), failed=bool(failure))
    logger.info(
        "step.acted",
        outcome=name,
        attempt=step.attempts,
        seconds=round(attempt.seconds, 3),
        **failure,
    )
    return outcome


@contextmanager
def _recorded(conductor: Conductor, attempt: Attempt, target: Target) -> Iterator[Target]:
    """Record the step's exchanges with the BMC, if that is switched on for its node."""
    node = attempt.child or attempt.node
    if not bmc_recordings.is_on(node):
        yield target
        return
    traffic = Traffic()
    try:
        yield replace(target, record_exchange=traffic.add)
    finally:
        try:
            bmc_recordings.keep(conductor.runtime, node, attempt.operation, attempt.step, traffic)
        except SQLAlchemyError as error:  # a recording is no reason for a step to fail
            seldom.warning("recording.lost", node=node.uuid, detail=reason(error))


def _measured_as(runtime: Runtime, attempt: Attempt) -> str:
    """Return the step's label for the metrics: OTHER if no driver has it, as agents name theirs."""
    node, step = attempt.child or attempt.node, attempt.step
    interfaces = runtime.drivers.types.get(node.driver, {}).get(step.interface, {}).values()
    is_known = step.name in reserved.METHODS or any(
        hasattr(interface, step.name) for interface in interfaces
    )
    return step.label if interfaces and is_known else OTHER


def _target(conductor: Conductor, attempt: Attempt, before_order: Callable[[], None]) -> Target:
    """Build the driver's view of the node that a step runs on."""
    node, step = attempt.child or attempt.node, attempt.step
    parts = targets.rarely_needed(conductor.runtime, node, attempt.agent)
    targets.require_readable(f"arguments of step {step.label}", step.args)
    if attempt.operation.kind in USES_INSTANCE:
        targets.require_readable("instance_info", node.instance_info)
        for volume in parts.get("volume_targets", ()):
            targets.require_readable(
                f"properties of volume target {volume.uuid}", volume.properties
            )
    return targets.build(
        conductor.runtime,
        node,
        attempt.ports,
        attempt.agent,
        **parts,
        **inspection_findings.material_of(conductor.runtime, attempt.node, step),
        step_id=f"{attempt.operation.uuid}:{step.position}",
        progress=step.progress,
        resumed=attempt.resumed,
        crashes=step.deaths,
        before_order=before_order,
        keep_progress=partial(_keep_progress, conductor, attempt),
        nodes_with=partial(targets.nodes_with, conductor.runtime, node),
        reports=attempt.reports,
    )


def _keep_progress(conductor: Conductor, attempt: Attempt, progress: Mapping[str, Any]) -> None:
    """Store a progress that the driver reports during the attempt. Raises LeaseLost, Unusable."""
    document = results.checked_progress(Wait(progress))
    until_available(lambda: claims.keep_progress(conductor, attempt, document))


def _borrow_child(conductor: Conductor, attempt: Attempt) -> bool:
    """
    Reserve and read the child node that the step runs on; False: another operation holds it.

    Raises LeaseLost: the attempt's claim is no longer valid.
    """
    with conductor.transaction() as session:
        operation = session.get_one(Operation, attempt.operation.id, with_for_update=True)
        if not claims.holds(session, operation, attempt):
            raise LeaseLost(f"the operation on node {attempt.node.uuid} was dispatched again")
        child = child_nodes.reserve(session, operation, attempt.step.child or "", conductor.name)
        if child is None:
            return False
        attempt.child = child
        attempt.ports = list(session.scalars(select(Port).where(Port.node_id == child.id)))
        attempt.agent = session.get(AgentRecord, child.id)
        session.flush()
        session.expunge_all()
    return True


def _wait_of_child(target: Target, step: OperationStep, outcome: Wait) -> Outcome:
    """
    Convert the `Wait` of a step on a child node to the outcome for the parent's step.

    Raises NotSupported: the step waits for an agent, but the service boots none on a child node.
    """
    if target.options["conductor"]["permit_child_node_step_async_result"]:
        return Done({"goes_on": dict(outcome.progress)})
    if outcome.poll_after is None:
        raise NotSupported(
            f"step {step.label} waits for an agent, and none is booted on child node {target.uuid}"
        )
    return outcome


def _has(target: Target, step: OperationStep) -> bool:
    """Return whether the node's interfaces still have a step of a flow."""
    assert step.flow is not None
    steps = target.driver.steps(Flow(step.flow), target)
    return (step.interface, step.name) in {plan_step.key for plan_step in steps}


def call_of(target: Target, step: OperationStep) -> Callable[[], Any]:
    """
    Return the call that runs a step: of the interface method that drivers may override.

    Raises NotSupported: the step's child node does not have it.
    """
    driver = interfaces_of(target)
    if step.flow and step.name in reserved.METHODS:
        return partial(reserved.run, target, step.name, step.args, ramdisk=step.requires_ramdisk)
    interface = driver.by_kind[step.interface]
    if step.child and not _has(target, step):
        raise NotSupported(f"child node {target.uuid} has no step {step.label}")
    document: dict[str, Any] = {
        "interface": step.interface,
        "step": step.name,
        "args": dict(step.args),
    }
    if step.in_band:
        document |= {"priority": step.priority, "abortable": step.abortable}
        document["reboot_requested"] = step.reboot_requested
        assert step.flow is not None
        return partial(driver.deploy.execute_in_band, target, Flow(step.flow), document)
    if step.flow is None:
        return partial(interface.run, target, step.name, step.args)
    return partial(getattr(interface, f"execute_{step.flow}_step"), target, document)
