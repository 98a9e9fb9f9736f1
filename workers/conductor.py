"""
A conductor: one Celery worker that steps of nodes are sent to.

Its threads run steps. A thread of its own gives signs of life to the database, whatever pool and
broker do. A second process of it, `now`, does periodic work, so that this never waits for steps.
"""

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import uuid4

from celery import Celery, Task
from celery.apps.worker import Worker
from celery.exceptions import SecurityWarning
from celery.signals import setup_logging, worker_ready, worker_shutting_down
from kombu import Queue
from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app import chain, db, killpoints, log, queue, release
from app.broker import client
from app.chain import RUN
from app.parent import die_with_parent
from app.runtime import Runtime, load_drivers, make
from app.services import conductors, restoration
from app.settings import Settings
from drivers.core.steps import Failed
from workers import answering, attempts, leaving, outages, periodic, permissions
from workers.claims import Conductor
from workers.forwarding import forward
from workers.lease import Leases
from workers.waker import Waker
from workers.witness import Witness

T = TypeVar("T")
logger = log.get(__name__)
seldom = log.Seldom(logger)

NOW_THREADS = 8
#: Result of a message about a step that has been run, handed out again or taken by another.
NOT_RUN = "not run"
#: Seconds that a message may wait for the conductor to be registered.
BEGIN_PATIENCE = 5.0
#: Seconds between two looks of a conductor that leaves for what was sent to it in vain.
HAND_OVER_EVERY = 0.2
#: Seconds for the last one.
HAND_OVER_PATIENCE = 5.0
#: Seconds until a sign of life is tried again that the database did not take.
AGAIN = 1.0


class StepFailed(Exception):
    """A step failed; it is recorded. Flower shows the task as failed, for this reason."""


def main(settings: Settings, name: str) -> None:
    """
    Be the conductor `name` until a signal, or another incarnation of it, says to stop.

    Raises SettingsError.
    """
    load_drivers(settings)  # a setting that is wrong is told once, before the fork
    permissions.let_servers_read(settings)
    killpoints.arm(settings.default.kill_points, name)
    now_process = _fork_now(settings, name)
    application = queue.celery(settings)
    runtime = make(settings, queue.sender(application))
    for hardware_type, why in runtime.drivers.refused.items():
        logger.error("hardware_type.refused", hardware_type=hardware_type, why=why)
    incarnation = str(uuid4())
    leases = Leases(
        client(settings.broker.url, settings.broker.connect_timeout),
        incarnation,
        settings.conductor.lease_ttl,
        settings.broker.prefix,
    )
    # it is asked with each sign of life, which must not be late for that
    patience = min(settings.broker.connect_timeout, settings.conductor.heartbeat_timeout / 4)
    witness = Witness(client(settings.broker.url, patience), settings.broker.prefix)
    conductor = Conductor(name, incarnation, runtime, leases, witness, Waker(runtime))

    @application.task(name=RUN, bind=True, acks_late=True, ignore_result=True, throws=(StepFailed,))
    def run(self: Task, node: str, operation: str, *more: Any) -> str:
        """Run one step; returns the outcome as Flower shows it."""
        if queue.version_of(self.request) > release.UNDERSTOOD:
            self.request.chain = None
            forward(runtime, operation)
            return "forwarded"
        message = chain.received(name, self.request, (node, operation, *more))
        if not life.begun.wait(BEGIN_PATIENCE):
            return NOT_RUN  # the reconciler sends again
        outcome = None
        with outages.borne(RUN):
            outcome = attempts.run(conductor, message)
        if isinstance(outcome, Failed):
            raise StepFailed(outcome.reason)
        return type(outcome).__name__.lower() if outcome else NOT_RUN

    leases.start()
    conductor.waker.start()
    life = _Life(conductor, now_process)
    worker = _worker(
        application,
        f"conductor@{name}",
        [queue.queue_of(name)],
        settings.conductor.workers_pool_size,
    )
    worker_ready.connect(life.begin, weak=False)
    worker_shutting_down.connect(life.leave, weak=False)
    try:
        worker.start()
    finally:
        life.end()
        leases.stop()
        with contextlib.suppress(ProcessLookupError):
            os.kill(now_process, signal.SIGTERM)


class _Life:
    """
    Registers the conductor, gives its signs of life, and hands over its work in the end.

    begun: it is registered, and knows the database for the newest one.
    """

    def __init__(self, conductor: Conductor, now_process: int) -> None:
        self.conductor = conductor
        self.now_process = now_process
        self.begun = threading.Event()
        self._ended = threading.Event()
        self._handing_over: threading.Thread | None = None

    def begin(self, **_: Any) -> None:
        """The worker listens to its queue: nodes may belong to it from now on."""
        threading.Thread(target=self._live, name="life", daemon=True).start()

    def _live(self) -> None:
        interval = self.conductor.runtime.settings.conductor.heartbeat_interval
        while not self._ended.is_set():
            if os.waitpid(self.now_process, os.WNOHANG)[0]:
                self._give_up("conductor.now_died")
                return
            try:
                if not self.begun.is_set():
                    self._register()
                elif not self._heartbeat():
                    self._give_up("conductor.replaced")
                    return
                self._ended.wait(interval)
                continue
            except SQLAlchemyError as error:
                seldom.warning("conductor.no_database", detail=db.reason(error))
            except RedisError as error:
                seldom.warning("broker.unreachable", detail=str(error))
            self._ended.wait(min(interval, AGAIN))

    def _register(self) -> None:
        runtime, name = self.conductor.runtime, self.conductor.name
        incarnation = self.conductor.incarnation
        interfaces = {
            hardware_type: {kind: list(by_name) for kind, by_name in kinds.items()}
            for hardware_type, kinds in runtime.drivers.types.items()
        }
        group = runtime.settings.conductor.conductor_group.lower()
        asked, seen = time.monotonic(), self.conductor.witness.recall()

        def register(session: Session) -> int:
            conductors.register(session, name, incarnation, group, interfaces)
            return restoration.rise(session, seen)

        self.conductor.learn(self._in_the_newest(register), asked)
        self.begun.set()
        logger.info("conductor.registered", incarnation=incarnation, group=group)

    def _heartbeat(self) -> bool:
        """
        False: the name belongs to another process now.

        Redis is asked whether others have seen more. While it does not answer, the own mark is
        enough for who has been in touch all the time.
        """
        conductor, asked = self.conductor, time.monotonic()
        seen, sure = conductor.mark, conductor.is_sure(asked)
        try:
            seen, sure = max(seen, conductor.witness.recall()), True
        except RedisError as error:
            seldom.warning("broker.unreachable", detail=str(error))

        def beat(session: Session) -> int | None:
            if not conductors.heartbeat(session, conductor.name, conductor.incarnation):
                return None
            return restoration.rise(session, seen)

        mark = self._in_the_newest(beat)
        if mark is not None and sure:
            conductor.learn(mark, asked)
        return mark is not None

    def _in_the_newest(self, work: Callable[[Session], T]) -> T:
        """Do something in the database, once it was settled what to do if that is an older one."""
        runtime = self.conductor.runtime
        while True:
            try:
                with runtime.transaction() as session:
                    return work(session)
            except restoration.Older as found:
                self.conductor.witness.testify(runtime, found)

    def _give_up(self, event: str) -> None:
        """End as by a signal: what runs is finished, and whoever watches starts a new one."""
        logger.error(event)
        os.kill(os.getpid(), signal.SIGTERM)

    def leave(self, **_: Any) -> None:
        """Take no more nodes; the steps that run are finished, what follows them is others'."""
        conductor = self.conductor
        if conductor.leaving.is_set():
            return
        try:
            with conductor.runtime.transaction() as session:
                conductors.leave(session, conductor.name, conductor.incarnation)
        except SQLAlchemyError as error:  # it is seen that the signs of life stop
            logger.warning("conductor.no_database", detail=db.reason(error))
        conductor.leaving.set()
        # beside the worker, which is about to wait for the steps that run
        self._handing_over = threading.Thread(target=self._hand_over, name="leaving", daemon=True)
        self._handing_over.start()

    def _hand_over(self) -> None:
        """Until the end: what was sent here and is not begun, and whose agents work, is others'."""
        last = False
        while not last:
            last = self._ended.is_set()
            leaving.hand_over_all(self.conductor)
            try:
                self.conductor.waker.hand_over()
            except SQLAlchemyError as error:  # a heartbeat wakes what waits, a little later
                logger.warning("conductor.no_database", detail=db.reason(error))
            self._ended.wait(HAND_OVER_EVERY)

    def end(self) -> None:
        self._ended.set()
        self.leave()
        if self._handing_over is not None:
            self._handing_over.join(HAND_OVER_PATIENCE)


def _worker(application: Celery, hostname: str, queues: list[str], threads: int) -> Worker:
    setup_logging.connect(_leave_logging_alone)
    # what it says of root is about messages that can hold code; ours are JSON, and no others are
    # accepted
    warnings.filterwarnings("ignore", category=SecurityWarning)
    application.conf.task_queues = [
        Queue(each, routing_key=each) if isinstance(each, str) else each
        for each in (queue.addressed(application, name) for name in queues)
    ]
    return Worker(
        app=application,
        hostname=hostname,
        pool="threads",
        concurrency=threads,
        queues=queues,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
        optimization="fair",
    )


def _leave_logging_alone(**_: Any) -> None:
    """Logging is set up already; a receiver is what tells Celery."""


def _fork_now(settings: Settings, name: str) -> int:
    """Start the process that does periodic work; its pid. Before any thread is started."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
        _now(settings, name)
        status = 0
    except Exception:
        logger.exception("now.crashed")
    os._exit(status)


def _now(settings: Settings, name: str) -> None:
    application = queue.celery(settings)
    runtime: Runtime = make(settings, queue.sender(application))
    broker = client(settings.broker.url, settings.broker.connect_timeout)
    periodic.declare(application, runtime, name, broker)
    leases = Leases(broker, f"now-{uuid4()}", settings.conductor.lease_ttl, settings.broker.prefix)
    leases.start()
    threads = ThreadPoolExecutor(settings.conductor.ask_threads, thread_name_prefix="answer")
    answerer = answering.Answerer(runtime, name, leases)
    answering.declare(
        application, answering.Desk(queue.Asks(application, settings), answerer, threads)
    )
    queues = [queue.SHARED_QUEUE, queue.now_queue_of(name)]
    _worker(application, f"now@{name}", queues, NOW_THREADS).start()
