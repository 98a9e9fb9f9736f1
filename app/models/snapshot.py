"""
Snapshots: rows as plain values, where a session would cost more than what is done with them.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from app.models.base import Base

T = TypeVar("T", bound=Base)


def snapshots(model: type[T]) -> Callable[[Iterable[Any]], T]:
    """
    A maker of snapshots of a model, from the values of its table's columns in their order.

    It takes no more values than there are columns, so several may read from one iterator. A
    snapshot reads like the row that the model maps, properties included; it cannot be changed.
    """
    columns = model.__table__.columns.keys()
    properties = {name: each for name, each in vars(model).items() if isinstance(each, property)}
    kind: Any = type(
        model.__name__, (namedtuple("Values", columns),), {"__slots__": (), **properties}
    )

    def make(values: Iterable[Any]) -> T:
        snapshot: T = kind._make(islice(values, len(columns)))
        return snapshot

    return make
