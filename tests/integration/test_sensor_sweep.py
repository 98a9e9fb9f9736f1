"""Sensor sweeps: readings in the database, limits, order, critical states, failures."""

import time
from dataclasses import replace

import orjson
import pytest
from sqlalchemy import select, update

from app.db.clock import after
from app.inventory import sensors
from app.models import Node, NodeHistory, NodeSensors
from app.reports import sensor_series, why
from drivers.core.errors import NotSupported, Unreachable
from drivers.fake.hardware import FakeManagement
from drivers.redfish import sweep
from drivers.simulator.simulator import running
from tests.support.recorded import recording_into
from workers.periodic import sensor_sweep

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
EVERY = {"INGOT_SENSOR_DATA_ENABLE_FOR_UNDEPLOYED_NODES": "true"}


@pytest.fixture
def view(inside):
    inside.environ |= EVERY
    view = inside.another()
    view.conductor("c-1")
    yield view
    view.close()


def redfish(view, machine, state="active", **columns):
    node = view.node(state, driver_info=machine.driver_info(), **columns)
    view.change(Node, node, driver="redfish")
    return node


def rows(view):
    with view.runtime.reading() as session:
        return {row.node_id: row for row in session.scalars(select(NodeSensors))}


def readings(view, node):
    return {reading["name"]: reading for reading in orjson.loads(rows(view)[node].readings)}


def events(view, node):
    with view.runtime.reading() as session:
        of_node = select(NodeHistory.event).where(
            NodeHistory.node_id == node, NodeHistory.event_type == "monitoring"
        )
        return list(session.scalars(of_node.order_by(NodeHistory.id)))


@BOTH
def test_readings_of_redfish_machines_are_kept_with_their_history(view, tmp_path):
    with running(machines=3) as fleet, recording_into(tmp_path / "metrics") as samples:
        nodes = [redfish(view, machine) for machine in fleet.machines]
        fleet.machines[1].power = "On"
        fake = view.node("active")
        expected = {"read": 4, "none": 0, "failed": 0, "late": 0}
        assert expected == sensor_sweep.sweep(view.runtime, "c-1")
        fleet.machines[0].power = "On"
        assert expected == sensor_sweep.sweep(view.runtime, "c-1")
        assert {*nodes, fake} == rows(view).keys()
        assert 4200 == readings(view, nodes[0])["Fan 0"]["reading"]
        history = orjson.loads(rows(view)[nodes[0]].history)
        assert ([20, 24], [15, 210]) == (
            history["values"]["Inlet"],
            history["values"]["Power Supply 0"],
        )
        assert 2 == len(history["times"])
        assert "ok" == rows(view)[nodes[0]].health
        assert 8 == samples()['ingot_sensor_sweep_nodes_total{result="read"}']


@SQLITE
@pytest.mark.parametrize(
    ("faults", "first_count", "later_count", "names"),
    [
        ({}, 4, 2, {"Inlet", "Fan 0", "Power Supply 0"}),
        ({"sensors_only": {"expands": True}}, 3, 1, {"Inlet"}),
        ({"sensors_only": True}, 5, 1, {"Inlet"}),
        ({"sensors_in_subsystems": True}, 10, 3, {"Inlet", "Fan 0", "Power Supply 0"}),
    ],
)
def test_the_first_read_searches_and_later_ones_cost_few_requests(
    view, monkeypatch, faults, first_count, later_count, names
):
    paths, read = [], sweep.read

    def counted(http, connection, path):
        paths.append(path)
        return read(http, connection, path)

    monkeypatch.setattr(sweep, "read", counted)
    with running(machines=1, **faults) as fleet:
        node = redfish(view, fleet.machines[0])
        counts = []
        for _ in range(2):
            paths.clear()
            assert 1 == sensor_sweep.sweep(view.runtime, "c-1")["read"]
            counts.append(len(paths))
        assert names == readings(view, node).keys()
        assert (first_count, later_count) == tuple(counts)


@SQLITE
def test_a_document_that_is_gone_begins_another_search(view):
    with running(machines=1) as fleet:
        node = redfish(view, fleet.machines[0])
        sensor_sweep.sweep(view.runtime, "c-1")
        fleet.set_faults(0, sensors_only=True)
        sensor_sweep.sweep(view.runtime, "c-1")
        assert {"Inlet"} == readings(view, node).keys()


@SQLITE
def test_a_bmc_that_fails_keeps_its_last_readings_and_delays_no_other(view):
    with running(machines=2) as fleet:
        nodes = [redfish(view, machine) for machine in fleet.machines]
        sensor_sweep.sweep(view.runtime, "c-1")
        old_row = rows(view)[nodes[0]]
        fleet.set_faults(0, bmc_dead=True)
        assert (1, 1) == itemized(sensor_sweep.sweep(view.runtime, "c-1"), "read", "failed")
        after_failure = rows(view)[nodes[0]]
        assert "did not answer" in after_failure.error
        assert (old_row.read_at, old_row.readings, old_row.history) == (
            after_failure.read_at, after_failure.readings, after_failure.history,
        )  # fmt: skip
        assert None is rows(view)[nodes[1]].error


def itemized(counts, *names):
    return tuple(counts[name] for name in names)


@SQLITE
def test_only_active_nodes_are_read_unless_all_are_asked_for(inside, view):
    inside.environ.pop(next(iter(EVERY)))
    default = inside.another()
    active, available = default.node("active"), default.node("available")
    for state in ("enroll", "verifying"):
        default.node(state)
    default.node("active", maintenance=True)
    default.node("active", reservation="c-1")
    sensor_sweep.sweep(default.runtime, "c-1")
    assert {active} == rows(view).keys()
    sensor_sweep.sweep(view.runtime, "c-1")
    assert {active, available} <= rows(view).keys()
    default.close()


@SQLITE
def test_a_sweep_ends_in_time_and_the_next_one_begins_with_the_rest(view, monkeypatch):
    nodes = [view.node("active") for _ in range(4)]
    read, slow = FakeManagement.sensors, set()

    def sensors_of(management, target):
        if target.uuid in slow:
            time.sleep(0.5)
        return read(management, target)

    monkeypatch.setattr(FakeManagement, "sensors", sensors_of)
    slow |= {view.read(node).uuid for node in nodes[:2]}
    hurried = replace(
        view.settings, sensor_data=replace(view.settings.sensor_data, workers=1, wait_timeout=0.2)
    )
    runtime = replace(view.runtime, settings=hurried)
    assert 4 == sensor_sweep.sweep(runtime, "c-1")["late"]
    slow.clear()
    with view.runtime.transaction() as session:
        session.add_all(
            NodeSensors(node_id=node, read_at=None, readings="[]", history="{}")
            for node in nodes[2:]
        )
        session.flush()
        session.execute(
            update(NodeSensors).where(NodeSensors.node_id == nodes[3]).values(read_at=after(-60))
        )
    assert [*nodes[:3], nodes[3]] == sensor_sweep._ids(runtime, "c-1")


@SQLITE
def test_a_machine_without_sensors_has_no_row(view, monkeypatch):
    def none(*_):
        raise NotSupported("none")

    monkeypatch.setattr(FakeManagement, "sensors", none)
    view.node("active")
    assert 1 == sensor_sweep.sweep(view.runtime, "c-1")["none"]
    assert {} == rows(view)


@SQLITE
def test_a_defect_of_a_driver_leaves_the_other_machines(view, monkeypatch):
    bad, good = view.node("active"), view.node("active")
    read = FakeManagement.sensors

    def sensors_of(management, target):
        if target.uuid == view.read(bad).uuid:
            raise KeyError("a defect")
        return read(management, target)

    monkeypatch.setattr(FakeManagement, "sensors", sensors_of)
    assert 1 == sensor_sweep.sweep(view.runtime, "c-1")["read"]
    assert {good} == rows(view).keys()


@SQLITE
def test_a_critical_sensor_is_told_once_in_history_and_why(view):
    with running(machines=1, sensor_critical="Inlet") as fleet:
        node = redfish(view, fleet.machines[0])
        for _ in range(2):
            sensor_sweep.sweep(view.runtime, "c-1")
        assert ["Critical sensors: Inlet (temperature 20 °C)."] == events(view, node)
        with view.runtime.reading() as session:
            summary = why.explain(session, session.get_one(Node, node)).summary
        assert "Critical sensors: Inlet (temperature 20 °C)." in summary
        fleet.set_faults(0, sensor_critical="")
        for number in range(sensors.CALM_READS):
            assert 1 == len(events(view, node)), number
            sensor_sweep.sweep(view.runtime, "c-1")
        assert "No sensor is critical any more." == events(view, node)[-1]
        with view.runtime.reading() as session:
            assert "ritical" not in why.explain(session, session.get_one(Node, node)).summary


@SQLITE
def test_a_sensor_at_its_threshold_does_not_fill_the_history(view):
    with running(machines=1) as fleet:
        node = redfish(view, fleet.machines[0])
        for name in ("Inlet", "", "Fan 0", "") * 3:
            fleet.set_faults(0, sensor_critical=name)
            sensor_sweep.sweep(view.runtime, "c-1")
        assert 1 == len(events(view, node))


HOSTILE = [
    {"name": 'a"\n\\}\x00 1', "kind": "fan", "reading": 1.5, "unit": "RPM", "health": "ok"},
    {"name": "twice", "kind": "power", "reading": 3, "unit": "W", "health": "worse"},
    {"name": "twice", "kind": "power", "reading": None, "unit": "W", "health": "ok"},
    {"name": "x" * 400, "kind": "voltage", "reading": "12", "unit": "V", "health": "ok"},
    {"name": "odd", "kind": "humidity", "reading": 1, "unit": "%", "health": "ok"},
    {"name": "\x00", "kind": "fan", "reading": 1, "unit": "%", "health": "ok"},
    {"name": "unit", "kind": "fan", "reading": 1, "unit": "°C", "health": "ok"},
]


@SQLITE
def test_texts_of_a_bmc_reach_prometheus_only_within_limits(view, monkeypatch):
    many = [{**HOSTILE[0], "name": f"f{number}"} for number in range(sensors.MOST)]
    monkeypatch.setattr(FakeManagement, "sensors", lambda *_: HOSTILE + many)
    node = view.node("active", name="n-1")
    sensor_sweep.sweep(view.runtime, "c-1")
    values = readings(view, node)
    assert sensors.MOST == len(values)
    assert {'a"\\} 1', "twice", "twice #2", "x" * sensors.LONGEST_NAME, "f0"} <= values.keys()
    assert {"odd", "unit"}.isdisjoint(values)
    with view.runtime.reading() as session:
        text = "".join(sensor_series.lines(session, 600))
    labels = f'node="{view.read(node).uuid}",name="n-1",sensor="a\\"\\\\}} 1"'
    assert f"ingot_sensor_fan_rpm{{{labels}}} 1.5\n" in text
    assert "twice #2" not in text.partition("ingot_sensor_health")[0]
    from prometheus_client.parser import text_string_to_metric_families

    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert sensors.MOST == len(families["ingot_sensor_health"].samples)


@BOTH
def test_old_readings_are_no_series(view):
    node = view.node("active")
    sensor_sweep.sweep(view.runtime, "c-1")
    with view.runtime.transaction() as session:
        session.execute(update(NodeSensors).values(read_at=after(-1790)))
    uuid = view.read(node).uuid
    with view.runtime.reading() as session:
        assert uuid in "".join(sensor_series.lines(session, 600))
        assert uuid not in "".join(sensor_series.lines(session, 590))


@SQLITE
@pytest.mark.parametrize(("length", "expected"), [(3, [2, 3, 4]), (0, None), (9, [0, 1, 2, 3, 4])])
def test_the_ring_has_a_length(view, monkeypatch, length, expected):
    options = replace(view.settings.sensor_data, history=length)
    runtime = replace(view.runtime, settings=replace(view.settings, sensor_data=options))
    node = view.node("active")
    for value in range(5):
        reading = {**HOSTILE[0], "name": "Fan", "reading": value}
        monkeypatch.setattr(FakeManagement, "sensors", lambda *_, reading=reading: [reading])
        sensor_sweep.sweep(runtime, "c-1")
    ring = orjson.loads(rows(view)[node].history)
    assert expected == ring.get("values", {}).get("Fan")


@SQLITE
def test_a_new_sensor_has_no_values_of_the_past_and_a_lost_one_is_forgotten(view, monkeypatch):
    node = view.node("active")
    for names in (("a", "b"), ("b", "c")):
        documents = [{**HOSTILE[0], "name": name} for name in names]
        monkeypatch.setattr(FakeManagement, "sensors", lambda *_, documents=documents: documents)
        sensor_sweep.sweep(view.runtime, "c-1")
    ring = orjson.loads(rows(view)[node].history)
    assert {"b": [1.5, 1.5], "c": [None, 1.5]} == ring["values"]


@SQLITE
def test_a_node_that_is_deleted_meanwhile_is_left_out(view):
    node = view.node("active")
    reads = [sensors.Read(node, []), sensors.Read(node + 1, [])]
    sensor_sweep._write(view.runtime, reads, 5)
    assert {node} == rows(view).keys()


@SQLITE
def test_an_error_before_any_read_is_shown(view, monkeypatch):
    def fails(*_):
        raise Unreachable("BMC x did not answer")

    monkeypatch.setattr(FakeManagement, "sensors", fails)
    node = view.node("active")
    sensor_sweep.sweep(view.runtime, "c-1")
    row = rows(view)[node]
    assert (None, "BMC x did not answer", "unknown") == (row.read_at, row.error, row.health)
