"""
Patience: what a conductor does while the database is out of reach. It waits, within reason.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app import log
from app.db.diagnosis import reason, trouble
from app.db.transactions import retrying

T = TypeVar("T")
seldom = log.Seldom(log.get(__name__))

#: Seconds for which something is kept while the database is out of reach.
PATIENCE = 300.0
#: What may say that it is; `db.trouble` knows which of them do.
OUT_OF_REACH = (DBAPIError, PoolTimeout)


def patiently(work: Callable[[], T]) -> T:
    """
    Run a transaction once the database takes it. It may be run again after its answer was lost.

    Raises one of OUT_OF_REACH after `PATIENCE` seconds, or at once if it is a defect of ours.
    """
    end = time.monotonic() + PATIENCE
    pause = 0.1
    while True:
        try:
            return retrying(work)
        except OUT_OF_REACH as error:
            if trouble(error) is None or time.monotonic() > end:
                raise
            seldom.warning("database.awaited", detail=reason(error))
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
