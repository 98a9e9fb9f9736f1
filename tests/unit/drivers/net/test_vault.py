"""The client of a vault, against a server that refuses what a real one refuses."""

import socket
import ssl
import threading
from contextlib import suppress

import pytest

from drivers.core.errors import SecretsUnavailable, VaultUnreachable
from drivers.net import vault_login
from drivers.net.vault import LONGEST, Connection, Denied, Kv, Missing, Server
from drivers.net.vault_login import AppRole, Kubernetes, TokenFile, Tokens
from tests.support.tls import certificate
from tests.support.vault_server import ALL, Refusal, Role, VaultServer, running

CREATE = {"secret/data/ingot/": frozenset({"create"})}


@pytest.fixture
def server():
    with running(VaultServer()) as vault:
        yield vault


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Client:
    """A client of a server, by AppRole unless there is another login."""

    def __init__(self, server, login=None, *, namespace="", ca_file=None, timeout=5.0):
        if login is None:
            server.roles["auth/approle", "r1"] = Role({"": ALL}, "s1", ttl=60)
            login = AppRole("approle", "r1", "s1")
        self.clock, self.answers = Clock(), []
        self.connection = Connection(
            Server(server.address, namespace, ca_file, timeout),
            lambda _seconds, *facts: self.answers.append(facts),
        )
        self.tokens = Tokens(self.connection, login, self.clock)
        self.kv = Kv(self.connection, "secret", "ingot", self.tokens.current, self.tokens.refused)


def tls(folder):
    """Return the file of a new certificate, and a context that serves with it."""
    certificate_file, key_file = certificate(folder, "vault")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)
    return certificate_file, context


def test_a_secret_is_created_read_and_destroyed(server):
    client = Client(server)
    client.kv.create("n/f/1", {"value": {"old": "a", "new": "b"}})
    assert {"value": {"old": "a", "new": "b"}} == client.kv.read("n/f/1")
    assert ["ingot/n/f/1"] == list(server.contents())
    client.kv.destroy("n/f/1")
    client.kv.destroy("n/f/1")
    assert {} == server.keys
    with pytest.raises(Missing):
        client.kv.read("n/f/1")
    assert [("login", "200"), ("create", "200"), ("read", "200")] == client.answers[:3]


def test_a_secret_is_never_written_twice(server):
    client = Client(server)
    client.kv.create("n/f/1", {"value": "a"})
    with pytest.raises(SecretsUnavailable, match="did not match the current version"):
        client.kv.create("n/f/1", {"value": "b"})
    assert {"value": "a"} == client.kv.read("n/f/1")


def test_a_deleted_secret_is_missing_and_no_outage(server):
    client = Client(server)
    client.kv.create("n/f/1", {"value": "a"})
    server.keys["ingot/n/f/1"][-1].deleted = True
    with pytest.raises(Missing):
        client.kv.read("n/f/1")


def test_a_replica_that_is_behind_is_asked_again(server):
    client = Client(server)
    client.kv.create("n/f/1", {"value": "a"})
    answers = [Refusal(404), Refusal(404)]
    server.fail = lambda method, _path: answers.pop() if answers and method == "GET" else None
    assert {"value": "a"} == client.kv.read("n/f/1")


@pytest.mark.parametrize(
    ("mount", "namespace", "message"),
    [("other", "", "no handler for route"), ("secret", "team", "no handler for route")],
)
def test_a_wrong_mount_or_namespace_is_no_missing_secret(server, mount, namespace, message):
    client = Client(server, TokenFile("unused"), namespace=namespace)
    kv = Kv(client.connection, mount, "ingot", server.add_token, lambda _token: False)
    with pytest.raises(SecretsUnavailable, match=message):
        kv.read("n/f/1")


def test_a_namespace_is_named_in_each_request(server):
    server.namespace = "dc1/metal"
    client = Client(server, namespace="dc1/metal")
    client.kv.create("n/f/1", {"value": "a"})
    assert {"value": "a"} == client.kv.read("n/f/1")
    assert "version" in client.connection.is_able()  # of the whole server


def test_a_policy_that_lacks_a_right_is_named(server):
    server.roles["auth/approle", "r1"] = Role(CREATE, "s1", ttl=60)
    client = Client(server, AppRole("approle", "r1", "s1"))
    client.kv.create("n/f/1", {"value": "a"})
    with pytest.raises(Denied, match=r"403 to GET secret/data/ingot/n/f/1.*permission denied"):
        client.kv.read("n/f/1")
    with pytest.raises(Denied):  # without logins in a row
        client.kv.read("n/f/1")
    assert 2 == server.count("login")


@pytest.mark.parametrize(
    "state",
    [{"sealed": True}, {"broken": True}, {"delay": 1.0}],
    ids=lambda state: next(iter(state)),
)
def test_a_server_that_cannot_serve_is_unreachable(server, state):
    client = Client(server, timeout=0.5)
    client.kv.create("n/f/1", {"value": "a"})
    for name, value in state.items():
        setattr(server, name, value)
    for request in (lambda: client.kv.read("n/f/1"), client.connection.is_able):
        with pytest.raises(VaultUnreachable):
            request()
    server.sealed, server.broken, server.delay = False, False, 0.0
    assert {"value": "a"} == client.kv.read("n/f/1")


@pytest.mark.parametrize("status", [412, 429, 472, 473, 500, 501, 502, 503])
def test_statuses_of_a_server_that_cannot_serve_now_are_an_outage(server, status):
    client = Client(server)
    server.fail = lambda _method, path: Refusal(status, "later") if "/data/" in path else None
    with pytest.raises(VaultUnreachable, match=rf"answered {status}.*later"):
        client.kv.read("n/f/1")


def test_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        connection = Connection(Server(address, "", None, 1.0))
        with pytest.raises(VaultUnreachable, match="no connection"):
            connection.is_able()


def test_a_standby_leads_to_the_active_server(server):
    client = Client(server)
    with running(VaultServer(standby=server.address)) as standby:
        other = Client(standby, AppRole("approle", "r1", "s1"))
        other.kv.create("n/f/1", {"value": "a"})
        assert {"value": "a"} == client.kv.read("n/f/1")
        assert "version" in other.connection.is_able()
        standby.standby = server.address.replace("http://", "https://")
        with pytest.raises(SecretsUnavailable, match="answered 307"):
            other.kv.read("n/f/1")


def test_a_standby_with_a_certificate_does_not_lead_to_one_without(server, tmp_path):
    certificate_file, context = tls(tmp_path)
    with running(VaultServer(standby=server.address), context) as standby:
        client = Client(standby, AppRole("approle", "r1", "s1"), ca_file=str(certificate_file))
        with pytest.raises(SecretsUnavailable, match="answered 307 to POST auth/approle/login"):
            client.kv.read("n/f/1")
    assert [] == server.requests


def test_an_answer_is_read_up_to_the_longest():
    size = 0

    def answer(listener):
        nonlocal size
        stream, _ = listener.accept()
        with stream, suppress(OSError):  # the client reads no more, or has closed
            stream.settimeout(1.0)
            stream.recv(65536)
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}")
            while size < 32 * LONGEST:
                size += stream.send(b" " * 65536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer, args=(listener,))
        server.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(VaultUnreachable, match="no document"):
            Connection(Server(address, "", None, 5.0)).is_able()
        server.join()
    assert LONGEST < size < 16 * LONGEST  # buffers of the connection hold some of it


def test_an_answer_that_is_too_long_is_none(server):
    client = Client(server)
    client.kv.create("n/f/1", {"value": "a" * LONGEST})
    with pytest.raises(VaultUnreachable, match="no document"):
        client.kv.read("n/f/1")


def test_a_mount_that_deletes_secrets_by_itself_is_refused(server):
    server.delete_version_after = True
    with pytest.raises(SecretsUnavailable, match="delete_version_after"):
        Client(server).kv.create("n/f/1", {"value": "a"})


def test_the_certificate_of_the_server_is_verified(tmp_path):
    certificate_file, context = tls(tmp_path)
    with running(VaultServer(), context) as server:
        Client(server, ca_file=str(certificate_file)).kv.create("n/f/1", {"value": "a"})
        with pytest.raises(VaultUnreachable, match="its certificate is not accepted"):
            Client(server).kv.read("n/f/1")


# logins


def test_a_token_is_renewed_before_it_ends_and_replaced_at_its_longest_time(server):
    client = Client(server)
    server.roles["auth/approle", "r1"] = Role({"": ALL}, "s1", ttl=60, max_ttl=100)
    token = client.tokens.current()
    client.clock.now += 39
    assert (token, 0) == (client.tokens.current(), server.count("renew"))
    for moment in (41, 82):  # two thirds of its time have passed
        server.advance(moment - (server._offset or 0))
        client.clock.now = 100.0 + moment
        client.tokens.current()
    assert 2 == server.count("renew-self")
    assert 2 == server.count("login")  # the second renewal gave less than half of the time
    assert token != client.tokens.current()


def test_a_token_serves_until_its_end_while_the_vault_is_sealed(server):
    client = Client(server)
    token = client.tokens.current()
    server.sealed = True
    client.clock.now += 59
    assert token == client.tokens.current()
    client.clock.now += 2
    with pytest.raises(VaultUnreachable):
        client.tokens.current()


def test_a_token_that_was_revoked_is_replaced_within_the_request(server):
    client = Client(server)
    client.kv.create("n/f/1", {"value": "a"})
    server.tokens.clear()
    assert {"value": "a"} == client.kv.read("n/f/1")


def test_a_secret_id_that_is_used_up_is_an_error_that_names_it(server):
    client = Client(server)
    server.roles["auth/approle", "r1"].uses = 0
    with pytest.raises(SecretsUnavailable, match=r"400.*invalid role or secret ID"):
        client.kv.read("n/f/1")


def test_a_token_from_a_file_is_read_again_when_it_has_ended(server, tmp_path):
    file = tmp_path / "token"
    file.write_text(server.add_token({"": ALL}, ttl=60, renewable=False) + "\n")
    client = Client(server, TokenFile(str(file)))
    client.kv.create("n/f/1", {"value": "a"})
    server.advance(61)
    client.clock.now += 61
    with pytest.raises(SecretsUnavailable, match="permission denied"):
        client.kv.read("n/f/1")
    file.write_text(server.add_token())
    assert {"value": "a"} == client.kv.read("n/f/1")


def test_a_service_account_logs_in_by_its_current_token(server, tmp_path):
    server.roles["auth/k8s", "ingot"] = Role({"": ALL}, "jwt-2", ttl=60)
    file = tmp_path / "jwt"
    client = Client(server, Kubernetes("k8s", "ingot", str(file)))
    with pytest.raises(SecretsUnavailable, match=r"kubernetes_token_file: .*FileNotFoundError"):
        client.kv.read("n/f/1")
    file.write_text("jwt-1")
    with pytest.raises(SecretsUnavailable, match="403"):
        client.kv.read("n/f/1")
    file.write_text("jwt-2")
    with pytest.raises(Missing):
        client.kv.read("n/f/1")


@pytest.mark.parametrize("text", ["", "two\nlines", "\x00"])
def test_a_file_without_a_token_is_an_error(tmp_path, text):
    (tmp_path / "token").write_text(text)
    with pytest.raises(SecretsUnavailable, match="has no token"):
        vault_login._content(str(tmp_path / "token"), "token_file")
