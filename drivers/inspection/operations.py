"""
Operations: what conditions and actions of inspection rules have in common.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Operation:
    """
    One operator. required, optional: names of its arguments; a list of them is taken in this order.
    run: the function behind it, called with them by name.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...]
    run: Callable[..., Any]

    def named(self, args: Any) -> dict[str, Any]:
        """The arguments by name. Raises ValueError that says what is wrong with them."""
        if isinstance(args, list):
            args = self._by_name(args)
        if not isinstance(args, Mapping):
            raise ValueError("args must be an object or a list")
        known = (*self.required, *self.optional)
        missing = [name for name in self.required if name not in args]
        strange = sorted(str(name) for name in args if name not in known)
        if missing:
            raise ValueError(f"args: {', '.join(missing)} missing")
        if strange:
            raise ValueError(f"args: {', '.join(strange)} unknown; known are {', '.join(known)}")
        return dict(args)

    def _by_name(self, args: list[Any]) -> dict[str, Any]:
        names = (*self.required, *self.optional)
        if self.required == ("values",) and not (args and isinstance(args[0], list)):
            return {"values": args}  # the values themselves
        if len(args) > len(names):
            raise ValueError(f"args: {len(args)} are too many; there are {', '.join(names)}")
        return dict(zip(names, args, strict=False))
