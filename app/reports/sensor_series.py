"""
Sensors as time series of Prometheus, one for each sensor of each node.

They are apart from the metrics of the service (`app.metrics.table`), whose labels have few values:
3,500 machines have some hundred thousand series. Old readings are left out, so that Prometheus sees
no value that was read long ago.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.clock import after, age, fixed
from app.inventory.sensors import HEALTHS
from app.models import Node, NodeSensors

#: Kind and unit of a sensor -> metric, its meaning.
METRICS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("temperature", "°C"): ("ingot_sensor_temperature_celsius", "Temperature"),
    ("fan", "RPM"): ("ingot_sensor_fan_rpm", "Speed of a fan"),
    ("fan", "%"): ("ingot_sensor_fan_percent", "Speed of a fan, as a part of its fastest"),
    ("voltage", "V"): ("ingot_sensor_voltage_volts", "Voltage"),
    ("power", "W"): ("ingot_sensor_power_watts", "Power"),
}
HEALTH = ("ingot_sensor_health", "Health of a sensor: 1 ok, 2 warning, 3 critical; 0 unknown")
AGE = ("ingot_sensor_read_age_seconds", "Time since the sensors of a node were read")
#: Periods of the sweep after which readings are old.
PERIODS = 3
#: Nodes that are read in one query.
_PAGE = 500


def lines(session: Session, interval: float) -> Iterator[str]:
    """
    Yield the text that Prometheus reads, a line at a time.

    A metric must not be in several places, so its lines are collected first. interval: seconds
    between two sweeps.
    """
    series: dict[tuple[str, str], list[str]] = {
        metric: [] for metric in (*METRICS.values(), HEALTH, AGE)
    }
    for row in _rows(session, PERIODS * interval):
        node = f'node="{row.uuid}",name="{_escaped(row.name or "")}"'
        series[AGE].append(f"{AGE[0]}{{{node}}} {row.age:.0f}\n")
        for reading in orjson.loads(row.readings):
            labels = f'{{{node},sensor="{_escaped(reading["name"])}"}}'
            metric = METRICS.get((reading["kind"], reading["unit"]))
            if metric is not None and reading["reading"] is not None:
                series[metric].append(f"{metric[0]}{labels} {reading['reading']!r}\n")
            health = HEALTHS.index(reading["health"])
            series[HEALTH].append(f"{HEALTH[0]}{labels} {health}\n")
    for (name, about), samples in series.items():
        yield f"# HELP {name} {about}\n# TYPE {name} gauge\n"
        yield from samples


def _rows(session: Session, oldest: float) -> Iterator[Any]:
    last_id = 0
    while True:
        query = (
            select(
                NodeSensors.node_id,
                NodeSensors.readings,
                age(NodeSensors.read_at).label("age"),
                Node.uuid,
                Node.name,
            )
            .join(Node, Node.id == NodeSensors.node_id)
            .where(NodeSensors.node_id > last_id, NodeSensors.read_at > fixed(after(-oldest)))
            .order_by(NodeSensors.node_id)
            .limit(_PAGE)
        )
        rows = session.execute(query).all()
        yield from rows
        if len(rows) < _PAGE:
            return
        last_id = rows[-1].node_id


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
