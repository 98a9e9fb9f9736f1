"""
What a process of the service holds: settings, database, drivers, and the way to the workers.

Made once per process by whoever starts it (API, conductor, beat, a test) and passed on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from app import db
from app.refused import Refusals
from app.settings import Settings, SettingsError
from drivers.builtin import HARDWARE_TYPES
from drivers.core import registry
from drivers.core.bmc import Bmcs
from drivers.core.registry import Registry

RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Link:
    """One step of an operation as a Celery task of a chain."""

    task: str  # UUID of the task
    position: int  # of the step
    label: str  # of the step, the name of the task in Flower


@dataclass(frozen=True, slots=True)
class Message:
    """A hint to a conductor that an operation can go on: the chain of its remaining steps."""

    conductor: str  # name
    node: str  # UUID
    operation: str  # UUID
    fence: int
    links: tuple[Link, ...]  # not empty; the first is to be run
    root: str | None = None  # task that the chain began with; None: it begins here
    parent: str | None = None  # task before the first link

    @property
    def cursor(self) -> int:
        """The position of the step that this message is about."""
        return self.links[0].position

    @property
    def rest(self) -> "Message | None":
        """The chain after its first link."""
        first, *links = self.links
        if not links:
            return None
        return replace(self, links=tuple(links), root=self.root or first.task, parent=first.task)


@dataclass(frozen=True, slots=True)
class Call:
    """
    A hint to whichever conductor is free: a task and its arguments.

    delay: seconds to wait first. expires: seconds after which nobody needs to do it any more.
    """

    task: str
    arguments: Sequence[str]
    delay: float = 0
    expires: float | None = None


class Asks(Protocol):
    """The way of questions to conductors, and of their answers back; see `services.asking`."""

    def post(self, conductor: str, key: str, question: Mapping[str, Any], seconds: float) -> None:
        """Put a question to a conductor; nobody begins it later than in `seconds`."""

    def receive(self, key: str, seconds: float) -> Mapping[str, Any] | None:
        """The answer, or None when it has not come in `seconds`."""

    def withdraw(self, key: str) -> bool:
        """Take a question back; False when it was begun already, or lost."""


@dataclass(slots=True)
class Runtime:
    """
    send: takes a message to its queue; raises nothing, returns whether it was taken. asks: how the
    API asks conductors; None in processes that ask nothing. refusals: of lookups, likewise.
    """

    settings: Settings
    engine: Engine
    drivers: Registry
    send: Callable[[Message | Call], bool]
    cache: dict[str, Any] = field(default_factory=dict)
    asks: Asks | None = None
    refusals: Refusals | None = None

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A writing transaction; messages leave when it is committed."""
        with db.transaction(self.engine) as session:
            session.info[RUNTIME] = self
            yield session

    def writing(self) -> AbstractContextManager[Connection]:
        """A writing transaction without a session."""
        return db.writing(self.engine)

    def looking(self) -> AbstractContextManager[Connection]:
        """A transaction that only reads, without a session."""
        return db.looking(self.engine)

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


def make(
    settings: Settings, send: Callable[[Message | Call], bool], bmcs: Bmcs | None = None
) -> Runtime:
    """
    A runtime for this process, with every hardware type that settings enable.

    Raises SettingsError, as `load_drivers`.
    """
    engine = db.connect(settings.database.connection, **settings.database.limits)
    return Runtime(settings, engine, load_drivers(settings, bmcs), send)


def load_drivers(settings: Settings, bmcs: Bmcs | None = None) -> Registry:
    """
    Every hardware type that settings enable.

    Raises SettingsError for a setting that names a hardware type or interface that is not there.
    """
    default = settings.default
    try:
        return registry.load(
            HARDWARE_TYPES,
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
            options=settings.options(),
        )
    except registry.UnknownName as error:
        raise SettingsError(str(error)) from None
