"""
Notifications with the sensors of a machine, in Ironic's form: `hardware.TYPE.metrics`.

They are not versioned. The type is the node's driver; the payload of `ipmi` has the words of
ipmitool, that of all others the names of Redfish.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from app.inventory.sensors import Reading

Document = dict[str, Any]

#: Ironic's types of sensors, by kind.
_IPMI_TYPES = {"temperature": "Temperature", "fan": "Fan", "voltage": "Voltage", "power": "Power"}
_REDFISH_TYPES = {"temperature": "Temperature", "fan": "Fan", "power": "Power"}
_IPMI_UNITS = {"°C": "degrees C", "RPM": "RPM", "%": "percent", "V": "Volts", "W": "Watts"}
_REDFISH_HEALTHS = {"ok": "OK", "warning": "Warning", "critical": "Critical", "unknown": None}
#: Keys of a reading in the names of Redfish, by kind.
_READINGS = {
    "temperature": "reading_celsius",
    "fan": "reading",
    "power": "last_power_output_watts",
}


class Subject(NamedTuple):
    """The node whose sensors a notification has."""

    uuid: str
    name: str | None
    instance_uuid: str | None
    driver: str


def made_of(subject: Subject, readings: Iterable[Reading], host: str, time: datetime) -> Document:
    """Return the notification with the readings of a node. host: name of the conductor."""
    event_type = f"hardware.{subject.driver}.metrics"
    form: Callable[[Subject, Iterable[Reading]], Document] = (
        _of_ipmi if subject.driver == "ipmi" else _of_redfish
    )
    return {
        "message_id": str(uuid4()),
        "publisher_id": f"ironic-conductor.{host}",
        "event_type": event_type,
        "priority": "INFO",
        "timestamp": str(time),
        "_context_request_id": None,
        "payload": {
            "message_id": str(uuid4()),
            "instance_uuid": subject.instance_uuid,
            "node_uuid": subject.uuid,
            "node_name": subject.name,
            "timestamp": time.isoformat(),
            "event_type": f"{event_type}.update",
            "payload": form(subject, readings),
        },
    }


def _of_ipmi(subject: Subject, readings: Iterable[Reading]) -> Document:
    payload: dict[str, Document] = {}
    for number, reading in enumerate(readings, 1):
        ident = f"{reading['name']} (0x{number:x})"
        value = reading["reading"]
        words = "No Reading"
        if value is not None:
            words = f"{value:g} (+/- 0) {_IPMI_UNITS[reading['unit']]}"
        payload.setdefault(_IPMI_TYPES[reading["kind"]], {})[ident] = {
            "Sensor ID": ident,
            "Entity ID": "7.1 (System Board)",
            "Sensor Reading": words,
            "Status": reading["health"],
        }
    return payload


def _of_redfish(subject: Subject, readings: Iterable[Reading]) -> Document:
    payload: dict[str, Document] = {}
    for number, reading in enumerate(readings):
        if reading["kind"] not in _REDFISH_TYPES:
            continue
        facts: Mapping[str, Any] = {
            "identity": reading["name"],
            "sensor_number": number,
            "physical_context": "Chassis",
            _READINGS[reading["kind"]]: reading["reading"],
            "reading_units": reading["unit"],
            "state": "Enabled",
            "health": _REDFISH_HEALTHS[reading["health"]],
        }
        type_name = _REDFISH_TYPES[reading["kind"]]
        payload.setdefault(type_name, {})[f"{reading['name']}@{subject.uuid}"] = dict(facts)
    return payload
