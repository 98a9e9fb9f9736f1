"""The database of a command, open while the command runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.config.settings import Settings
from workers.supervisor.location import StartError

if TYPE_CHECKING:  # slow to import
    from sqlalchemy import Engine

    from app.runtime import Runtime


@contextmanager
def disposing(engine: "Engine") -> Iterator[None]:
    """Dispose of an engine at the end. Raises StartError: an error of the database."""
    from sqlalchemy.exc import SQLAlchemyError  # here: SQLAlchemy is slow to import

    from app.db.diagnosis import reason

    try:
        yield
    except SQLAlchemyError as error:
        raise StartError(f"database: {reason(error)}") from None
    finally:
        engine.dispose()


@contextmanager
def silent_runtime(settings: Settings) -> Iterator["Runtime"]:
    """Yield a runtime that sends no messages. Raises StartError, as `disposing`."""
    from app import runtime  # here: it imports nearly all modules

    command_runtime = runtime.make(settings, send=lambda _message: False)
    with disposing(command_runtime.engine):
        yield command_runtime
