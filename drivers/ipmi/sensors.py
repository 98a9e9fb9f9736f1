"""
IPMI: the sensors of a BMC, by its repository of sensor data records (SDR).

This module reads the records and the sensors; pyghmi decodes them. Its own reader of repositories
has no limits, and shares their contents between BMCs. The records of a BMC, which are hundreds of
messages, are kept as long as its repository says that they have not changed. Chapters 33, 35 and 43
of the IPMI 2.0 specification describe the messages.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from drivers.core.errors import NotSupported, Refused, Unexpected

#: (network function, command, data) -> completion code, answer
Send = Callable[[int, int, bytes], tuple[int, bytes]]

SENSOR, STORAGE = 0x04, 0x0A
GET_READING, GET_INFO, RESERVE, GET_RECORD = 0x2D, 0x20, 0x22, 0x23
_OK, _RESERVATION_LOST, _NOT_PRESENT = 0x00, 0xC5, 0xCB
_FIRST, _END = 0x0000, 0xFFFF  # record ids
_FULL_RECORD = 0x01
_HEADER = 5  # bytes of a record before its body
_CHUNK = 16  # bytes of a record in one answer, which all BMCs can send
#: Most records that are read, and most reservations for one of them.
MOST, _MOST_RESERVATIONS = 1_000, 5
#: The BMC itself, as the owner of a sensor.
_OWNER, _LUN = 0x20, 0
#: Unit by pyghmi -> kind of sensor
KINDS = {"°C": "temperature", "RPM": "fan", "V": "voltage", "W": "power"}
#: ipmitool's words: unit -> unit here; status -> health
_PROGRAM_UNITS = {"degrees C": "°C", "RPM": "RPM", "Volts": "V", "Watts": "W"}
_PROGRAM_STATES = {
    "ok": "ok", "nc": "warning", "cr": "critical", "nr": "critical",
    "lnc": "warning", "unc": "warning", "lcr": "critical", "ucr": "critical",
    "lnr": "critical", "unr": "critical",
}  # fmt: skip
#: Bit of a reading's third byte -> health; the most serious first
_THRESHOLDS = ((0b110110, "critical"), (0b001001, "warning"))
_SCANNED, _UNAVAILABLE = 0b0100_0000, 0b0010_0000


def readings(send: Send, bmc: str) -> list[dict[str, Any]]:
    """
    Return the analogue sensors of a BMC, as `Management.sensors` does. bmc: for errors.

    Raises NotSupported: it has no repository, or no such sensor.
    Raises Refused, Unexpected.
    """
    records = KEPT.records(send, bmc)
    sensor_readings = [reading for record in records if (reading := _reading(send, record))]
    if not sensor_readings:
        raise NotSupported(f"BMC {bmc} lists no sensors")
    return sensor_readings


class KeptRecords:
    """
    Records of BMCs by their repositories' states: counts, and times of the last changes.

    Some repositories change without a new state, so records have a lifetime.
    """

    MOST, LIFETIME = 2000, 3600.0  # BMCs; seconds

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, tuple[bytes, float, Sequence[bytes]]] = OrderedDict()
        self._lock = threading.Lock()

    def records(self, send: Send, bmc: str) -> Sequence[bytes]:
        """
        Return the full records of a BMC.

        Raises NotSupported, Refused, Unexpected.
        """
        state = _repository_state(send)
        with self._lock:
            known_state, read_at, known_records = self._entries.get(bmc, (None, 0.0, ()))
        if state and known_state == state and self._clock() - read_at < self.LIFETIME:
            return known_records
        records = [record for record in _records(send, bmc) if record[3] == _FULL_RECORD]
        if state:
            with self._lock:
                self._entries[bmc] = (state, self._clock(), records)
                self._entries.move_to_end(bmc)
                if len(self._entries) > self.MOST:
                    self._entries.popitem(last=False)
        return records


KEPT = KeptRecords()


def _repository_state(send: Send) -> bytes | None:
    """Return what changes with the records of a BMC; None if it does not tell."""
    code, answer = send(STORAGE, GET_INFO, b"")
    if code != _OK or len(answer) < 13:
        return None
    return answer[:3] + answer[5:13]  # version and count; times of an addition and an erasure


def readings_of_rows(rows: Sequence[Sequence[str]], bmc: str) -> list[dict[str, Any]]:
    """
    Return the sensors in ipmitool's table: [[name, reading, unit, status, ...]].

    Raises NotSupported: it has none.
    """
    sensor_readings = []
    for name, value, unit, status, *_ in rows[:MOST]:
        program_unit = _PROGRAM_UNITS.get(unit)
        if program_unit is None or not _printable(name):
            continue
        sensor_readings.append(
            {
                "name": _printable(name),
                "kind": KINDS[program_unit],
                "reading": _number(value),
                "unit": program_unit,
                "health": _PROGRAM_STATES.get(status, "unknown"),
            }
        )
    if not sensor_readings:
        raise NotSupported(f"BMC {bmc} lists no sensors")
    return sensor_readings


def _printable(name: str) -> str:
    return "".join(letter for letter in name if letter.isprintable()).strip()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return round(value, 3) if math.isfinite(value) else None


def _records(send: Send, bmc: str) -> Iterator[bytes]:
    """Read the records of the repository."""
    code, _ = send(STORAGE, RESERVE, b"")
    if code != _OK:
        raise NotSupported(f"BMC {bmc} has no sensor data records (completion code 0x{code:02x})")
    record_id = _FIRST
    seen_ids: set[int] = set()
    while record_id != _END and len(seen_ids) < MOST:
        if record_id in seen_ids:
            raise Unexpected(f"BMC {bmc} lists its sensor data records in a circle")
        seen_ids.add(record_id)
        record_id, record = _record(send, bmc, record_id)
        yield record


def _record(send: Send, bmc: str, record_id: int) -> tuple[int, bytes]:
    """Read a record; return the id of the next one, and the record."""
    for _ in range(_MOST_RESERVATIONS):
        reservation = send(STORAGE, RESERVE, b"")[1][:2]
        next_id, record, length = _END, b"", _HEADER
        while len(record) < length:
            size = min(length - len(record), _CHUNK)
            position = record_id.to_bytes(2, "little") + bytes((len(record), size))
            code, answer = send(STORAGE, GET_RECORD, reservation.ljust(2, b"\0") + position)
            if code == _RESERVATION_LOST:
                break
            if code != _OK:
                raise Refused(
                    f"BMC {bmc} refused sensor data record {record_id} with completion code"
                    f" 0x{code:02x}"
                )
            if len(answer) != size + 2:
                raise Unexpected(f"BMC {bmc} sent {len(answer)} bytes of a record, not {size + 2}")
            next_id = int.from_bytes(answer[:2], "little")
            record += answer[2:]
            if len(record) == _HEADER:
                length = min(_HEADER + record[4], 0xFF)
        else:
            return next_id, record
    raise Unexpected(f"BMC {bmc} cancels each reservation of its sensor data records")


def _reading(send: Send, record: bytes) -> dict[str, object] | None:
    """Read the sensor of a full record; None for one that is malformed, absent or no analogue."""
    from pyghmi.ipmi.private import constants  # here: only conductors need it
    from pyghmi.ipmi.sdr import SDREntry

    try:
        sensor = SDREntry(bytearray(record), constants)
        kind = KINDS.get(sensor.unit_suffix)
        if kind is None or (sensor.sensor_owner, sensor.sensor_lun) != (_OWNER, _LUN):
            return None
        name = _printable(str(sensor.name))
    except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError):
        return None
    code, answer = send(SENSOR, GET_READING, bytes((sensor.sensor_number,)))
    if code != _OK or len(answer) < 2 or not name:
        return None
    thresholds = answer[2] if len(answer) > 2 else 0
    available = bool(answer[1] & _SCANNED) and not answer[1] & _UNAVAILABLE
    health = next((health for mask, health in _THRESHOLDS if thresholds & mask), "ok")
    return {
        "name": name,
        "kind": kind,
        "reading": _value(sensor, answer[0]) if available else None,
        "unit": sensor.unit_suffix,
        "health": health if available else "unknown",
    }


def _value(sensor: Any, raw: int) -> float | None:
    """Return the value of a reading; None for a formula that the record does not have."""
    from pyghmi.ipmi.sdr import ones_complement, twos_complement

    forms = {0: lambda number, _: number, 1: ones_complement, 2: twos_complement}
    form = forms.get(sensor.numeric_format)
    if form is None or sensor.linearization > 11:  # its factors change with each reading
        return None
    try:
        value = float(sensor.decode_value(None, form(raw, 8)))
    except (ArithmeticError, ValueError, TypeError):
        return None
    return round(value, 3) if math.isfinite(value) else None
