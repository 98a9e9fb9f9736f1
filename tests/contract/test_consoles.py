"""Consoles beyond Ironic's routes: their state, tickets, the WebSocket, and the history."""

import base64
import json
import queue
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from app.api.transport.responses import SOCKET
from app.db.clock import after
from app.models import AuditRecord, Conductor, Operation
from drivers.core.consoles import Program, ProgramConsole
from workers.consoles.history import History

from .conftest import fault
from .direct_calls import DirectCalls

CONSOLE = "/v1/nodes/n1/console"
TICKETS, STREAM, HISTORY = f"{CONSOLE}/tickets", f"{CONSOLE}/stream", f"{CONSOLE}/history"


class Echo(ProgramConsole):
    name = "echo"

    def program(self, target):
        return Program(("echo",), {})


class Channel:
    """Keeps tickets; its output is what tests put into a queue, its input a list."""

    def __init__(self):
        self.tickets, self.received, self.documents = {}, [], queue.Queue()

    def keep_ticket(self, ticket, document, seconds=60):
        self.tickets[ticket] = document

    def take_ticket(self, ticket):
        return self.tickets.pop(ticket, None)

    def output(self, node, start):
        try:
            return [self.documents.get(timeout=0.02)]
        except queue.Empty:
            return []

    def send(self, node, document):
        self.received.append((node, document))


class Socket:
    """A WebSocket that a client has asked for. messages: of the client, then it leaves."""

    def __init__(self, ticket, *messages):
        self.subprotocols = ["ingot.console", f"ingot.ticket.{ticket}"]
        self.messages = list(messages)
        self.answers, self.closed = [], None
        self.serve = self.subprotocol = None

    def receive(self):
        message = self.messages.pop(0) if self.messages else None
        return message() if callable(message) else message

    def send(self, text):
        self.answers.append(json.loads(text))

    def close(self, code, reason=""):
        self.closed = self.closed or (code, reason)


@pytest.fixture
def site(api, monkeypatch, tmp_path):
    """A node with an enabled console, and a conductor that has it."""
    runtime = api.runtime
    types = runtime.drivers.types["fake-hardware"]["console"]
    monkeypatch.setitem(types, "echo", Echo())
    runtime.calls, runtime.consoles = DirectCalls(runtime), Channel()
    monkeypatch.setattr("workers.consoles.calls.history_folder", lambda _: tmp_path)
    node = api.node(name="n1", console_interface="echo", console_enabled=True)
    yield SimpleNamespace(node=node, channel=runtime.consoles, folder=tmp_path)
    runtime.calls = runtime.consoles = None


def open_socket(api, socket, **headers):
    return api.client.get(STREAM, environ_overrides={SOCKET: socket}, headers=headers)


def ticket(api, **body):
    answer = api("POST", TICKETS, body)
    assert 201 == answer.status_code, answer.text
    return answer.json


def test_the_state_of_an_enabled_console_is_shown(api, site):
    state = {"kind": "serial", "state": "connected", "reason": "", "writer": "ann"}
    assert state == api("GET", CONSOLE).json


@pytest.mark.parametrize(
    ("method", "path", "body"), [("GET", CONSOLE, None), ("POST", TICKETS, {})]
)
def test_a_console_that_cannot_be_opened_says_why(api, site, method, path, body):
    api.set(site.node["uuid"], console_interface="fake")
    answer = api(method, path, body)
    assert (400, True) == (
        answer.status_code,
        "'fake' has no console" in fault(answer)["faultstring"],
    )
    api.set(site.node["uuid"], console_interface="echo", console_enabled=False)
    answer = api(method, path, body)
    assert 409 == answer.status_code
    assert "ingot node console enable" in fault(answer)["faultstring"]
    assert 404 == api(method, path.replace("n1", "n2"), body).status_code


@pytest.mark.parametrize(
    "body", [{"write": "perhaps"}, {"after": "x"}, {"after": 5}, {"after": "1-2-3"}, {"other": 1}]
)
def test_a_wrong_request_for_a_ticket_names_the_field(api, site, body):
    answer = api("POST", TICKETS, body)
    assert 400 == answer.status_code
    assert next(iter(body)) in fault(answer)["faultstring"]


def test_a_ticket_is_shown_once_with_its_address(api, site):
    answer = ticket(api, write=True, after="17-0")
    assert f"ws://localhost{STREAM}" == answer["url"]
    assert ["ingot.console", f"ingot.ticket.{answer['ticket']}"] == answer["protocols"]
    (stored_ticket,) = site.channel.tickets.values()
    assert (site.node["uuid"], True, "17-0") == (
        stored_ticket["node"],
        stored_ticket["write"],
        stored_ticket["after"],
    )
    assert ticket(api)["ticket"] != answer["ticket"]


def test_a_socket_needs_an_unused_ticket_of_its_node(api, site):
    assert 426 == api("GET", STREAM).status_code
    secret = ticket(api)["ticket"]
    assert 403 == open_socket(api, Socket("guess")).status_code
    without = Socket("x")
    without.subprotocols = ["ingot.console"]
    assert 403 == open_socket(api, without).status_code
    assert 403 == open_socket(api, Socket(secret), Origin="http://evil.example").status_code
    socket = Socket(secret)
    assert 101 == open_socket(api, socket).status_code
    assert "ingot.console" == socket.subprotocol
    socket.serve(socket)
    assert 403 == open_socket(api, Socket(secret)).status_code
    other = ticket(api)["ticket"]
    path = STREAM.replace("n1", "n2")
    answer = api.client.get(path, environ_overrides={SOCKET: Socket(other)})
    assert 403 == answer.status_code


def served(api, socket):
    assert 101 == open_socket(api, socket).status_code
    socket.serve(socket)
    return socket


def until_sent(socket, number):
    """Return a message of the client that comes after `number` messages of the service."""

    def wait():
        while len(socket.answers) < number and socket.closed is None:
            pass

    return wait


def test_a_writer_types_and_follows_the_console_to_another_session(api, site):
    claim = json.dumps({"act": "claim"})
    socket = Socket(ticket(api, write=True)["ticket"], claim, b"ls\r")
    connected = ("5-0", {"session": "another", "state": "connected"})
    follow = until_sent(socket, 2)
    socket.messages += [lambda: site.channel.documents.put(connected) or follow() or b"pwd\r"]
    served(api, socket)
    holder = socket.answers[0]["holder"]
    assert {"position": "5-0", "session": "another", "state": "connected"} == socket.answers[1]
    documents = [document for _, document in site.channel.received]
    assert {holder} == {document["holder"] for document in documents}
    numbers = [document["number"] for document in documents]
    assert sorted(set(numbers)) == numbers
    typed = [document for document in documents if document["act"] == "type"]
    assert [b"ls\r", b"pwd\r"] == [base64.b64decode(document["data"]) for document in typed]
    assert ["5e55", "another"] == [document["session"] for document in typed]
    assert ["claim", "release"] == [documents[0]["act"], documents[-1]["act"]]


def test_a_watcher_types_and_claims_nothing(api, site):
    socket = Socket(ticket(api)["ticket"], json.dumps({"act": "steal"}), b"rm -rf /\r")
    served(api, socket)
    assert [] == site.channel.received


@pytest.mark.parametrize(
    "message", [b"x" * 20_000, "no json", "[]", '{"act": "dance"}', '{"actor": 1}', '{"act": []}']
)
def test_a_message_that_is_not_taken_closes_the_socket(api, site, message):
    socket = Socket(ticket(api, write=True)["ticket"], message, b"later\r")
    served(api, socket)
    assert (1008, "not taken") == socket.closed
    assert "later" not in str(site.channel.received)


def test_a_socket_ends_with_the_process(api, site):
    socket = Socket(ticket(api)["ticket"])
    open_socket(api, socket)
    watch = socket.serve.__self__
    watch.ends = lambda: True
    socket.messages = [until_sent(socket, 10)]
    watch.serve(socket)
    assert (1012, "the service restarts") == socket.closed


def test_ticket_input_and_end_are_audited(api, site):
    socket = Socket(ticket(api, write=True)["ticket"], b"a", b"b")
    served(api, socket)
    with api.runtime.reading() as session:
        records = session.scalars(select(AuditRecord).order_by(AuditRecord.id)).all()
    actions = [record.action for record in records if "console" in record.action]
    assert ["create/node/console/ticket", "update/node/console", "delete/node/console"] == actions
    assert {"n1"} == {record.target for record in records if "console" in record.action}


def kept(site, session, *lines, begin=1000.0):
    history = History(site.folder, site.node["uuid"], session, 1 << 20)
    for number, line in enumerate(lines):
        history.append(line + b"\n", now=begin + number)
    history.close()


def output(answer):
    assert 200 == answer.status_code, answer.text
    records = answer.json["console_history"]
    return b"".join(base64.b64decode(record["data"]) for record in records)


def test_the_history_of_all_conductors_is_one_without_repetitions(api, site):
    with api.runtime.transaction() as session:
        loaded = session.query(Conductor).one().interfaces
        session.add(Conductor(
            hostname="rack-2", incarnation="2", interfaces=loaded, heartbeat_at=after(3600.0)
        ))  # fmt: skip
    api.runtime.cache.clear()
    kept(site, "a", b"one", b"three")
    kept(site, "b", b"two", begin=1000.5)
    answer = api("GET", HISTORY)
    assert b"one\ntwo\nthree\n" == output(answer)
    assert (False, []) == (answer.json["cut"], answer.json["missing"])
    short = api("GET", f"{HISTORY}?size=6")
    assert (b"three\n", True) == (output(short), short.json["cut"])
    assert b"two\nthree\n" == output(api("GET", f"{HISTORY}?since=1970-01-01T00:16:40.2Z"))


def test_the_history_of_an_operation_is_that_of_its_time(api, site):
    kept(site, "a", b"before", begin=1000.0)
    kept(site, "b", b"within")
    api.set(site.node["uuid"], provision_state="enroll")
    assert 202 == api("PUT", "/v1/nodes/n1/states/provision", {"target": "manage"}).status_code
    with api.runtime.reading() as session:
        operation = session.query(Operation).one()
    begin = operation.created_at.timestamp()
    kept(site, "c", b"of its time", begin=begin + 86400 * 2)
    assert b"of its time\n" == output(api("GET", f"{HISTORY}?operation={operation.uuid}"))
    unknown = operation.uuid.replace(operation.uuid[0], "f" if operation.uuid[0] != "f" else "0", 1)
    assert 404 == api("GET", f"{HISTORY}?operation={unknown}").status_code
    both = api("GET", f"{HISTORY}?operation={operation.uuid}&since=2026-01-01T00:00:00Z")
    assert 400 == both.status_code


@pytest.mark.parametrize("query", ["size=0", "size=x", "since=yesterday", "until=1", "colour=red"])
def test_a_wrong_query_of_the_history_names_the_parameter(api, site, query):
    answer = api("GET", f"{HISTORY}?{query}")
    assert 400 == answer.status_code
    assert query.partition("=")[0] in fault(answer)["faultstring"]


def test_the_history_without_a_conductor_that_answers_is_unavailable(api, site):
    api.runtime.calls.receive = lambda *_: None
    assert 503 == api("GET", HISTORY).status_code
    api.runtime.calls = DirectCalls(api.runtime)
    api.runtime.calls.broken = True
    assert 503 == api("GET", HISTORY).status_code
