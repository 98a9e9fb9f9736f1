"""
Wait until Neutron has connected ports, as it says itself.

A binding is a request: the mechanism driver configures the switch afterwards, and may fail.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.steps import AWAITED, Done, Failed, Outcome, Wait
from drivers.core.target import Target

if TYPE_CHECKING:
    from drivers.neutron.service import NetworkService

#: Key of the progress: ids of the ports that are awaited. Events of Neutron name them.
PORTS = "ports"
_LOOKS = "looks"
_FAILED = "binding_failed"
_ACTIVE = "ACTIVE"


def settled(target: Target, service: "NetworkService", ports: Sequence[str]) -> Outcome:
    """
    Read the ports: `Done` once Neutron has connected all of them, `Failed` if it cannot.

    If the settings accept unconnected ports, these are named in the result.
    """
    states = {port: _state(service, port) for port in ports}
    unconnected = {port: state for port, state in states.items() if state != _ACTIVE}
    if not unconnected:
        return Done({PORTS: list(ports)})
    if not is_required(target):
        return Done({PORTS: list(ports), "unconnected": unconnected})
    port, state = min(unconnected.items(), key=lambda item: item[1] == "DOWN")
    agent, looks = target.options["agent"], target.progress.get(_LOOKS, 0) + 1
    interval, attempts = (
        float(agent["neutron_agent_status_retry_interval"]),
        int(agent["neutron_agent_max_attempts"]),
    )
    if state not in ("DOWN", "BUILD") or looks >= attempts:
        seconds = f" after {looks * interval:.0f} s" if looks > 1 else ""
        return Failed(
            f"Neutron has not connected port {port}: {state}{seconds}. Is local_link_connection of"
            " the node's ports right, and does Neutron have a mechanism driver for the switch? Its"
            " log has the reason"
        )
    progress = {PORTS: list(ports), _LOOKS: looks, AWAITED: f"Neutron, to connect port {port}"}
    return Wait(progress, poll_after=interval, timeout=interval * (attempts + 2))


def is_required(target: Target) -> bool:
    """
    Whether a port that Neutron does not connect is a failure.

    Raises InvalidDriverInfo: driver_info/fail_on_binding_failure is malformed.
    """
    value: Any = target.driver_info.get("fail_on_binding_failure")
    if value is None:
        return bool(target.options["neutron"]["fail_on_port_binding_failure"])
    words = {"true": True, "false": False}
    if str(value).lower() not in words:
        raise InvalidDriverInfo(
            f"driver_info/fail_on_binding_failure: {value!r} is neither true nor false"
        )
    return words[str(value).lower()]


def _state(service: "NetworkService", ident: str) -> str:
    """Return the status of a port, or why it is not connected."""
    port = service.port(ident)
    if port is None:
        return "it is deleted"
    if port["binding:vif_type"] == _FAILED:
        return _FAILED
    trunk = (port.get("trunk_details") or {}).get("trunk_id")
    if trunk and (status := service.trunk(trunk)["status"]) in ("ERROR", "DEGRADED"):
        return f"its trunk {trunk} is {status}"
    return str(port["status"])
