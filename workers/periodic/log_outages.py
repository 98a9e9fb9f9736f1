"""
Outages: what a task does when database or broker fail it.

It says so in a line, and ends: whatever it was about is found in the rows, and done later.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from app import log
from app.broker.queue import FAILURES
from app.db import diagnosis

seldom = log.Seldom(log.get(__name__))


@contextmanager
def borne(task: str) -> Iterator[None]:
    """Carry on when database or broker have failed; raises what is a defect of ours."""
    try:
        yield
    except SQLAlchemyError as error:
        if diagnosis.trouble(error) is None:
            raise
        seldom.warning("task.postponed", task=task, detail=diagnosis.reason(error))
    except FAILURES as error:
        seldom.warning("task.postponed", task=task, detail=str(error) or type(error).__name__)
