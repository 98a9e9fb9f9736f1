"""
Attempts: claim a step, call the driver, record the outcome, send the next link of the chain.

Claim and record are short transactions; between them no transaction is open, for as long as the
machine takes. A record is refused when the fence has been raised meanwhile.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from app import killpoints, log
from app.chain import RUN
from app.db import after, call_after_commit, reason, trouble
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
from app.services import (
    children,
    inspection,
    limits,
    operations,
    outcomes,
    reports,
    targets,
    waking,
)
from drivers.core import reserved
from drivers.core.errors import HardwareError, InspectionFailed, LeaseLost, NotSupported
from drivers.core.steps import Done, Failed, Flow, Hold, Outcome, Wait
from drivers.core.target import Target
from drivers.tls import announced
from workers import claims, leaving, outages, returned
from workers.claims import Attempt, Conductor
from workers.forwarding import send_again
from workers.patience import OUT_OF_REACH, patiently

logger = log.get(__name__)

#: Seconds until a child node that another operation has is asked for again.
CHILD_BUSY = 2.0


def run(conductor: Conductor, message: Message) -> Outcome | None:
    """
    Run the step that a message is about, if it is still to be run, and send the rest of its chain.

    Returns the step's outcome as it was recorded; None when nothing was.
    """
    killpoints.reach("received")
    node, operation, position = message.node, message.operation, message.cursor
    if not conductor.witness.note(node):
        return None  # the reconciler sends again
    if conductor.leaving.is_set():
        leaving.hand_over(conductor, operation)
        return None
    lease = conductor.leases.take(
        node,
        message.fence,
        lambda: patiently(lambda: _still_handed_out(conductor.runtime, operation, message.fence)),
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
        # before a change is written that lets another process work on the node
        conductor.leases.give_back(lease)
    following: int | None = position + 1
    if not advanced:
        killpoints.reach("freed", kind)
        with log.bound(node=node, operation=operation, step=step.label):
            following = _record_whatever(conductor, attempt, outcome)
    killpoints.reach("recorded", kind)
    if following is not None:
        _follow(conductor, message, following)
        killpoints.reach("followed", kind)
    return attempt.outcome


def _follow(conductor: Conductor, message: Message, position: int) -> None:
    """Have the step at `position` run: by the rest of the chain, where that begins with it."""
    rest = message.rest
    if conductor.leaving.is_set():
        leaving.hand_over(conductor, message.operation)
    elif rest is None or rest.cursor != position:
        with outages.borne(RUN):
            send_again(conductor.runtime, message.operation)
    elif not conductor.runtime.send(rest):
        logger.warning("message.not_sent", operation=message.operation)


def _still_handed_out(runtime: Runtime, operation: str, fence: int) -> bool:
    """Whether the operation is still under way, and under this fence."""
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
        if step.child and not patiently(lambda: _borrow_child(conductor, attempt)):
            return Wait(step.progress, poll_after=CHILD_BUSY)
        target = patiently(lambda: _target(conductor, attempt, before_order))
        outcome = returned.checked(call(target, step))
        if step.child and isinstance(outcome, Wait):
            outcome = _wait_of_child(target, step, outcome)
    except (LeaseLost, *OUT_OF_REACH) as error:
        logger.warning("claim.given_up", detail=reason(error))
        with suppress(*OUT_OF_REACH):  # then it takes until the step's own deadline
            claims.give_up(conductor, attempt)
        return None
    except HardwareError as error:
        outcome = returned.failure(step.label, error)
    except BaseException as error:  # SystemExit, too: a driver's defect must not stall its node
        logger.exception("step.crashed")
        outcome = returned.failure(step.label, error)
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
    """All that a driver is told of the node that a step is run on."""
    node, step = attempt.child or attempt.node, attempt.step
    return targets.build(
        conductor.runtime,
        node,
        attempt.ports,
        attempt.agent,
        **targets.more_of(conductor.runtime, node, attempt.agent),
        **inspection.material_of(conductor.runtime, attempt.node, step),
        step_id=f"{attempt.operation.uuid}:{step.position}",
        progress=step.progress,
        resumed=attempt.resumed,
        before_order=before_order,
        reports=attempt.reports,
    )


def _borrow_child(conductor: Conductor, attempt: Attempt) -> bool:
    """
    Reserve the child node that the step is run on, and read it; False while another has it.

    Raises LeaseLost when the claim does not hold any more.
    """
    with conductor.transaction() as session:
        operation = session.scalars(_LOCK, {"id": attempt.operation.id}).one()
        if not claims.holds(session, conductor, operation, attempt):
            raise LeaseLost(f"the operation on node {attempt.node.uuid} was handed out again")
        child = children.reserve(session, operation, attempt.step.child or "", conductor.name)
        if child is None:
            return False
        attempt.child = child
        attempt.ports = list(session.scalars(select(Port).where(Port.node_id == child.id)))
        attempt.agent = session.get(AgentRecord, child.id)
        session.flush()
        session.expunge_all()
    return True


def _wait_of_child(target: Target, step: OperationStep, outcome: Wait) -> Outcome:
    """What its parent makes of a step that waits; nobody has booted an agent on a child."""
    if target.options["conductor"]["permit_child_node_step_async_result"]:
        return Done({"goes_on": dict(outcome.progress)})
    if outcome.poll_after is None:
        raise NotSupported(
            f"step {step.label} waits for an agent, and none is booted on child node {target.uuid}"
        )
    return outcome


def call(target: Target, step: OperationStep) -> Any:
    """Run a step by the method that drivers may override for its flow; what that returned."""
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
    """Whether the step is done and changes nothing but that the next one is to be run."""
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
    assert isinstance(outcome, Done)
    advanced = patiently(lambda: claims.advance(conductor, attempt, outcome.result))
    attempt.outcome = outcome if advanced else None
    return advanced


_LOCK = select(Operation).where(Operation.id == bindparam("id")).with_for_update()


def _record_whatever(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> int | None:
    """As `_record`; where the database refuses what the driver reported, the step fails."""
    try:
        return patiently(lambda: _record(conductor, attempt, outcome))
    except Exception as error:
        if isinstance(error, OUT_OF_REACH) and trouble(error) is not None:
            raise
        logger.exception("step.not_recorded")
        failed = returned.failure(attempt.step.label, error)
    attempt.reports.clear()
    try:
        return patiently(lambda: _record(conductor, attempt, failed))
    except Exception:
        claims.give_up(conductor, attempt)  # the reconciler takes over, instead of the deadline
        raise


def _record(conductor: Conductor, attempt: Attempt, outcome: Outcome) -> int | None:
    """
    Record the outcome of an attempt that changes more than its step: the operation, the node.

    Returns the position of the step that the chain goes on with. None: nothing is to be run now, or
    the plan was replaced, and a chain of the new one has been sent.
    """
    with conductor.transaction() as session:
        node = operations.lock(session, attempt.node.id)
        operation = session.scalars(_LOCK, {"id": attempt.operation.id}).one()
        if claims.is_over(operation, attempt):
            return operation.cursor if operation.state == OperationState.QUEUED else None
        if not claims.holds(session, conductor, operation, attempt):
            operation.refused += 1
            logger.warning("step.refused", fence=attempt.operation.fence, now=operation.fence)
            return None
        step = operations.current_step(session, operation)
        child = attempt.child and operations.lock(session, attempt.child.id)
        try:
            reports.apply(session, child or node, attempt.reports)
        except InspectionFailed as error:
            outcome = Failed(str(error), error.code)
        outcome = limits.tolerant(step, outcome)
        attempt.outcome = outcome = limits.in_time(session, node, step, outcome, attempt.seconds)
        match outcome:
            case Done(result):
                goes_on = outcomes.done(session, node, operation, step, result)
            case Failed():
                goes_on = outcomes.fail(session, node, operation, step, outcome)
            case Hold():
                goes_on = outcomes.hold(session, node, operation, step, outcome)
            case Wait():
                outcomes.wait(session, node, operation, step, outcome)
                _watch(conductor, session, node, operation, outcome)
                return None
        if goes_on and (step.collects or isinstance(outcome, Failed)):
            operation.sends = 0
            operations.send(session, node, operation)
            return None
        return operation.cursor if goes_on else None


def _watch(
    conductor: Conductor,
    session: Session,
    node: Node,
    operation: Operation,
    outcome: Wait,
) -> None:
    """Look after a wait from this process, as soon as it is committed."""
    if operation.state != OperationState.WAITING:
        return
    operation_id, fence = operation.id, operation.fence
    if outcome.poll_after is not None:
        delay = outcome.poll_after
        call_after_commit(session, lambda: conductor.waker.poll(operation_id, fence, delay))
        return
    agent = session.get(AgentRecord, operation.node_id)
    if agent is not None and agent.url and outcome.progress.get("command"):
        url, token = agent.url, agent.token
        ca = announced(agent.verify_ca) or node.driver_info.get("agent_verify_ca")
        if conductor.waker.running:
            operation.watched_until = after(waking.WATCHED)
        call_after_commit(
            session, lambda: conductor.waker.watch(operation_id, fence, url, token, ca)
        )
