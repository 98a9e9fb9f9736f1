"""Operators of inspection rules: common part of conditions and actions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its arguments. A list of arguments is taken in the declared order."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    run: Callable[..., Any]  # called with the arguments by name

    def named(self, args: object) -> dict[str, Any]:
        """
        Return the arguments by name.

        Raises ValueError: an argument is missing or unknown.
        """
        if isinstance(args, list):
            args = self._by_name(args)
        if not isinstance(args, Mapping):
            raise ValueError("args must be an object or a list")
        known_names = (*self.required, *self.optional)
        missing_names = [name for name in self.required if name not in args]
        unknown_names = sorted(str(name) for name in args if name not in known_names)
        if missing_names:
            raise ValueError(f"args: {', '.join(missing_names)} missing")
        if unknown_names:
            raise ValueError(
                f"args: {', '.join(unknown_names)} unknown; known are {', '.join(known_names)}"
            )
        return dict(args)

    def _by_name(self, args: list[object]) -> dict[str, object]:
        names = (*self.required, *self.optional)
        if self.required == ("values",) and not (args and isinstance(args[0], list)):
            return {"values": args}  # the list is the one argument
        if len(args) > len(names):
            raise ValueError(f"args: {len(args)} are too many; accepted are {', '.join(names)}")
        return dict(zip(names, args, strict=False))
