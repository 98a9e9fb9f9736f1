"""Convert unique violations of the database to AlreadyExists."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.errors import AlreadyExists
from app.models import Base

#: Messages of SQLite and PostgreSQL; the group is the last column of the violated constraint.
_COLUMN = re.compile(
    r"UNIQUE constraint failed: (?:\w+\.\w+, )*\w+\.(\w+)"
    r"|Key \((?:\w+, )*(\w+)\)=.* already exists"
)


@contextmanager
def checked(session: Session, kind: str, row: Base) -> Iterator[None]:
    """
    Flush the session after the block.

    Raises AlreadyExists: another row has a unique value of `row`.
    """
    yield
    values = dict(vars(row))  # a failed flush expires them
    try:
        session.flush()
    except IntegrityError as error:
        match = _COLUMN.search(str(error.orig))
        if not match:
            raise
        column = match[1] or match[2]
        raise AlreadyExists(kind, column, values[column]) from error
