"""A Redfish BMC on loopback whose power orders and power states follow a script."""

import socket
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.web import Handler, serving

SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
#: Answer of a script: the connection is closed without one.
CUT = "cut"
EFFECTS = {
    "On": "On", "ForceOn": "On", "ForceOff": "Off", "GracefulShutdown": "Off", "ForceRestart": "On",
}  # fmt: skip


@dataclass
class RudeBmc:
    """
    State of the BMC.

    answers: of the next orders: (status or CUT, whether the order is carried out[, MessageId]);
    then 204, carried out. shown: of the next reads: a PowerState or CUT; then `power`.
    judge: function of the BMC and a ResetType that returns such an answer, or None for `answers`.
    """

    power: str = "Off"
    answers: list = field(default_factory=list)
    readings: list = field(default_factory=list)
    judge: object = None
    allowed: list | None = field(
        default_factory=lambda: ["On", "ForceOff", "GracefulShutdown", "ForceRestart"]
    )
    last_reset: str | None = None
    orders: list = field(default_factory=list)  # ResetTypes, in order
    statuses: list = field(default_factory=list)  # of these orders
    url: str = ""

    def driver_info(self, **fields):
        return {
            "redfish_address": self.url, "redfish_username": "admin", "redfish_password": "admin",
            "redfish_auth_type": "basic", "deploy_iso": "http://127.0.0.1:9/iso", **fields,
        }  # fmt: skip

    def document(self, path):
        """Return a document; None: there is none. CUT: no answer."""
        if path == SYSTEM:
            state = self.readings.pop(0) if self.readings else self.power
            if state == CUT:
                return CUT
            allowed = {} if self.allowed is None else {
                "ResetType@Redfish.AllowableValues": self.allowed
            }  # fmt: skip
            action = {"target": RESET, **allowed}
            return {
                "@odata.id": SYSTEM, "Id": "1", "Name": "system", "PowerState": state,
                "Status": {"State": "Enabled", "Health": "OK"},
                "Boot": {"BootSourceOverrideEnabled": "Disabled"},
                "Actions": {"#ComputerSystem.Reset": action},
                **({"LastResetTime": self.last_reset} if self.last_reset else {}),
            }  # fmt: skip
        return {
            "/redfish/v1": {
                "@odata.id": "/redfish/v1", "Id": "root", "Name": "root", "RedfishVersion": "1.9.0",
                "Systems": {"@odata.id": "/redfish/v1/Systems"}, "Links": {},
            },
            "/redfish/v1/Systems": {
                "@odata.id": "/redfish/v1/Systems", "Name": "systems",
                "Members": [{"@odata.id": SYSTEM}], "Members@odata.count": 1,
            },
        }.get(path)  # fmt: skip

    def reset(self, kind):
        """Handle an order; return its status or CUT, and the MessageId of a refusal."""
        answer = self.judge(self, kind) if self.judge else None
        if answer is None:
            answer = self.answers.pop(0) if self.answers else (204, True)
        status, carried_out, *message_ids = answer
        self.orders.append(kind)
        self.statuses.append(status)
        if carried_out:
            self.power = EFFECTS[kind]
        return status, message_ids[0] if message_ids else "Base.1.8.GeneralError"


class _Requests(Handler):
    def do_GET(self):
        document = self.server.bmc.document(self.path.rstrip("/"))
        if document == CUT:
            self.cut()
        elif document is None:
            self.answer(404, {"error": {"message": "there is no such resource"}})
        else:
            self.answer(200, document)

    def do_POST(self):
        body = self.body()
        if self.path != RESET:
            self.answer(404, {"error": {"message": "there is no such action"}})
            return
        status, name = self.server.bmc.reset(body["ResetType"])
        if status == CUT:
            self.cut()
        elif status < 300:
            self.answer(status)
        else:
            words = f"{body['ResetType']} is refused"
            entry = {"MessageId": name, "Message": words}
            error = {"code": name, "message": words, "@Message.ExtendedInfo": [entry]}
            self.answer(status, {"error": error})

    def cut(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        self.wfile = type(self.wfile)(self.connection)


@contextmanager
def rude_bmc(**fields):
    """Serve a rude BMC; yield its state."""
    bmc = RudeBmc(**fields)
    with serving(_Requests, bmc=bmc) as server:
        bmc.url = server.url
        yield bmc
