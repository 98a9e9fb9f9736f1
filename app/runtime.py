"""
The runtime of a process: settings, database engine, drivers, and the senders of its messages.

Each entry point (API, conductor, beat, a test) makes one and passes it on.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from app.broker.consoles import ConsoleChannel
from app.broker.messages import Message, TaskMessage
from app.broker.refused_lookups import Refusals
from app.config.settings import Settings, SettingsError
from app.db import connections, transactions
from app.lifecycle.operation_states import ACTOR, Actor
from app.metrics.table import BMC_COMMANDS, BMC_REFUSALS
from app.process import tracing
from app.process.before_fork import BuiltBeforeFork
from app.rows import data_keys
from app.vault import writing
from app.vault.vault import Vault
from drivers.builtin import HARDWARE_TYPES
from drivers.core import registry
from drivers.core.bmc import Bmcs
from drivers.core.registry import Registry

if TYPE_CHECKING:  # Celery is slow to import
    from app.broker.calls import RedisCalls

RUNTIME = "runtime"
T = TypeVar("T")


@dataclass(slots=True)
class Runtime:
    """Shared objects of one process."""

    settings: Settings
    engine: Engine
    drivers: Registry
    # returns whether the broker took the message; raises nothing
    send: Callable[[Message | TaskMessage], bool]
    cache: dict[str, Any] = field(default_factory=dict)
    calls: "RedisCalls | None" = None  # None in a process that calls no conductors
    consoles: ConsoleChannel | None = None  # None in a process that opens no consoles
    refusals: Refusals | None = None  # of lookups, if this process records them
    # length of a conductor's step queue, by its name; raises Unavailable; None without a broker
    backlog: Callable[[str], int] | None = None
    vault: Vault | None = None  # None: all secrets are in the database

    def storing(self, work: Callable[[], T]) -> T:
        """
        Run a transaction whose new secrets are stored in the vault first, if there is one.

        Raises SecretsUnavailable: see `writing.storing`.
        """
        return writing.storing(self.engine, self.vault, work)

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
    vault = Vault(settings) if settings.vault.address else None
    return Runtime(settings, connect(settings), drivers, send, vault=vault)


@BuiltBeforeFork
def connect(settings: Settings) -> Engine:
    """
    Create the engine of the database, with its data keys.

    Raises SettingsError: see `data_keys.keyring`.
    """
    database = settings.database
    keyring = data_keys.keyring(database)
    return connections.connect(database.connection, **database.limits, keyring=keyring)


@BuiltBeforeFork
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
        reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(drivers.refused.items()))
        raise SettingsError(
            f"no hardware type is loaded, so that no node could be served: {reasons}"
        )


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
