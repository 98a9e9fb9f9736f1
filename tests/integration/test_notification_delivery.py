"""Notifications reach RabbitMQ: as oslo.messaging sends them, after failures, and from the cursor on."""

import json
import socket
import socketserver
import ssl
import threading
from contextlib import contextmanager, suppress
from datetime import datetime
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from kombu import Connection, Exchange, Queue
from sqlalchemy import select, update

from app.events import change_events, notification_events
from app.models import ChangeEvent, Node, NodeSensors, NotificationCursor
from app.reports import service_state
from tests.support import rabbitmq, tls
from tests.support.inside import Inside
from tests.support.ports import free_ports
from workers.periodic import pruning, sensor_sweep
from workers.periodic.notifications import Notifications

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
INFO = "ironic_versioned_notifications.info"
ERROR = "ironic_versioned_notifications.error"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with rabbitmq.serving(tmp_path_factory.mktemp("rabbitmq")) as service:
        yield service


@pytest.fixture
def broker(server):
    """A channel to an empty RabbitMQ."""
    with Connection(server.url) as connection:
        channel = connection.default_channel
        for name in (INFO, ERROR, "second.info", "second.error"):
            channel.queue_delete(name)
        channel.exchange_delete("ironic")
        yield channel


@contextmanager
def sending(database, server, **environ):
    """A service whose notifications are on, and its deliverer."""
    url = server if isinstance(server, str) else server.url
    usual = {
        "INGOT_NOTIFICATION_LEVEL": "info",
        "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": url,
        "INGOT_NOTIFICATIONS_TIMEOUT": "20",
    }
    inside = Inside(database, **usual | environ)
    deliverer = Notifications(inside.runtime, "c-1")
    deliverer.begin()
    try:
        yield inside, deliverer
    finally:
        deliverer.close()
        inside.close()


def deliver(inside, deliverer):
    """Send until there is nothing left or an attempt fails."""
    change_events.number(inside.runtime)
    inside.change(NotificationCursor, 1, due_at=datetime(2000, 1, 1))
    while deliverer.deliver(1):
        pass
    deliverer.end_turn()


def cursor(inside):
    with inside.runtime.reading() as session:
        return session.get(NotificationCursor, 1)


def newest(inside):
    return change_events.newest(inside.runtime)


def taken(channel, queue=INFO):
    """Take all messages of a queue."""
    messages = []
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        messages.append(message)
    return messages


def inner(message):
    envelope = json.loads(message.body)
    assert {"oslo.version", "oslo.message"} == {*envelope}
    assert "2.0" == envelope["oslo.version"]
    return json.loads(envelope["oslo.message"])


def types(messages):
    return [inner(message)["event_type"].removeprefix("baremetal.node.") for message in messages]


def test_a_message_is_that_of_oslo_messaging(database, server, broker):
    with sending(database, server) as (inside, deliverer):
        node = inside.node("cleaning", name="n-1")
        inside.change(Node, node, provision_state="clean failed", provision_event="fail")
        deliver(inside, deliverer)
        (info,), (error,) = taken(broker), taken(broker, ERROR)
        assert ("ironic", INFO) == (
            info.delivery_info["exchange"],
            info.delivery_info["routing_key"],
        )
        assert ("application/json", "utf-8", 2) == (
            info.content_type, info.content_encoding, info.properties["delivery_mode"]
        )  # fmt: skip
        message = inner(info)
        assert {
            "message_id", "publisher_id", "event_type", "priority", "payload", "timestamp",
            "_unique_id", "_context_request_id",
        } == {*message}  # fmt: skip
        assert ("INFO", "ironic-api.c-1") == (message["priority"], message["publisher_id"])
        datetime.strptime(message["timestamp"], "%Y-%m-%d %H:%M:%S.%f")
        assert "n-1" == message["payload"]["ironic_object.data"]["name"]
        message = inner(error)
        assert ("ERROR", "ironic-conductor.c-1") == (message["priority"], message["publisher_id"])
        assert (newest(inside), 0) == (cursor(inside).position, cursor(inside).failed_attempts)
        deliver(inside, deliverer)
        assert [] == taken(broker), "confirmed notifications are not sent again"


def test_notifications_begin_with_the_first_change_after_they_are_switched_on(
    database, server, broker
):
    with sending(database, server) as (view, _):
        view.node("enroll")
        with view.runtime.transaction() as session:
            session.delete(session.get_one(NotificationCursor, 1))
    with sending(database, server) as (inside, deliverer):
        assert newest(inside) == cursor(inside).position > 0
        inside.node("enroll")
        deliver(inside, deliverer)
        assert ["create.end"] == types(taken(broker))
        inside.node("enroll")
    with sending(database, server) as (inside, deliverer):
        deliver(inside, deliverer)
        assert ["create.end"] == types(taken(broker)), "changes while they were off are not lost"


def test_a_level_leaves_lower_notifications_out(database, server, broker):
    with sending(database, server, INGOT_NOTIFICATION_LEVEL="warning") as (inside, deliverer):
        node = inside.node("cleaning")
        inside.change(Node, node, provision_state="clean failed", provision_event="fail")
        deliver(inside, deliverer)
        assert ["provision_set.error"] == types(taken(broker, ERROR))
        assert newest(inside) == cursor(inside).position
        assert broker.queue_declare(ERROR, passive=True)


def test_all_topics_get_each_notification(database, server, broker):
    topics = {"INGOT_VERSIONED_NOTIFICATIONS_TOPICS": "ironic_versioned_notifications,second"}
    with sending(database, server, **topics) as (inside, deliverer):
        inside.node("manageable")
        deliver(inside, deliverer)
        first_messages, second_messages = taken(broker), taken(broker, "second.info")
        assert ["create.end"] == types(first_messages) == types(second_messages)
        assert inner(first_messages[0])["message_id"] == inner(second_messages[0])["message_id"]


def test_an_outage_is_shown_and_ends_with_all_notifications_in_order(
    database, server, broker, monkeypatch
):
    monkeypatch.setattr("workers.periodic.delivery.BATCH", 3)
    (port,) = free_ports(1)
    nowhere = server.url.replace(server.url.rpartition(":")[2].strip("/"), str(port))
    with sending(database, nowhere) as (inside, deliverer):
        node = inside.node("manageable")
        for number in range(8):
            inside.change(Node, node, maintenance=not number % 2, maintenance_reason=str(number))
        for attempts in (1, 2):
            deliver(inside, deliverer)
            assert attempts == cursor(inside).failed_attempts
        assert "RabbitMQ: [Errno 111] Connection refused" == cursor(inside).last_error
        assert 0 == cursor(inside).position
        with inside.runtime.reading() as session:
            waiting = notification_events.waiting(session)
            parts = {part["part"]: part for part in service_state.describe(session)["parts"]}
        assert 9 == waiting.events
        assert "9 events wait, the oldest for " in parts["notifications"]["details"]
        assert "Connection refused" in parts["notifications"]["details"]
        assert not parts["notifications"]["healthy"]
    with sending(database, server) as (inside, deliverer):
        deliver(inside, deliverer)
        payloads = [inner(message)["payload"]["ironic_object.data"] for message in taken(broker)]
        assert [None, *map(str, range(8))] == [
            payload["maintenance_reason"] for payload in payloads
        ]
        assert (0, None) == (cursor(inside).failed_attempts, cursor(inside).failing_since)
        with inside.runtime.reading() as session:
            assert "no event waits to be sent" == str(notification_events.waiting(session))


def test_another_host_is_used_when_the_first_does_not_answer(database, server, broker):
    (port,) = free_ports(1)
    scheme, _, place = server.url.partition("://")
    url = f"rabbit://guest:wrong@127.0.0.1:{port},{place}"
    assert "amqp" == scheme
    with sending(database, url) as (inside, deliverer):
        inside.node("manageable")
        deliver(inside, deliverer)
        assert ["create.end"] == types(taken(broker))
        assert 0 == cursor(inside).failed_attempts


def declare(channel, **options):
    exchange = Exchange("ironic", "topic", durable=True)
    Queue(INFO, exchange, INFO, channel=channel, **options).declare()


def test_a_queue_of_another_kind_is_an_error_that_names_it(database, server, broker):
    declare(broker)
    with sending(database, server) as (inside, deliverer):
        inside.node("manageable")
        deliver(inside, deliverer)
        assert "PRECONDITION_FAILED - inequivalent arg 'durable'" in cursor(inside).last_error
        assert 0 == cursor(inside).position
    durable = {"INGOT_OSLO_MESSAGING_RABBIT_AMQP_DURABLE_QUEUES": "true"}
    with sending(database, server, **durable) as (inside, deliverer):
        deliver(inside, deliverer)
        assert ["create.end"] == types(taken(broker))


def test_a_quorum_queue_is_declared_as_oslo_messaging_does(database, server, broker):
    declare(broker, queue_arguments={"x-queue-type": "quorum"})
    quorum = {"INGOT_OSLO_MESSAGING_RABBIT_RABBIT_QUORUM_QUEUE": "true"}
    with sending(database, server, **quorum) as (inside, deliverer):
        inside.node("manageable")
        deliver(inside, deliverer)
        assert None is cursor(inside).last_error
        assert ["create.end"] == types(taken(broker))


def test_a_wrong_password_is_an_error_that_does_not_show_it(database, server, broker):
    url = server.url.replace("guest:guest", "guest:wrong-password")
    with sending(database, url) as (inside, deliverer):
        inside.node("manageable")
        deliver(inside, deliverer)
        assert "ACCESS_REFUSED" in cursor(inside).last_error
        assert "wrong-password" not in cursor(inside).last_error


@contextmanager
def encrypted(server, folder):
    """Serve RabbitMQ by TLS; yield the URL and the CA file."""
    certificate, key = tls.certificate(folder, "rabbitmq")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    class Relay(socketserver.BaseRequestHandler):
        def handle(self):
            port = urlsplit(server.url).port
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as behind:
                front = context.wrap_socket(self.request, server_side=True)
                back = threading.Thread(target=relay, args=(behind, front))
                back.start()
                relay(front, behind)
                behind.shutdown(socket.SHUT_RDWR)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.05,)).start()
        try:
            yield f"amqps://guest:guest@127.0.0.1:{listener.server_address[1]}//", certificate
        finally:
            listener.shutdown()


def relay(source, sink):
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)


def test_a_certificate_is_verified(database, server, broker, tmp_path):
    with encrypted(server, tmp_path) as (url, ca):
        with sending(database, url) as (inside, deliverer):
            inside.node("manageable")
            deliver(inside, deliverer)
            assert "certificate verify failed" in cursor(inside).last_error
        trusted = {"INGOT_OSLO_MESSAGING_RABBIT_SSL_CA_FILE": str(ca)}
        with sending(database, url, **trusted) as (inside, deliverer):
            deliver(inside, deliverer)
            assert ["create.end"] == types(taken(broker))


def test_what_was_confirmed_before_a_failure_is_not_sent_again(
    database, server, broker, monkeypatch
):
    with sending(database, server) as (inside, deliverer):
        for name in ("a", "b", "c"):
            inside.node("manageable", name=name)
        publish, calls = deliverer._bus.publish, []

        def refuse_the_third(*arguments):
            calls.append(arguments)
            if len(calls) == 3:
                raise TimeoutError("timed out")
            publish(*arguments)

        monkeypatch.setattr(deliverer._bus, "publish", refuse_the_third)
        deliver(inside, deliverer)
        assert (2, None) == (cursor(inside).position, cursor(inside).last_error)
        deliver(inside, deliverer)
        names = [
            inner(message)["payload"]["ironic_object.data"]["name"] for message in taken(broker)
        ]
        assert ["a", "b", "c"] == names


def test_a_broker_that_is_slow_gets_a_part_of_a_batch(database, server, broker, monkeypatch):
    with sending(database, server) as (inside, deliverer):
        for name in ("a", "b", "c"):
            inside.node("manageable", name=name)
        seconds = iter([0, 0, 30, 30])
        clock = SimpleNamespace(monotonic=lambda: next(seconds))
        monkeypatch.setattr("workers.periodic.notifications.time", clock)
        with inside.runtime.read_connection() as connection:
            page = change_events.read(connection, notification_events.SELECTED, 0, 10)
        row = cursor(inside)
        result = deliverer.send(row, 0, page)
        assert (1, None) == (result.position, result.error)


def test_an_attempt_that_dies_is_repeated_with_the_same_ids(database, server, broker, monkeypatch):
    class Died(BaseException):
        pass

    def die(point, kind):
        assert ("posted", "notification") == (point, kind)
        raise Died

    with sending(database, server) as (inside, deliverer):
        inside.node("manageable")
        with monkeypatch.context() as patch:
            patch.setattr("workers.periodic.delivery.kill_points.reach", die)
            with pytest.raises(Died):
                deliver(inside, deliverer)
        assert 0 == cursor(inside).position
        assert cursor(inside).holder
        deliver(inside, deliverer)
        first_message, second_message = map(inner, taken(broker))
        assert first_message["message_id"] == second_message["message_id"]
        assert first_message["_unique_id"] != second_message["_unique_id"]


def test_events_that_were_deleted_before_they_were_sent_are_logged(
    database, server, broker, monkeypatch, caplog
):
    with sending(database, server) as (inside, deliverer):
        for _ in range(3):
            inside.node("manageable")
        with inside.runtime.transaction() as session:
            old = update(ChangeEvent).where(ChangeEvent.sequence <= 2)
            session.execute(old.values(created_at=datetime(2000, 1, 1)))
        pruning.prune_change_events(inside.runtime)
        lost = []
        monkeypatch.setattr(
            "workers.periodic.notifications.logger.warning", lambda *_, **facts: lost.append(facts)
        )
        deliver(inside, deliverer)
        assert [{"after": 0, "last": 2}] == lost
        assert ["create.end"] == types(taken(broker))


def test_only_one_of_two_processes_sends(database, server, broker):
    with sending(database, server) as (inside, one), sending(database, server) as (_, two):
        inside.node("manageable")
        with inside.runtime.read_connection() as connection:
            row = connection.execute(two._read(1)).one()
        assert one._hold(row, "one")
        assert not two._hold(row, "two")
        assert not two.deliver(1)
        with pytest.raises(Exception, match="NOT_FOUND"):
            broker.queue_declare(INFO, passive=True)


def test_readings_of_a_sensor_sweep_are_notifications_of_ironics_kind(database, server, broker):
    broker.queue_delete("notifications.info")
    with sending(database, server) as (inside, _deliverer):
        inside.conductor("c-1")
        node = inside.read(inside.node("active", name="n-1"))
        assert 1 == sensor_sweep.sweep(inside.runtime, "c-1")["read"]
    message = broker.basic_get("notifications.info", no_ack=True)
    notification = json.loads(json.loads(message.body)["oslo.message"])
    assert "hardware.fake-hardware.metrics" == notification["event_type"]
    assert (node.uuid, "n-1") == tuple(
        notification["payload"][name] for name in ("node_uuid", "node_name")
    )
    assert {"Temperature", "Fan"} == notification["payload"]["payload"].keys()


def test_readings_that_rabbitmq_does_not_take_are_dropped(database):
    (port,) = free_ports(1)
    url = f"rabbit://guest:guest@127.0.0.1:{port}/"
    environ = {"INGOT_NOTIFICATIONS_TIMEOUT": "2"}
    with sending(database, url, **environ) as (inside, _deliverer):
        inside.conductor("c-1")
        for _ in range(3):
            inside.node("active")
        assert 3 == sensor_sweep.sweep(inside.runtime, "c-1")["read"]
        with inside.runtime.reading() as session:
            assert 3 == len(session.scalars(select(NodeSensors)).all())
