"""
Roles of the service: the main function of each process, and what all of them share.

The supervisor imports the large modules and makes the large objects once, and then forks its
children, so that these share the memory. Each role can also run alone: API, conductor, beat.
"""

import gc
import importlib
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from setproctitle import setproctitle

from app.config.settings import Settings, SettingsError
from app.observe import log
from app.process import tracing, vital_signs
from workers.supervisor import location
from workers.supervisor.children import fork
from workers.supervisor.location import StartError

#: Modules that are imported before the children are forked, so that these share their memory.
PRELOAD = (
    "app.db.connections", "app.server.processes", "workers.supervisor.file_server",
    "workers.conductor.process", "workers.periodic.beat",
    # modules that Celery and granian import by name when a process starts
    "billiard.dummy", "billiard.pool", "celery.app.control", "celery.app.events", "celery.app.log",
    "celery.backends.base", "celery.concurrency.thread", "celery.events", "celery.fixups.django",
    "celery.worker.autoscale", "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery", "celery.worker.strategy", "kombu.transport.redis",
    "multiprocessing.popen_fork",
)  # fmt: skip

Role = Callable[..., Any]

#: Roles that record metrics, and have an exporter.
RECORDED = ("api", "beat", "conductor")


def late(module: str, name: str = "main") -> Role:
    """Return a function that imports a module and calls its function `name`."""

    def call(*arguments: object) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments)

    return call


def _alive(settings: Settings) -> dict[str, str]:
    """Return name -> incarnation of the live conductors, and of the drained ones."""
    from app import runtime  # here: the import takes long, and Redis starts in the meantime
    from app.cluster import conductors
    from app.db import transactions

    engine = runtime.connect(settings)
    try:
        with transactions.reading(engine) as session:
            timeout = settings.conductor.heartbeat_timeout
            drained = conductors.drained(session, timeout)
            return {
                **{
                    member.name: member.incarnation for member in conductors.alive(session, timeout)
                },
                **{conductor.name: conductor.incarnation for conductor in drained},
            }
    finally:
        engine.dispose()  # no connection may be open at a fork


def _silent(settings: Settings, names: Sequence[str]) -> list[str]:
    """
    Return which of these conductors send no heartbeats, be they impeded or not.

    The list is empty while the database does not answer: another start would not mend that.
    """
    from sqlalchemy.exc import SQLAlchemyError  # here: the imports take long

    from app import runtime
    from app.cluster import conductors
    from app.db import transactions

    engine = runtime.connect(settings)
    timeout = settings.conductor.heartbeat_timeout
    try:
        with transactions.reading(engine) as session:
            heartbeat_names = {member.name for member in conductors.alive(session, timeout)}
            heartbeat_names |= {name for name, _ in conductors.impeded(session, timeout)}
    except SQLAlchemyError:
        return []
    finally:
        engine.dispose()
    return [name for name in names if name not in heartbeat_names]


def _check(settings: Settings) -> None:
    """
    Check the settings that a role would refuse, before any role is forked.

    Raises SettingsError.
    """
    from app import runtime  # here: the import takes long
    from app.server import tls_files

    tracing.require(settings)
    tls_files.files(settings.api)
    runtime.require_hardware_types(runtime.load_drivers.before_fork(settings))


def _upgrade(settings: Settings) -> None:
    from app.db import schema  # here: the import takes long
    from app.rows import data_keys

    schema.upgrade(settings.database.connection)
    data_keys.start(settings.database)


def _prepare(settings: Settings) -> None:
    """Make the large objects of the roles, before any role is forked; the database is migrated."""
    from sqlalchemy.orm import configure_mappers  # here: the import takes long

    from app import runtime
    from app.broker import queue
    from app.db import prepared
    from app.server import processes

    configure_mappers()
    queue.celery.before_fork(settings)
    prepared.compile_all(runtime.connect.before_fork(settings).dialect)
    processes.application.before_fork(settings)


#: Role -> main function of its process; the last six run in the supervisor. Tests replace them.
ROLES: Mapping[str, Role] = {
    "api": late("app.server.processes"),
    "exporter": late("workers.supervisor.exporter"),
    "files": late("workers.supervisor.file_server"),
    "conductor": late("workers.conductor.process"),
    "beat": late("workers.periodic.beat"),
    "check": _check,
    "upgrade": _upgrade,
    "prepare": _prepare,
    "alive": _alive,
    "silent": _silent,
    "users": late("workers.supervisor.first_admin", "ensure"),
}


def preload() -> None:
    """Import the modules that the roles share."""
    gc.disable()  # imports create hardly any garbage
    for name in PRELOAD:
        importlib.import_module(name)
    gc.freeze()  # collections leave these objects out, and so their pages shared
    gc.enable()


def migrate(settings: Settings) -> None:
    """
    Migrate the database to the schema of this release.

    Raises StartError.
    """
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    from app.db.diagnosis import reason
    from app.db.url import engine_url

    try:
        shown_url = engine_url(settings.database.connection).render_as_string()
        ROLES["upgrade"](settings)
    except SettingsError as error:
        raise StartError(str(error)) from None
    except ValueError as error:
        raise StartError(f"[database]connection: {error}") from None
    except CommandError as error:
        if "locate revision" not in str(error):
            raise StartError(f"database {shown_url}: {error}") from None
        raise StartError(
            f"database {shown_url}: it is newer than this release of Ingot ({error})"
        ) from None
    except SQLAlchemyError as error:
        raise StartError(f"database {shown_url}: {reason(error)}") from None


def become(settings: Settings, role: str, work: Role, *arguments: object) -> Any:
    """Run one role in this process, with its name in the log and in lists of processes."""
    log.name_process(role)
    # a core dump would have the passwords of BMCs; it can be allowed again, as by prlimit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    setproctitle(f"ingot: {role}" if role in ROLES else f"ingot: conductor {role}")
    return work(settings, *arguments)


def become_alone(settings: Settings, name: str, role: str, *arguments: object) -> Any:
    """
    Run a role in this process, outside of a supervisor; fork its exporter first, if it records
    metrics.

    Raises SettingsError, StartError.
    """
    tracing.require(settings)
    vital_signs.begin(os.environ)
    vital_signs.report("starts")
    if role in RECORDED:
        settings = location.prepare_metrics(settings)
    if role in RECORDED and settings.metrics.port is not None:
        fork(partial(become, settings, "exporter", ROLES["exporter"], role == "beat"))
    return become(settings, name, ROLES[role], *arguments)
