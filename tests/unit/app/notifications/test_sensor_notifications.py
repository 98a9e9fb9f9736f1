"""Notifications with sensors have the form that Ironic's consumers read."""

from datetime import datetime

import pytest

from app.notifications.sensor_notifications import Subject, made_of

READINGS = [
    {"name": "Inlet", "kind": "temperature", "reading": 24.5, "unit": "°C", "health": "ok"},
    {"name": "Fan 0", "kind": "fan", "reading": None, "unit": "RPM", "health": "unknown"},
    {"name": "12V", "kind": "voltage", "reading": 12, "unit": "V", "health": "warning"},
    {"name": "PSU", "kind": "power", "reading": 210, "unit": "W", "health": "critical"},
]
TIME = datetime(2026, 1, 31, 12)


def made(driver):
    return made_of(Subject("u-1", "n-1", "i-1", driver), READINGS, "c-1", TIME)


@pytest.mark.parametrize("driver", ["redfish", "ipmi", "idrac"])
def test_a_notification_names_node_and_type(driver):
    notification = made(driver)
    assert (f"hardware.{driver}.metrics", "INFO") == (
        notification["event_type"], notification["priority"],
    )  # fmt: skip
    payload = notification["payload"]
    assert ("u-1", "n-1", "i-1", f"hardware.{driver}.metrics.update") == tuple(
        payload[name] for name in ("node_uuid", "node_name", "instance_uuid", "event_type")
    )


def test_readings_of_redfish_have_its_names():
    payload = made("redfish")["payload"]["payload"]
    assert {"Temperature", "Fan", "Power"} == payload.keys()
    inlet = payload["Temperature"]["Inlet@u-1"]
    assert (24.5, "OK", "Chassis") == tuple(
        inlet[name] for name in ("reading_celsius", "health", "physical_context")
    )
    assert ("Fan 0", None) == tuple(payload["Fan"]["Fan 0@u-1"][n] for n in ("identity", "health"))
    assert "Critical" == payload["Power"]["PSU@u-1"]["health"]


def test_readings_of_ipmi_have_the_words_of_ipmitool():
    payload = made("ipmi")["payload"]["payload"]
    assert "24.5 (+/- 0) degrees C" == payload["Temperature"]["Inlet (0x1)"]["Sensor Reading"]
    assert "No Reading" == payload["Fan"]["Fan 0 (0x2)"]["Sensor Reading"]
    assert "12 (+/- 0) Volts" == payload["Voltage"]["12V (0x3)"]["Sensor Reading"]
    assert "210 (+/- 0) Watts" == payload["Power"]["PSU (0x4)"]["Sensor Reading"]
