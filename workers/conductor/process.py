"""
Conductor: a Celery worker that runs the steps of its nodes.

Its worker threads run steps. A separate thread sends heartbeats to the database, independent of
worker threads and broker. A second process, the control process (`now`), runs periodic tasks and
answers calls, so that these never wait for steps.
"""

import contextlib
import os
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

from celery import Celery
from celery.apps.worker import Worker
from celery.exceptions import SecurityWarning
from celery.signals import setup_logging, worker_ready, worker_shutting_down
from kombu import Queue
from setproctitle import setproctitle

from app.broker import queue, redis_releases
from app.broker.calls import RedisCalls
from app.broker.consoles import ConsoleChannel
from app.broker.redis_broker import client
from app.config.settings import Settings, SettingsError
from app.db.sealing import keyring_of
from app.metrics import recording
from app.observe import log
from app.process import kill_points, tracing
from app.process.parent_death import die_with_parent
from app.runtime import Runtime, load_drivers, make, require_hardware_types
from drivers.core.priorities import overrides_without_step
from workers.conductor import abilities, attempts, rpc_server
from workers.conductor.conductor import Conductor
from workers.conductor.fresh_calls import FreshCalls
from workers.conductor.lease import Leases
from workers.conductor.life import Life
from workers.conductor.poller import WaitMonitor
from workers.consoles import calls as console_calls
from workers.consoles.hub import Hub
from workers.dhcp import server as dhcp_server
from workers.periodic import control_tasks
from workers.periodic.bmc_network import BmcNetwork
from workers.restoration.restore_guard import RestoreGuard
from workers.supervisor import permissions

logger = log.get(__name__)
seldom = log.RateLimited(logger)

CONTROL_THREADS = 8
#: Threads for calls from the API, which wait for BMCs most of their time.
CALL_THREADS = 32
#: Seconds between two heartbeats of a worker in its task events; Flower shows it as offline after
#: twice this time.
EVENT_HEARTBEAT = 10.0
#: Most seconds for the logout from BMCs.
LOGOUT_TIMEOUT = 2.0


def main(settings: Settings, name: str) -> None:
    """
    Run the conductor `name` until a signal, or until another incarnation replaces it.

    Raises SettingsError.
    """
    # before the fork, so that a wrong setting is reported once
    require_hardware_types(load_drivers(settings))
    permissions.let_servers_read(settings)
    kill_points.arm(settings.default.kill_points, name)
    incarnation = str(uuid4())
    signs = abilities.ControlSigns()
    control = _fork_control(settings, name, incarnation, signs)
    recording.start()
    tracing.start(settings, "conductor")
    application = queue.celery(settings)
    runtime = make(settings, queue.sender(application))
    for hardware_type, reason in runtime.drivers.refused.items():
        logger.error("hardware_type.refused", hardware_type=hardware_type, why=reason)
    for override in overrides_without_step(runtime.drivers.types, settings.options()):
        logger.warning("step_override.without_step", **override._asdict())
    conductor = _conductor(application, runtime, name, incarnation)
    conductor.leases.start()
    conductor.wait_monitor.start()
    patience = abilities.patience(settings.conductor.heartbeat_timeout)
    threads = abilities.StepThreads(
        settings.conductor.workers_pool_size, settings.conductor.step_timeout
    )
    queues = queue.queues_of(application)
    pulses = {queues.steps(name): threads.pulse, queues.now(name): signs.pulse}
    echoes = abilities.Echoes(application, pulses)
    life = Life(
        conductor,
        control,
        (partial(threads.impediment, patience), partial(signs.impediment, patience)),
        (signs.network.get,),
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
        conductor.leases.stop()
        runtime.drivers.bmcs.log_out(LOGOUT_TIMEOUT)
        tracing.stop()
        with contextlib.suppress(ProcessLookupError):
            os.kill(control, signal.SIGTERM)


def _conductor(application: Celery, runtime: Runtime, name: str, incarnation: str) -> Conductor:
    """Make the conductor, with its leases and its guard in Redis."""
    settings = runtime.settings
    leases = Leases(
        client(settings.broker.url, settings.broker.connect_timeout),
        incarnation,
        settings.conductor.lease_ttl,
        settings.broker.prefix,
        application.breakers.of_writes(),
    )
    # short: each heartbeat reads the watermark from Redis, and must not be late for that
    timeout = min(settings.broker.connect_timeout, settings.conductor.heartbeat_timeout / 4)
    witness = RestoreGuard(
        client(settings.broker.url, timeout),
        settings.broker.prefix,
        application.breakers.of_reads(),
    )
    conductor = Conductor(name, incarnation, runtime, leases, witness, WaitMonitor(runtime))
    leases.is_alive = lambda: conductor.has_valid_watermark(time.monotonic())
    return conductor


def _worker(application: Celery, hostname: str, queues: list[str], threads: int) -> Worker:
    setup_logging.connect(_keep_logging)
    # Celery warns of root, as pickled messages can run code; here only JSON is accepted
    warnings.filterwarnings("ignore", category=SecurityWarning)
    application.conf.task_queues = [
        Queue(queue_entry, routing_key=queue_entry) if isinstance(queue_entry, str) else queue_entry
        for queue_entry in (queue.queue_for(application, name) for name in queues)
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


def _keep_logging(**_: object) -> None:
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
        setproctitle(f"ingot: conductor {name}, control process")
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
    control_tasks.register_tasks(application, runtime, name, broker, network)
    abilities.register_echo(application, signs.pulse.answer)
    leases = Leases(
        broker,
        f"now-{uuid4()}",
        settings.conductor.lease_ttl,
        settings.broker.prefix,
        application.breakers.of_writes(),
    )
    leases.start()
    threads = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="answer")
    hub = Hub(runtime, incarnation, ConsoleChannel(settings, keyring_of(runtime.engine.dialect)))
    hub.start()
    dhcp = dhcp_server.of(runtime)
    if dhcp is not None:
        dhcp.start()
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
        if dhcp is not None:
            dhcp.stop()
        runtime.drivers.bmcs.log_out(LOGOUT_TIMEOUT)
        tracing.stop()
