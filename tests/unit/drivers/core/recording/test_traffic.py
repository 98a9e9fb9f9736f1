"""Exchanges of operations with BMCs: their secrets, and the limits of a step."""

import json

import pytest

from drivers.core.recording import bundle, traffic
from drivers.core.recording.bundle import Answer, Exchange, of_exchanges, parse
from drivers.core.recording.pseudonyms import Pseudonyms
from drivers.core.recording.traffic import Traffic, answered, masked, unanswered

URL = "https://bmc/redfish/v1/Systems/1"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"


def plain(text):
    return text


def exchange(body=b"{}", request_body=None, headers=None, status=200):
    return answered("PATCH", URL, request_body, (status, headers or {}, body), plain)


#: Document -> secret in it, which is also found if the document is no JSON.
ANYWHERE = (
    ({"UserName": "root", "Password": "calvin"}, "calvin"),
    ({"OldPassword": "calvin", "PasswordName": "Administrator"}, "calvin"),
    ({"Oem": {"Dell": {"Tokens": 7, "AuthToken": "abcdef"}}}, "abcdef"),
    ({"Attributes": {"SysPassword": 123456}}, "123456"),
    ({"iSCSIBoot": {"CHAPSecret": "sesame", "MutualCHAPSecret": "open"}}, "sesame"),
    ({"EncryptionKey": "0f0f"}, "0f0f"),
    ({"SNMP": {"TrapCommunity": "private!"}}, "private!"),
    ({"Text": KEY}, "MIIE"),
    ({"Image": "http://host/t0k3n-of-the-node/boot.iso"}, "t0k3n-of-the-node"),
    ({"Image": "https://user:pass@host/a/b.iso?sig=s1gned"}, "s1gned"),
    ({"Image": "https://user:pass@host/a/b.iso?sig=s1gned"}, "pass@"),
    ({"Boot": {"HttpBootUri": "http://host/t0k3n/boot.efi"}}, "t0k3n"),
)
IN_JSON = (
    ({"Password": {"Value": ["deep-inside"]}}, "deep-inside"),
    ({"Attributes": [{"AttributeName": "AdminPassword", "CurrentValue": "beside"}]}, "beside"),
)


@pytest.mark.parametrize(("document", "secret"), ANYWHERE + IN_JSON)
def test_no_secret_is_recorded(document, secret):
    text = json.dumps(document)
    record = exchange(text.encode(), text)
    assert secret in text
    assert secret not in json.dumps(record)
    assert record["request_body"]


@pytest.mark.parametrize(("document", "secret"), ANYWHERE)
def test_no_secret_is_recorded_of_what_is_no_json(document, secret):
    text = f"{json.dumps(document)} // a comment"
    record = exchange(text.encode(), text)
    assert secret not in json.dumps(record)
    assert record["request_body"] is None


@pytest.mark.parametrize(
    "document",
    [
        {"Password": None, "SysPassword": "", "MinPasswordLength": 8},
        {"PasswordChangeRequired": True, "Name": "Password of the system"},
        {"Image": "boot.iso", "@odata.id": "/redfish/v1/x"},
        {"HttpHeaders": "http://host/a/b"},
    ],
)
def test_a_body_without_secrets_is_kept_to_the_byte(document):
    text = json.dumps(document, indent=3)
    assert text == masked(text)


def test_only_headers_that_matter_are_kept_as_one_line():
    headers = {"X-Auth-Token": "abc", "Set-Cookie": "abc", "etag": 'W/"1"', "Allow": "GET\r\nX: 1"}
    assert {"ETag": 'W/"1"', "Allow": "GET??X: 1"} == exchange(headers=headers)["headers"]


def test_secrets_of_the_login_are_masked_in_all_parts():
    record = answered(
        "GET", f"{URL}?a=calvin", '{"a": "calvin"}', (200, {"Location": "/calvin"}, b"calvin"),
        lambda text: text.replace("calvin", "******"),
    )  # fmt: skip
    assert "calvin" not in json.dumps(record)


def test_a_lost_answer_has_its_reason():
    record = unanswered("POST", URL, None, "did not answer (ReadTimeout)", plain)
    assert (0, "did not answer (ReadTimeout)") == (record["status"], record["body"])


@pytest.mark.parametrize(
    ("limit", "value", "count", "left_out"),
    [("MOST", 2, 2, 1), ("MOST_BYTES", 5, 2, 1), ("LONGEST_KEPT", 1, 3, 3)],
)
def test_a_step_is_recorded_within_limits(monkeypatch, limit, value, count, left_out):
    monkeypatch.setattr(traffic, limit, value)
    recorded = Traffic()
    for _ in range(3):
        recorded.add(exchange())
    assert (count, left_out) == (len(recorded.exchanges), recorded.left_out)
    if limit == "LONGEST_KEPT":
        assert {""} == {record["body"] for record in recorded.exchanges}


def _exchange(**fields):
    record = {"step": "power.reboot", **exchange(), **fields}
    answer = Answer(
        **{name: record[name] for name in ("path", "status", "headers", "encoding", "body")}
    )
    return Exchange(
        record["step"], record["seconds"], record["method"], record["request_body"], answer
    )


def test_a_recording_of_an_operation_is_read_again_with_the_first_answers():
    path = "/redfish/v1/Systems/1"
    exchanges = [
        _exchange(method="GET", body='{"PowerState": "Off"}'),
        _exchange(method="POST", request_body='{"ResetType": "On"}', status=0, body="no answer"),
        _exchange(method="GET", body='{"PowerState": "On"}'),
    ]
    recording = of_exchanges(exchanges, path)
    again = parse(json.loads(recording.dump()))
    assert recording == again
    assert [(path, '{"PowerState": "Off"}')] == [(a.path, a.body) for a in again.answers]


def test_values_that_identify_are_replaced_alike_in_orders_and_answers():
    exchanges = [
        _exchange(method="GET", body='{"SerialNumber": "CN7792194A0123"}'),
        _exchange(
            request_body='{"Asset": "CN7792194A0123", "HostName": "db-master-3"}',
            body="db-master-3",
        ),
    ]
    recording = Pseudonyms().applied(of_exchanges(exchanges, None), {})
    text = recording.dump()
    assert "CN7792194A0123" not in text
    assert "db-master-3" not in text
    serial = json.loads(recording.exchanges[0].answer.body)["SerialNumber"]
    assert serial == json.loads(recording.exchanges[1].request_body)["Asset"]
    assert (
        recording.exchanges[1].answer.body
        == json.loads(recording.exchanges[1].request_body)["HostName"]
    )


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"step": 7}, "exchanges[0].step"),
        ({"seconds": -1}, "exchanges[0].seconds"),
        ({"seconds": True}, "exchanges[0].seconds"),
        ({"method": "TRACE"}, "exchanges[0].method: one of GET"),
        ({"request_body": {}}, "exchanges[0].request_body"),
        ({"status": 99}, "exchanges[0].status"),
        ({"path": "/etc/passwd"}, "exchanges[0].path"),
    ],
)
def test_a_hostile_exchange_is_refused(fields, complaint):
    entry = {**_exchange().dump(), **fields}
    document = {"format": bundle.FORMAT, "version": 1, "answers": [], "exchanges": [entry]}
    with pytest.raises(bundle.BadRecording) as error:
        parse(document)
    assert complaint in str(error.value)
