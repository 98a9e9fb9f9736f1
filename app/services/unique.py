"""What the database says about things that exist already."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.errors import AlreadyExists
from app.models import Base

#: SQLite names the column, PostgreSQL the constraint
_COLUMN = re.compile(r"UNIQUE constraint failed: \w+\.(\w+)|unique constraint \"uq_[a-z]+_(\w+)\"")


@contextmanager
def checked(session: Session, kind: str, row: Base) -> Iterator[None]:
    """Flush what is done within; raises AlreadyExists when a value of `row` is taken."""
    try:
        yield
        session.flush()
    except IntegrityError as error:
        found = _COLUMN.search(str(error.orig))
        if not found:
            raise
        column = found[1] or found[2]
        raise AlreadyExists(kind, column, getattr(row, column)) from error
