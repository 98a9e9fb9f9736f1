"""
The runtime of a process: settings, database engine, drivers, and the senders of its messages.

Each entry point (API, conductor, beat, a test) makes one and passes it on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from app import tracing
from app.config.settings import Settings, SettingsError
from app.db import connections, transactions
from app.inherited import Inherited
from app.kit import data_keys
from app.kit.refused_lookups import Refusals
from app.metrics.table import BMC_COMMANDS, BMC_REFUSALS
from app.operation_states import ACTOR, Actor
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
    """Message to a conductor: run an operation. It carries the chain of the remaining steps."""

    conductor: str  # name
    node: str  # UUID
    operation: str  # UUID
    fence: int
    links: tuple[Link, ...]  # not empty; the first is to be run
    root: str | None = None  # UUID of the chain's first task; None: this message's first link
    parent: str | None = None  # UUID of the task before the first link; None: there is none
    name: str | None = None  # of the node, for monitors; None: it has none

    @property
    def cursor(self) -> int:
        """Position of the step to run."""
        return self.links[0].position

    @property
    def rest(self) -> "Message | None":
        """Message with the chain after its first link; None if there is none."""
        first, *links = self.links
        if not links:
            return None
        return replace(self, links=tuple(links), root=self.root or first.task, parent=first.task)


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """Message to any free conductor: run a task."""

    task: str
    arguments: Sequence[str]
    delay: float = 0  # seconds until it is sent


class Calls(Protocol):
    """Transport of synchronous calls to conductors, and of their answers (`app.engine.rpc`)."""

    def post(self, conductor: str, key: str, call: Mapping[str, Any], seconds: float) -> None:
        """Send a call to a conductor; it expires after `seconds` if it was not started."""

    def receive(self, key: str, seconds: float) -> Mapping[str, Any] | None:
        """Return the answer to a call, or None if none has arrived within `seconds`."""

    def withdraw(self, key: str) -> bool:
        """Cancel a call; False if the conductor has started it, or it is lost."""


class Consoles(Protocol):
    """Output, input and tickets of consoles, for the API (`app.broker.consoles`)."""

    def output(self, node: str, start: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return (position, document) of a node's output after a position, or wait a little."""

    def send(self, node: str, document: Mapping[str, Any]) -> None:
        """Send a document of input."""

    def keep_ticket(self, ticket: str, document: Mapping[str, Any]) -> None:
        """Keep the document of a ticket."""

    def take_ticket(self, ticket: str) -> Mapping[str, Any] | None:
        """Return the document of a ticket, once."""


@dataclass(slots=True)
class Runtime:
    """Shared objects of one process."""

    settings: Settings
    engine: Engine
    drivers: Registry
    # returns whether the broker took the message; raises nothing
    send: Callable[[Message | TaskMessage], bool]
    cache: dict[str, Any] = field(default_factory=dict)
    calls: Calls | None = None  # None: this process calls no conductors
    consoles: Consoles | None = None  # None: this process opens no consoles
    refusals: Refusals | None = None  # of lookups; None: this process records none
    # length of a conductor's step queue, by its name; raises Unavailable. None: no broker
    backlog: Callable[[str], int] | None = None

    @contextmanager
    def transaction(self, actor: Actor = Actor.API) -> Iterator[Session]:
        """Open a read-write transaction for an actor; its messages are sent after the commit."""
        with transactions.transaction(self.engine) as session:
            session.info[RUNTIME] = self
            session.info[ACTOR] = actor
            yield session

    def write_connection(self) -> AbstractContextManager[Connection]:
        """Open a read-write transaction without a session."""
        return transactions.write_connection(self.engine)

    def read_connection(self) -> AbstractContextManager[Connection]:
        """Open a read-only transaction without a session."""
        return transactions.read_connection(self.engine)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a read-only transaction."""
        with transactions.reading(self.engine) as session:
            session.info[RUNTIME] = self
            yield session


def runtime_of(session: Session) -> Runtime:
    """Return the runtime that opened this session."""
    runtime: Runtime = session.info[RUNTIME]
    return runtime


def make(
    settings: Settings, send: Callable[[Message | TaskMessage], bool], bmcs: Bmcs | None = None
) -> Runtime:
    """
    Create the runtime of this process, with every hardware type that the settings enable.

    Raises SettingsError: see `load_drivers` and `connect`.
    """
    drivers = _load_drivers(settings, bmcs) if bmcs else load_drivers(settings)
    return Runtime(settings, connect(settings), drivers, send)


@Inherited
def connect(settings: Settings) -> Engine:
    """
    Create the engine of the database, with its data keys.

    Raises SettingsError: see `data_keys.keyring`.
    """
    database = settings.database
    keyring = data_keys.keyring(database)
    return connections.connect(database.connection, **database.limits, keyring=keyring)


@Inherited
def load_drivers(settings: Settings) -> Registry:
    """
    Load every hardware type that the settings enable.

    Raises SettingsError: a setting names an unknown hardware type or interface.
    """
    return _load_drivers(settings, None)


def require_hardware_types(drivers: Registry) -> None:
    """
    Check that a conductor with these drivers would serve nodes.

    Raises SettingsError: no hardware type is loaded; it names the reason of each.
    """
    if not drivers.types:
        why = "; ".join(f"{name}: {reason}" for name, reason in sorted(drivers.refused.items()))
        raise SettingsError(f"no hardware type is loaded, so that no node could be served: {why}")


def _load_drivers(settings: Settings, bmcs: Bmcs | None) -> Registry:
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
                observe=_observe_bmc,
            ),
            options=settings.options(),
        )
    except registry.UnknownName as error:
        raise SettingsError(str(error)) from None


def _observe_bmc(address: str, urgency: str, result: str, seconds: float) -> None:
    """Record a command to a BMC, or its refusal, in the metrics and in the trace."""
    tracing.called(f"bmc.{urgency}", address, result, seconds)
    if result in ("breaker", "busy"):
        BMC_REFUSALS.add(result)
    else:
        BMC_COMMANDS.observe(seconds, urgency, result)
