"""Isolation: an error of one item does not keep a periodic task from the others."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from app.db.diagnosis import is_unavailable, reason
from app.observe import log

logger = log.get(__name__)


@contextmanager
def isolated(event: str, **facts: object) -> Iterator[None]:
    """
    Log an error of one item as `event` instead of raising it.

    Raises SQLAlchemyError: the database is out of reach, for all items.
    """
    try:
        yield
    except SQLAlchemyError as error:
        if is_unavailable(error):
            raise
        logger.warning(event, **facts, detail=reason(error))
    except Exception:
        logger.exception(event, **facts)
