"""/v1/webhooks: creation, checks of fields, secrets, failures and replay."""

import re
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from app.models import AuditRecord, Webhook, WebhookFailure

from .conftest import fault

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
SECRET = "0123456789abcdef-secret"
URL = "https://receiver.example/events"
BODY = {"name": "cmdb", "url": URL, "secret": SECRET}


def make(api, **fields):
    answer = api("POST", "/v1/webhooks", BODY | fields)
    assert 201 == answer.status_code, answer.text
    return answer.json


def change(api, op, path, value=None):
    patch = {"op": op, "path": path} | ({} if op == "remove" else {"value": value})
    return api("PATCH", "/v1/webhooks/cmdb", [patch])


def stored(api):
    with api.runtime.reading() as session:
        return session.scalars(select(Webhook)).one()


@BOTH
def test_a_webhook_is_created_shown_listed_changed_and_deleted(api):
    node = api.node()
    answer = api("POST", "/v1/webhooks", BODY | {"types": ["node.deleted"]})
    webhook = answer.json
    path = f"/v1/webhooks/{webhook['uuid']}"
    assert (201, f"http://localhost{path}") == (answer.status_code, answer.location)
    assert {"name": "cmdb", "url": URL, "types": ["node.deleted"], "enabled": True} == {
        name: webhook[name] for name in ("name", "url", "types", "enabled")
    }
    newest = api("GET", "/v1/events").json["last"]
    assert (newest, None, None, 0) == tuple(
        webhook[name] for name in ("position", "owner", "last_error", "failed_attempts")
    )
    assert webhook == api("GET", path).json == api("GET", "/v1/webhooks/cmdb").json
    (listed,) = api("GET", "/v1/webhooks").json["webhooks"]
    assert {"uuid", "name", "url", "owner", "enabled", "last_error", "links"} == set(listed)
    assert [webhook] == api("GET", "/v1/webhooks?detail=true").json["webhooks"]
    assert [] == api("GET", "/v1/webhooks?owner=p").json["webhooks"]
    changed = change(api, "add", "/node_uuid", node["uuid"].upper())
    assert (200, node["uuid"]) == (changed.status_code, changed.json["node_uuid"])
    assert change(api, "remove", "/types").json["types"] == []
    assert change(api, "replace", "/enabled", "off").json["enabled"] is False
    assert 204 == api("DELETE", "/v1/webhooks/cmdb").status_code
    assert 404 == api("GET", path).status_code


@BOTH
def test_a_webhook_with_failures_is_deleted(api):
    webhook = make(api)
    fail(api, webhook, 0, 1)
    assert 204 == api("DELETE", f"/v1/webhooks/{webhook['uuid']}").status_code
    with api.runtime.reading() as session:
        assert [] == session.scalars(select(WebhookFailure)).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": None}, "name"), ({"name": "a b"}, "invalid name 'a b'"), ({"url": None}, "url"),
        ({"url": "ftp://receiver.example/"}, "url: 'ftp://receiver.example/' is no http or https"),
        ({"url": "https:///path"}, "url: 'https:///path' needs a host"),
        ({"url": "https://h:99999/"}, "url: 'https://h:99999/' needs a host, and a port up to 65535"),
        ({"url": "https://u:p@h/"}, "url: must not contain a user or a password"),
        ({"url": "https://h/ x"}, "url: 'https://h/ x' has a space"),
        ({"url": "http://127.0.0.1/"}, "url: it leads to an address that"),
        ({"url": "http://169.254.169.254/latest"}, "[webhooks]denied_networks"),
        ({"url": "http://[::ffff:127.0.0.1]/"}, "[webhooks]denied_networks"),
        ({"url": "https://h/" + "x" * 2048}, "is too long: at most 2048 characters"),
        ({"secret": "short"}, "must be 16 to 255 printable ASCII characters"),
        ({"secret": f"whsec_{'!' * 24}"}, "after whsec_ must be base64 of 24 to 64 bytes"),
        ({"secret": f"whsec_{'QUJD' * 7}"}, "must be base64 of 24 to 64"),
        ({"secret": f"whsec_{'QUJD' * 22}"}, "must be base64 of 24 to 64"),
        ({"secret": "x" * 256}, "must be 16 to 255"), ({"secret": 16 * "\n"}, "must be 16 to 255"),
        ({"types": ["node"]}, "'node' is not one of ['node.created',"), ({"types": "node.created"}, "types"),
        ({"node_uuid": "n1"}, "Expected UUID for node_uuid: n1"),
        ({"node_uuid": "6b4d6a0c-9a5c-4d1e-8a57-2f2d3c1b0a99"}, "node_uuid: there is no node 6b4d"),
        ({"enabled": "maybe"}, "enabled"), ({"position": 7}, "position"), ({"colour": 1}, "colour"),
    ],
)  # fmt: skip
def test_bad_fields_are_refused(api, fields, message):
    body = {name: value for name, value in (BODY | fields).items() if value is not None}
    answer = api("POST", "/v1/webhooks", body)
    assert 400 == answer.status_code, answer.text
    assert message in fault(answer)["faultstring"]
    assert SECRET not in answer.text
    assert [] == api("GET", "/v1/webhooks").json["webhooks"]


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "[fd12:3456::1]", "127.0.0.1",
        "[::ffff:10.0.0.1]", "[64:ff9b::10.0.0.1]",
    ],
)  # fmt: skip
def test_webhooks_of_projects_lead_to_no_private_network(api, host):
    answer = api("POST", "/v1/webhooks", BODY | {"url": f"http://{host}/", "owner": "p-1"})
    assert 400 == answer.status_code, answer.text
    assert "url: it leads to an address that [webhooks]project_denied_networks" in answer.text
    webhook = make(api, url="https://receiver.example/", owner="p-1")
    path = f"/v1/webhooks/{webhook['uuid']}"
    patch = [{"op": "replace", "path": "/url", "value": f"http://{host}/"}]
    assert 400 == api("PATCH", path, patch).status_code


def test_webhooks_of_the_system_lead_to_private_networks(api):
    for host in ("10.0.0.1", "[fd12:3456::1]"):
        answer = api(
            "POST", "/v1/webhooks", BODY | {"name": host[:4].strip("["), "url": f"http://{host}/"}
        )
        assert 201 == answer.status_code, answer.text


@pytest.mark.parametrize(
    ("op", "path", "value", "message"),
    [
        ("replace", "/url", "http://[fe80::1]/", "[webhooks]denied_networks"),
        ("replace", "/secret", "short", "must be 16 to 255"),
        ("replace", "/secret", "whsec_ffffffffffffffff", "after whsec_ must be base64"),
        ("remove", "/secret", None, "it cannot be removed"),
        ("remove", "/url", None, "it cannot be removed"),
        ("replace", "/position", 0, "position"),
        ("replace", "/owner", "p-1", "owner"),
        ("add", "/types/-", "x", "is not one of"),
        ("add", "/node_uuid", "6b4d6a0c-9a5c-4d1e-8a57-2f2d3c1b0a99", "there is no node"),
    ],
)
def test_bad_changes_are_refused(api, op, path, value, message):
    webhook = make(api)
    answer = change(api, op, path, value)
    assert 400 == answer.status_code, answer.text
    assert message in fault(answer)["faultstring"]
    assert SECRET not in answer.text
    assert webhook == api("GET", "/v1/webhooks/cmdb").json


def test_a_name_is_taken_once(api):
    make(api)
    answer = api("POST", "/v1/webhooks", BODY)
    assert 409 == answer.status_code
    assert "webhook with name cmdb" in fault(answer)["faultstring"].lower()


def test_secrets_are_never_shown_nor_recorded(api):
    new = "another-secret-of-the-test"
    webhook = make(api, url="https://h/x?token=in-the-query")
    answer = change(api, "replace", "/secret", new)
    assert answer.json["previous_secret_until"] is not None
    assert (SECRET, new) == (stored(api).previous_secret, stored(api).secret)
    answers = [
        str(webhook),
        answer.text,
        *(api("GET", path).text for path in ("/v1/webhooks?detail=true", "/v1/webhooks/cmdb")),
    ]
    with api.runtime.reading() as session:
        records = session.scalars(select(AuditRecord.fields)).all()
    assert {"name,url,secret", "secret"} & set(records), records
    for text in (*answers, *map(str, records)):
        assert not re.search(f"{SECRET}|{new}|in-the-query", text)
    assert "https://h/x?token=******" == webhook["url"]


def fail(api, webhook, after, last):
    with api.runtime.transaction() as session:
        (ident,) = session.scalars(select(Webhook.id).where(Webhook.uuid == webhook["uuid"]))
        failure = WebhookFailure(webhook_id=ident, after=after, last=last, error="no answer")
        session.add(failure)


@BOTH
def test_failures_are_listed_and_replayed(api):
    for _ in range(3):
        api.node()
    webhook = make(api)
    path = f"/v1/webhooks/{webhook['uuid']}"
    assert [] == api("GET", f"{path}/failures").json["failures"]
    fail(api, webhook, 1, 2)
    with api.runtime.transaction() as session:
        session.execute(update(Webhook).values(failed_attempts=9, holder="x"))
    (failure,) = api("GET", "/v1/webhooks/cmdb/failures").json["failures"]
    created = failure.pop("created_at")
    assert re.fullmatch(r"\d{4}-.*\+00:00", created)
    assert {"after": 1, "last": 2, "error": "no answer"} == failure
    answer = api("POST", f"{path}/replay", {})
    assert (200, 1, 0) == (
        answer.status_code, answer.json["position"], answer.json["failed_attempts"]
    )  # fmt: skip
    assert stored(api).holder is None
    assert [] == api("GET", f"{path}/failures").json["failures"]
    assert 0 == api("POST", f"{path}/replay", {"after": 0}).json["position"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "after: required, because the webhook has no failures"),
        ({"after": 9}, "after: 9 must be at least 0"), ({"after": -1}, "after"),
        ({"after": "x"}, "after"), ({"before": 1}, "before"),
    ],
)  # fmt: skip
def test_bad_replays_are_refused(api, body, message):
    webhook = make(api)
    answer = api("POST", "/v1/webhooks/cmdb/replay", body)
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]
    assert webhook == api("GET", "/v1/webhooks/cmdb").json


def test_unknown_webhooks_are_not_found(api):
    for method, path, *body in (
        ("GET", "/v1/webhooks/none"), ("GET", "/v1/webhooks/none/failures"),
        ("POST", "/v1/webhooks/none/replay", {"after": 0}), ("DELETE", "/v1/webhooks/none"),
        ("PATCH", "/v1/webhooks/none", []),
    ):  # fmt: skip
        assert 404 == api(method, path, *body).status_code, (method, path)


def test_a_project_has_a_limited_number_of_webhooks(api):
    with limited(api, 1):
        make(api, owner="p-1")
        answer = api("POST", "/v1/webhooks", BODY | {"name": "second", "owner": "p-1"})
        assert 409 == answer.status_code
        assert "[webhooks]max_per_project" in fault(answer)["faultstring"]
        make(api, name="other", owner="p-2")


@contextmanager
def limited(api, limit):
    settings = api.runtime.settings
    api.runtime.settings = replace(
        settings, webhooks=replace(settings.webhooks, max_per_project=limit)
    )
    try:
        yield
    finally:
        api.runtime.settings = settings
