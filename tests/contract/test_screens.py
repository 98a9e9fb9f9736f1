"""Graphical consoles: their address for Ironic's clients, and the WebSocket of a viewer."""

import base64
import json
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from redis import RedisError

from app.api.node.console import screen_socket
from app.api.transport.responses import SOCKET
from app.config.console_settings import Vnc
from drivers.core.consoles import GraphicalConsole

from .direct_calls import DirectCalls, FakeHub
from .test_consoles import STREAM, TICKETS, Channel, Socket, until_sent

STATES = "/v1/nodes/n1/states/console"
VERSION = b"RFB 003.008\n"
KEY, UPDATE = b"\4\1\0\0" + ord("a").to_bytes(4), b"\3\0" + bytes(8)


class Graphical(GraphicalConsole):
    name = "screen"


class Screens(Channel):
    """Documents that tests put into the queue are triples, as `ConsoleChannel.screen` returns."""

    def newest(self, node):
        return "7-0"

    def screen(self, node, viewer, start, screen_start):
        return self.output(node, start)

    def acts(self):
        return [document["act"] for _, document in self.received]

    def data(self, act):
        documents = (document for _, document in self.received if document["act"] == act)
        return [base64.b64decode(document["data"]) for document in documents]


class Viewer(Socket):
    """A client that knows RFB alone, or Ingot's protocol, too, and does the handshake."""

    def __init__(self, ticket, *messages, plain=False):
        super().__init__(ticket, VERSION, b"\1", b"\1", *messages)
        if plain:
            self.subprotocols = ["binary"]

    def send(self, message):
        self.answers.append(message)

    def told(self):
        return [json.loads(text) for text in self.answers if isinstance(text, str)]


@pytest.fixture
def screens(api, monkeypatch):
    runtime = api.runtime
    monkeypatch.setitem(runtime.drivers.types["fake-hardware"]["console"], "screen", Graphical())
    monkeypatch.setattr(FakeHub, "kind", "graphical")
    runtime.calls, runtime.consoles = DirectCalls(runtime), Screens()
    api.node(name="n1", console_interface="screen", console_enabled=True)
    yield runtime.consoles
    runtime.calls = runtime.consoles = None


def served(api, viewer, path=STREAM):
    answer = api.client.get(path, environ_overrides={SOCKET: viewer})
    assert 101 == answer.status_code, answer.text
    viewer.serve(viewer)
    return viewer


def ticket(api, **body):
    return api("POST", TICKETS, body).json["ticket"]


def token_of(url):
    (path,) = parse_qs(urlsplit(url).query)["path"]
    return path, parse_qs(urlsplit(path).query)["token"][0]


def test_the_address_leads_to_a_page_with_a_ticket(api, screens):
    answer = api("GET", STATES).json
    assert answer["console_enabled"]
    assert "vnc" == answer["console_info"]["type"]
    url = answer["console_info"]["url"]
    assert url.startswith("http://localhost/ui/vnc.html?path=v1%2Fnodes%2F")
    path, token = token_of(url)
    assert path.endswith(f"/console/stream?token={token}")
    (stored_ticket,) = screens.tickets.values()
    assert ("graphical", True, "5e55") == (
        stored_ticket["kind"],
        stored_ticket["write"],
        stored_ticket["session"],
    )
    assert url != api("GET", STATES).json["console_info"]["url"]


def test_a_viewer_of_rfb_alone_types_with_the_token_of_the_address(api, screens):
    path, _ = token_of(api("GET", STATES).json["console_info"]["url"])
    viewer = Viewer("", UPDATE, KEY, KEY, plain=True)
    served(api, viewer, f"/{path}")
    assert [VERSION, b"\1\1", bytes(4)] == viewer.answers[:3]
    assert [] == viewer.told()
    assert "binary" == viewer.subprotocol
    acts = [act for act in screens.acts() if act != "confirm"]
    assert ["open", "see", "claim", "type", "type", "close"] == acts
    assert ([UPDATE], [KEY, KEY]) == (screens.data("see"), screens.data("type"))
    numbers = [document["number"] for _, document in screens.received]
    assert list(range(len(numbers))) == numbers
    again = api.client.get(f"/{path}", environ_overrides={SOCKET: Viewer("")})
    assert 403 == again.status_code


def test_a_viewer_who_may_only_watch_types_nothing(api, screens):
    served(api, Viewer(ticket(api), json.dumps({"act": "steal"}), KEY, UPDATE, KEY))
    assert {"open", "see", "confirm", "close"} >= {*screens.acts()}
    assert [UPDATE] == screens.data("see")


def test_read_only_lets_nobody_type(api, screens, monkeypatch):
    settings = replace(api.runtime.settings, vnc=Vnc(read_only=True))
    monkeypatch.setattr(api.runtime, "settings", settings)
    answer = api("POST", TICKETS, {"write": True})
    assert (403, True) == (answer.status_code, "[vnc]read_only" in answer.text)
    api("GET", STATES)
    (stored_ticket,) = screens.tickets.values()
    assert stored_ticket["write"] is False


def put(screens, *documents):
    for document in documents:
        screens.documents.put(document)


def piece(number, data):
    encoded = base64.b64encode(data).decode()
    return True, f"{number}-1", {"session": "5e55", "number": number, "data": encoded}


def test_pieces_are_sent_in_order_and_confirmed(api, screens):
    viewer = Viewer(ticket(api, write=True))
    viewer.messages += [lambda: put(screens, piece(0, b"init"), piece(1, b"dots")) or UPDATE]
    viewer.messages += [until_sent(viewer, 6)]
    served(api, viewer)
    binary = [data for data in viewer.answers if isinstance(data, bytes)]
    assert [VERSION, b"\1\1", bytes(4), b"init", b"dots"] == binary
    confirmed = [
        document["received"] for _, document in screens.received if document["act"] == "confirm"
    ]
    assert sorted(confirmed) == confirmed


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (piece(1, b"lost one"), "some of the picture was lost"),
        ((True, "1-1", {"session": "5e55", "end": "the password is not accepted"}), "the password"),
        ((False, "8-0", {"session": "another", "state": "idle"}), "moved to another conductor"),
    ],
)
def test_an_end_is_told_with_its_reason(api, screens, document, reason):
    viewer = Viewer(ticket(api, write=True))
    viewer.messages += [
        lambda: put(screens, document) or UPDATE,
        until_closed(viewer),
    ]
    served(api, viewer)
    assert 4001 == viewer.closed[0]
    assert reason in viewer.closed[1]


def until_closed(viewer):
    def wait():
        while viewer.closed is None:
            pass

    return wait


def test_a_conductor_that_gives_no_sign_is_told(api, screens, monkeypatch):
    monkeypatch.setattr(screen_socket, "ABSENT", 0.0)
    viewer = Viewer(ticket(api))
    viewer.messages += [until_closed(viewer)]
    served(api, viewer)
    assert (4001, "its conductor does not answer") == viewer.closed


def test_redis_out_of_reach_ends_nothing(api, screens, monkeypatch):
    def broken(*_):
        raise RedisError("gone")

    monkeypatch.setattr(screen_socket, "PAUSE", 0.01)
    monkeypatch.setattr(screens, "newest", broken)
    monkeypatch.setattr(screens, "send", broken)
    viewer = served(api, Viewer(ticket(api, write=True), UPDATE, KEY))
    assert viewer.closed is None or viewer.closed[0] != 1008


@pytest.mark.parametrize(
    "message", [b"\x96" + bytes(9), b"\6\0\0\0\xff\xff\xff\xff", b"x" * 20_000, '{"act": "dance"}']
)
def test_a_message_that_is_not_taken_closes_the_socket(api, screens, message):
    viewer = served(api, Viewer(ticket(api, write=True), message, KEY))
    assert (1008, "not taken") == viewer.closed
    assert [] == screens.data("type")


def test_a_text_of_a_viewer_of_rfb_alone_is_not_taken(api, screens):
    path, _ = token_of(api("GET", STATES).json["console_info"]["url"])
    viewer = Viewer("", json.dumps({"act": "claim"}), plain=True)
    assert (1008, "not taken") == served(api, viewer, f"/{path}").closed
