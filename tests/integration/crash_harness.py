"""
API, conductors and reconciler simulated in one process, with a crash or a pause at a kill point.

A crash unwinds the call by an exception that no code catches; effects of its cleanup handlers are
ignored. A pause interrupts the call while all other processes run until they are idle and have
declared the paused one dead; then the call continues.
"""

import logging
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import structlog

from app.agents import heartbeats
from app.cluster import conductors
from app.db.clock import after, now
from app.engine import transitions
from app.models import ACTIVE, AgentRecord, Operation, OperationState
from app.models import Conductor as ConductorRow
from app.process import kill_points
from drivers.core.interface_kinds import POWER_OFF
from tests.integration.harness import Acme, AcmePower, Harness
from tests.support.inside import AlwaysNotes
from tests.support.redis import breakers
from tests.unit.drivers.machines import TOKEN
from workers.conductor import attempts, claims, poller
from workers.conductor import lease as leases_module
from workers.conductor.conductor import Conductor
from workers.conductor.lease import Leases
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

#: Contact with the database long enough to declare conductors dead.
TRUSTED = Contact(timeout=0)
#: Roles: `wait_monitor`: a thread of a conductor; `now`: the process that runs the reconciler.
API, CONDUCTOR, WAKER, NOW = "api", "conductor", "waker", "now"
#: Points inside a transaction: a process that pauses there blocks all others.
IN_A_TRANSACTION = {"handed_out"}


class Crashed(BaseException):
    """Crash of a process: unwinds the call; no code after it runs."""


class Keys(dict):
    """The subset of Redis that leases use; keys do not expire."""

    def set(self, key, value, *, nx, px):
        assert nx
        assert px
        return self.setdefault(key, value) is value

    def eval(self, script, _count, key, value, *_):
        if self.get(key) != value:
            return 0
        if script == leases_module.RELEASE:
            del self[key]
        return 1


class DueWaits(list):
    """Wait monitor that records waits; the harness decides when they are due."""

    running = False

    def poll(self, operation_id, fence, _delay):
        self.append((operation_id, fence))

    def watch(self, *_):
        pass


@dataclass
class Process:
    """A simulated process."""

    role: str
    name: str

    conductor: Conductor | None = None  # None: the process runs no steps
    up: bool = True  # neither dead nor paused
    dead: bool = False


@dataclass(frozen=True)
class Interruption:
    """Crash or pause of the process of a role that reaches a kill point for the nth time."""

    role: str
    point: str
    nth: int = 1
    pause: bool = False

    def __str__(self):
        return f"{self.role}-{self.point}-{self.nth}-{'pause' if self.pause else 'die'}"


class CrashHarness(Harness):
    """
    Harness of two conductors, an API and a reconciler, with one crash or pause.

    lossy: only messages of the reconciler arrive. interrupted: the interruption has happened.
    wrote: (operation, fence, position) -> number of writes of the step's outcome.
    """

    def __init__(self, inside, agent):
        super().__init__(inside, agent)
        self.runtime, inside.runtime.send = inside.runtime, self._send
        self.queue, self.stack, self.keys, self.in_vain = [], [], Keys(), False
        self.api, self.now, self.conductors = Process(API, "api"), Process(NOW, "now"), {}
        self.lossy, self.interruption, self.interrupted = False, None, False
        self.reached, self.wrote = Counter(), Counter()
        self.step_result = None  # return value of the agent's steps
        self.start_dead()

    def begin(self, interruption, *, lossy=False):
        """Reset the counters, and arm the interruption."""
        self.start_dead()
        self.lossy, self.interruption, self.interrupted = lossy, interruption, False
        self.reached.clear()
        self.wrote.clear()
        self.agent.received.clear()
        Acme.did.clear()

    def start_dead(self):
        """Start a new incarnation of each dead conductor."""
        for name in ("c-1", "c-2"):
            process = self.conductors.get(name)
            if process is None or process.dead:
                incarnation = str(uuid4())
                reach = breakers("redis+socket:///nobody").of_writes()  # `self.keys` answers
                leases = Leases(self.keys, incarnation, 10.0, "test", reach)
                conductor = Conductor(
                    name, incarnation, self.runtime, leases, AlwaysNotes(), DueWaits()
                )
                self.conductors[name] = Process(CONDUCTOR, name, conductor)
                with self.runtime.transaction() as session:
                    conductors.register(session, name, incarnation, "", self.inside.drivers())
        self.api.up = self.now.up = True
        self.api.dead = self.now.dead = False
        self.runtime.cache.pop("members", None)

    # Code that runs as a process

    @contextmanager
    def acting_as(self, process, role=None):
        """Run the block as that process; a crash ends the block."""
        self.stack.append((process, role or process.role))
        try:
            yield
        except Crashed:
            self._end(process)
        finally:
            self.stack.pop()

    def reach(self, point, kind="any"):
        """Replacement of `killpoints.reach`."""
        if not self.stack:
            return
        process, role = self.stack[-1]
        self.reached[role, point] += 1
        interruption = self.interruption
        if (
            self.interrupted
            or interruption is None
            or (role, point) != (interruption.role, interruption.point)
        ):
            return
        if self.reached[role, point] != interruption.nth:
            return
        self.interrupted = True
        if not interruption.pause:
            raise Crashed(point)
        process.up = False
        self._expire_leases(process)
        stack, self.stack = self.stack, []
        self.drive()
        self.stack, process.up = stack, True
        self._beat(process)

    def _end(self, process):
        process.up, process.dead = False, True
        self._expire_leases(process)

    def _expire_leases(self, process):
        """Let the leases of a process expire."""
        if process.conductor is None:
            return
        for key in [
            key for key in self.keys if self.keys[key].startswith(process.conductor.incarnation)
        ]:
            del self.keys[key]
        for lease in process.conductor.leases._leases:
            lease.valid_until = 0.0
        if process.dead:
            process.conductor.wait_monitor.clear()

    def _beat(self, process):
        if process.conductor is not None:
            with self.runtime.transaction() as session:
                conductors.heartbeat(session, process.name, process.conductor.incarnation)

    def _send(self, message):
        role = self.stack[-1][1] if self.stack else None
        if not self.lossy or role == NOW:
            self.queue.append(message)
        return True

    # Events

    def ask(self, node_id, verb, **arguments):
        """Request a verb, and retry until the API has accepted it."""
        state = self._node_state(node_id)
        with self.acting_as(self.api):
            super().ask(node_id, verb, **arguments)
        self.api.up = True
        if self._node_state(node_id) == state:
            self.ask(node_id, verb, **arguments)

    def _node_state(self, node_id):
        row = self.inside.read(node_id)
        return row.provision_state, row.target_provision_state, row.fence, row.updated_at

    def drive(self):
        """Run all processes until no work is left."""
        for _ in range(300):
            if not (self._deliver() or self._wake() or self._call() or self._reconcile()):
                return
        raise AssertionError("the work does not end")

    def _deliver(self):
        if not self.queue:
            return False
        message = self.queue.pop(0)
        process = self.conductors[message.conductor]
        if process.up:
            with self.acting_as(process):
                attempts.run(process.conductor, message)
        return True

    def _wake(self):
        for process in self.conductors.values():
            if process.up and process.conductor.wait_monitor:
                wait = process.conductor.wait_monitor.pop(0)
                with self.acting_as(process, WAKER):
                    poller.resume_operation(self.runtime, *wait)
                return True
        return False

    def _call(self):
        """Let the agent finish its command, and send a heartbeat."""
        waiting = self._first(
            Operation.state == OperationState.WAITING, Operation.wake_at.is_(None)
        )
        if waiting is None or self.in_vain:
            return False
        self._finish_command()
        with self.runtime.transaction() as session:
            if session.get(AgentRecord, waiting.node_id) is None:
                session.add(AgentRecord(node_id=waiting.node_id))
            session.flush()
            session.get_one(AgentRecord, waiting.node_id).token = TOKEN
        sign = {"callback_url": self.agent.url, "agent_token": TOKEN, "agent_version": "13.0.0"}
        uuid = self.inside.read(waiting.node_id).uuid
        with self.acting_as(self.api):
            heartbeats.heartbeat(self.runtime, uuid, sign)
        self.api.up = True
        self.in_vain = self.inside.operation(waiting.uuid).state == OperationState.WAITING
        return True

    def _finish_command(self):
        if not self.agent.commands or self.agent.commands[-1]["command_status"] != "RUNNING":
            return
        name, params = self.agent.received[-1]
        if "step" in params:
            self.agent.finish_step(name.partition(".")[0], self.step_result)
        else:
            self.agent.finish({})

    def _reconcile(self):
        """Let time pass, and run the reconciler."""
        if self._first(Operation.state.in_(ACTIVE)) is None:
            return False
        self.in_vain = False
        self.runtime.cache.pop("members", None)
        with self.runtime.transaction() as session:
            session.query(Operation).filter_by(state=OperationState.QUEUED).update(
                {Operation.sent_at: after(-61)}
            )
            session.query(Operation).filter(Operation.wake_at.is_not(None)).update(
                {Operation.wake_at: after(-3)}
            )
            session.query(AgentRecord).update({AgentRecord.last_heartbeat_at: after(-3)})
            for process in self.conductors.values():
                session.query(ConductorRow).filter_by(hostname=process.name).update(
                    {ConductorRow.heartbeat_at: now() if process.up else after(-16)}
                )
        with self.acting_as(self.now):
            reconciler.reconcile(self.runtime, TRUSTED)
        self.now.up = True
        return True

    def _first(self, *conditions):
        with self.runtime.reading() as session:
            return session.query(Operation).filter(*conditions).order_by(Operation.id).first()


@contextmanager
def opened(inside, agent, monkeypatch):
    """Create a harness with its kill points connected."""
    harness = CrashHarness(inside, agent)
    monkeypatch.setattr(kill_points, "reach", harness.reach)
    _watch(harness, monkeypatch)
    post, order = agent.post, AcmePower.order

    def answer(name, params, *, wait):
        return post(name, params, wait=wait or name == "rescue.finalize_rescue")

    def switch(power, target, state):
        order(power, target, state)
        if state == POWER_OFF:
            agent.restart()

    monkeypatch.setattr(agent, "post", answer)
    monkeypatch.setattr(AcmePower, "order", switch)
    configured = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield harness
    finally:
        structlog.configure(**configured)


def _watch(harness, monkeypatch):
    """Count the writes of outcomes of steps, by every function that writes them."""
    for name in ("done", "wait", "hold"):
        real = getattr(transitions, name)

        def written(session, node, operation, step, *arguments, real=real):
            key = operation.id, operation.fence, step.position
            outcome = real(session, node, operation, step, *arguments)
            harness.wrote[key] += 1
            return outcome

        monkeypatch.setattr(transitions, name, written)
    advance = claims.advance

    def advanced(conductor, attempt, result):
        key = attempt.operation.id, attempt.operation.fence, attempt.step.position
        is_written = advance(conductor, attempt, result)
        harness.wrote[key] += is_written
        return is_written

    monkeypatch.setattr(claims, "advance", advanced)
