"""
Readings of the sensors of a system's chassis: of their Thermal and Power resources, or, on newer
BMCs without these, of their collections of sensors.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from drivers.core.errors import NotSupported
from drivers.redfish.transport import navigation
from drivers.redfish.transport.conversions import entry, is_present, text
from drivers.redfish.transport.documents import Documents
from drivers.redfish.transport.session import Session

#: Most sensors that are read.
MOST = 500
#: Resource, its list, kind of the sensors, key of the reading, unit (unless the sensor names it).
_LISTS = (
    ("thermal", "Temperatures", "temperature", "ReadingCelsius", "°C"),
    ("thermal", "Fans", "fan", "Reading", None),
    ("power", "Voltages", "voltage", "ReadingVolts", "V"),
    ("power", "PowerControl", "power", "PowerConsumedWatts", "W"),
    ("power", "PowerSupplies", "power", "LastPowerOutputWatts", "W"),
)
_HEALTH = {"OK": "ok", "Warning": "warning", "Critical": "critical"}
_UNITS = {"RPM": "RPM", "Percent": "%"}
#: ReadingType of a sensor -> kind, unit
_TYPES: Mapping[str, tuple[str, str]] = {
    "Temperature": ("temperature", "°C"),
    "Rotational": ("fan", "RPM"),
    "Voltage": ("voltage", "V"),
    "Power": ("power", "W"),
}


def readings(bmc: Session, system: Any) -> list[dict[str, Any]]:
    """
    Return the sensors of the chassis of a system, as `Management.sensors` does.

    Raises NotSupported: the BMC lists none.
    """
    sensor_readings = list(islice(_readings(bmc, system), MOST))
    if not sensor_readings:
        raise NotSupported(f"BMC {bmc.access.address} lists no sensors")
    return sensor_readings


def _readings(bmc: Session, system: Any) -> Iterator[dict[str, Any]]:
    for chassis in navigation.chassis(bmc, system):
        yield from list(_of_lists(bmc, chassis)) or _of_sensors(Documents(bmc), chassis.json)


def _of_lists(bmc: Session, chassis: Any) -> Iterator[dict[str, Any]]:
    """Read the lists of sensors in the Thermal and Power resources of a chassis."""
    documents = {name: _document(bmc, chassis, name) for name in ("thermal", "power")}
    for name, list_name, kind, key, unit in _LISTS:
        sensors = entry(documents[name], list_name)
        for sensor in sensors if isinstance(sensors, list) else ():
            label = text(entry(sensor, "Name")) or text(entry(sensor, "FanName"))
            if label and is_present(sensor):
                yield {
                    "name": label,
                    "kind": kind,
                    "reading": _number(entry(sensor, key)),
                    "unit": unit or _word(_UNITS, entry(sensor, "ReadingUnits")) or "RPM",
                    "health": _word(_HEALTH, entry(entry(sensor, "Status"), "Health")) or "unknown",
                }


def _of_sensors(documents: Documents, chassis: object) -> Iterator[dict[str, Any]]:
    """Read the collection of the sensors of a chassis, without unknown kinds."""
    for sensor in documents.members(chassis, "Sensors"):
        kind, unit = _TYPES.get(text(entry(sensor, "ReadingType")) or "", (None, None))
        label = text(entry(sensor, "Name")) or text(entry(sensor, "Id"))
        if kind and label:
            yield {
                "name": label,
                "kind": kind,
                "reading": _number(entry(sensor, "Reading")),
                "unit": unit,
                "health": _word(_HEALTH, entry(entry(sensor, "Status"), "Health")) or "unknown",
            }


def _document(bmc: Session, chassis: Any, name: str) -> Any:
    """Return the document of a part of a chassis; None if the BMC lacks it, or it is malformed."""
    with (
        suppress(NotSupported),
        bmc.skip_unreadable(navigation.link(chassis, name) or chassis.path),
    ):
        return navigation.part(chassis, name).json
    return None


def _word(vocabulary: dict[str, str], value: object) -> str | None:
    return vocabulary.get(value) if isinstance(value, str) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return round(float(value), 3)
