"""`ingot doctor`: problems that only an operator can solve, and a sound service without any."""

import json
import socket
import uuid

import pytest
from sqlalchemy import text, update
from typer.testing import CliRunner

from app.db import clock
from app.db.clock import after, now
from app.events import change_events
from app.inventory.connectivity import networks
from app.models import (
    BeatLease,
    ChangeEvent,
    Conductor,
    EventSubscription,
    Node,
    NotificationCursor,
    Operation,
    PowerUpdateCursor,
)
from tests.support import neutron
from workers import cli
from workers.conductor import claims
from workers.doctor import examination

from .conftest import NOBODY, reservation


def no_beat(ward):
    ward.inside.change(BeatLease, 1, until=after(-60))


def impeded_conductor(ward):
    ward.inside.conductor("c-2", heartbeat_at=now())
    ward.inside.change(Conductor, "c-2", impediment="the broker has not answered for 40 s")


def unserved_driver(ward):
    ward.inside.change(Node, ward.inside.node(), driver="redfish")
    ward.inside.change(Conductor, "c-1", interfaces={"fake-hardware": {}})


def clock_that_was_set_back(ward):
    ward.inside.change(Conductor, "c-1", heartbeat_at=after(3600))


def older_database(ward):
    ward.redis.set("ingot:watermark", 8)


def unchecked_node(ward):
    ward.inside.node(maintenance=True, fault="restored")


def older_schema(ward):
    with ward.inside.runtime.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))


def later_schema(ward):
    with ward.inside.runtime.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))


def schema_without_a_table(ward):
    with ward.inside.runtime.engine.begin() as connection:
        connection.execute(text("DROP TABLE watermark"))


LEFT_TO_OPERATORS = {
    "beat": (no_beat, "start `ingot beat`"),
    "impeded conductors": (impeded_conductor, "no new work: the broker has not answered for 40 s"),
    "unserved nodes": (unserved_driver, "has loaded it: 1 node cannot be managed"),
    "future heartbeats": (clock_that_was_set_back, "s in the future: the clock of the database"),
    "restored database": (older_database, "its watermark is 7, the highest one seen is 8"),
    "unchecked nodes": (unchecked_node, "compare the machine"),
    "schema": (older_schema, "run `ingot db upgrade`"),
    "schema ": (later_schema, "use the later release"),
    "schema  ": (schema_without_a_table, "it lacks id, level"),
}


@pytest.mark.parametrize("check", LEFT_TO_OPERATORS)
def test_a_problem_that_only_an_operator_can_solve_is_explained(ward, check):
    plant, words = LEFT_TO_OPERATORS[check]
    plant(ward)
    assert [(check.strip(), False)] == ward.examine(fix=True)
    assert words in ward.findings[0].explanation


def test_bmcs_that_refuse_a_subscription_are_counted_by_the_reason(ward):
    errors = ["limit of 20 subscriptions reached", "https only", "https only", None]
    nodes = [ward.inside.node() for _ in errors]
    with ward.inside.runtime.transaction() as session:
        session.add_all(
            EventSubscription(node_id=node, error=error)
            for node, error in zip(nodes, errors, strict=True)
        )
    assert [] == ward.examine()
    url = "https://ingot.example"
    assert [("refused event subscriptions", False)] * 2 == ward.examine(
        INGOT_REDFISH_EVENT_RECEIVER_URL=url
    )
    assert [
        "no subscription to events: https only. Sweeps alone see changes of 2 nodes",
        (
            "no subscription to events: limit of 20 subscriptions reached. Sweeps alone see changes of"
            " 1 node"
        ),
    ] == [finding.explanation.partition(";")[0] for finding in ward.findings]
    assert ", " in ward.findings[0].subject


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("INGOT_DEPLOY_HTTP_URL", "http://127.0.0.1:{}", "file server"),
        ("INGOT_METRICS_PORT", "{}", "exporter"),
    ],
)
@pytest.mark.parametrize("hangs", [True, False])
def test_a_server_that_hangs_is_reported_and_one_that_is_away_is_not(
    ward, setting, value, name, hangs
):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not hangs:
            server.close()
        findings = ward.examine(**{setting: value.format(port)})
    assert ([("silent servers", False)] if hangs else []) == findings
    assert not hangs or f"{name} at 127.0.0.1:{port}" == ward.findings[0].subject


@pytest.mark.parametrize(
    ("error", "seconds", "is_reported"),
    [(None, 10, False), (None, 6000, True), ("refused", 10, True)],
)
def test_late_notifications_are_reported(ward, error, seconds, is_reported):
    ward.inside.node()
    with ward.inside.runtime.transaction() as session:
        session.add(NotificationCursor(id=1, position=0, last_error=error))
        session.execute(update(ChangeEvent).values(created_at=after(-seconds)))
    switched_on = {
        "INGOT_NOTIFICATION_LEVEL": "info",
        "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": "rabbit://127.0.0.1",
    }
    change_events.number(ward.inside.runtime)
    assert ([("late notifications", False)] if is_reported else []) == ward.examine(**switched_on)
    assert not is_reported or "1 events wait, the oldest for" in ward.findings[0].explanation


@pytest.mark.parametrize(
    ("error", "environ", "is_reported"),
    [
        ("Nova answered 403 Forbidden", {"INGOT_NOVA_AUTH_URL": "http://k"}, True),
        (None, {"INGOT_NOVA_AUTH_URL": "http://k"}, False),
        ("Nova answered 403 Forbidden", {}, False),
    ],
)
def test_power_updates_that_nova_refuses_are_reported(ward, error, environ, is_reported):
    with ward.inside.runtime.transaction() as session:
        session.add(PowerUpdateCursor(id=1, position=0, last_error=error))
    assert ([("late power updates", False)] if is_reported else []) == ward.examine(**environ)
    assert not is_reported or "Nova answered 403 Forbidden" in ward.findings[0].explanation


@pytest.mark.parametrize("enabled", [True, False])
def test_networks_that_neutron_lacks_are_reported(ward, enabled):
    with neutron.serving() as server:
        settings = {
            "INGOT_NEUTRON_AUTH_TYPE": "none",
            "INGOT_NEUTRON_ENDPOINT_OVERRIDE": server.url,
            "INGOT_NEUTRON_CLEANING_NETWORK": "cleaning",
            "INGOT_NEUTRON_PROVISIONING_NETWORK": "nonesuch",
        }
        if enabled:
            settings["INGOT_ENABLED_NETWORK_INTERFACES"] = "noop,neutron"
        assert ([("networks", False)] if enabled else []) == ward.examine(**settings)
        assert (
            not enabled
            or "no network of the name or UUID 'nonesuch'" in ward.findings[0].explanation
        )


@pytest.mark.parametrize("enabled", [True, False])
def test_switches_and_networks_that_cannot_be_used_are_reported(ward, enabled):
    settings = {
        "INGOT_SWITCH_CLEANING_NETWORK": "nonesuch",
        "INGOT_SWITCH_PROVISIONING_NETWORK": "red",
        "INGOT_SWITCH_RESCUING_NETWORK": "cleaning",
    }
    with ward.inside.runtime.transaction() as session:
        networks.create(session, {"name": "cleaning", "vlan": 100})
        networks.create(session, {"name": "red", "vlan": 200, "public": True})
        networks.create_switch(
            session,
            {
                "name": "leaf-1", "switch_id": "0c:c4:7a:00:00:01", "device_type": "ovs_linux",
                "address": "127.0.0.1", "port": 1, "username": "u", "password": "p",
                "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Q2yGq0oR0rmbcuyHk0bLrV0R4t8UO3zJp3y1a0yNq",
                "ports": ["*"],
            },
        )  # fmt: skip
    if enabled:
        settings["INGOT_ENABLED_NETWORK_INTERFACES"] = "noop,switch"
    assert [("switches", False)] * 3 * enabled == ward.examine(**settings)
    assert [
        "[switch]cleaning_network",
        "[switch]provisioning_network",
        "switch leaf-1",
    ] * enabled == [finding.subject for finding in ward.findings]


@pytest.mark.parametrize(
    ("address", "is_reported"),
    [("0.0.0.0", True), ("::", True), ("127.0.0.2", False), ("::1", False)],
)
def test_an_open_api_without_authentication_is_reported(ward, address, is_reported):
    expected = [("authentication", False)] if is_reported else []
    assert expected == ward.examine(fix=True, INGOT_API_HOST_IP=address)
    assert not is_reported or "[DEFAULT]auth_strategy" in ward.findings[0].explanation
    public = {"INGOT_API_PUBLIC_ENDPOINT": "https://ingot.example"}
    keystone = {"INGOT_API_HOST_IP": address, "INGOT_AUTH_STRATEGY": "keystone"}
    assert [] == ward.examine(**keystone, **public)


@pytest.mark.parametrize(("address", "is_reported"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_an_api_whose_links_other_hosts_choose_is_reported(ward, address, is_reported):
    settings = {"INGOT_API_HOST_IP": address, "INGOT_AUTH_STRATEGY": "keystone"}
    expected = [("links", False)] if is_reported else []
    assert expected == ward.examine(fix=True, **settings)
    assert not is_reported or "[api]public_endpoint" in ward.findings[0].explanation


def test_dead_conductors_and_a_service_without_conductors_are_reported(ward):
    other = ward.inside.conductor("c-2", heartbeat_at=now())
    ward.inside.change(Conductor, "c-1", heartbeat_at=after(-3600))
    assert [("dead conductors", False)] == ward.examine(fix=True)
    assert ("conductor c-1", True) == (
        ward.findings[0].subject, "its work was taken over" in ward.findings[0].explanation
    )  # fmt: skip
    ward.inside.change(Conductor, other.name, heartbeat_at=after(-3600))
    assert [("dead conductors", False)] * 3 == ward.examine(fix=True)
    assert ["conductors", "conductor c-1", "conductor c-2"] == [
        finding.subject for finding in ward.findings
    ]
    assert "no conductor is alive" in ward.findings[0].explanation
    for name in ("c-1", "c-2"):
        ward.inside.change(Conductor, name, online=False)  # both were stopped
    assert ["conductors"] == [finding.subject for finding in (ward.examine(), ward.findings)[1]]


def test_a_service_whose_conductors_are_all_impeded_has_conductors_and_needs_a_beat(ward):
    ward.inside.change(Conductor, "c-1", impediment="the broker has not answered for 40 s")
    assert [("impeded conductors", False)] == ward.examine(fix=True)
    assert "conductor c-1" == ward.findings[0].subject
    no_beat(ward)
    assert [("beat", False), ("impeded conductors", False)] == ward.examine(fix=True)


def test_a_deviating_clock_is_reported(ward, monkeypatch):
    past = clock.utcnow()
    monkeypatch.setattr(examination.environment_checks, "utcnow", lambda: past.replace(year=2001))
    assert [("clock skew", False)] * 2 == ward.examine()
    assert ["clock of database", "clock of redis"] == [finding.subject for finding in ward.findings]


def test_two_processes_of_one_name_are_reported(ward, monkeypatch):
    answers = [{"conductor@c-1": {}}, {"conductor@c-1": {}}, {"conductor@c-2": {}}]
    monkeypatch.setattr("celery.app.control.Control.ping", lambda *_, **__: answers)
    assert [] == ward.examine()  # nothing would answer
    assert [("duplicate names", False)] == ward.examine(INGOT_BROKER_REMOTE_CONTROL="true")
    assert "2 processes have this name" in ward.findings[0].explanation


@pytest.mark.parametrize(
    ("check", "variable", "url"),
    [
        ("redis", "INGOT_BROKER_URL", "redis+socket:///nowhere/redis.sock"),
        ("database", "INGOT_DATABASE_CONNECTION", "sqlite:////nowhere/ingot.db"),
        ("database", "INGOT_DATABASE_CONNECTION", "postgresql:///x?host=/nowhere"),
    ],
)
def test_an_unreachable_service_is_a_finding_and_the_rest_is_checked(ward, check, variable, url):
    reservation(ward)
    other_findings = [("orphan reservations", False)] if check == "redis" else []
    assert [(check, False), *other_findings] == ward.examine(**{variable: url})
    assert "unreachable" in ward.findings[0].explanation


def test_running_operations_are_no_findings(ward):
    """Operations in every state, each driven by a conductor."""
    inside = ward.inside
    _, queued = ward.cleaning()
    _, running = ward.cleaning()
    assert claims.claim(ward.claimant, running, 1, 0)
    node, waiting = ward.cleaning()
    inside.change(Operation, waiting, state="waiting", wake_at=now())
    inside.change(Node, node, provision_state="clean wait", reservation=None, operation_id=None)
    node, held_operation = ward.cleaning()
    inside.change(Operation, held_operation, state="held")
    inside.change(Node, node, provision_state="clean hold", reservation=None, operation_id=None)
    ward.redis.set(f"ingot:lease:{NOBODY}", f"{ward.claimant.incarnation}:1", px=900)
    ward.redis.set(f"ingot:lease:{uuid.uuid4()}", f"now-{NOBODY}:1", px=900)
    ward.redis.set(f"ingot:lease:{uuid.uuid4()}", f"{NOBODY}:1", px=900)  # its holder has just died
    assert [] == ward.examine()
    assert {"queued", "running", "waiting", "held"} == {
        inside.operation(name).state for name in (queued, running, waiting, held_operation)
    }


def test_a_stopped_service_has_no_findings(ward):
    ward.cleaning()
    ward.redis.lpush("conductor.c-1", "a message")
    ward.inside.change(Conductor, "c-1", heartbeat_at=after(-3600), online=False)
    ward.inside.change(BeatLease, 1, until=after(-3600))
    assert [] == ward.examine()


def test_the_command_prints_text_and_json(ward):
    run = CliRunner(env={**ward.environ, "INGOT_BROKER_REMOTE_CONTROL": "true"}).invoke
    well = run(cli.app, ["doctor"])
    assert 0 == well.exit_code
    verdict, *looked_at = well.stdout.splitlines()
    assert "No findings." == verdict
    assert {"database", "Redis", "data directory", "checked"} == {
        line.partition(":")[0] for line in looked_at
    }
    assert all(check.name in looked_at[-1] for check in examination.CHECKS)
    well = run(cli.app, ["doctor", "-o", "json"])
    assert (0, []) == (well.exit_code, json.loads(well.stdout))
    reservation(ward)
    table = run(cli.app, ["doctor"])
    assert 1 == table.exit_code
    assert "orphan reservations" in table.stdout
    fixed = run(cli.app, ["doctor", "--fix", "-o", "json"])
    (line,) = json.loads(fixed.stdout)
    assert (1, "orphan reservations", True) == (fixed.exit_code, line["check"], line["repaired"])
    assert 0 == run(cli.app, ["doctor"]).exit_code
    assert 2 == run(cli.app, ["doctor", "--fixx"]).exit_code
