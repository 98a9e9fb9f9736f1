"""
Conductor: a Celery worker that runs the steps of its nodes.

Its worker threads run steps. A separate thread sends heartbeats to the database, independent of
worker threads and broker. A second process, the control process (`now`), runs periodic tasks and
answers calls, so that these never wait for steps.
"""

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from celery import Celery
from celery.apps.worker import Worker
from celery.exceptions import SecurityWarning
from celery.signals import setup_logging, worker_ready, worker_shutting_down
from kombu import Queue
from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app import killpoints, log, tracing
from app.broker import queue, redis_releases
from app.broker.calls import RedisCalls
from app.broker.consoles import ConsoleChannel
from app.broker.redis_broker import client
from app.config.settings import Settings, SettingsError
from app.db import diagnosis
from app.db.sealing import keyring_of
from app.db.transactions import connection_of
from app.engine import restore
from app.kit import conductors, periodic_passes
from app.metrics import recording
from app.operation_states import Actor
from app.parent import die_with_parent
from app.runtime import Runtime, load_drivers, make, require_hardware_types
from drivers.core.priorities import overrides_without_step
from workers.conductor import abilities, attempts, drain, rpc_server
from workers.conductor.claimant import Conductor
from workers.conductor.fresh_calls import FreshCalls
from workers.conductor.lease import Leases
from workers.conductor.poller import WaitMonitor
from workers.conductor.promotion import Timeline
from workers.consoles import calls as console_calls
from workers.consoles.hub import Hub
from workers.periodic import schedule
from workers.periodic.bmc_network import BmcNetwork
from workers.restore_guard import Witness
from workers.supervisor import permissions

T = TypeVar("T")
logger = log.get(__name__)
seldom = log.RateLimited(logger)

CONTROL_THREADS = 8
#: Seconds between two heartbeats of a worker in its task events; Flower shows it as offline after
#: twice this time.
EVENT_HEARTBEAT = 10.0
#: Seconds between two rounds of redispatch while the conductor drains.
REDISPATCH_INTERVAL = 0.2
#: Seconds for the last round.
REDISPATCH_TIMEOUT = 5.0
#: Most seconds for the logout from BMCs.
LOGOUT_TIMEOUT = 2.0
#: Seconds until a failed heartbeat is retried.
HEARTBEAT_RETRY = 1.0


def main(settings: Settings, name: str) -> None:
    """
    Run the conductor `name` until a signal, or until another incarnation replaces it.

    Raises SettingsError.
    """
    # before the fork, so that a wrong setting is reported once
    require_hardware_types(load_drivers(settings))
    permissions.let_servers_read(settings)
    killpoints.arm(settings.default.kill_points, name)
    incarnation = str(uuid4())
    signs = abilities.ControlSigns()
    control = _fork_control(settings, name, incarnation, signs)
    recording.start()
    tracing.start(settings, "conductor")
    application = queue.celery(settings)
    runtime = make(settings, queue.sender(application))
    for hardware_type, why in runtime.drivers.refused.items():
        logger.error("hardware_type.refused", hardware_type=hardware_type, why=why)
    for override in overrides_without_step(runtime.drivers.types, settings.options()):
        logger.warning("step_override.without_step", **override._asdict())
    leases = Leases(
        client(settings.broker.url, settings.broker.connect_timeout),
        incarnation,
        settings.conductor.lease_ttl,
        settings.broker.prefix,
    )
    # short: each heartbeat reads the watermark from Redis, and must not be late for that
    timeout = min(settings.broker.connect_timeout, settings.conductor.heartbeat_timeout / 4)
    witness = Witness(client(settings.broker.url, timeout), settings.broker.prefix)
    conductor = Conductor(name, incarnation, runtime, leases, witness, WaitMonitor(runtime))
    leases.is_alive = lambda: conductor.has_valid_mark(time.monotonic())
    leases.start()
    conductor.wait_monitor.start()
    patience = abilities.patience(settings.conductor.heartbeat_timeout)
    threads = abilities.StepThreads(
        settings.conductor.workers_pool_size, settings.conductor.step_timeout
    )
    queues = queue.queues_of(application)
    pulses = {queues.steps(name): threads.pulse, queues.now(name): signs.pulse}
    echoes = abilities.Echoes(application, pulses)
    life = _Life(
        conductor,
        control,
        (partial(threads.impediment, patience), partial(signs.impediment, patience)),
    )
    attempts.register_task(application, conductor, life.registered, threads)
    abilities.register_echo(application, threads.pulse.answer)
    worker = _worker(
        application,
        f"conductor@{name}",
        [queues.steps(name)],
        settings.conductor.workers_pool_size,
    )
    worker_ready.connect(life.start, weak=False)
    worker_ready.connect(echoes.start, weak=False)
    worker_shutting_down.connect(echoes.stop, weak=False)
    worker_shutting_down.connect(life.drain, weak=False)
    try:
        worker.start()
    finally:
        life.end()
        leases.stop()
        runtime.drivers.bmcs.log_out(LOGOUT_TIMEOUT)
        tracing.stop()
        with contextlib.suppress(ProcessLookupError):
            os.kill(control, signal.SIGTERM)


class _Life:
    """
    Registration, heartbeats and drain of the conductor.

    impediments: return why this conductor can do no new work; None: it can.
    """

    def __init__(
        self,
        conductor: Conductor,
        control: int,
        impediments: Sequence[Callable[[], str | None]] = (),
    ) -> None:
        self.conductor = conductor
        self._impediments = (self._of_broker, *impediments)
        self._impeded = False
        self.control = control  # pid of the control process
        #: Set when the conductor is registered, and its database is known to be the newest.
        self.registered = threading.Event()
        #: Monotonic time of the last answer of the broker.
        self._broker_answered = time.monotonic()
        self._timeline = Timeline(conductor)
        self._ended = threading.Event()
        self._redispatching: threading.Thread | None = None

    def start(self, **_: Any) -> None:
        """Register the conductor, now that its worker consumes its queue; send heartbeats."""
        threading.Thread(target=self._run, name="life", daemon=True).start()

    def _run(self) -> None:
        interval = self.conductor.runtime.settings.conductor.heartbeat_interval
        while not self._ended.is_set():
            if os.waitpid(self.control, os.WNOHANG)[0]:
                self._stop("conductor.control_died")
                return
            try:
                if not self.registered.is_set():
                    self._register()
                elif not self._heartbeat():
                    self._stop("conductor.replaced")
                    return
                # more often while there is an impediment, so that its end is noticed at once
                self._ended.wait(min(interval, HEARTBEAT_RETRY) if self._impeded else interval)
                continue
            except SQLAlchemyError as error:
                seldom.warning("conductor.no_database", detail=diagnosis.reason(error))
            except RedisError as error:
                seldom.warning("broker.unreachable", detail=str(error))
            except Exception:  # without heartbeats, other conductors take over its nodes
                self._stop("conductor.crashed", exc_info=True)
                return
            self._ended.wait(min(interval, HEARTBEAT_RETRY))

    def _register(self) -> None:
        runtime, name = self.conductor.runtime, self.conductor.name
        incarnation = self.conductor.incarnation
        interfaces = {
            hardware_type: {kind: list(by_name) for kind, by_name in kinds.items()}
            for hardware_type, kinds in runtime.drivers.types.items()
        }
        group = runtime.settings.conductor.conductor_group.lower()
        checked, seen = time.monotonic(), self.conductor.witness.recall()

        def register(session: Session) -> int:
            conductors.register(session, name, incarnation, group, interfaces)
            self._expect_passes(session)
            return restore.advance(session, seen)

        self.conductor.set_mark(self._in_newest(register), checked)
        self._timeline.look()
        self.registered.set()
        logger.info("conductor.registered", incarnation=incarnation, group=group)

    def _expect_passes(self, session: Session) -> None:
        settings = self.conductor.runtime.settings
        tasks = schedule.periods(settings, each_conductor=True)
        periodic_passes.expect_of(connection_of(session), self.conductor.name, tasks)

    def _heartbeat(self) -> bool:
        """
        Send a heartbeat; False: another incarnation has registered with this name.

        Compares the database's watermark with the highest one in Redis. While Redis does not
        answer, the conductor's mark is sufficient as long as it is valid.
        """
        conductor, checked = self.conductor, time.monotonic()
        seen, valid = conductor.mark, conductor.has_valid_mark(checked)
        try:
            seen, valid = max(seen, conductor.witness.recall()), True
            self._broker_answered = time.monotonic()
        except RedisError as error:
            seldom.warning("broker.unreachable", detail=str(error))
        impediment = next(filter(None, (each() for each in self._impediments)), None)
        returns = self._impeded and impediment is None

        def beat(session: Session) -> int | None:
            if not conductors.heartbeat(session, conductor.name, conductor.incarnation, impediment):
                return None
            if returns:
                self._expect_passes(session)
            return restore.advance(session, seen)

        mark = self._in_newest(beat)
        if mark is not None and valid:
            conductor.set_mark(mark, checked)
        self._note(impediment)
        if mark is not None:
            self._timeline.look()
        return mark is not None

    def _note(self, impediment: str | None) -> None:
        """Log the begin and the end of impediments."""
        if impediment and not self._impeded:
            logger.warning("conductor.impeded", reason=impediment)
        elif self._impeded and not impediment:
            logger.info("conductor.able")
        self._impeded = impediment is not None

    def _of_broker(self) -> str | None:
        """
        Return the impediment of a conductor that does not reach Redis; None: it does.

        Without it, it gets no messages: operations that it has not begun are sent to others.
        """
        silent = time.monotonic() - self._broker_answered
        if silent < self.conductor.runtime.settings.conductor.heartbeat_timeout / 2:
            return None
        return f"the broker has not answered for {silent:.0f} s"

    def _in_newest(self, work: Callable[[Session], T]) -> T:
        """Run a transaction; if the database turns out to be restored, declare that first."""
        runtime = self.conductor.runtime
        while True:
            try:
                with runtime.transaction(Actor.CONDUCTOR) as session:
                    return work(session)
            except restore.DatabaseRewound as found:
                self.conductor.witness.declare_restored(runtime, found)

    def _stop(self, event: str, **facts: Any) -> None:
        """Stop this process as by a signal: it drains, and its supervisor starts a new one."""
        logger.error(event, **facts)
        os.kill(os.getpid(), signal.SIGTERM)

    def drain(self, **_: Any) -> None:
        """Unregister the conductor, and redispatch its operations while running steps complete."""
        conductor = self.conductor
        if conductor.leaving.is_set():
            return
        try:
            with conductor.runtime.transaction() as session:
                conductors.mark_offline(session, conductor.name, conductor.incarnation)
        except SQLAlchemyError as error:  # the others see that the heartbeats stop
            seldom.warning("conductor.no_database", detail=diagnosis.reason(error))
        conductor.leaving.set()
        # in a thread, as the worker is about to wait for the running steps
        self._redispatching = threading.Thread(target=self._redispatch, name="drain", daemon=True)
        self._redispatching.start()

    def _redispatch(self) -> None:
        """Redispatch unclaimed operations, and resume those that wait for agents, until the end."""
        last = False
        while not last:
            last = self._ended.is_set()
            drain.redispatch_all(self.conductor)
            try:
                self.conductor.wait_monitor.resume_all()
            except SQLAlchemyError as error:  # heartbeats resume the operations, a little later
                seldom.warning("conductor.no_database", detail=diagnosis.reason(error))
            self._ended.wait(REDISPATCH_INTERVAL)

    def end(self) -> None:
        self._ended.set()
        self.drain()
        if self._redispatching is not None:
            self._redispatching.join(REDISPATCH_TIMEOUT)


def _worker(application: Celery, hostname: str, queues: list[str], threads: int) -> Worker:
    setup_logging.connect(_keep_logging)
    # Celery warns of root, as pickled messages can run code; here only JSON is accepted
    warnings.filterwarnings("ignore", category=SecurityWarning)
    application.conf.task_queues = [
        Queue(each, routing_key=each) if isinstance(each, str) else each
        for each in (queue.queue_for(application, name) for name in queues)
    ]
    return Worker(
        app=application,
        hostname=hostname,
        pool="threads",
        concurrency=threads,
        queues=queues,
        without_gossip=True,
        without_mingle=True,
        # of the events: by its heartbeats Flower knows that a worker is alive
        without_heartbeat=not application.conf.worker_send_task_events,
        heartbeat_interval=EVENT_HEARTBEAT,
        quiet=True,
        optimization="fair",
    )


def _keep_logging(**_: Any) -> None:
    """Keep the logging setup: Celery changes it unless this signal has a receiver."""


def _fork_control(
    settings: Settings, name: str, incarnation: str, signs: abilities.ControlSigns
) -> int:
    """Fork the control process and return its pid; call this before any thread is started."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
        _run_control(settings, name, incarnation, signs)
        status = 0
    except SettingsError:
        pass  # the parent makes the same runtime, and prints the reason
    except Exception:
        logger.exception("control.crashed")
    os._exit(status)


def _run_control(
    settings: Settings, name: str, incarnation: str, signs: abilities.ControlSigns
) -> None:
    recording.start()
    tracing.start(settings, "control")
    application = queue.celery(settings)
    runtime: Runtime = make(settings, queue.sender(application))
    broker = client(settings.broker.url, settings.broker.connect_timeout)
    redis_releases.warn(broker)
    calls = runtime.calls = RedisCalls(application, settings, keyring_of(runtime.engine.dialect))
    network = BmcNetwork(runtime, name, signs.network.set)
    schedule.register_tasks(application, runtime, name, broker, network)
    abilities.register_echo(application, signs.pulse.answer)
    leases = Leases(broker, f"now-{uuid4()}", settings.conductor.lease_ttl, settings.broker.prefix)
    leases.start()
    threads = ThreadPoolExecutor(settings.conductor.ask_threads, thread_name_prefix="answer")
    hub = Hub(runtime, incarnation, ConsoleChannel(settings, keyring_of(runtime.engine.dialect)))
    hub.start()
    handler = rpc_server.CallHandler(runtime, name, leases, console_calls.methods(hub))
    rpc_server.register_task(
        application,
        rpc_server.CallReceiver(
            calls,
            handler,
            FreshCalls(runtime, incarnation),
            threads,
        ),
    )
    names = queue.queues_of(application)
    queues = [names.shared, names.now(name)]
    try:
        _worker(application, f"now@{name}", queues, CONTROL_THREADS).start()
    finally:
        hub.stop()
        runtime.drivers.bmcs.log_out(LOGOUT_TIMEOUT)
        tracing.stop()
