"""
Attempts: claim a step, act, record what came of it.

Claim and record are short transactions; between them no transaction is open, for as long as the
machine takes. What is recorded is refused when the fence has been raised meanwhile.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import JSON, bindparam, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app import killpoints, log
from app.db import after, call_after_commit, now, retrying, utcnow
from app.models import (
    AgentRecord,
    Node,
    Operation,
    OperationState,
    OperationStep,
    Port,
    StepState,
)
from app.runtime import Runtime
from app.services import moves, operations, outcomes, targets
from drivers.errors import HardwareError, LeaseLost
from drivers.steps import Done, Failed, Flow, Outcome, Wait
from drivers.target import Target
from workers.lease import Leases
from workers.waker import Waker

logger = log.get(__name__)
T = TypeVar("T")

#: Seconds for which an outcome is kept while the database is out of reach.
PATIENCE = 300.0


@dataclass(slots=True)
class Conductor:
    """This process, as one that claims steps."""

    name: str
    incarnation: str
    runtime: Runtime
    leases: Leases
    waker: Waker


@dataclass(slots=True)
class Attempt:
    """One claimed step, read from the rows when it was claimed."""

    operation: Operation
    node: Node
    step: OperationStep
    ports: list[Port]
    agent: AgentRecord | None
    resumed: bool
    reports: dict[str, Any] = field(default_factory=dict)


def run_step(
    conductor: Conductor, node: str, operation: str, fence: int, cursor: int, *, last: bool
) -> bool:
    """
    What a message asks for, if it is still to be done.

    Returns whether the chain that the message belongs to goes on.
    """
    killpoints.reach("received")
    lease = conductor.leases.take(
        node, fence, lambda: _still_handed_out(conductor.runtime, operation, fence)
    )
    if lease is None:
        logger.info("lease.held_by_another", node=node, operation=operation)
        return False  # the reconciler sends again
    try:
        attempt = retrying(lambda: _claim(conductor, operation, fence, cursor))
        if attempt is None:
            return False
        kind = attempt.operation.kind
        killpoints.reach("claimed", kind)
        with log.bound(node=node, operation=operation, step=attempt.step.label):
            outcome = _act(conductor, attempt, lease.check)
    finally:
        conductor.leases.give_back(lease)
    killpoints.reach("acted", kind)
    if outcome is None:
        return False
    with log.bound(node=node, operation=operation, step=attempt.step.label):
        goes_on = _patiently(lambda: _record(conductor, attempt, outcome, last=last))
    killpoints.reach("recorded", kind)
    return goes_on


def _still_handed_out(runtime: Runtime, operation: str, fence: int) -> bool:
    """Whether nobody has raised the fence since."""
    query = select(Operation.id).where(Operation.uuid == operation, Operation.fence == fence)
    with runtime.reading() as session:
        return session.scalar(query) is not None


# Built once: they are the hot path, and building a statement costs more than running it.
_CLAIM_OPERATION = (
    update(Operation)
    .where(
        Operation.uuid == bindparam("operation"),
        Operation.cursor == bindparam("at"),
        Operation.fence == bindparam("under"),
        Operation.claimed < bindparam("at"),
        Operation.state == OperationState.QUEUED,
    )
    .values(
        claimed=bindparam("at"),
        claimed_by=bindparam("incarnation"),
        state=OperationState.RUNNING,
        started_at=func.coalesce(Operation.started_at, now()),
        deadline_at=after(bindparam("timeout")),
        heartbeats=func.coalesce(
            select(AgentRecord.heartbeats)
            .where(AgentRecord.node_id == Operation.node_id)
            .scalar_subquery(),
            0,
        ),
    )
    .execution_options(synchronize_session=False)
)
_START_STEP = (
    update(OperationStep)
    .where(
        OperationStep.operation_id
        == select(Operation.id).where(Operation.uuid == bindparam("operation")).scalar_subquery(),
        OperationStep.position == bindparam("at"),
    )
    .values(
        state=StepState.RUNNING,
        conductor=bindparam("who"),
        attempts=OperationStep.attempts + 1,
        started_at=func.coalesce(OperationStep.started_at, now()),
    )
    .execution_options(synchronize_session=False)
)
_CLAIMED = (
    select(Operation, Node, OperationStep, AgentRecord)
    .join(Node, Node.id == Operation.node_id)
    .join(
        OperationStep,
        (OperationStep.operation_id == Operation.id) & (OperationStep.position == Operation.cursor),
    )
    .outerjoin(AgentRecord, AgentRecord.node_id == Node.id)
    .where(Operation.uuid == bindparam("operation"))
)
_PORTS = select(Port).where(Port.node_id == bindparam("node_id"))


def _claim(conductor: Conductor, uuid: str, fence: int, cursor: int) -> Attempt | None:
    """Claim a step, or learn that it is not, or no longer, to be run under this fence."""
    named = {"operation": uuid, "at": cursor}
    with conductor.runtime.transaction() as session:
        claimed = session.execute(
            _CLAIM_OPERATION,
            {
                **named,
                "under": fence,
                "incarnation": conductor.incarnation,
                "timeout": conductor.runtime.settings.conductor.step_timeout,
            },
        )
        if not claimed.rowcount:  # type: ignore[attr-defined]
            return None
        session.execute(_START_STEP, {**named, "who": conductor.name})
        operation, node, step, agent = session.execute(_CLAIMED, {"operation": uuid}).one()
        ports = list(session.scalars(_PORTS, {"node_id": node.id}))
        session.expunge_all()
        return Attempt(operation, node, step, ports, agent, resumed=step.deaths > 0)


def _act(
    conductor: Conductor, attempt: Attempt, before_order: Callable[[], None]
) -> Outcome | None:
    """Call the driver; None when this process may no longer act on the node."""
    step = attempt.step
    try:
        target = targets.build(
            conductor.runtime,
            attempt.node,
            attempt.ports,
            attempt.agent,
            step_id=f"{attempt.operation.uuid}:{step.position}",
            progress=step.progress,
            resumed=attempt.resumed,
            before_order=before_order,
            reports=attempt.reports,
        )
        started = time.monotonic()
        outcome = call(target, step)
    except LeaseLost as error:
        logger.warning("lease.lost", detail=str(error))
        return None
    except HardwareError as error:
        outcome = Failed(str(error), error.code, error.retryable)
    except Exception as error:  # a driver's bug must not leave its node to a deadline
        logger.exception("step.crashed")
        outcome = Failed(f"{step.label} has a defect: {type(error).__name__}: {error}", "defect")
    logger.info(
        "step.acted",
        outcome=type(outcome).__name__.lower(),
        attempt=step.attempts,
        seconds=round(time.monotonic() - started, 3),
    )
    return outcome


def call(target: Target, step: OperationStep) -> Outcome:
    """Run a step by the method that drivers may override for its flow."""
    driver = target.driver
    interface = driver.by_kind[step.interface]
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
    if step.flow == Flow.CLEAN:
        outcome = interface.execute_clean_step(target, document)
    elif step.flow == Flow.DEPLOY:
        outcome = interface.execute_deploy_step(target, document)
    else:
        outcome = interface.run(target, step.name, step.args)
    return outcome or Done()


_ADVANCE = (
    update(Operation)
    .where(
        Operation.id == bindparam("operation"),
        Operation.cursor == bindparam("at"),
        Operation.fence == bindparam("under"),
        Operation.claimed_by == bindparam("incarnation"),
        Operation.state == OperationState.RUNNING,
    )
    .values(
        cursor=Operation.cursor + 1,
        state=OperationState.QUEUED,
        claimed_by=None,
        deadline_at=None,
        sent_at=now(),
        sends=1,
    )
    .execution_options(synchronize_session=False)
)
_END_STEP = (
    update(OperationStep)
    .where(OperationStep.id == bindparam("step"))
    .values(
        state=StepState.DONE,
        finished_at=now(),
        progress={},
        result=bindparam("came_to", type_=JSON),
    )
    .execution_options(synchronize_session=False)
)


def _advance(conductor: Conductor, attempt: Attempt, done: Done) -> bool:
    """
    The common case of `_record`, without reading a row: a step is done that changes nothing else,
    and the chain has the next one. False when the fence refuses it.
    """
    operation, step = attempt.operation, attempt.step
    with conductor.runtime.transaction() as session:
        advanced = session.execute(
            _ADVANCE,
            {
                "operation": operation.id,
                "at": step.position,
                "under": operation.fence,
                "incarnation": conductor.incarnation,
            },
        )
        if not advanced.rowcount:  # type: ignore[attr-defined]
            return False
        session.execute(_END_STEP, {"step": step.id, "came_to": dict(done.result) or None})
    return True


_LOCK = select(Operation).where(Operation.id == bindparam("id")).with_for_update()


def _record(conductor: Conductor, attempt: Attempt, outcome: Outcome, *, last: bool) -> bool:
    """Write what came of an attempt: the only code that ends one."""
    step = attempt.step
    simple = not (last or attempt.reports or step.event or step.collects or step.source == "tidy")
    if simple and isinstance(outcome, Done) and _advance(conductor, attempt, outcome):
        return True
    with conductor.runtime.transaction() as session:
        node = operations.lock(session, attempt.node.id)
        operation = session.scalars(_LOCK, {"id": attempt.operation.id}).one()
        if not _is_ours(conductor, attempt, operation):
            operation.refused += 1
            logger.warning("step.refused", fence=attempt.operation.fence, now=operation.fence)
            return False
        step = operations.current_step(session, operation)
        _apply(session, node, attempt.reports)
        match outcome:
            case Done(result):
                goes_on = outcomes.done(session, node, operation, step, result)
            case Failed():
                goes_on = outcomes.fail(session, node, operation, step, outcome)
            case Wait():
                outcomes.wait(session, node, operation, step, outcome)
                _watch(conductor, session, operation, outcome)
                return False
        in_chain = isinstance(outcome, Done) and not last and not step.collects
        if goes_on and not in_chain:
            operations.send(session, node, operation)
        return goes_on and in_chain


def _is_ours(conductor: Conductor, attempt: Attempt, operation: Operation) -> bool:
    return (
        operation.state == OperationState.RUNNING
        and operation.fence == attempt.operation.fence
        and operation.cursor == attempt.step.position
        and operation.claimed_by == conductor.incarnation
    )


def _watch(
    conductor: Conductor,
    session: Session,
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
        url, token, ca = agent.url, agent.token, agent.verify_ca
        call_after_commit(
            session, lambda: conductor.waker.watch(operation_id, fence, url, token, ca)
        )


def _apply(session: Session, node: Node, reports: Mapping[str, Any]) -> None:
    """Write what a driver reported about its machine."""
    changed = False
    for name, value in reports.items():
        if name in ("agent", "agent_steps", "hardware_manager_version"):
            continue
        if name in ("driver_internal_info", "properties"):
            merged = {**getattr(node, name), **value}
            value = {key: each for key, each in merged.items() if each is not None}
        if getattr(node, name) != value:
            setattr(node, name, value)
            changed = True
    if changed:
        node.updated_at = utcnow()
    if reports.keys() & {"agent", "agent_steps", "hardware_manager_version"}:
        agent = session.get(AgentRecord, node.id, with_for_update=True, populate_existing=True)
        if agent is None:
            return
        if "agent" in reports:
            moves.forget_agent(agent)
        if "agent_steps" in reports:
            agent.steps = {**agent.steps, **reports["agent_steps"]}
            agent.steps_refreshed_at = utcnow()
        if "hardware_manager_version" in reports:
            agent.hardware_manager_version = reports["hardware_manager_version"]


def _patiently(work: Callable[[], T]) -> T:
    """Keep what came of a step until the database takes it, within reason."""
    end = time.monotonic() + PATIENCE
    pause = 0.1
    while True:
        try:
            return retrying(work)
        except DBAPIError as error:
            if time.monotonic() > end:
                raise
            logger.warning("record.postponed", detail=str(error.orig))
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
