"""
Objects that a supervisor makes before it forks the processes that use them.

A forked process shares the memory of its parent until one of them writes to it. Making an object
writes to thousands of pages, which hold the code and the reference counts of all that it runs.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Generic, TypeVar

from app.config.settings import Settings

T = TypeVar("T")


class BuiltBeforeFork(Generic[T]):
    """A function of the settings whose result forked processes inherit."""

    def __init__(self, make: Callable[[Settings], T]) -> None:
        update_wrapper(self, make)
        self._make = make
        self._built_object: tuple[Settings, T] | None = None

    def before_fork(self, settings: Settings) -> T:
        """Make the object for the processes that this one forks with the same settings."""
        self._built_object = settings, self._make(settings)
        return self._built_object[1]

    def __call__(self, settings: Settings) -> T:
        """Return the object that was made of the same settings before the fork, else a new one."""
        if self._built_object is not None and self._built_object[0] is settings:
            return self._built_object[1]
        return self._make(settings)
