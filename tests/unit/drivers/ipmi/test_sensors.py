"""IPMI: sensors by the BMC's sensor data records."""

import pytest
from hypothesis import given, strategies

from drivers.core.errors import HardwareError, NotSupported, Refused, Unexpected
from drivers.ipmi import sensors
from tests.unit.drivers.ipmi.sensor_records import full_record

TEMPERATURE = full_record(0, "CPU Temp", 1)
FAN = full_record(1, "Fan 1", 2, unit=18, kind=4, m=60)
VOLTS = full_record(2, "12V", 3, unit=4, kind=2, m=63, exponents=0xD0)
POWER = full_record(3, "Total", 4, unit=6, kind=0x0B, m=4)
SIGNED = full_record(4, "Inlet", 5, form=2)
HUMIDITY = full_record(5, "Humidity", 6, unit=0, kind=0x0B)
ELSEWHERE = full_record(6, "Blade", 7, owner=0x82)
FRU = (7).to_bytes(2, "little") + bytes((0x51, 0x11, 11)) + bytes(11)


class Repository:
    """A BMC with these records; number of a sensor -> its reading."""

    def __init__(self, *records, **values):
        self.records = records
        self.values = {int(name.removeprefix("s")): value for name, value in values.items()}
        self.reservation = self.cancelled = self.requests = 0

    def __call__(self, netfn, command, data):
        self.requests += 1
        if (netfn, command) == (0x0A, 0x22):
            self.reservation += 1
            return 0, self.reservation.to_bytes(2, "little")
        if (netfn, command) == (0x0A, 0x23):
            return self._part(data)
        if (netfn, command) == (0x04, 0x2D):
            value = self.values.get(data[0])
            return (0, bytes(value)) if value else (0xCB, b"")
        return 0xC1, b""

    def _part(self, data):
        if int.from_bytes(data[:2], "little") != self.reservation:
            return 0xC5, b""
        if self.cancelled:
            self.cancelled -= 1
            self.reservation += 1
            return 0xC5, b""
        at, offset, size = int.from_bytes(data[2:4], "little"), data[4], data[5]
        following = at + 1 if at + 1 < len(self.records) else 0xFFFF
        return 0, following.to_bytes(2, "little") + self.records[at][offset : offset + size]


def read(repository):
    return {reading["name"]: reading for reading in sensors.readings(repository, "10.0.0.5:623")}


def test_analogue_sensors_are_read_with_kind_unit_and_formula():
    repository = Repository(
        TEMPERATURE, FAN, VOLTS, POWER, SIGNED, HUMIDITY, ELSEWHERE, FRU,
        s1=(45, 0xC0, 0), s2=(100, 0xC0, 0), s3=(190, 0xC0, 0), s4=(75, 0xC0, 0),
        s5=(0xFB, 0xC0, 0), s6=(50, 0xC0, 0), s7=(50, 0xC0, 0),
    )  # fmt: skip
    readings = read(repository)
    assert {
        "CPU Temp": ("temperature", 45.0, "°C"),
        "Fan 1": ("fan", 6000.0, "RPM"),
        "12V": ("voltage", 11.97, "V"),
        "Total": ("power", 300.0, "W"),
        "Inlet": ("temperature", -5.0, "°C"),
    } == {
        name: (reading["kind"], reading["reading"], reading["unit"])
        for name, reading in readings.items()
    }


@pytest.mark.parametrize(
    ("reading", "value", "health"),
    [
        ((45, 0xC0, 0x00), 45.0, "ok"),
        ((45, 0xC0, 0xC0), 45.0, "ok"),  # the upper bits are reserved
        ((45, 0xC0), 45.0, "ok"),
        ((95, 0xC0, 0x08), 95.0, "warning"),
        ((99, 0xC0, 0x18), 99.0, "critical"),
        ((99, 0xC0, 0x38), 99.0, "critical"),
        ((0, 0xC0, 0x07), 0.0, "critical"),
        ((0, 0xE0, 0x07), None, "unknown"),
        ((0, 0x80, 0x00), None, "unknown"),
    ],
)
def test_health_is_that_of_the_most_serious_threshold(reading, value, health):
    (sensor,) = read(Repository(TEMPERATURE, s1=reading)).values()
    assert (value, health) == (sensor["reading"], sensor["health"])


def test_a_sensor_that_the_machine_lacks_is_left_out():
    assert ["CPU Temp"] == [*read(Repository(TEMPERATURE, FAN, s1=(1, 0xC0, 0)))]


def test_a_record_is_read_again_under_a_new_reservation():
    repository = Repository(TEMPERATURE, FAN, s1=(1, 0xC0, 0), s2=(1, 0xC0, 0))
    repository.cancelled = 2
    assert 2 == len(read(repository))


def test_a_bmc_that_cancels_all_reservations_is_given_up():
    repository = Repository(TEMPERATURE)
    repository.cancelled = 10**6
    with pytest.raises(Unexpected, match="cancels each reservation"):
        read(repository)
    assert repository.requests < 20


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda *_: (0xC1, b""), NotSupported, "no sensor data records"),
        (Repository(FRU), NotSupported, "lists no sensors"),
        (Repository(TEMPERATURE), NotSupported, "lists no sensors"),
        (lambda netfn, command, _: (0 if command == 0x22 else 0xFF, b"\1\0"), Refused, "0xff"),
        (lambda *_: (0, b""), Unexpected, "bytes of a record"),
    ],
)
def test_a_bmc_without_readable_records_is_named(ask, error, words):
    with pytest.raises(error, match=rf"10\.0\.0\.5:623.*{words}"):
        read(ask)


def test_ipmitools_table_has_the_same_sensors():
    rows = [
        ["CPU Temp", "45", "degrees C", "ok", "3.1"],
        ["Fan 1", "6000", "RPM", "lcr"],
        ["12V", "11.97", "Volts", "nc"],
        ["PSU", "", "Watts", "ns"],
        ["Bad", "nan", "Watts", "ok"],
        ["Current", "3", "Amps", "ok"],
        ["\x1b", "3", "RPM", "ok"],
    ]
    readings = {row["name"]: row for row in sensors.readings_of_rows(rows, "10.0.0.5:623")}
    assert {
        "CPU Temp": ("temperature", 45.0, "ok"),
        "Fan 1": ("fan", 6000.0, "critical"),
        "12V": ("voltage", 11.97, "warning"),
        "PSU": ("power", None, "unknown"),
        "Bad": ("power", None, "ok"),
    } == {
        name: (reading["kind"], reading["reading"], reading["health"])
        for name, reading in readings.items()
    }
    with pytest.raises(NotSupported, match="lists no sensors"):
        sensors.readings_of_rows(rows[-2:], "10.0.0.5:623")


def test_records_in_a_circle_end():
    class Circle(Repository):
        def _part(self, data):
            code, answer = super()._part(data)
            return code, b"\0\0" + answer[2:]

    with pytest.raises(Unexpected, match="in a circle"):
        read(Circle(TEMPERATURE, s1=(1, 0xC0, 0)))


@given(
    body=strategies.binary(max_size=60),
    reading=strategies.binary(max_size=4),
    name=strategies.sampled_from((b"", b"\x00\xff", b"ok")),
)
def test_a_malformed_record_leaves_the_others(body, reading, name):
    record = bytes((1, 0, 0x51, 1, len(body) + len(name))) + body + name
    readings = read(
        Repository(
            TEMPERATURE, record, s1=(45, 0xC0, 0), **{f"s{n}": reading for n in range(2, 256)}
        )
    )
    assert 45.0 == readings["CPU Temp"]["reading"] or record[5:].startswith(b"\x20\0\1")


@given(answers=strategies.lists(strategies.tuples(
    strategies.sampled_from((0, 0, 0, 0xC5, 0xCB, 0xFF)), strategies.binary(max_size=20)
), min_size=1, max_size=30))  # fmt: skip
def test_any_answers_end_with_sensors_or_a_typed_error(answers):
    queue = list(answers)

    def ask(*_):
        return queue.pop() if len(queue) > 1 else queue[0]

    try:
        readings = sensors.readings(ask, "10.0.0.5:623")
    except HardwareError:
        return
    assert all(isinstance(reading["name"], str) for reading in readings)


class Informed(Repository):
    """A repository that tells its state."""

    state = bytes(13)

    def __call__(self, netfn, command, data):
        if (netfn, command) == (0x0A, 0x20):
            self.requests += 1
            return 0, self.state
        return super().__call__(netfn, command, data)


def test_records_are_read_again_only_after_a_change_or_an_hour(monkeypatch):
    times = [0.0]
    monkeypatch.setattr(sensors, "KEPT", sensors.KeptRecords(lambda: times[0]))
    bmc = Informed(TEMPERATURE, FAN, s1=(45, 0xC0, 0), s2=(100, 0xC0, 0))

    def cost():
        count = bmc.requests
        assert {"CPU Temp", "Fan 1"} == read(bmc).keys()
        return bmc.requests - count

    full_cost = cost()
    assert 3 == cost() < full_cost
    bmc.state = bytes(12) + b"\1"
    assert full_cost == cost()
    times[0] = 3600.0
    assert full_cost == cost()


def test_records_of_a_repository_without_a_state_are_read_each_time(monkeypatch):
    monkeypatch.setattr(sensors, "KEPT", sensors.KeptRecords())
    for state in (b"", bytes(12)):
        bmc = Informed(TEMPERATURE, s1=(45, 0xC0, 0))
        bmc.state = state
        read(bmc)
        count = bmc.requests
        read(bmc)
        assert 3 < bmc.requests - count


def test_the_records_of_two_bmcs_are_kept_apart_and_bounded(monkeypatch):
    cache = sensors.KeptRecords()
    cache.MOST = 2
    first_bmc, second_bmc = Informed(TEMPERATURE), Informed(FAN)
    assert [TEMPERATURE] == cache.records(first_bmc, "a")
    assert [FAN] == cache.records(second_bmc, "b")
    cache.records(Informed(POWER), "c")
    count = first_bmc.requests
    assert [TEMPERATURE] == cache.records(first_bmc, "a")
    assert 1 < first_bmc.requests - count
