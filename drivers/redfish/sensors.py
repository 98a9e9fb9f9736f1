"""
Readings of the sensors of a system's chassis.

They are in the Thermal and Power resources of a chassis; on newer BMCs without these, in its
collection of sensors, or else in its thermal and power subsystems. `sources` finds the documents
with readings, without I/O, for both readers: `readings` by sushy, and the sensor sweep by aiohttp.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from drivers.core.errors import NotSupported
from drivers.redfish.transport.conversions import (
    elements,
    entry,
    is_present,
    link_path,
    link_paths,
    text,
)
from drivers.redfish.transport.documents import Document, Documents
from drivers.redfish.transport.session import Session

if TYPE_CHECKING:
    from sushy.resources.system.system import System


#: Most sensors that are read, and most documents that are read to find them.
MOST, MOST_DOCUMENTS = 500, 300
#: Most chassis of a system whose sensors are read.
_MOST_CHASSIS = 32
#: Query by which a collection has its members as whole documents, where the BMC can do that.
_EXPANDED = "?$expand=.($levels=1)"
#: Resource, its list, kind of the sensors, key of the reading, unit (unless the sensor names it).
_LISTS: Mapping[str, tuple[tuple[str, str, str, str | None], ...]] = {
    "Thermal": (
        ("Temperatures", "temperature", "ReadingCelsius", "°C"),
        ("Fans", "fan", "Reading", None),
    ),
    "Power": (
        ("Voltages", "voltage", "ReadingVolts", "V"),
        ("PowerControl", "power", "PowerConsumedWatts", "W"),
        ("PowerSupplies", "power", "LastPowerOutputWatts", "W"),
    ),
}
_HEALTH = {"OK": "ok", "Warning": "warning", "Critical": "critical"}
_UNITS = {"RPM": "RPM", "Percent": "%"}
#: ReadingType of a sensor -> kind, unit
_TYPES: Mapping[str, tuple[str, str]] = {
    "Temperature": ("temperature", "°C"),
    "Rotational": ("fan", "RPM"),
    "Voltage": ("voltage", "V"),
    "Power": ("power", "W"),
}
#: Property of EnvironmentMetrics -> name, kind, unit.
_ENVIRONMENT: Mapping[str, tuple[str, str, str]] = {
    "TemperatureCelsius": ("Chassis temperature", "temperature", "°C"),
    "PowerWatts": ("Chassis power", "power", "W"),
}

Reading = dict[str, Any]  # as `Management.sensors` has it


@dataclass(frozen=True, slots=True)
class Source:
    """A document with readings."""

    path: str
    readings: Callable[[Document], Iterator[Reading]]


#: Yields paths, receives the document at each (None: the BMC lacks it), returns all sources found.
Search = Generator[str, Document | None, list[tuple[Source, Document]]]
_Documents = Generator[str, Document | None, list[Document]]
_Document = Generator[str, Document | None, Document | None]


def readings(bmc: Session, system: "System") -> list[Reading]:
    """
    Return the sensors of the chassis of a system, as `Management.sensors` does.

    Raises NotSupported: the BMC lists none.
    """
    documents, search = Documents(bmc), sources(system.json, expands=False)
    try:
        path = next(search)
        while True:
            path = search.send(documents.at(path))
    except StopIteration as end:
        return listed(end.value, bmc.access.address)


def listed(documents: Iterable[tuple[Source, Document]], address: str) -> list[Reading]:
    """
    Return the readings in documents.

    Raises NotSupported: there are none.
    """
    all_readings = (
        reading for source, document in documents for reading in source.readings(document)
    )
    sensor_readings = list(islice(all_readings, MOST))
    if not sensor_readings:
        raise NotSupported(f"BMC {address} lists no sensors")
    return sensor_readings


def sources(system: object, *, expands: bool) -> Search:
    """
    Search the documents with readings of a system's chassis.

    expands: whether to ask for collections with whole members, which some BMCs refuse.
    """
    return _Search(expands=expands).of_system(system)


class _Search:
    """A search, which reads a limited number of documents."""

    def __init__(self, *, expands: bool) -> None:
        self._expands = expands
        self._reads_left = MOST_DOCUMENTS

    def of_system(self, system: object) -> Search:
        found_sources = []
        for path in link_paths(system, "Links", "Chassis")[:_MOST_CHASSIS]:
            chassis = yield from self._read(path)
            if chassis is not None and is_present(chassis):
                found_sources += yield from self._of_chassis(chassis)
        return found_sources

    def _of_chassis(self, chassis: Document) -> Search:
        """Search a chassis; the first of its ways to list sensors counts."""
        for way in (self._of_lists, self._of_collection, self._of_subsystems):
            found_sources = yield from way(chassis)
            if any(next(source.readings(document), None) for source, document in found_sources):
                return found_sources
        return []

    def _of_lists(self, chassis: Document) -> Search:
        """Search the Thermal and Power resources."""
        found_sources = []
        for name, lists in _LISTS.items():
            document = yield from self._read(link_path(chassis, name))
            if document is not None:
                source = Source(link_path(chassis, name) or "", partial(_of_lists, lists))
                found_sources.append((source, document))
        return found_sources

    def _of_collection(self, chassis: Document) -> Search:
        """Search the collection of sensors."""
        path = link_path(chassis, "Sensors")
        if path is None:
            return []
        if self._expands:
            whole = yield from self._read(f"{path}{_EXPANDED}")
            if any(entry(member, "ReadingType") for member in elements(whole, "Members")):
                assert whole is not None
                return [(Source(f"{path}{_EXPANDED}", _of_members), whole)]
        members = yield from self._members(chassis, "Sensors")
        return [(Source(str(member["@odata.id"]), _of_sensor), member) for member in members]

    def _of_subsystems(self, chassis: Document) -> Search:
        """Search ThermalSubsystem, PowerSubsystem and EnvironmentMetrics."""
        found_sources: list[tuple[Source, Document]] = []
        thermal = yield from self._read(link_path(chassis, "ThermalSubsystem"))
        metrics = yield from self._read(link_path(thermal, "ThermalMetrics"))
        _add(found_sources, metrics, _of_thermal_metrics)
        for fan in (yield from self._members(thermal, "Fans")):
            _add(found_sources, fan, _of_fan)
        power = yield from self._read(link_path(chassis, "PowerSubsystem"))
        for supply in (yield from self._members(power, "PowerSupplies")):
            metrics = yield from self._read(link_path(supply, "Metrics"))
            _add(found_sources, metrics, partial(_of_power_supply, text(supply.get("Name"))))
        environment = yield from self._read(link_path(chassis, "EnvironmentMetrics"))
        _add(found_sources, environment, _of_environment)
        return found_sources

    def _read(self, path: str | None) -> _Document:
        if path is None or not self._reads_left:
            return None
        self._reads_left -= 1
        return (yield path)

    def _members(self, owner: object, name: str) -> _Documents:
        """Read the members of a collection, without absent ones."""
        collection = yield from self._read(link_path(owner, name))
        members: list[Document] = []
        for path in link_paths(collection, "Members"):
            member = yield from self._read(path)
            if member is not None and is_present(member):
                members.append({**member, "@odata.id": path})
        return members


def _add(
    found_sources: list[tuple[Source, Document]],
    document: Document | None,
    parse: Callable[[Document], Iterator[Reading]],
) -> None:
    path = link_path(document)
    if document is not None and path is not None:
        found_sources.append((Source(path, parse), document))


def _of_lists(
    lists: Sequence[tuple[str, str, str, str | None]], document: Document
) -> Iterator[Reading]:
    """Read the lists of sensors in a Thermal or Power resource."""
    for list_name, kind, key, unit in lists:
        for sensor in elements(document, list_name):
            label = text(entry(sensor, "Name")) or text(entry(sensor, "FanName"))
            if label and is_present(sensor):
                own_unit = _word(_UNITS, entry(sensor, "ReadingUnits"))
                yield _reading(label, kind, entry(sensor, key), unit or own_unit or "RPM", sensor)


def _of_members(collection: Document) -> Iterator[Reading]:
    for sensor in elements(collection, "Members"):
        if is_present(sensor):
            yield from _of_sensor(sensor)


def _of_sensor(sensor: Document) -> Iterator[Reading]:
    """Read a sensor, unless its kind is unknown."""
    kind, unit = _TYPES.get(text(entry(sensor, "ReadingType")) or "", ("", ""))
    label = text(entry(sensor, "Name")) or text(entry(sensor, "Id"))
    if kind and label:
        if kind == "fan":
            unit = _word(_UNITS, {"%": "Percent"}.get(str(entry(sensor, "ReadingUnits")))) or unit
        yield _reading(label, kind, entry(sensor, "Reading"), unit, sensor)


def _of_thermal_metrics(metrics: Document) -> Iterator[Reading]:
    for number, sensor in enumerate(elements(metrics, "TemperatureReadingsCelsius")):
        label = text(entry(sensor, "DeviceName")) or f"Temperature {number}"
        yield _reading(label, "temperature", entry(sensor, "Reading"), "°C", sensor)


def _of_fan(fan: Document) -> Iterator[Reading]:
    label = text(entry(fan, "Name")) or text(entry(fan, "Id"))
    speed = entry(fan, "SpeedPercent")
    if label and speed is not None:
        rotations = _number(entry(speed, "SpeedRPM"))
        if rotations is not None:
            yield _reading(label, "fan", rotations, "RPM", fan)
        else:
            yield _reading(label, "fan", entry(speed, "Reading"), "%", fan)


def _of_power_supply(name: str | None, metrics: Document) -> Iterator[Reading]:
    label = name or text(entry(metrics, "Name"))
    output = entry(metrics, "OutputPowerWatts", "Reading")
    if label and output is not None:
        yield _reading(label, "power", output, "W", metrics)


def _of_environment(metrics: Document) -> Iterator[Reading]:
    for key, (label, kind, unit) in _ENVIRONMENT.items():
        value = entry(metrics, key, "Reading")
        if value is not None:
            yield _reading(label, kind, value, unit, metrics)


def _reading(label: str, kind: str, value: object, unit: str, owner: object) -> Reading:
    return {
        "name": label,
        "kind": kind,
        "reading": _number(value),
        "unit": unit,
        "health": _word(_HEALTH, entry(owner, "Status", "Health")) or "unknown",
    }


def _word(vocabulary: Mapping[str, str], value: object) -> str | None:
    return vocabulary.get(value) if isinstance(value, str) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # of a whole number
        return None
    return round(number, 3) if math.isfinite(number) else None
