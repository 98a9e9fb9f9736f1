"""
Rows of rude faults: deviations of BMCs from the standard, each a wrapper around the polite answer.

A fault is a function of an `Exchange`. It may answer in place of the BMC, change the request before
or the answer after the BMC's work, or let both pass. Its docstring and default options make its row
of the page of faults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from drivers.simulator.machine import Machine, Task
from drivers.simulator.refusal import Refusal
from drivers.simulator.server import Request, Response

#: Kinds of orders, and the ends of their paths. A fault with the option `orders` is limited to
#: these kinds; an empty list stands for all of them but "login".
ORDERS: dict[str, tuple[str, ...]] = {
    "power": ("/Actions/ComputerSystem.Reset",),
    "insert": ("/Actions/VirtualMedia.InsertMedia",),
    "eject": ("/Actions/VirtualMedia.EjectMedia",),
    "update": ("/Actions/UpdateService.SimpleUpdate",),
    "bios": ("/Bios/Settings", "/Actions/Bios.ResetBios"),
    "secure boot": ("/SecureBoot", "/Actions/SecureBoot.ResetKeys"),
    "login": ("/SessionService/Sessions",),
}

Options = Mapping[str, Any]


class Bmc(Protocol):
    """The polite BMC."""

    machine: Machine

    def answer(self, request: Request) -> Response:
        """Answer a request without rude faults."""

    def is_authenticated(self, request: Request) -> bool:
        """Whether a request has a valid session or password."""

    def carry_out(self, request: Request) -> Response:
        """Carry an order out that was authenticated before."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault."""

    name: str
    rule: str  # of docs/redfish.md that the fault tests
    text: str
    defaults: Options
    act: "Callable[[Exchange], Response]"


@dataclass(slots=True)
class Exchange:
    """One request to a BMC, as one of its faults sees it."""

    bmc: Bmc
    request: Request
    row: Row
    options: Options
    _next: Callable[[Request], Response]

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    @property
    def machine(self) -> Machine:
        return self.bmc.machine

    @property
    def path(self) -> str:
        """Path without the final slash."""
        return self.request.path.rstrip("/")

    @property
    def reads(self) -> bool:
        return self.request.method == "GET"

    @property
    def memory(self) -> dict[Any, Any]:
        """Facts that the fault keeps about the machine."""
        return self.machine.memory.setdefault(self.row.name, {})

    def go(self, **changes: Any) -> Response:
        """Have the request answered; changes: fields of the request that differ."""
        return self._next(replace(self.request, **changes) if changes else self.request)

    def edited(
        self, edit: Callable[[dict[str, Any]], object], *, is_concerned: bool = True
    ) -> Response:
        """Have the request answered; edit the document in place, if it is a read of that one."""
        response = self.go()
        return changed(response, edit) if self.reads and is_concerned else response

    def missing(self) -> Response:
        """Answer that there is no such resource."""
        text = f"There is no resource at {self.path}."
        return Refusal(404, "ResourceMissingAtURI", text).response()

    def occurs(self) -> bool:
        """Draw whether the fault shows itself now, by its share and its number of times."""
        share, times = self.options["share"], self.options["times"]
        if times and self.memory.get("times", 0) >= times:
            return False
        if share < 1 and self.machine.random.random() >= share:
            return False
        if times:
            self.memory["times"] = self.memory.get("times", 0) + 1
        return True

    def orders(self, *kinds: str) -> bool:
        """Whether the request is an order of one of these kinds; none: of any but "login"."""
        kind = order_kind(self.request)
        return kind in kinds if kinds else kind not in ("", "login")

    def began(self) -> tuple[Response, list[Task]]:
        """Have the request answered; return the answer, and the tasks that it has begun."""
        count = len(self.machine.tasks)
        return self.go(), self.machine.tasks[count:]

    def body(self) -> dict[str, Any]:
        """Return the body of the request; {} if it is no object."""
        try:
            return self.request.json()
        except ValueError:
            return {}


class Registry(dict[str, Row]):
    """Faults of one module by name, outermost first: a fault sees the answers of those below it."""

    def fault(
        self, rule: str, **defaults: object
    ) -> Callable[[Callable[[Exchange], Response]], None]:
        """Register a fault under the function's name, with the defaults of its own options."""

        def register(act: Callable[[Exchange], Response]) -> None:
            text = " ".join((act.__doc__ or "").split())
            self[act.__name__] = Row(act.__name__, rule, text, defaults, act)

        return register


def order_kind(request: Request) -> str:
    """Return the kind of an order, "boot" and "volume" among them, "other", or "" for a read."""
    if request.method in ("GET", "HEAD"):
        return ""
    path = request.path.rstrip("/")
    for kind, ends in ORDERS.items():
        if path.endswith(ends):
            return kind
    if "/Volumes" in path:
        return "volume"
    if "/SessionService/Sessions/" in path:
        return "login"
    if request.method == "PATCH" and b'"Boot"' in request.body:
        return "boot"
    return "other"


def document(response: Response) -> dict[str, Any] | None:
    """Return the JSON object in a successful answer, or None."""
    if response.status not in (200, 201, 202) or not response.body.startswith(b"{"):
        return None
    content: dict[str, Any] = orjson.loads(response.body)
    return content


def changed(response: Response, change: Callable[[dict[str, Any]], object]) -> Response:
    """Return an answer whose JSON object has been changed in place by a function."""
    content = document(response)
    if content is None:
        return response
    change(content)
    return replace(response, body=orjson.dumps(content))
