"""
Snapshots: read-only rows without an ORM session, for hot paths where a session costs too much.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from app.models.base import Base

T = TypeVar("T", bound=Base)


def snapshots(model: type[T]) -> Callable[[Iterable[Any]], T]:
    """
    Return a factory of snapshots of a model; its argument has the table's columns in order.

    It takes only as many values as there are columns, so that several factories can read a joined
    row from one iterator. A snapshot has the columns and properties of the model.
    """
    columns = model.__table__.columns.keys()
    properties = {name: item for name, item in vars(model).items() if isinstance(item, property)}
    kind: Any = type(
        model.__name__, (namedtuple("Values", columns),), {"__slots__": (), **properties}
    )

    def make(values: Iterable[Any]) -> T:
        snapshot: T = kind._make(islice(values, len(columns)))
        return snapshot

    return make
