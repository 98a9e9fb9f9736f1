"""Events of BMCs over the API: their secret, their limits, alerts, hints, and what is shown."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs
from werkzeug.test import EnvironBuilder

from app.api.transport.limits import REFUSED_PER_MINUTE, Limits
from app.api.transport.request_body import EVENTS_LIMIT
from app.cli.node_commands import inquiries
from app.cli.terminal.output import Output
from app.cli.terminal.output_format import Form
from app.db.clock import after, moment, now
from app.inventory import bmc_events, event_subscriptions
from app.models import AuditRecord, EventSubscription, Node, NodeHistory

KINDS = pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
SECRET = "a-secret-of-32-bytes"
POWERED_OFF = {"MessageId": "ResourceEvent.1.3.ResourcePoweredOff", "Severity": "OK"}
FAN = {
    "MessageId": "Env.1.0.FanFailed", "Severity": "Critical", "Message": "Fan 3 has failed at 0 RPM.",
    "OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis/1/Thermal#/Fans/3"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def on(api, monkeypatch):
    """The setting, and limits that nothing has used yet."""
    settings = api.runtime.settings
    redfish = replace(settings.redfish, event_receiver_url="https://ingot.example")
    monkeypatch.setattr(api.runtime, "settings", replace(settings, redfish=redfish))
    monkeypatch.setattr(
        api.client.application.extensions["ingot"].bmc_events,
        "_rate",
        bmc_events.RateLimit(bmc_events.PER_MINUTE, clock=lambda: 0.0),
    )


@pytest.fixture
def node(api):
    node = api.node(name="n1")
    with api.runtime.transaction() as session:
        session.add(EventSubscription(
            node_id=session.scalar(select(Node.id)), digest=event_subscriptions.digest(SECRET),
            path="/redfish/v1/EventService/Subscriptions/1", subscribed_at=now(),
        ))  # fmt: skip
    return node


def post(api, node, *events, secret=SECRET, body=None, **options):
    data = json.dumps({"Events": events}).encode() if body is None else body
    path = f"/v1/redfish_events/{node['uuid']}/{secret}"
    return api.client.post(path, data=data, content_type="application/json", **options)


def row(api):
    with api.runtime.reading() as session:
        return session.scalars(select(EventSubscription)).one()


def change(api, **columns):
    with api.runtime.transaction() as session:
        session.execute(update(EventSubscription).values(**columns))


def alerts(api):
    with api.runtime.reading() as session:
        query = select(NodeHistory.event).where(NodeHistory.event_type == "bmc_alert")
        return list(session.scalars(query.order_by(NodeHistory.id)))


@KINDS
def test_an_event_proves_the_subscription_and_orders_a_read(api, node):
    path = "/v1/nodes/n1/event_subscription"
    assert "subscribed" == api("GET", path).json["state"]
    assert 204 == post(api, node, POWERED_OFF).status_code
    document = api("GET", path).json
    assert ("proven", None) == (document["state"], document["error"])
    assert document["received_at"].endswith("+00:00")
    assert "power" == row(api).hints
    assert row(api).hint_due_at > row(api).received_at
    power_state = api("GET", "/v1/nodes/n1").json["power_state"]
    assert None is power_state  # only the machine is believed


def test_a_second_event_adds_its_facts_and_delays_no_read(api, node):
    post(api, node, POWERED_OFF)
    due_at = row(api).hint_due_at
    post(api, node, POWERED_OFF, {"MessageId": "S.1.0.SensorFailed"})
    assert ("power sensors", due_at) == (row(api).hints, row(api).hint_due_at)


def test_a_bmc_is_read_at_most_once_in_a_while(api, node):
    with api.runtime.reading() as session:
        time = moment(session)
    change(api, hint_read_at=time)
    post(api, node, POWERED_OFF)
    assert time + timedelta(seconds=bmc_events.PAUSE) == row(api).hint_due_at


def test_events_before_the_newest_subscription_prove_nothing(api, node):
    post(api, node, POWERED_OFF)
    change(api, subscribed_at=after(60))
    assert "subscribed" == api("GET", "/v1/nodes/n1/event_subscription").json["state"]


@pytest.mark.parametrize("secret", ["wrong", "", SECRET[:-1], f"{SECRET}x", "ä"])
def test_a_wrong_secret_is_not_found_and_changes_nothing(api, node, secret):
    answer = post(api, node, POWERED_OFF, FAN, secret=secret)
    assert 404 == answer.status_code
    assert ("", None, []) == (row(api).hints, row(api).received_at, alerts(api))


@pytest.mark.parametrize("uuid", ["n1", "6f1a2f2e-0f4b-4a40-8b9d-0a7f5b0f2a01", "%00", "x" * 300])
def test_other_nodes_are_not_found_with_the_same_words(api, node, uuid):
    wrong = post(api, node, secret="wrong")
    other = post(api, {"uuid": uuid})
    assert other.status_code in (400, 404)
    assert uuid == "%00" or wrong.json == other.json


def test_a_node_whose_subscription_is_left_takes_no_events(api, node):
    change(api, node_id=None)
    assert 404 == post(api, node).status_code


def test_without_the_setting_no_event_is_taken(api, node, monkeypatch):
    redfish = replace(api.runtime.settings.redfish, event_receiver_url=None)
    monkeypatch.setattr(api.runtime, "settings", replace(api.runtime.settings, redfish=redfish))
    assert 404 == post(api, node, POWERED_OFF).status_code
    assert None is row(api).received_at


def test_an_address_with_many_wrong_secrets_is_refused_before_the_application(api):
    inner = []

    def application(_environ, start_response):
        inner.append(1)
        start_response("404 Not Found", [])
        return ()

    limited = Limits(api.runtime.settings.api).middleware(application)
    statuses = []
    for number in range(100):
        environ = EnvironBuilder(f"/v1/redfish_events/n1/w{number}", method="POST").get_environ()
        limited(environ, lambda status, *_: statuses.append(int(status[:3])))
    assert (REFUSED_PER_MINUTE["/v1/redfish_events/"], 429) == (len(inner), statuses[-1])


@KINDS
def test_a_flood_of_one_bmc_is_accepted_unread(api, node, monkeypatch):
    queries = []
    prepared = bmc_events._DIGEST
    monkeypatch.setattr(
        bmc_events, "_DIGEST",
        type("Counted", (), {"first": lambda _, *a: queries.append(1) or prepared.first(*a)})(),
    )  # fmt: skip
    statuses = {post(api, node, POWERED_OFF).status_code for _ in range(100)}
    assert ({204}, bmc_events.PER_MINUTE) == (statuses, len(queries))
    assert 204 == post(api, node, FAN).status_code
    assert [] == alerts(api)


@pytest.mark.parametrize(
    "body", [b"", b"no JSON", b"[]", b"null", b'{"Events": 7}', b"\xff", b'{"MetricValues": []}']
)
def test_a_document_that_is_no_event_is_accepted_and_counts_as_an_arrival(api, node, body):
    assert 204 == post(api, node, body=body).status_code
    assert ("", []) == (row(api).hints, alerts(api))
    assert None is not row(api).received_at


def test_a_large_document_is_refused(api, node):
    assert 413 == post(api, node, body=b" " * (EVENTS_LIMIT + 1)).status_code


@KINDS
def test_an_alert_is_one_entry_of_the_history_and_part_of_why(api, node):
    for rpm in range(3):
        post(api, node, {**FAN, "Message": f"Fan 3 has failed at {rpm} RPM."})
    text = "Fan 3 has failed at 0 RPM (Env.1.0.FanFailed of /redfish/v1/Chassis/1/Thermal#/Fans/3)"
    assert [f"The BMC reports Critical: {text}"] == alerts(api)
    assert text in api("GET", "/v1/nodes/n1/why").json["summary"]
    other = {**FAN, "OriginOfCondition": "/redfish/v1/Chassis/1/Thermal#/Fans/4"}
    post(api, node, other, {**FAN, "Severity": "OK", "MessageId": "Env.1.0.FanOk"})
    assert 2 == len(alerts(api))
    with api.runtime.transaction() as session:
        session.execute(update(NodeHistory).values(created_at=after(-3700)))
    post(api, node, FAN)
    assert 3 == len(alerts(api))


def test_a_hostile_bmc_does_not_fill_the_history(api, node):
    for number in range(50):
        post(api, node, *({**FAN, "MessageId": f"X.{number}.{other}"} for other in range(10)))
    assert bmc_events.MOST_ALERTS == len(alerts(api))


@KINDS
def test_repeated_events_write_nothing(api, node, monkeypatch):
    post(api, node, POWERED_OFF, FAN)
    monkeypatch.setattr(bmc_events, "_apply", None)
    assert 204 == post(api, node, POWERED_OFF, FAN).status_code


def test_no_log_and_no_audit_record_has_the_secret(api, node, monkeypatch):
    services = api.client.application.extensions["ingot"]
    services.refused_requests.flush()  # those of other tests
    monkeypatch.setattr("app.observe.log.debugging", lambda: True)
    with capture_logs() as logs:
        assert 204 == post(api, node, POWERED_OFF).status_code
        assert 404 == post(api, node, secret="wrong-secret").status_code
    services.refused_requests.flush()
    with api.runtime.reading() as session:
        records = [str(vars(record)) for record in session.scalars(select(AuditRecord))]
    assert any(node["uuid"] in record and "404" in record for record in records)
    for text in (str(logs), str(records)):
        assert SECRET not in text
        assert "wrong-secret" not in text
    assert f"/v1/redfish_events/{node['uuid']}/******" in str(logs)


def test_the_state_of_a_node_without_a_subscription(api, monkeypatch):
    api.node(name="n1")
    path = "/v1/nodes/n1/event_subscription"
    assert "unchecked" == api("GET", path).json["state"]
    redfish = replace(api.runtime.settings.redfish, event_receiver_url=None)
    monkeypatch.setattr(api.runtime, "settings", replace(api.runtime.settings, redfish=redfish))
    assert "off" == api("GET", path).json["state"]
    assert 404 == api("GET", "/v1/nodes/n2/event_subscription").status_code
    assert 400 == api("GET", f"{path}?fields=state").status_code


def test_a_deleted_node_leaves_its_bmc(api, node):
    assert 204 == api("DELETE", "/v1/nodes/n1").status_code
    assert (None, node["uuid"]) == (row(api).node_id, row(api).departed["uuid"])


class Answers:
    """A client of the API with one answer."""

    def get(self, *path):
        assert ("nodes", "n1", "event_subscription") == path
        return dict.fromkeys(inquiries.SUBSCRIPTION) | {
            "state": "refused",
            "error": "no event service",
        }


def test_the_command_shows_state_and_reason(capsys):
    inquiries.event_subscription(Answers(), Output(Form.TABLE), "n1")
    assert "no event service" in capsys.readouterr().out
