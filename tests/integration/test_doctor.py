"""`ingot doctor`: each inconsistency is created, found, explained and repaired."""

import json
import socket
import uuid
from base64 import b64encode

import pytest
from sqlalchemy import delete, text, update
from typer.testing import CliRunner

from app.broker import redis_broker
from app.config import settings
from app.db import clock, master_keys
from app.db.clock import after, now
from app.events import change_events
from app.inventory import networks
from app.models import (
    BeatLease,
    ChangeEvent,
    Conductor,
    Node,
    NodeHistory,
    NotificationCursor,
    Operation,
    PowerUpdateCursor,
    Watermark,
)
from app.rows import data_keys
from tests.support import neutron
from workers import cli
from workers.conductor import claims
from workers.doctor import examination

NOBODY = "00000000-0000-4000-8000-000000000000"


KEY = b64encode(bytes(32)).decode()


class Ward:
    """A service, and the findings of its doctor."""

    def __init__(self, inside, redis_url, folder):
        self.inside, self.url, self.folder = inside, redis_url, folder
        self.environ = {
            "INGOT_DATABASE_CONNECTION": inside.url,
            "INGOT_BROKER_URL": redis_url,
            "INGOT_CONDUCTOR_LEASE_TTL": "0.5",
            "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "600",  # no process sends heartbeats
            "INGOT_DEPLOY_HTTP_ROOT": str(folder),
            "INGOT_DATA_DIR": str(folder / "data"),
            "INGOT_DATABASE_SECRETS_KEY": KEY,
        }
        self.redis = redis_broker.client(redis_url, 2)
        self.claimant = inside.conductor("c-1", heartbeat_at=now())
        with inside.runtime.transaction() as session:
            session.add(BeatLease(id=1, holder="a beat", until=after(600)))
            session.add(Watermark(id=1, level=7))
            data_keys.rotate(session.connection(), master_keys.masters_of(KEY))

    def examine(self, *, fix=False, **environ):
        """Run the doctor; return (check, repaired) of each finding."""
        self.found = examination.examine(settings.load({**self.environ, **environ}), fix=fix)
        return [(each.check, each.repaired) for each in self.found]

    def cleaning(self):
        """Request a clean of a new node: (id of the node, UUID of the operation)"""
        node = self.inside.node("manageable")
        return node, self.inside.request(node, "provide")

    def without_references(self, *changes):
        """Change rows without checks of foreign keys."""
        with self.inside.runtime.engine.connect() as connection:
            sqlite = connection.dialect.name == "sqlite"
            off, on = (
                ("PRAGMA foreign_keys=OFF", "PRAGMA foreign_keys=ON")
                if sqlite
                else ("SET session_replication_role = replica", "SET session_replication_role = origin")
            )  # fmt: skip
            raw = connection.connection.driver_connection
            connection.rollback()
            raw.execute(off)
            with connection.begin():
                for change in changes:
                    connection.execute(change)
            raw.execute(on)
            if not sqlite:
                raw.commit()


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(examination, "PAUSE", 0.01)
    monkeypatch.setattr(examination.environment_checks, "PING_TIMEOUT", 0.05)


@pytest.fixture
def ward(inside, redis_url, tmp_path):
    found = Ward(inside, redis_url, tmp_path / "httpboot")
    yield found
    found.redis.close()


def reservation(ward):
    ward.inside.change(Node, ward.inside.node("available"), reservation="c-1")


def reservation_of_the_past(ward):
    node, name = ward.cleaning()
    ward.inside.change(Operation, name, state="succeeded")
    ward.inside.change(Node, node, provision_state="available")


def cleaning_without_operation(ward):
    node = ward.inside.node("clean wait", target_provision_state="available")
    yield
    row = ward.inside.read(node)
    assert ("clean failed", True, "clean failure") == (
        row.provision_state, row.maintenance, row.fault
    )  # fmt: skip
    assert "clean wait without an active operation" in row.last_error


def deleting_without_operation(ward):
    node = ward.inside.node("deleting", instance_info={"image_source": "http://an/image"})
    yield
    row = ward.inside.read(node)
    assert ("error", {"image_source": "http://an/image"}) == (
        row.provision_state, row.instance_info
    )  # fmt: skip


def busy_after_its_operation(state, kind, ended, failed):
    """Return the function that plants a node whose operation has ended, and left it in a state."""

    def plant(ward):
        node = ward.inside.node(state)
        with ward.inside.runtime.transaction() as session:
            session.add(
                Operation(
                    uuid=str(uuid.uuid4()), node_id=node, kind=kind, state=ended, created_at=now(),
                    finished_at=now(), aborting=ended == "aborted",
                )
            )  # fmt: skip
        yield
        assert failed == ward.inside.read(node).provision_state

    return plant


def operation_of_a_node_at_rest(ward):
    node, name = ward.cleaning()
    ward.inside.change(Node, node, provision_state="active")
    yield
    assert "failed" == ward.inside.operation(name).state
    assert ("active", None) == (
        ward.inside.read(node).provision_state, ward.inside.read(node).reservation
    )  # fmt: skip


def claimed_by_the_dead(ward):
    _, name = ward.cleaning()
    assert claims.claim(ward.claimant, name, 1, 0)
    ward.inside.change(Operation, name, claimed_by=NOBODY)
    yield
    assert 2 == ward.inside.operation(name).fence
    assert "queued" == ward.inside.operation(name).state


def sent_to_the_dead(ward):
    _, name = ward.cleaning()
    ward.inside.change(Operation, name, sent_to=NOBODY, sent_at=after(-3600))


def queue_of_the_dead(ward):
    ward.redis.lpush("conductor.gone", "a message")
    ward.redis.lpush("conductor.c-1", "a message")
    ward.redis.lpush("conductor.now", "a message")
    yield
    assert [b"conductor.c-1", b"conductor.now"] == sorted(ward.redis.keys("conductor.*"))


def endless_lease(ward):
    ward.redis.set(f"ingot:lease:{NOBODY}", f"{ward.claimant.incarnation}:3")


def lease_without_holder(ward):
    ward.redis.set(f"ingot:lease:{NOBODY}", f"{NOBODY}:3", ex=600)


def history_of_no_node(ward):
    row = NodeHistory.__table__.insert().values(
        uuid=NOBODY,
        node_id=4711,
        created_at=clock.utcnow(),
        severity="INFO",
        event_type="x",
        event="x",
    )
    ward.without_references(row)


def agent_of_no_node(ward):
    node = ward.inside.node()
    ward.inside.agent(node)
    ward.without_references(delete(Node).where(Node.id == node))


def files_of_no_deployment(ward):
    (ward.folder / "nodes" / NOBODY / "ramdisk-secret").mkdir(parents=True)
    node = ward.inside.read(ward.inside.node("active")).uuid
    (ward.folder / "nodes" / node / "image-secret").mkdir(parents=True)


def files_that_others_may_read(ward):
    for name in ("redis", "agent_logs"):
        (ward.folder / "data" / name).mkdir(parents=True)
        (ward.folder / "data" / name).chmod(0o755)
    ward.folder.joinpath("data").chmod(0o751)
    database = ward.folder / "data" / "ingot.db"
    database.touch()
    database.chmod(0o644)


def place_of_notifications_that_are_off(ward):
    with ward.inside.runtime.transaction() as session:
        session.add(NotificationCursor(id=1, position=0))


REPAIRED = {
    "orphan reservations": (reservation, reservation_of_the_past),
    "stuck nodes": (
        cleaning_without_operation,
        deleting_without_operation,
        busy_after_its_operation("servicing", "service", "aborted", "service failed"),
        busy_after_its_operation("service hold", "service", "failed", "service failed"),
        busy_after_its_operation("rescue wait", "rescue", "succeeded", "rescue failed"),
    ),
    "inconsistent operations": (operation_of_a_node_at_rest,),
    "stalled operations": (claimed_by_the_dead, sent_to_the_dead),
    "orphan queues": (queue_of_the_dead,),
    "orphan leases": (endless_lease, lease_without_holder),
    "orphan rows": (history_of_no_node, agent_of_no_node),
    "stale files": (files_of_no_deployment,),
    "ended notifications": (place_of_notifications_that_are_off,),
    "file permissions": (files_that_others_may_read,),
}


@pytest.mark.parametrize(
    ("check", "plant"), [(name, plant) for name, plants in REPAIRED.items() for plant in plants]
)
def test_an_inconsistency_is_found_and_repaired(ward, check, plant):
    planted = plant(ward)
    if planted is not None:
        next(planted)
    assert {(check, False)} == set(ward.examine())
    assert {(check, True)} == set(ward.examine(fix=True))
    assert [] == ward.examine()
    if planted is not None:
        assert next(planted, None) is None


def test_a_node_that_is_deleted_before_its_repair_does_not_end_the_examination(ward, monkeypatch):
    reservation(ward)
    record = examination._record

    def deleted_meanwhile(*arguments):
        record(*arguments)
        with ward.inside.runtime.transaction() as session:
            session.execute(delete(Node))

    monkeypatch.setattr(examination, "_record", deleted_meanwhile)
    assert [("orphan reservations", True)] == ward.examine(fix=True)


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
    "unserved nodes": (unserved_driver, "has loaded it: 1 nodes cannot be managed"),
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
    assert words in ward.found[0].explanation


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
        found = ward.examine(**{setting: value.format(port)})
    assert ([("silent servers", False)] if hangs else []) == found
    assert not hangs or f"{name} at 127.0.0.1:{port}" == ward.found[0].subject


@pytest.mark.parametrize(
    ("error", "seconds", "found"), [(None, 10, False), (None, 6000, True), ("refused", 10, True)]
)
def test_late_notifications_are_reported(ward, error, seconds, found):
    ward.inside.node()
    with ward.inside.runtime.transaction() as session:
        session.add(NotificationCursor(id=1, position=0, last_error=error))
        session.execute(update(ChangeEvent).values(created_at=after(-seconds)))
    switched_on = {
        "INGOT_NOTIFICATION_LEVEL": "info",
        "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": "rabbit://127.0.0.1",
    }
    change_events.number(ward.inside.runtime)
    assert ([("late notifications", False)] if found else []) == ward.examine(**switched_on)
    assert not found or "1 events wait, the oldest for" in ward.found[0].explanation


@pytest.mark.parametrize(
    ("error", "environ", "found"),
    [
        ("Nova answered 403 Forbidden", {"INGOT_NOVA_AUTH_URL": "http://k"}, True),
        (None, {"INGOT_NOVA_AUTH_URL": "http://k"}, False),
        ("Nova answered 403 Forbidden", {}, False),
    ],
)
def test_power_updates_that_nova_refuses_are_reported(ward, error, environ, found):
    with ward.inside.runtime.transaction() as session:
        session.add(PowerUpdateCursor(id=1, position=0, last_error=error))
    assert ([("late power updates", False)] if found else []) == ward.examine(**environ)
    assert not found or "Nova answered 403 Forbidden" in ward.found[0].explanation


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
            not enabled or "no network of the name or UUID 'nonesuch'" in ward.found[0].explanation
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
    ] * enabled == [finding.subject for finding in ward.found]


@pytest.mark.parametrize(
    ("address", "found"), [("0.0.0.0", True), ("::", True), ("127.0.0.2", False), ("::1", False)]
)
def test_an_open_api_without_authentication_is_reported(ward, address, found):
    expected = [("authentication", False)] if found else []
    assert expected == ward.examine(fix=True, INGOT_API_HOST_IP=address)
    assert not found or "[DEFAULT]auth_strategy" in ward.found[0].explanation
    public = {"INGOT_API_PUBLIC_ENDPOINT": "https://ingot.example"}
    keystone = {"INGOT_API_HOST_IP": address, "INGOT_AUTH_STRATEGY": "keystone"}
    assert [] == ward.examine(**keystone, **public)


@pytest.mark.parametrize(("address", "found"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_an_api_whose_links_other_hosts_choose_is_reported(ward, address, found):
    settings = {"INGOT_API_HOST_IP": address, "INGOT_AUTH_STRATEGY": "keystone"}
    expected = [("links", False)] if found else []
    assert expected == ward.examine(fix=True, **settings)
    assert not found or "[api]public_endpoint" in ward.found[0].explanation


def test_dead_conductors_and_a_service_without_conductors_are_reported(ward):
    other = ward.inside.conductor("c-2", heartbeat_at=now())
    ward.inside.change(Conductor, "c-1", heartbeat_at=after(-3600))
    assert [("dead conductors", False)] == ward.examine(fix=True)
    assert ("conductor c-1", True) == (
        ward.found[0].subject, "its work was taken over" in ward.found[0].explanation
    )  # fmt: skip
    ward.inside.change(Conductor, other.name, heartbeat_at=after(-3600))
    assert [("dead conductors", False)] * 3 == ward.examine(fix=True)
    assert ["conductors", "conductor c-1", "conductor c-2"] == [each.subject for each in ward.found]
    assert "no conductor is alive" in ward.found[0].explanation
    for name in ("c-1", "c-2"):
        ward.inside.change(Conductor, name, online=False)  # both were stopped
    assert ["conductors"] == [each.subject for each in (ward.examine(), ward.found)[1]]


def test_a_service_whose_conductors_are_all_impeded_has_conductors_and_needs_a_beat(ward):
    ward.inside.change(Conductor, "c-1", impediment="the broker has not answered for 40 s")
    assert [("impeded conductors", False)] == ward.examine(fix=True)
    assert "conductor c-1" == ward.found[0].subject
    no_beat(ward)
    assert [("beat", False), ("impeded conductors", False)] == ward.examine(fix=True)


def test_a_deviating_clock_is_reported(ward, monkeypatch):
    past = clock.utcnow()
    monkeypatch.setattr(examination.environment_checks, "utcnow", lambda: past.replace(year=2001))
    assert [("clock skew", False)] * 2 == ward.examine()
    assert ["clock of database", "clock of redis"] == [each.subject for each in ward.found]


def test_two_processes_of_one_name_are_reported(ward, monkeypatch):
    answers = [{"conductor@c-1": {}}, {"conductor@c-1": {}}, {"conductor@c-2": {}}]
    monkeypatch.setattr("celery.app.control.Control.ping", lambda *_, **__: answers)
    assert [] == ward.examine()  # nothing would answer
    assert [("duplicate names", False)] == ward.examine(INGOT_BROKER_REMOTE_CONTROL="true")
    assert "2 processes have this name" in ward.found[0].explanation


@pytest.mark.parametrize(
    ("what", "variable", "url"),
    [
        ("redis", "INGOT_BROKER_URL", "redis+socket:///nowhere/redis.sock"),
        ("database", "INGOT_DATABASE_CONNECTION", "sqlite:////nowhere/ingot.db"),
        ("database", "INGOT_DATABASE_CONNECTION", "postgresql:///x?host=/nowhere"),
    ],
)
def test_an_unreachable_service_is_a_finding_and_the_rest_is_checked(ward, what, variable, url):
    reservation(ward)
    rest = [("orphan reservations", False)] if what == "redis" else []
    assert [(what, False), *rest] == ward.examine(**{variable: url})
    assert "unreachable" in ward.found[0].explanation


def test_running_operations_are_no_findings(ward):
    """Operations in every state, each driven by a conductor."""
    inside = ward.inside
    _, queued = ward.cleaning()
    _, running = ward.cleaning()
    assert claims.claim(ward.claimant, running, 1, 0)
    node, waiting = ward.cleaning()
    inside.change(Operation, waiting, state="waiting", wake_at=now())
    inside.change(Node, node, provision_state="clean wait", reservation=None, operation_id=None)
    node, held = ward.cleaning()
    inside.change(Operation, held, state="held")
    inside.change(Node, node, provision_state="clean hold", reservation=None, operation_id=None)
    ward.redis.set(f"ingot:lease:{NOBODY}", f"{ward.claimant.incarnation}:1", px=900)
    ward.redis.set(f"ingot:lease:{uuid.uuid4()}", f"now-{NOBODY}:1", px=900)
    ward.redis.set(f"ingot:lease:{uuid.uuid4()}", f"{NOBODY}:1", px=900)  # its holder has just died
    assert [] == ward.examine()
    assert {"queued", "running", "waiting", "held"} == {
        inside.operation(name).state for name in (queued, running, waiting, held)
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
    assert all(each.name in looked_at[-1] for each in examination.CHECKS)
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
