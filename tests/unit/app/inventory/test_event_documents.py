"""Events in the documents of BMCs, which may be any JSON."""

import json

import pytest

from app.inventory.event_documents import MOST, events_in


def event(**fields):
    (only,) = events_in(json.dumps({"Events": [fields]}).encode())
    return only


@pytest.mark.parametrize(
    ("fields", "hints"),
    [
        ({"MessageId": "ResourceEvent.1.3.ResourcePoweredOff"}, {"power"}),
        ({"MessageId": "iLOEvents.2.3.ServerPoweredOn"}, {"power"}),
        ({"MessageId": "IDRAC.2.8.SYS1003", "Message": "System CPU Resetting."}, {"power"}),
        ({"MessageId": "OpenBMC.0.1.DCPowerOff"}, {"power"}),
        ({"MessageId": "SensorEvent.1.0.ReadingAboveUpperCriticalThreshold"}, {"sensors"}),
        ({"MessageId": "X.1.0.Y", "Message": "Fan 3 has failed."}, {"sensors"}),
        ({"OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis/1/Thermal"}}, {"sensors"}),
        ({"MessageId": "IDRAC.2.8.USR0030", "Message": "A user has logged in."}, set()),
        ({}, set()),
    ],
)
def test_an_event_hints_which_facts_to_read(fields, hints):
    assert hints == event(**fields).hints


@pytest.mark.parametrize(
    ("fields", "severity", "is_alert"),
    [
        ({"Severity": "Critical"}, "Critical", True),
        ({"MessageSeverity": "Warning", "Severity": "OK"}, "Warning", True),
        ({"Severity": "OK"}, "OK", False),
        ({"Severity": "Informational"}, "", False),
        ({"Severity": ["Critical"]}, "", False),
        ({}, "", False),
    ],
)
def test_severities_of_the_standard_make_an_alert(fields, severity, is_alert):
    assert (severity, is_alert) == (event(**fields).severity, event(**fields).is_alert)


@pytest.mark.parametrize(
    "fields",
    [
        {"Message": "a\x00b\x1b[2Jc\n d"},
        {"MessageId": 7, "Message": {"a": 1}, "OriginOfCondition": [1], "Severity": {}},
        {"Message": "x" * 10_000, "MessageId": "y" * 10_000, "OriginOfCondition": "z" * 10_000},
        {"OriginOfCondition": {"@odata.id": {"@odata.id": 1}}},
    ],
)
def test_texts_are_short_and_printable_whatever_they_are(fields):
    text = event(**fields).text
    assert text.isprintable()
    assert len(text) < 700


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"7", b'"Events"', b"{}", b'{"Events": {}}', b"\xff\xfe", b"[" * 5000,
        b'{"Events": "x"}', b'{"Events": NaN}',
    ],
)  # fmt: skip
def test_a_document_without_events_is_malformed(body):
    assert None is events_in(body)


def test_of_a_metric_report_nothing_is_read():
    assert [] == events_in(b'{"MetricValues": [{"MetricValue": "42"}]}')


def test_items_that_are_no_events_are_left_out_and_their_number_is_limited():
    items = [1, None, [], "x", *({"Severity": "Critical"} for _ in range(1000))]
    assert MOST - 4 == len(events_in(json.dumps({"Events": items}).encode()))
