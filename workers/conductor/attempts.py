"""
Attempts: claim a step, call the driver, record the outcome, send the next message of the chain.

Claim and record are short transactions. No transaction is open while the driver talks to the
machine. The record is refused if the fence has been raised meanwhile.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app import killpoints, log
from app.broker.chain import RUN
from app.db.clock import after
from app.db.diagnosis import database_problem, reason
from app.db.transactions import call_after_commit
from app.engine import (
    child_nodes,
    driver_reports,
    inspection_findings,
    operations,
    resume,
    timeouts,
    transitions,
)
from app.hardware import targets
from app.models import (
    AgentRecord,
    Node,
    Operation,
    OperationState,
    OperationStep,
    Port,
    StepSource,
)
from app.runtime import Message, Runtime
from drivers.core import reserved
from drivers.core.errors import HardwareError, InspectionFailed, LeaseLost, NotSupported
from drivers.core.steps import Done, Failed, Flow, Hold, Outcome, Wait
from drivers.core.target import Target
from drivers.tls import valid_pem
from workers import retry
from workers.conductor import claims, drain, results
from workers.conductor.claims import Attempt, Conductor
from workers.conductor.redispatch import send_again
from workers.retry import OUT_OF_REACH, until_available

logger = log.get(__name__)

#: Seconds between two tries to reserve a child node that another operation holds.
CHILD_BUSY = 2.0


def run(conductor: Conductor, message: Message) -> Outcome | None:
    """
    Run the step of a message, unless the message is outdated, and send the rest of its chain.

    Returns the recorded outcome of the step; None: no outcome was recorded.
    """
    killpoints.reach("received")
    node, operation, position = message.node, message.operation, message.cursor
    if not conductor.witness.note(node):
        return None  # the reconciler sends again
    if conductor.leaving.is_set():
        drain.redispatch(conductor, operation)
        return None
    lease = conductor.leases.take(
        node,
        message.fence,
        lambda: until_available(
            lambda: _is_dispatched(conductor.runtime, operation, message.fence)
        ),
    )
    if lease is None:
        logger.info("lease.held_by_another", node=node, operation=operation)
        return None  # the reconciler sends again
    killpoints.reach("leased")
    try:
        lease.keep(conductor.runtime.settings.conductor.step_timeout)
        attempt = claims.claim(conductor, operation, message.fence, position)
        if attempt is None:
            return None
        kind, step = attempt.operation.kind, attempt.step
        killpoints.reach("claimed", kind)
        with log.bound(node=node, operation=operation, step=step.label):
            outcome = _act(conductor, attempt, lease.check)
        killpoints.reach("acted", kind)
        if outcome is None:
            return None
        advanced = _is_plain(attempt, outcome) and _advance(conductor, attempt, outcome)
    finally:
        # before the record is written: it may let another process work on the node
        conductor.leases.give_back(lease)
    following: int | None = position + 1
    if not advanced:
        killpoints.reach("freed", kind)
        with log.bound(node=node, operation=operation, step=step.label):
            following = _record_or_fail(conductor, attempt, outcome)
    killpoints.reach("recorded", kind)
    if following is not None:
        _follow(conductor, message, following)
        killpoints.reach("followed", kind)
    return attempt.outcome


def _follow(conductor: Conductor, message: Message, position: int) -> None:
    """Send the step at `position`: the rest of the chain, or a new chain if that differs."""
    rest = message.rest
    if conductor.leaving.is_set():
        drain.redispatch(conductor, message.operation)
    elif rest is None or rest.cursor != position:
        with retry.log_outages(RUN):
            send_again(conductor.runtime, message.operation)
    elif not conductor.runtime.send(rest):
        logger.warning("message.not_sent", operation=message.operation)


def _is_dispatched(runtime: Runtime, operation: str, fence: int) -> bool:
    """Whether the operation is still active, and has this fence."""
    query = select(Operation.id).where(
        Operation.uuid == operation, Operation.fence == fence, Operation.finished_at.is_(None)
    )
    with runtime.reading() as session:
        return session.scalar(query) is not None


def _act(
    conductor: Conductor, attempt: Attempt, before_order: Callable[[], None]
) -> Outcome | None:
    """Call the driver; None when this process may no longer act on the node."""
    step, started = attempt.step, time.monotonic()
    try:
        if step.child and not until_available(lambda: _borrow_child(conductor, attempt)):
            return Wait(step.progress, poll_after=CHILD_BUSY)
        target = until_available(lambda: _target(conductor, attempt, before_order))
        outcome = results.checked(call(target, step))
        if step.child and isinstance(outcome, Wait):
            outcome = _wait_of_child(target, step, outcome)
    except (LeaseLost, *OUT_OF_REACH) as error:
        logger.warning("claim.given_up", detail=reason(error))
        with suppress(*OUT_OF_REACH):  # the reconciler then waits for the step's deadline
            claims.expire(conductor, attempt)
        return None
    except HardwareError as error:
        outcome = results.failure(step.label, error)
    except BaseException as error:  # includes SystemExit: a driver's defect must not stall its node
        logger.exception("step.crashed")
        outcome = results.failure(step.label, error)
    attempt.seconds = time.monotonic() - started
    failure = {}
    if isinstance(outcome, Failed):
        failure = {"code": outcome.code, "reason": outcome.reason}
    logger.info(
        "step.acted",
        outcome=type(outcome).__name__.lower(),
        attempt=step.attempts,
        seconds=round(attempt.seconds, 3),
        **failure,
    )
    return outcome


def _target(conductor: Conductor, attempt: Attempt, before_order: Callable[[], None]) -> Target:
    """Build the driver's view of the node that a step runs on."""
    node, step = attempt.child or attempt.node, attempt.step
    return targets.build(
        conductor.runtime,
        node,
        attempt.ports,
        attempt.agent,
        **targets.volumes_and_traits(conductor.runtime, node, attempt.agent),
        **inspection_findings.material_of(conductor.runtime, attempt.node, step),
        step_id=f"{attempt.operation.uuid}:{step.position}",
        progress=step.progress,
        resumed=attempt.resumed,
        before_order=before_order,
        reports=attempt.reports,
    )


def _borrow_child(conductor: Conductor, attempt: Attempt) -> bool:
    """
    Reserve and read the child node that the step runs on; False: another operation holds it.

    Raises LeaseLost: the attempt's claim is no longer valid.
    """
    with conductor.transaction() as session:
        operation = session.get_one(Operation, attempt.operation.id, with_for_update=True)
        if not claims.holds(session, conductor, operation, attempt):
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


def call(target: Target, step: OperationStep) -> Any:
    """Run a step with the interface method that drivers may override; return its result."""
    driver = target.driver
    if step.flow and step.name in reserved.METHODS:
        return reserved.run(target, step.name, step.args, ramdisk=step.requires_ramdisk)
    interface = driver.by_kind[step.interface]
    if step.child and step.name not in interface.steps:
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
        return driver.deploy.execute_in_band(target, Flow(step.flow), document)
    if step.flow is None:
        return interface.run(target, step.name, step.args)
    return getattr(interface, f"execute_{step.flow}_step")(target, document)


def _is_plain(attempt: Attempt, outcome: Outcome) -> bool:
    """Whether the step is done, and only the cursor changes: `claims.advance` is enough."""
    step = attempt.step
    more = (
        attempt.reports
        or step.event
        or step.collects
        or step.child
        or step.source == StepSource.TIDY
    )
    return isinstance(outcome, Done) and attempt.has_next and not more


def _advance(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> bool:
    """Record the step and move the cursor; False: `_record` has to do it."""
    assert isinstance(outcome, Done)
    advanced = until_available(lambda: claims.advance(conductor, attempt, outcome.result))
    attempt.outcome = outcome if advanced else None
    return advanced


def _ends_plainly(attempt: Attempt, outcome: Outcome) -> bool:
    """Whether the step is done, and only columns of its node, operation and steps change."""
    step = attempt.step
    more = step.collects or step.child or not attempt.operation.moves_node
    return (
        isinstance(outcome, Done) and not more and driver_reports.concern_columns(attempt.reports)
    )


def _record_or_fail(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> int | None:
    """Call `_record`; fail the step if the database refuses the driver's reports."""
    try:
        return until_available(lambda: _record(conductor, attempt, outcome))
    except Exception as error:
        if isinstance(error, OUT_OF_REACH) and database_problem(error) is not None:
            raise
        logger.exception("step.not_recorded")
        failed = results.failure(attempt.step.label, error)
    attempt.reports.clear()
    try:
        return until_available(lambda: _record(conductor, attempt, failed))
    except Exception:
        claims.expire(conductor, attempt)  # the reconciler takes over before the deadline
        raise


def _record(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> int | None:
    """
    Record the outcome of an attempt, with its effects on operation and node.

    Returns the position of the next step of the chain. None: no step is due now, or the plan was
    replaced and a new chain has been sent.
    """
    locked = operations.drafted if _ends_plainly(attempt, outcome) else operations.mapped
    named = attempt.node.id, attempt.operation.id
    with conductor.transaction() as session, locked(session, *named) as (node, operation):
        if claims.is_recorded(operation, attempt):
            return operation.cursor if operation.state == OperationState.QUEUED else None
        if not claims.holds(session, conductor, operation, attempt):
            operation.refused += 1
            logger.warning("step.refused", fence=attempt.operation.fence, now=operation.fence)
            return None
        step = operations.current_step(session, operation)
        child = attempt.child and operations.lock(session, attempt.child.id)
        try:
            driver_reports.apply(session, child or node, attempt.reports)
        except InspectionFailed as error:
            outcome = Failed(str(error), error.code)
        outcome = timeouts.retry_transient(step, outcome)
        attempt.outcome = outcome = timeouts.charge_budget(
            session, node, step, outcome, attempt.seconds
        )
        match outcome:
            case Done(result):
                continues = transitions.done(session, node, operation, step, result)
            case Failed():
                continues = transitions.fail(session, node, operation, step, outcome)
            case Hold():
                continues = transitions.hold(session, node, operation, step, outcome)
            case Wait():
                transitions.wait(session, node, operation, step, outcome)
                _watch(conductor, session, node, operation, outcome)
                return None
        if continues and (step.collects or isinstance(outcome, Failed)):
            operation.sends = 0
            operations.send(session, node, operation)
            return None
        return operation.cursor if continues else None


def _watch(
    conductor: Conductor,
    session: Session,
    node: Node,
    operation: Operation,
    outcome: Wait,
) -> None:
    """Register a wait with this process's wait monitor once it is committed."""
    if operation.state != OperationState.WAITING:
        return
    operation_id, fence = operation.id, operation.fence
    if outcome.poll_after is not None:
        delay = outcome.poll_after
        call_after_commit(session, lambda: conductor.wait_monitor.poll(operation_id, fence, delay))
        return
    agent = session.get(AgentRecord, operation.node_id)
    if agent is not None and agent.url and outcome.progress.get("command"):
        url, token = agent.url, agent.token
        ca = valid_pem(agent.verify_ca) or node.driver_info.get("agent_verify_ca")
        if conductor.wait_monitor.running:
            operation.watched_until = after(resume.POLLING_PERIOD)
        call_after_commit(
            session, lambda: conductor.wait_monitor.watch(operation_id, fence, url, token, ca)
        )
