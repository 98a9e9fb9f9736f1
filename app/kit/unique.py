"""What the database says about things that exist already."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.errors import AlreadyExists
from app.models import Base

#: Of the columns that must be unique together, the last one.
_COLUMN = re.compile(
    r"UNIQUE constraint failed: (?:\w+\.\w+, )*\w+\.(\w+)"
    r"|Key \((?:\w+, )*(\w+)\)=.* already exists"
)


@contextmanager
def checked(session: Session, kind: str, row: Base) -> Iterator[None]:
    """Flush what is done within; raises AlreadyExists when a value of `row` is taken."""
    yield
    values = dict(vars(row))  # a flush that fails takes them away
    try:
        session.flush()
    except IntegrityError as error:
        found = _COLUMN.search(str(error.orig))
        if not found:
            raise
        column = found[1] or found[2]
        raise AlreadyExists(kind, column, values[column]) from error
