"""Audit trail: users and changes in the API's log and in each node's history."""

import base64
from dataclasses import replace

import bcrypt
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from app.db.clock import after
from app.models import BeatLease, Conductor
from app.server.application import create_app

SECRET = "correct horse"


@pytest.fixture
def bob(api, tmp_path):
    """The application with http_basic; the caller is bob."""
    users = tmp_path / "htpasswd"
    users.write_text(f"bob:{bcrypt.hashpw(SECRET.encode(), bcrypt.gensalt(4)).decode()}\n")
    default = replace(
        api.runtime.settings.default,
        auth_strategy="http_basic",
        http_basic_auth_user_file=str(users),
    )
    runtime = replace(api.runtime, settings=replace(api.runtime.settings, default=default))
    client = create_app(runtime).test_client()
    token = base64.b64encode(f"bob:{SECRET}".encode()).decode()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Basic {token}"
    return replace(api, client=client, runtime=runtime)


def events(api, node):
    """(type, event, user) of a node's history, the oldest first."""
    listed = api("GET", f"/v1/nodes/{node['uuid']}/history?detail=true").json["history"]
    return [(entry["event_type"], entry["event"], entry["user"]) for entry in listed]


def test_a_change_of_a_node_is_in_its_history_with_user_and_fields_but_no_values(bob):
    node = bob.node(driver_info={"redfish_address": "http://a", "redfish_password": "old"})
    patch = [
        {"op": "replace", "path": "/driver_info/redfish_password", "value": "new secret"},
        {"op": "add", "path": "/extra", "value": {"rack": "7"}},
        {"op": "add", "path": "/description", "value": "behind the door"},
        {"op": "add", "path": "/driver_info/redfish_address", "value": "http://a"},
    ]
    assert 200 == bob("PATCH", f"/v1/nodes/{node['uuid']}", patch).status_code
    (event,) = events(bob, node)
    assert ("update", "bob") == (event[0], event[2])
    assert {"driver_info/redfish_password", "extra/rack", "description"} == set(
        event[1].removeprefix("Changed: ").removesuffix(".").split(", ")
    )
    same = [{"op": "add", "path": "/description", "value": "behind the door"}]
    assert 200 == bob("PATCH", f"/v1/nodes/{node['uuid']}", same).status_code
    assert [event] == events(bob, node)


def test_a_change_of_very_many_fields_of_any_name_is_one_short_entry(bob):
    node = bob.node()
    extra = {f"key {at} \x1b {'x' * 500}": at for at in range(1000)}
    patch = [{"op": "add", "path": "/extra", "value": extra}]
    assert 200 == bob("PATCH", f"/v1/nodes/{node['uuid']}", patch).status_code
    ((_, event, _),) = events(bob, node)
    assert event.endswith(" and 970 more.")
    assert len(event) < 4000


def test_maintenance_and_power_are_in_the_history_with_the_user(bob):
    node = bob.node(power_state="power off")
    path = f"/v1/nodes/{node['uuid']}"
    assert 202 == bob("PUT", f"{path}/maintenance", {"reason": "a new fan"}).status_code
    assert 202 == bob("DELETE", f"{path}/maintenance").status_code
    assert 202 == bob("PUT", f"{path}/states/power", {"target": "power on"}).status_code
    assert [
        ("maintenance", "Maintenance was set: a new fan.", "bob"),
        ("maintenance", "Maintenance was ended.", "bob"),
        ("power", "A change to 'power on' was requested.", "bob"),
    ] == events(bob, node)


def test_a_refused_request_leaves_no_history(bob):
    node = bob.node(reservation="c-1")
    path = f"/v1/nodes/{node['uuid']}"
    assert 409 == bob("PUT", f"{path}/maintenance", {"reason": "a new fan"}).status_code
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert 409 == bob("PATCH", path, patch).status_code
    assert [] == events(bob, node)


def test_each_write_is_logged_with_user_address_and_request_and_reads_are_not(bob):
    node = bob.node()
    path = f"/v1/nodes/{node['uuid']}/maintenance"
    with capture_logs(processors=[merge_contextvars]) as logged:
        answer = bob("PUT", f"{path}?reason=secret", **{"X-Forwarded-For": "192.0.2.7"})
        bob("GET", "/v1/nodes")
        bob("POST", f"/v1/heartbeat/{node['uuid']}", {"callback_url": "http://a"})
        bob("DELETE", "/v1/nodes/missing", Authorization="Basic Ym9iOndyb25n")
    accepted_entry, refused_entry = (
        entry for entry in logged if entry["event"] == "request.answered"
    )
    assert accepted_entry.pop("ms") >= 0
    assert {
        "event": "request.answered",
        "log_level": "info",
        "user": "bob",
        "address": "127.0.0.1",
        "forwarded_for": "192.0.2.7",
        "method": "PUT",
        "path": path,
        "status": 202,
        "request_id": answer.headers["Openstack-Request-Id"],
    } == accepted_entry
    assert ("DELETE", 401, None) == (
        refused_entry["method"],
        refused_entry["status"],
        refused_entry["user"],
    )


def test_the_health_check_names_the_conductors_when_all_are_dead(api):
    with api.runtime.transaction() as session:
        session.add(BeatLease(id=1, holder="a beat", until=after(60)))
    answer = api.at(None)("GET", "/healthcheck?detailed=true")
    assert (200, True) == (answer.status_code, answer.json["detailed"])
    assert {"OK"} == {reason["reason"] for reason in answer.json["reasons"]}
    with api.runtime.transaction() as session:
        session.query(Conductor).update({"heartbeat_at": after(-60)})
    answer = api.at(None)("GET", "/healthcheck?detailed=true")
    assert 503 == answer.status_code
    wrong = [reason for reason in answer.json["reasons"] if reason["reason"] != "OK"]
    assert [
        {
            "class": "conductors",
            "reason": "no conductor is alive",
            "details": "0 of 1 alive, 1 without a heartbeat",
        }
    ] == wrong
    assert (200, ["OK"]) == (
        (plain := api.at(None)("GET", "/healthcheck")).status_code, plain.json["reasons"],
    )  # fmt: skip


def test_the_health_check_names_a_missing_beat(api):
    answer = api.at(None)("GET", "/healthcheck?detailed=true")
    assert 503 == answer.status_code
    assert {"OK", "no beat leads"} == {reason["reason"] for reason in answer.json["reasons"]}
