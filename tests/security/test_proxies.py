"""Names of headers, and addresses of clients, behind real proxies."""

import http.client
import json
import sqlite3
from contextlib import closing
from itertools import count

import pytest

from app.api.transport.client_addresses import Clients
from app.server.gateway import Body, wsgi_environ
from tests.contract.api_process import REFUSED
from tests.contract.test_server import NEWEST, await_answer, copied, started
from tests.support import proxies
from tests.support.fleet import ROOT
from tests.support.ports import free_port

VICTIM, NEIGHBOUR = "127.0.0.5", "127.0.0.66"
#: Headers by which a client of a proxy names another client's address.
FORGED = [
    {"X-Forwarded-For": VICTIM},
    {"X_Forwarded_For": VICTIM},
    {"X_Forwarded-For": VICTIM, "Content-Type": "application/json"},
    {"x-forwarded_for": VICTIM, "X-Real-IP": VICTIM, "Forwarded": f"for={VICTIM}"},
]
HIDDEN = "******"
numbers = count(1)


@pytest.fixture(scope="module")
def service(migrated_sqlite, tmp_path_factory):
    """Port and database of a server with one process."""
    url, port = copied(migrated_sqlite, tmp_path_factory.mktemp("proxies")), free_port()
    settings = {
        "INGOT_API_API_WORKERS": "1",
        # the clients of the proxies have other addresses of loopback
        "INGOT_API_TRUSTED_PROXIES": "127.0.0.1/32",
    }
    with started(url, port, "with_few_refusals", **settings) as process:
        await_answer(f"http://127.0.0.1:{port}/healthcheck", process)
        yield port, url.removeprefix("sqlite:///")


def ask(port, path, headers=None, source=NEIGHBOUR, method="GET", body=None):
    """Send a request from an address; return the status, the headers and the document."""
    connection = http.client.HTTPConnection("127.0.0.1", port, 30, source_address=(source, 0))
    with closing(connection):
        connection.request(method, path, body, {**NEWEST, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read() or b"{}")


def waiting_machine(service):
    """Create a node that waits for its agent; return its MAC address."""
    port, database = service
    mac = f"52:54:00:00:01:{next(numbers):02x}"
    json_type = {"Content-Type": "application/json"}

    def post(path, document):
        status, _, answer = ask(port, path, json_type, "127.0.0.1", "POST", json.dumps(document))
        assert 201 == status, answer
        return answer["uuid"]

    node = post("/v1/nodes", {"driver": "fake-hardware"})
    post("/v1/ports", {"node_uuid": node, "address": mac})
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE nodes SET provision_state = 'clean wait' WHERE uuid = ?", (node,)
        )
    return mac


def token(port, mac, source, headers=None):
    status, _, answer = ask(port, f"/v1/lookup?addresses={mac}", headers, source)
    assert 200 == status, answer
    return answer["config"]["agent_token"]


@pytest.fixture(params=[*proxies.DOCUMENTED])
def proxy(request, service, tmp_path):
    """Port of a proxy in front of the service, as the documentation demands."""
    proxy = proxies.DOCUMENTED[request.param]
    with proxies.serving(proxy, tmp_path / "proxy", service[0]) as port:
        yield port


def test_behind_a_proxy_only_the_same_client_gets_a_token_again(service, proxy):
    mac = waiting_machine(service)
    first_token = token(proxy, mac, VICTIM)

    assert len(first_token) >= 32
    for headers in FORGED:
        assert HIDDEN == token(proxy, mac, NEIGHBOUR, headers), headers
        assert first_token == token(proxy, mac, VICTIM, headers), headers


def test_behind_a_proxy_a_client_has_one_address_whatever_it_sends(proxy):
    path = "/v1/lookup?addresses=52:54:00:00:ff:ff"
    address = f"127.1.{proxy >> 8}.{proxy & 255}"  # another one for each proxy
    statuses = [
        ask(proxy, path, {name: f"{text}192.0.2.{number}"}, source=address)[0]
        for number in range(REFUSED)
        for name, text in (
            ("X-Forwarded-For", ""),
            ("X_Forwarded_For", ""),
            ("X-Forwarded-For", "n\xe9, "),  # not ASCII, which does not hide what a proxy appends
        )
    ]
    assert [404] * REFUSED + [429] * (2 * REFUSED) == statuses


def test_behind_a_proxy_headers_with_underscores_are_not_read(proxy):
    old = {"X_OpenStack_Ironic_API_Version": "1.5", "X-OpenStack_Ironic-API-Version": "1.6"}
    _, headers, _ = ask(proxy, "/v1/nodes", old)
    assert NEWEST["X-OpenStack-Ironic-API-Version"] == headers["X-OpenStack-Ironic-API-Version"]


@pytest.mark.parametrize("name", [*proxies.SILENT])
def test_a_proxy_that_names_no_client_gives_no_token_again(service, tmp_path, name):
    """Its clients name any address, so that none is known."""
    mac = waiting_machine(service)
    with proxies.serving(proxies.SILENT[name], tmp_path / "proxy", service[0]) as port:
        assert len(token(port, mac, VICTIM)) >= 32
        for headers in (None, *FORGED):
            assert HIDDEN == token(port, mac, NEIGHBOUR, headers), headers


def test_the_documentation_has_the_directives_of_the_proxies():
    text = (ROOT / "docs/security.md").read_text()
    for proxy in proxies.DOCUMENTED.values():
        assert f"`{proxy.directives.removesuffix(';')}" in text, proxy.program


# without a proxy


def environ(*headers, **scope):
    raw = [(name.lower(), value) for name, value in headers]
    base = {
        "raw_path": b"/v1/n%C3%B6/%2e", "query_string": b"a=1", "method": "GET", "scheme": "http",
        "http_version": "1.1", "server": ("127.0.0.1", "6385"), "client": ("192.0.2.1", "4711"),
        "headers": raw,
    }  # fmt: skip
    return wsgi_environ({**base, **scope}, None)


@pytest.mark.parametrize("name", [b"X_Auth_Token", b"X-Auth_Token", b"X_Auth-Token", b"_", b"_x-y"])
def test_a_header_with_an_underscore_is_dropped(name):
    for order in (1, -1):
        headers = [(name, b"forged"), (b"X-Auth-Token", b"right")][::order]
        variables, repeated = environ(*headers)
        assert ("right", None) == (variables["HTTP_X_AUTH_TOKEN"], repeated)
    assert not any("forged" in str(value) for value in environ((name, b"forged"))[0].values())


def test_the_environment_of_the_process_is_no_header(monkeypatch):
    monkeypatch.setenv("HTTP_X_AUTH_TOKEN", "of the process")
    monkeypatch.setenv("CONTENT_LENGTH", "7")
    variables, _ = environ()
    assert not {"HTTP_X_AUTH_TOKEN", "CONTENT_LENGTH"} & variables.keys()


def test_an_environ_has_the_names_and_values_of_the_request():
    variables, repeated = environ(
        (b"X-A", b"1"), (b"Cookie", b"a=1"), (b"X-A", b"2"), (b"Cookie", b"b=2"),
        (b"Content-Type", b"text/plain"), (b"X-Odd", b"\xe9"),
    )  # fmt: skip
    assert ("1,2", "a=1;b=2") == (variables["HTTP_X_A"], variables["HTTP_COOKIE"])
    odd = variables["HTTP_X_ODD"]  # none of it is lost, and it is no other text
    assert ("text/plain", "\\xe9", None) == (variables["CONTENT_TYPE"], odd, repeated)
    assert ("/v1/n\xc3\xb6/.", "a=1") == (variables["PATH_INFO"], variables["QUERY_STRING"])
    assert ("192.0.2.1", "HTTP/1.1") == (variables["REMOTE_ADDR"], variables["SERVER_PROTOCOL"])


@pytest.mark.parametrize("name", ["Host", "Content-Type"])
def test_a_request_with_two_values_of_a_single_header_is_refused(service, name):
    connection = http.client.HTTPConnection("127.0.0.1", service[0], 30)
    with closing(connection):
        connection.putrequest("GET", "/v1/nodes", skip_host=True)
        for value in ("a.example", "b.example"):
            connection.putheader(name, value)
        if name != "Host":
            connection.putheader("Host", "a.example")
        connection.endheaders()
        answer = connection.getresponse()
        assert (400, True) == (answer.status, name.encode() in answer.read())


@pytest.mark.parametrize(
    ("peer", "headers", "sender"),
    [
        ("192.0.2.7", {}, "192.0.2.7"),
        ("::ffff:192.0.2.7", {}, "192.0.2.7"),
        ("192.0.2.7", {"X_FORWARDED_FOR": "192.0.2.5"}, None),  # a proxy that is not listed
        ("192.0.2.7", {"VIA": "1.1 front"}, None),
        ("192.0.2.7", {"FORWARDED": "for=192.0.2.5"}, None),
        ("192.0.2.7", {"X_REAL_IP": "192.0.2.5"}, None),
        ("127.0.0.1", {}, None),  # a proxy that names no client
        ("::ffff:127.0.0.1", {}, None),
        ("127.0.0.1", {"X_FORWARDED_FOR": "192.0.2.5"}, "192.0.2.5"),
        ("::ffff:127.0.0.1", {"X_FORWARDED_FOR": "192.0.2.5"}, "192.0.2.5"),
        ("127.0.0.1", {"X_FORWARDED_FOR": "192.0.2.5, 2001:DB8::7"}, "2001:db8::7"),
        ("127.0.0.1", {"X_FORWARDED_FOR": "192.0.2.5, unknown"}, None),
        # proxies that add the port
        ("127.0.0.1", {"X_FORWARDED_FOR": "192.0.2.5:4711"}, "192.0.2.5"),
        ("127.0.0.1", {"X_FORWARDED_FOR": "192.0.2.5, 127.0.0.1:4711"}, "192.0.2.5"),
        ("127.0.0.1", {"X_FORWARDED_FOR": "[2001:db8::7]:4711"}, "2001:db8::7"),
        ("127.0.0.1", {"X_FORWARDED_FOR": "[2001:db8::7]"}, "2001:db8::7"),
        ("127.0.0.1", {"X_FORWARDED_FOR": " , "}, None),
    ],
)
def test_a_sender_is_known_by_its_connection_or_by_a_trusted_proxy(peer, headers, sender):
    variables = {f"HTTP_{name}": value for name, value in headers.items()}
    clients = Clients(["127.0.0.0/8", "::1/128"])
    assert sender == clients.sender_of({"REMOTE_ADDR": peer, **variables})


def message(body, more_body=True):
    return {"type": "http.request", "body": body, "more_body": more_body}


class Done:
    """An awaitable of the server that is complete."""

    def __init__(self, result):
        self._result = result

    def __await__(self):
        return self._result
        yield


def test_a_body_is_read_in_parts_of_any_size():
    parts = iter([message(b"abc"), message(b""), message(b"defg"), message(b"", more_body=False)])
    body = Body(lambda: Done(next(parts)))
    assert [b"ab", b"cd", b"efg", b""] == [body.read(2), body.read(2), body.read(), body.read(5)]
