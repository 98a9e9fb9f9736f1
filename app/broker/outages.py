"""
Retry rules of conductors and periodic tasks while database or broker are unavailable.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.broker.breakers import FAILURES
from app.db.diagnosis import database_problem, reason
from app.db.transactions import retrying
from app.observe import log

T = TypeVar("T")
seldom = log.RateLimited(log.get(__name__))

#: Seconds for which a transaction is retried while the database is unavailable.
PATIENCE = 300.0
#: Errors that may mean that the database is unavailable; `diagnosis.database_problem` decides.
OUT_OF_REACH = (DBAPIError, PoolTimeout)


def until_available(work: Callable[[], T]) -> T:
    """
    Run a transaction, and retry until the database is available.

    The transaction may run again after its commit was lost, so it must be idempotent.

    Raises one of OUT_OF_REACH: after `PATIENCE` seconds, or at once when the statement is at fault.
    """
    end = time.monotonic() + PATIENCE
    pause = 0.1
    while True:
        try:
            return retrying(work)
        except OUT_OF_REACH as error:
            if database_problem(error) is None or time.monotonic() > end:
                raise
            seldom.warning("database.awaited", detail=reason(error))
            time.sleep(pause)
            pause = min(pause * 2, 2.0)


@contextmanager
def log_outages(task: str) -> Iterator[None]:
    """
    Log an outage of database or broker instead of raising it; other errors are raised.

    The pending work is in the database, so the next run of the task finds it.
    """
    try:
        yield
    except SQLAlchemyError as error:
        if database_problem(error) is None:
            raise
        seldom.warning("task.postponed", task=task, detail=reason(error))
    except FAILURES as error:
        seldom.warning("task.postponed", task=task, detail=str(error) or type(error).__name__)
