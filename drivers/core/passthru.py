"""
Vendor passthru: functions of one vendor's interface that clients call by name through the API.

    @passthru("POST", description="Reset the BMC")
    def bmc_reset(self, target, warm=True): ...

A function is called as `method(target, **arguments)`. An asynchronous one is the step of an
operation. The result of a synchronous one (JSON) is the API's answer.
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
    """A declared vendor function."""

    http_methods: tuple[str, ...]
    description: str
    asynchronous: bool = True
    attach: bool = False  # its result is text, and the body of the answer instead of JSON
    exclusive: bool = True  # holds the node's reservation; refused while an operation has it

    def document(self) -> dict[str, Any]:
        """Return the function as the API shows it."""
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
    declaration = Passthru(http_methods, description, asynchronous, attach, exclusive)

    def mark(method: Method) -> Method:
        setattr(method, MARK, declaration)
        return method

    return mark


def functions(interface: object) -> Mapping[str, Passthru]:
    """Return the vendor functions of an interface by name."""
    kind = type(interface)
    declarations = ((name, getattr(getattr(kind, name), MARK, None)) for name in dir(kind))
    return {name: declaration for name, declaration in declarations if declaration is not None}


def check_arguments(interface: object, name: str, arguments: Mapping[str, Any]) -> None:
    """
    Check the arguments of a call against the function's parameters.

    Raises InvalidDriverInfo: an argument is missing or unknown.
    """
    parameters = list(inspect.signature(getattr(interface, name)).parameters.values())[1:]
    parameter_names = {parameter.name for parameter in parameters}
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in arguments:
            raise InvalidDriverInfo(f"{parameter.name}: vendor function {name} needs it")
    for argument_name in arguments:
        if argument_name not in parameter_names:
            takes = ", ".join(sorted(parameter_names)) or "nothing"
            raise InvalidDriverInfo(f"{argument_name}: vendor function {name} takes {takes}")
