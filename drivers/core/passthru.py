"""
Vendor passthru: functions that only one vendor's interface has, called by name through the API.

    @passthru("POST", description="Reset the BMC")
    def bmc_reset(self, target, warm=True): ...

A function is called as `method(target, **arguments)`. One that is asynchronous becomes an
operation, whose step it is; what a synchronous one returns (JSON) is the answer.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from drivers.core.errors import InvalidDriverInfo

Method = TypeVar("Method", bound=Callable[..., Any])
MARK = "__ingot_passthru__"


@dataclass(frozen=True, slots=True)
class Passthru:
    """
    A declared function.

    attach: what it returns is text that is answered as it is, not as JSON. exclusive: refused while
    the node is reserved, and nobody else gives the machine orders meanwhile.
    """

    http_methods: tuple[str, ...]
    description: str
    asynchronous: bool = True
    attach: bool = False
    exclusive: bool = True

    def shown(self) -> dict[str, Any]:
        """As clients know it."""
        return {
            "http_methods": list(self.http_methods),
            "async": self.asynchronous,
            "description": self.description,
            "attach": self.attach,
            "require_exclusive_lock": self.exclusive,
        }


def passthru(
    *http_methods: str,
    description: str,
    asynchronous: bool = True,
    attach: bool = False,
    exclusive: bool = True,
) -> Callable[[Method], Method]:
    """Declare a method as a vendor function."""
    declared = Passthru(http_methods, description, asynchronous, attach, exclusive)

    def mark(method: Method) -> Method:
        setattr(method, MARK, declared)
        return method

    return mark


def functions(interface: object) -> Mapping[str, Passthru]:
    """The functions of an interface, by name."""
    kind = type(interface)
    marks = ((name, getattr(getattr(kind, name), MARK, None)) for name in dir(kind))
    return {name: mark for name, mark in marks if mark is not None}


def check_arguments(interface: object, name: str, arguments: Mapping[str, Any]) -> None:
    """A function takes these arguments, and no other. Raises InvalidDriverInfo."""
    parameters = list(inspect.signature(getattr(interface, name)).parameters.values())[1:]
    known = {each.name for each in parameters}
    for each in parameters:
        if each.default is each.empty and each.name not in arguments:
            raise InvalidDriverInfo(f"{each.name}: vendor function {name} needs it")
    for given in arguments:
        if given not in known:
            takes = ", ".join(sorted(known)) or "nothing"
            raise InvalidDriverInfo(f"{given}: vendor function {name} takes {takes}")
