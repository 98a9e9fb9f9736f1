"""Logins to VNC servers: real ones of each version, and hostile ones."""

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager

import pytest
import websockets.asyncio.server

from drivers.core.consoles import Screen
from drivers.core.errors import (
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.net import rfb_login
from drivers.net.rfb_login import connect, response
from tests.support import tls

INIT = b"\2\x80\1\xe0" + bytes(16) + (4).to_bytes(4) + b"host"
VERSION = b"RFB 003.008\n"
CHALLENGE = bytes(range(16))


class Server:
    """
    Sends the items of a script, one after another; a number: reads so many bytes before.

    heard: bytes of the client.
    """

    def __init__(self, *script, stays=True):
        self.script, self.stays, self.heard = script, stays, b""

    async def serve(self, reader, writer):
        try:
            for item in self.script:
                if isinstance(item, int):
                    self.heard += await reader.readexactly(item)
                else:
                    writer.write(item)
            await writer.drain()
            if self.stays:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def listening(self, context=None):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


def logged_in(server, password=None, **facts):
    """Return `ServerInit` of a login to a server, and what the server has heard."""

    async def work():
        async with server.listening() as port:
            connection = await connect(Screen("127.0.0.1", port, password, **facts))
            connection.close()
            return connection.init

    return asyncio.run(work())


def test_a_server_without_authentication_needs_no_password():
    server = Server(VERSION, 12, b"\1\1", 1, bytes(4), 1, INIT)
    assert INIT == logged_in(server)
    assert VERSION + b"\1\1" == server.heard
    assert INIT == logged_in(Server(VERSION, 12, b"\2\1\2", 1, bytes(4), 1, INIT))


def test_a_password_is_used_where_the_server_takes_one():
    server = Server(VERSION, 12, b"\2\1\2", 1, CHALLENGE, 16, bytes(4), 1, INIT)
    assert INIT == logged_in(server, "secret")
    assert VERSION + b"\2" + response("secret", CHALLENGE) + b"\1" == server.heard


def test_the_answer_to_a_challenge_is_that_of_des():
    """`openssl enc -des-ecb -nopad -K cea6c64ea62e0000`, the mirrored bits of the password."""
    assert "ee22539f33a5983ec12f9c2edbc995dd" == response("secret", CHALLENGE).hex()
    assert response("12345678", CHALLENGE) == response("123456789", CHALLENGE)
    assert response("1234567", CHALLENGE) != response("12345678", CHALLENGE)


@pytest.mark.parametrize(
    "script",
    [
        (b"RFB 003.007\n", 12, b"\1\1", 1, 1, INIT),
        (b"RFB 003.003\n", 12, b"\0\0\0\1", 1, INIT),
        (b"RFB 003.889\n", 12, b"\1\1", 1, bytes(4), 1, INIT),
    ],
)
def test_other_versions_are_spoken(script):
    assert INIT == logged_in(Server(*script))


@pytest.mark.parametrize(
    "script",
    [
        (b"RFB 003.007\n", 12, b"\1\2", 1, CHALLENGE, 16, bytes(4), 1, INIT),
        (b"RFB 003.003\n", 12, b"\0\0\0\2", CHALLENGE, 16, bytes(4), 1, INIT),
    ],
)
def test_other_versions_take_a_password(script):
    assert INIT == logged_in(Server(*script), "secret")


def reason(text, size=None):
    return (len(text) if size is None else size).to_bytes(4) + text


HOSTILE = {
    "another protocol": ((b"SSH-2.0-dropbear\r\n",), Unexpected, "does not speak RFB"),
    "an old version": ((b"RFB 002.002\n",), Unexpected, "older than 3.3"),
    "no security type": (
        (VERSION, 12, b"\0", reason(b"Too many viewers")), Refused,
        "it refuses connections: Too many viewers",
    ),
    "no security type of 3.3": (
        (b"RFB 003.003\n", 12, bytes(4), reason(b"Locked")), Refused, "Locked",
    ),
    "no security type, no reason": ((VERSION, 12, b"\0", bytes(4)), Refused, "without a reason"),
    "a reason without an end": (
        (VERSION, 12, b"\0", reason(b"x" * 9000, 0xFFFFFFFF)), Refused, "x" * 200 + "$",
    ),
    "a reason that orders the terminal": (
        (VERSION, 12, b"\0", reason(b"\x1b]0;a\x07b\nc")), Refused, r": \]0;abc$",
    ),
    "unknown security types": ((VERSION, 12, b"\2\x10\x13"), Refused, "security types 16, 19"),
    "an unknown security type of 3.3": (
        (b"RFB 003.003\n", 12, b"\xff\xff\xff\xff"), Refused, "security types 4294967295",
    ),
    "a wrong password": (
        (VERSION, 12, b"\1\2", 1, CHALLENGE, 16, b"\0\0\0\1", reason(b"Go away")), LoginRefused,
        r"vnc_password\) is not accepted: Go away",
    ),
    "a wrong password, too often": (
        (VERSION, 12, b"\1\2", 1, CHALLENGE, 16, b"\0\0\0\2", reason(b"Later")), LoginRefused,
        "not accepted: Later",
    ),
    "a wrong password of 3.3": (
        (b"RFB 003.003\n", 12, b"\0\0\0\2", CHALLENGE, 16, b"\0\0\0\1"), LoginRefused,
        r"is not accepted$",
    ),
    "a huge name": (
        (VERSION, 12, b"\1\1", 1, bytes(4), 1, INIT[:20] + b"\xff\xff\xff\xff"), Unexpected,
        "name of its screen has 4294967295 bytes",
    ),
    "no picture": (
        (VERSION, 12, b"\1\1", 1, bytes(4), 1, bytes(24)), Unexpected, "0 x 0 pixels",
    ),
    "a huge picture": (
        (VERSION, 12, b"\1\1", 1, bytes(4), 1, b"\xff\xff\xff\xff" + bytes(20)), Unexpected,
        "65535 x 65535 pixels",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_server_that_lets_nobody_in_is_told_and_named(name):
    script, kind, words = HOSTILE[name]
    with pytest.raises(HardwareError, match=words) as error:
        logged_in(Server(*script), "secret")
    assert kind is type(error.value)
    assert str(error.value).startswith("VNC server 127.0.0.1:")
    assert "secret" not in str(error.value)


def test_a_server_that_wants_a_password_names_the_field():
    with pytest.raises(LoginRefused, match="set driver_info/vnc_password"):
        logged_in(Server(VERSION, 12, b"\1\2"))


#: A whole login, of which a server sends a part.
LOGIN = (VERSION, 12, b"\1", b"\2", 1, CHALLENGE, 16, bytes(4), 1, INIT[:20], INIT[20:26])


@pytest.mark.parametrize("items", range(len(LOGIN)))
def test_a_server_that_breaks_off_is_told(items):
    with pytest.raises(Unexpected, match="ended the connection during the login"):
        logged_in(Server(*LOGIN[: items + 1], stays=False), "secret")


@pytest.mark.parametrize("items", [0, 1, 4, 6, 9])
def test_a_server_that_says_no_more_has_a_time(items, monkeypatch):
    monkeypatch.setattr(rfb_login, "LOGIN_TIME", 0.2)
    with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
        logged_in(Server(*LOGIN[:items]), "secret")


def test_a_port_without_a_server_and_a_name_without_an_address_are_told():
    async def port():
        async with Server().listening() as number:
            return number

    with pytest.raises(Unreachable, match="refused"):
        asyncio.run(connect(Screen("127.0.0.1", asyncio.run(port()))))
    with pytest.raises(Unreachable, match="name has no address"):
        asyncio.run(connect(Screen("bmc.invalid", 5900)))


def test_an_address_that_a_setting_refuses_is_not_contacted():
    def check(address):
        raise InvalidDriverInfo(f"{address} is refused")

    server = Server(VERSION)
    with pytest.raises(InvalidDriverInfo, match=r"^127\.0\.0\.1 is refused"):
        logged_in(server, check=check)


@pytest.fixture
def secured(tmp_path):
    """Context of a server, and the text of its certificate."""
    paths = tls.certificate(tmp_path, "bmc")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*paths)
    return context, paths[0].read_text()


def test_a_server_with_tls_is_verified(secured):
    context, certificate = secured

    async def work(verify):
        server = Server(VERSION, 12, b"\1\1", 1, bytes(4), 1, INIT)
        async with server.listening(context) as port:
            connection = await connect(Screen("127.0.0.1", port, verify=verify))
            connection.close()
            return connection.init

    assert INIT == asyncio.run(work(certificate))
    assert INIT == asyncio.run(work(False))
    with pytest.raises(Unreachable, match="TLS: CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(work(True))


class SocketServer:
    """A web server whose WebSocket has RFB in it, as OpenBMC's; requests: those that it got."""

    def __init__(self, *messages, status=101):
        self.messages, self.status, self.requests, self.heard = messages, status, [], []

    def admit(self, connection, request):
        self.requests.append(request)
        if self.status != 101:
            return connection.respond(self.status, "no")
        return None

    async def serve(self, opened):
        for item in self.messages:
            if item is None:
                self.heard.append(await opened.recv())
            else:
                await opened.send(item)
        await opened.wait_closed()

    async def log_in(self, secured):
        context, certificate = secured
        serving = websockets.asyncio.server.serve(
            self.serve, "127.0.0.1", 0, ssl=context, process_request=self.admit
        )
        async with serving as server:
            port = server.sockets[0].getsockname()[1]
            login = ("root", "0penBmc")
            screen = Screen("127.0.0.1", port, verify=certificate, path="/kvm/0", login=login)
            connection = await connect(screen)
            data = await connection.stream.read(3), await connection.stream.read(100)
            await connection.stream.write(b"key")
            connection.close()
            return connection.init, data


def test_rfb_in_a_web_socket_is_read_as_a_stream(secured):
    server = SocketServer(
        b"RFB 003", b".008\n", None, b"\1\1", None, bytes(4) + INIT[:3], None, INIT[3:], b"picture"
    )
    assert (INIT, (b"pic", b"ture")) == asyncio.run(server.log_in(secured))
    assert [VERSION, b"\1", b"\1"] == server.heard
    (request,) = server.requests
    assert "/kvm/0" == request.path
    basic = base64.b64encode(b"root:0penBmc").decode()
    assert f"Basic {basic}" == request.headers["Authorization"]


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "does not accept the login"), (403, "login"), (404, r"no WebSocket \(status 404\)")],
)
def test_a_web_server_without_a_screen_for_this_login_is_told(secured, status, words):
    with pytest.raises(Refused, match=words) as error:
        asyncio.run(SocketServer(status=status).log_in(secured))
    assert "0penBmc" not in str(error.value)
