"""Faults of power orders and power states."""

from time import time
from typing import Any

from drivers.simulator.refusal import Refusal
from drivers.simulator.rude.row import Exchange, Registry, changed
from drivers.simulator.server import Response

FAULTS = Registry()

POWER = "Power"


def _shows_system(exchange: Exchange) -> bool:
    return exchange.reads and exchange.path == exchange.machine.system_id


@FAULTS.fault(POWER, status=409, seconds=2.0, retry_after=0)
def power_refused_in_transition(exchange: Exchange) -> Response:
    """A reset within so many seconds after another one is refused: 409, 400 or 503."""
    if not exchange.orders("power"):
        return exchange.go()
    if time() < exchange.memory.get("until", 0) and exchange.occurs():
        refusal = Refusal(exchange["status"], "ResourceInUse", "The power state is changing.")
        wait = exchange["retry_after"]
        return refusal.response({"Retry-After": str(wait)} if wait else None)
    response = exchange.go()
    if response.status < 300:
        exchange.memory["until"] = time() + exchange["seconds"]
    return response


@FAULTS.fault(POWER, status=409)
def power_refused_when_there(exchange: Exchange) -> Response:
    """A reset to the present power state is refused: 409 or 400, "already"."""
    kind = exchange.body().get("ResetType") if exchange.orders("power") else None
    states = {"On": ("On", "ForceOn"), "Off": ("ForceOff", "GracefulShutdown")}
    if kind in states[exchange.machine.power] and exchange.occurs():
        text = f"The server is already powered {exchange.machine.power}."
        return Refusal(exchange["status"], "InvalidOperationForSystemState", text).response()
    return exchange.go()


@FAULTS.fault(POWER, state="null", seconds=1.0)
def power_state_odd(exchange: Exchange) -> Response:
    """
    For so many seconds after a reset, PowerState is null (or absent, Reset, Unknown, PoweringOn,
    PoweringOff).
    """
    response = exchange.go()
    if exchange.orders("power") and response.status < 300 and exchange.occurs():
        exchange.memory["until"] = time() + exchange["seconds"]
    if _shows_system(exchange) and time() < exchange.memory.get("until", 0):
        return _with_state(response, exchange["state"])
    return response


@FAULTS.fault(POWER, state="null")
def power_state_unknown(exchange: Exchange) -> Response:
    """PowerState is null (or absent, Reset, Unknown, ...) in a read at any time."""
    response = exchange.go()
    if _shows_system(exchange) and exchange.occurs():
        return _with_state(response, exchange["state"])
    return response


def _with_state(response: Response, state: str) -> Response:
    def change(content: dict[str, Any]) -> None:
        if state == "absent":
            content.pop("PowerState", None)
        else:
            content["PowerState"] = None if state == "null" else state

    return changed(response, change)


@FAULTS.fault(POWER, types=["On", "GracefulShutdown", "ForceRestart"])
def power_reset_types(exchange: Exchange) -> Response:
    """Only these values of ResetType are offered, and others refused with 400."""
    types = exchange["types"]
    if exchange.orders("power") and exchange.body().get("ResetType") not in types:
        return Refusal(400, "ActionParameterNotSupported", f"Not one of {types}.").response()

    def change(content: dict[str, Any]) -> None:
        action = content["Actions"]["#ComputerSystem.Reset"]
        action["ResetType@Redfish.AllowableValues"] = list(types)

    return exchange.edited(change, is_concerned=_shows_system(exchange))


@FAULTS.fault(POWER)
def reset_types_hidden(exchange: Exchange) -> Response:
    """The system does not list the values of ResetType."""
    response = exchange.go()
    if not _shows_system(exchange) or not exchange.occurs():
        return response
    return changed(
        response,
        lambda content: content["Actions"]["#ComputerSystem.Reset"].pop(
            "ResetType@Redfish.AllowableValues", None
        ),
    )
