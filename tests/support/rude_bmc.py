"""A Redfish BMC on a socket whose answers a test makes rude: one rule at a time."""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.web import Handler, serving

ROOT = "/redfish/v1"
SYSTEMS = f"{ROOT}/Systems"
SYSTEM = f"{SYSTEMS}/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
SESSIONS = f"{ROOT}/SessionService/Sessions"
#: Returned by a rule: the connection is closed without an answer.
SILENCE = object()


def link(path):
    return {"@odata.id": path}


def documents():
    """Return the documents of a BMC with one system, by path without a slash at the end."""
    return {
        ROOT: {
            "@odata.id": f"{ROOT}/", "Id": "RootService", "Name": "Root", "RedfishVersion": "1.9.0",
            "Systems": link(SYSTEMS), "Links": {"Sessions": link(SESSIONS)},
            "SessionService": link(f"{ROOT}/SessionService"),
        },
        f"{ROOT}/SessionService": {
            "@odata.id": f"{ROOT}/SessionService", "Id": "S", "Name": "S",
            "ServiceEnabled": True, "Sessions": link(SESSIONS),
        },
        SYSTEMS: {"@odata.id": SYSTEMS, "Name": "Systems", "Members": [link(SYSTEM)]},
        SYSTEM: {
            "@odata.id": SYSTEM, "Id": "1", "Name": "System", "PowerState": "On",
            "SerialNumber": "SN1", "Status": {"State": "Enabled", "Health": "OK"},
            "Boot": {
                "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None",
                "BootSourceOverrideMode": "UEFI",
                "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "Cd"],
            },
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": RESET,
                    "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "ForceRestart"],
                }
            },
        },
    }  # fmt: skip


@dataclass
class RudeBmc:
    """
    Documents, and a rule that answers before them.

    rule: called with the handler, whose `command`, `path` and `headers` are those of the request;
    returns (status, headers, body), SILENCE, or None: the BMC answers politely. request_log: (method,
    path, headers, body) of each request.
    """

    url: str = ""
    documents: dict = field(default_factory=documents)
    rule: object = None
    user: str = "admin"
    password: str = "secret"
    request_log: list = field(default_factory=list)
    clients: list = field(default_factory=list)  # address of the client's end, of each request
    keeps: bool = False  # does not close connections, though it is asked to
    tokens: set = field(default_factory=set)

    def requests(self, method=None):
        """(method, path) of the requests so far."""
        return [(verb, path) for verb, path, *_ in self.request_log if method in {None, verb}]

    def orders(self):
        return [
            (verb, path, json.loads(body or b"null"))
            for verb, path, _, body in self.request_log
            if verb != "GET" and "/Sessions" not in path
        ]

    def answer(self, handler, body):
        special = self.rule(handler) if self.rule else None
        return self.polite(handler, body) if special is None else special

    def polite(self, handler, body):
        """(status, headers, body) of a BMC that follows DSP0266."""
        path = handler.path.partition("?")[0].rstrip("/")
        if handler.command == "POST" and path == SESSIONS:
            login = json.loads(body)
            if (login["UserName"], login["Password"]) != (self.user, self.password):
                return 401, {}, {}
            token = f"token-{len(self.tokens)}"
            self.tokens.add(token)
            return 201, {"X-Auth-Token": token, "Location": f"{SESSIONS}/1"}, {"Id": "1"}
        if handler.command == "GET":
            document = self.documents.get(path)
            return (404, {}, {}) if document is None else (200, {}, document)
        return 204, {}, b""

    def system(self, **changes):
        """The system's document as bytes, with changes."""
        return json.dumps({**self.documents[SYSTEM], **changes}).encode()


@contextmanager
def rude_bmc(tls=None, **fields):
    """Serve a RudeBmc; see `RudeBmc`."""
    bmc = RudeBmc(**fields)

    class Asked(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            bmc.clients.append(self.client_address)
            bmc.request_log.append((self.command, self.path, dict(self.headers), body))
            answer = bmc.answer(self, body)
            if answer is SILENCE:
                self.close_connection = True
                return
            status, headers, content = answer
            self.answer(status, content, headers)
            # without a word about it, as some BMCs do
            self.close_connection = not bmc.keeps and "close" in self.headers["Connection"]

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    with serving(Asked, tls=tls) as server:
        bmc.url = server.url
        yield bmc
