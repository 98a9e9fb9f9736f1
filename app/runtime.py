"""
What a process of the service holds: settings, database, drivers, and the way to the workers.

Made once per process by whoever starts it (API, conductor, beat, a test) and passed on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app import db
from app.settings import Settings
from drivers import registry
from drivers.bmc import Bmcs
from drivers.registry import Registry

RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Message:
    """
    A hint to a conductor that an operation can go on: its steps from `cursor` on, under `fence`.

    node: its UUID. conductor: the name of its queue. labels: what the steps are called in Flower,
    the first first.
    """

    conductor: str
    node: str
    operation: str
    fence: int
    cursor: int
    labels: Sequence[str]


@dataclass(slots=True)
class Runtime:
    """
    send: takes a message to its conductor's queue; raises nothing, returns whether it was taken.
    """

    settings: Settings
    engine: Engine
    drivers: Registry
    send: Callable[[Message], bool]
    cache: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A writing transaction; messages leave when it is committed."""
        with db.transaction(self.engine) as session:
            session.info[RUNTIME] = self
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads."""
        with db.reading(self.engine) as session:
            session.info[RUNTIME] = self
            yield session


def of(session: Session) -> Runtime:
    """The runtime that opened this session."""
    runtime: Runtime = session.info[RUNTIME]
    return runtime


def make(settings: Settings, send: Callable[[Message], bool], bmcs: Bmcs | None = None) -> Runtime:
    """A runtime for this process, with every hardware type that settings enable."""
    default = settings.default
    return Runtime(
        settings,
        db.connect(settings.database.connection, pool_size=settings.database.max_pool_size),
        registry.load(
            default.enabled_hardware_types,
            default.enabled_interfaces,
            default.default_interfaces,
            bmcs
            or Bmcs(
                gap=settings.redfish.min_command_interval,
                trip_after=settings.bmc.failure_threshold,
                cool_down=settings.bmc.retry_after,
                cool_down_max=settings.bmc.max_retry_after,
            ),
        ),
        send,
    )
